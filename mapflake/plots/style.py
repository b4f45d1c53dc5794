"""The style of all figures of numbers, the one way to save them, and what their panels share.

Figures can be read in grey: markers and line styles differ besides the colours. They are made without pyplot.
"""

from __future__ import annotations

import functools
import io
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import matplotlib
import numpy as np
import PIL.Image
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from mapflake.env.pictures import PALETTE as COLORS
from mapflake.study.names import NAMES

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import Image

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", ":", "-.")
HATCHES = ("", "///", "...", "xxx", "\\\\\\")
SHARES = ("valid", "optimal", "soc_optimal", "groups_without_signal", "needs_wait", "naive_plan_fails")
"""Columns that are shares and get a percent axis."""

P = ParamSpec("P")
R = TypeVar("R")


def styled(make: Callable[P, R]) -> Callable[P, R]:
    """Returns the figure function so that it draws in our style, whatever the notebook has set."""

    @functools.wraps(make)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        style = {**sns.axes_style("whitegrid"), **sns.plotting_context("paper", font_scale=1.15)}
        ours = {
            "axes.edgecolor": "#888888",
            "grid.color": "#E3E3E3",
            "axes.titlesize": 10.5,
            "axes.titleweight": "bold",
            "legend.frameon": False,
            "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same figure on every machine
        }
        with matplotlib.rc_context({**style, **ours}):
            return make(*args, **kwargs)

    return drawn


def show(figure: Figure, path: str | Path) -> Image:
    """Writes the figure as PNG, the same bytes for the same data, and returns it for the notebook to show.

    With a palette of 128 colours, a third of the size: executed notebooks are committed.
    """
    from IPython.display import Image

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    buffer = io.BytesIO()
    with matplotlib.rc_context({"figure.facecolor": "white", "font.family": ["DejaVu Sans"]}):
        figure.savefig(buffer, format="png", dpi=150)
    with PIL.Image.open(buffer) as picture:
        indexed = picture.convert("RGB").quantize(128, dither=PIL.Image.Dither.NONE)
        indexed.save(path, format="png", optimize=True)
    return Image(data=path.read_bytes(), format="png", width=round(figure.get_figwidth() * 96))


def tick(name: str, value: Any) -> str:
    """Returns the label of a value of the column `name`, e.g. `4x4` for size 4."""
    return f"{value}x{value}" if name == "size" else str(value)


def percent(ax: Axes, largest: float) -> None:
    """Makes the y axis one of shares, from 0 to 100%, or to the next 10% where the largest is far below."""
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_ylim(0, 1.0 if largest > 0.6 else math.ceil(10 * largest + 0.2) / 10)


def bars(ax: Axes, table: pd.DataFrame) -> None:
    """Draws a group of bars for each row of the table, one a column, from light to dark; NaN has no height."""
    shades = matplotlib.colormaps["Blues"](np.linspace(0.35, 0.95, max(len(table.columns), 2)))
    width = 0.8 / len(table.columns)
    for i, (label, values) in enumerate(table.items()):
        at = np.arange(len(table)) + width * (i - (len(table.columns) - 1) / 2)
        look = {"color": shades[i], "hatch": HATCHES[i % len(HATCHES)], "edgecolor": "white", "lw": 0.4}
        ax.bar(at, values.fillna(0.0), 0.92 * width, label=str(label), **look)
    ax.set_xticks(range(len(table)), [str(value) for value in table.index])
    place = ax.get_subplotspec()
    if table.index.name == "size" and place is not None and place.is_last_row():
        ax.set_xlabel("board size")
    ax.grid(axis="x", visible=False)


def looks(table: pd.DataFrame, hue: str) -> dict[Any, dict[str, str]]:
    """Returns the values of `hue`, each with the look of its line: the first arms of `NAMES` have their own."""
    groups, names = list(dict.fromkeys(table[hue])), list(NAMES.values())[: len(COLORS)]
    numbers = {group: names.index(group) for group in names if group in groups}
    free = [i for i in range(len(COLORS)) if i not in numbers.values()] or [0]
    numbers |= dict(zip((group for group in groups if group not in names), itertools.cycle(free), strict=False))
    return {
        group: {"color": COLORS[i], "ls": LINES[i % len(LINES)], "marker": MARKERS[i % len(MARKERS)]}
        for group, i in numbers.items()
    }


def legend(figure: Figure, ax: Axes) -> None:
    """Puts the legend below the panels, in as many columns as fit."""
    handles, names = ax.get_legend_handles_labels()
    fitting = int(figure.get_figwidth() / (0.077 * max(map(len, names)) + 0.65))
    rows = -(-len(names) // max(1, fitting))
    figure.legend(handles, names, loc="outside lower center", ncols=-(-len(names) // rows), handlelength=2.8)
