"""Figures of training and of arms: rates, learning curves, configurations over rounds, differences, failures.

Every figure shows 95% intervals where it shows an estimate, and says n. Tables come in as data frames, long, one row an
estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from mapflake.env.config import DIMENSIONS
from mapflake.plots import style

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("valid", "optimal")
HATCHES = ("", "///", "...", "xxx", "\\\\\\")
LEVELS = ("as before", "towards half-solved", "one level", "near before", "free")


@style.styled
def rates(table: pd.DataFrame, *, x: str, hue: str) -> Figure:
    """Returns a panel for valid and one for optimal: estimate and 95% interval over `x`, a line for each `hue`.

    Args:
        table: Rows of `evaluate.rates`: columns x, hue, boards (n), `<metric>`, `<metric>_low`, `<metric>_high`.
        x: Column of the horizontal axis.
        hue: Column of the lines; an arm looks the same in all figures.
    """
    figure = Figure(figsize=(7.6, 3.5), layout="constrained")
    axes = figure.subplots(1, len(METRICS), sharey=True)
    places = {value: i for i, value in enumerate(sorted(table[x].unique()))}
    groups = style.looks(table, hue)
    top = style.top(max(table[f"{metric}_high"].max() for metric in METRICS))
    for ax, metric in zip(axes, METRICS, strict=True):
        for i, (group, look) in enumerate(groups.items()):
            rows = table[table[hue] == group].sort_values(x)
            at = np.array([places[v] for v in rows[x]]) + 0.09 * (i - (len(groups) - 1) / 2)
            errors = [rows[metric] - rows[f"{metric}_low"], rows[f"{metric}_high"] - rows[metric]]
            ax.errorbar(
                at, rows[metric], yerr=errors, label=str(group), capsize=2.5, lw=1.6, elinewidth=1.1,
                **style.look(look, 5.5),
            )  # fmt: skip
        label = "board size" if x == "size" else x
        ax.set(xlabel=label, xticks=range(len(places)), xlim=(-0.5, len(places) - 0.5))
        ax.set_title(metric, loc="left")
        ax.set_xticklabels([style.tick(x, value) for value in places])
        style.percent(ax, top)
    style.legend(figure, axes[0])
    style.say_n(axes[-1], table["boards"])
    return figure


@style.styled
def curves(
    table: pd.DataFrame,
    *,
    metrics: Sequence[str] = METRICS,
    smooth: int = 1,
    boundaries: Sequence[int] = (),
    xlabel: str = "GRPO step",
) -> Figure:
    """Returns learning curves: one panel a metric over `step`, raw points faint, a running mean on top.

    Args:
        table: Columns step and the metrics, and arm for a line each.
        metrics: Columns to show; shares get a percent axis.
        smooth: Steps of the running mean.
        boundaries: Steps at which a round begins, marked by a line.
        xlabel: Of the horizontal axis.
    """
    figure = Figure(figsize=(3.7 * len(metrics) + 0.2, 3.4), layout="constrained")
    axes = figure.subplots(1, len(metrics), squeeze=False)[0]
    groups = style.looks(table, "arm") if "arm" in table else {None: 0}
    for ax, metric in zip(axes, metrics, strict=True):
        for group, look in groups.items():
            rows = (table if group is None else table[table["arm"] == group]).sort_values("step")
            rows = rows.dropna(subset=[metric])
            color, line = style.COLORS[look % len(style.COLORS)], style.LINES[look % len(style.LINES)]
            if smooth > 1:
                ax.plot(rows["step"], rows[metric], color=color, lw=0.7, alpha=0.35)
            mean = rows[metric].rolling(smooth, min_periods=1, center=True).mean()
            ax.plot(rows["step"], mean, color=color, ls=line, lw=1.8, label=None if group is None else str(group))
        for step in boundaries:
            ax.axvline(step - 0.5, color="#888888", lw=0.9, ls=":")
        ax.set_title(metric.replace("_", " "), loc="left")
        ax.set_xlabel(xlabel)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        if metric in style.SHARES:
            style.percent(ax, style.top(table[metric].max()))
    if len(groups) > 1:
        style.legend(figure, axes[0])
    return figure


@style.styled
def configurations(table: pd.DataFrame) -> Figure:
    """Returns the configurations trained on: panels by ratio (rows) and arm (columns), over board size, a bar a round.

    Args:
        table: From `tables.configurations`: arm, round, size, and the ratios (NaN: unconstrained).
    """
    arms, rounds = list(dict.fromkeys(table["arm"])), sorted(table["round"].unique())
    sizes = sorted(table["size"].unique())
    names = [name for name in DIMENSIONS if name in table]
    figure = Figure(figsize=(max(2.5 * len(arms), 4.2) + 0.6, 5.6 * len(names) / 3), layout="constrained")
    axes = figure.subplots(len(names), len(arms), squeeze=False, sharex=True, sharey="row")
    width = 0.8 / len(rounds)
    tops = {name: 1.04 * DIMENSIONS[name].top for name in names}
    tops["data_ratio"] = 1.08 * float(table["data_ratio"].max())
    for column, arm in enumerate(arms):
        for line, key in enumerate(names):
            ax: Axes = axes[line, column]
            for i, index in enumerate(rounds):
                rows = table[(table["arm"] == arm) & (table["round"] == index)].set_index("size")
                values = [float(rows[key].get(size, 0.0)) for size in sizes]
                at = np.arange(len(sizes)) + width * (i - (len(rounds) - 1) / 2)
                ax.bar(at, np.nan_to_num(values), width * 0.92, label=f"round {index}", **_bar(i, len(rounds)))
                for place, value in zip(at, values, strict=True):
                    if np.isnan(value):
                        ax.text(place, 0.005, "any", rotation=90, ha="center", va="bottom", fontsize=7)
            ax.set(xticks=range(len(sizes)), ylim=(0, tops[key]))
            ax.set_xticklabels([style.tick("size", size) for size in sizes], fontsize=8.5 if len(sizes) < 6 else 7)
            ax.grid(axis="x", visible=False)
            if line == 0:
                ax.set_title(str(arm))
            if column == 0:
                ax.set_ylabel(key.replace("_", " "))
    style.legend(figure, axes[0, 0])
    return figure


@style.styled
def differences(table: pd.DataFrame, *, baseline: str) -> Figure:
    """Returns a forest plot: difference to the baseline in percentage points with its 95% interval, one row an arm.

    Args:
        table: From `tables.differences`: arm, metric, difference, low, high (shares), n.
        baseline: The other side of the difference, as the axis names it.
    """
    names = list(dict.fromkeys(table["arm"]))
    figure = Figure(figsize=(8.4, 0.42 * len(names) + 1.3), layout="constrained")
    axes = figure.subplots(1, len(METRICS), sharey=True, sharex=True)
    for ax, metric in zip(axes, METRICS, strict=True):
        rows = table[table["metric"] == metric].set_index("arm").loc[names]
        mean, low, high = (100 * rows[key].to_numpy() for key in ("difference", "low", "high"))
        place = np.arange(len(names))[::-1]
        for k in range(len(names)):
            clear, color = low[k] > 0 or high[k] < 0, style.COLORS[0]
            ax.errorbar(
                mean[k], place[k], xerr=[[mean[k] - low[k]], [high[k] - mean[k]]], color=color, capsize=3, lw=1.6,
                marker="o", markersize=7, markerfacecolor=color if clear else "white", markeredgewidth=1.5,
            )  # fmt: skip
        ax.axvline(0, color="#444444", lw=1)
        ax.set_title(metric, loc="left")
        ax.set(yticks=place, xlabel=f"points against {baseline}", ylim=(-0.6, len(names) - 0.4))
        ax.set_yticklabels(names)
        ax.grid(axis="y", visible=False)
    style.say_n(axes[-1], table["n"])
    return figure


@style.styled
def panels(table: pd.DataFrame, *, x: str, ys: Mapping[str, str], hue: str) -> Figure:
    """Returns one panel a column of `ys` (column -> title) over x, a line a group: exact numbers, without intervals."""
    figure = Figure(figsize=(3.1 * len(ys), 3.3), layout="constrained")
    axes = figure.subplots(1, len(ys), squeeze=False)[0]
    groups = sorted(table[hue].unique())
    for ax, (y, title) in zip(axes, ys.items(), strict=True):
        for i, group in enumerate(groups):
            rows = table[table[hue] == group].sort_values(x)
            ax.plot(rows[x], rows[y], label=style.tick(hue, group), lw=1.6, **style.look(i, 5.5))
        ax.set(xlabel=x.replace("_", " "), ylim=(0, None))
        ax.set_title(title, loc="left")
        if y in style.SHARES:
            style.percent(ax, style.top(table[y].max()))
    style.legend(figure, axes[0])
    return figure


@style.styled
def failures(table: pd.DataFrame, *, hue: str) -> Figure:
    """Returns how often each check fails: share of completions by kind of violation, a bar for each value of `hue`.

    Args:
        table: Columns kind, share, hue.
        hue: Column of the bars, in the order in which they first occur.
    """
    kinds, groups = list(dict.fromkeys(table["kind"])), list(dict.fromkeys(table[hue]))
    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    ax = figure.subplots()
    width = 0.8 / len(groups)
    for i, group in enumerate(groups):
        rows = table[table[hue] == group].set_index("kind")["share"]
        at = np.arange(len(kinds)) + width * (i - (len(groups) - 1) / 2)
        ax.bar(at, [rows.get(kind, 0.0) for kind in kinds], width * 0.92, label=str(group), **_bar(i, len(groups)))
    ax.set(xticks=range(len(kinds)), ylabel="completions with it")
    ax.set_xticklabels(kinds)
    ax.grid(axis="x", visible=False)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    style.legend(figure, ax)
    return figure


@style.styled
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
        color, line = style.COLORS[i % len(style.COLORS)], style.LINES[i % len(style.LINES)]
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


def _bar(i: int, n: int) -> dict[str, Any]:
    """Returns the look of the i-th of n bars that stand side by side, as arguments of matplotlib."""
    shade = matplotlib.colormaps["Blues"](np.linspace(0.35, 0.95, max(n, 2))[i])
    return {"color": shade, "hatch": HATCHES[i % len(HATCHES)], "edgecolor": "white", "lw": 0.4}
