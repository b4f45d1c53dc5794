"""Figures of how models design: beside the rules that they were shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from mapflake.plots.style import COLORS, LINES, styled

if TYPE_CHECKING:
    import pandas as pd

HATCHES = ("", "///", "...", "xxx")
LEVELS = ("as before", "towards half-solved", "one level", "near before", "free")


@styled
def beside_rules(rows: pd.DataFrame) -> Figure:
    """Returns two panels: how far data ratios are from the nearest rule, and what hole and wait ratios are like.

    Args:
        rows: From `engineer.imitation.beside_rules`: designer, distance, levels.
    """
    figure = Figure(figsize=(8.2, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    names = list(dict.fromkeys(rows["designer"]))
    for i, name in enumerate(names):
        own = rows[rows["designer"] == name]
        color, line = COLORS[i % len(COLORS)], LINES[i % len(LINES)]
        apart = np.sort(own["distance"].to_numpy())
        share = np.arange(1, len(apart) + 1) / len(apart)
        left.step(apart, share, where="post", color=color, linestyle=line, label=f"{name} (n = {len(apart)})")
        told = own["levels"].dropna()
        heights = [float((told == level).mean()) if len(told) else 0.0 for level in LEVELS]
        places = np.arange(len(LEVELS)) + (i - (len(names) - 1) / 2) * 0.8 / len(names)
        right.bar(places, heights, 0.8 / len(names), color=color, hatch=HATCHES[i % len(HATCHES)], edgecolor="white")
    left.set(title="data ratios", xlabel="distance from the nearest rule", ylabel="share of designs", ylim=(0, 1.02))
    left.legend(loc="lower right", fontsize=8)
    right.set(title="holes and waits", xticks=range(len(LEVELS)), ylim=(0, 1.02))
    right.set_xticklabels([level.replace(" ", "\n") for level in LEVELS], fontsize=8)
    for ax in (left, right):
        ax.yaxis.set_major_formatter(PercentFormatter(1))
    right.grid(axis="x", visible=False)
    return figure
