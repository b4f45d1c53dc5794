"""Figures of numbers: rates, learning curves, configurations over rounds, differences between arms.

Every figure can be read in grey (markers and line styles differ besides the colours), shows 95% intervals where it
shows an estimate, and says n. Tables come in as data frames, long, one row an estimate. Figures are made without
pyplot: no global state, and a notebook shows just what it saves.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import matplotlib
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from mapflake.plots.tables import NAMES

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import Image

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES: tuple[Any, ...] = (
    "-",
    (0, (4, 1.5)),
    (0, (1, 1)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (2, 2)),
    (0, (9, 1.5)),
)
DPI = 150
SHARES = ("valid", "optimal", "soc_optimal", "groups_without_signal", "needs_wait", "careless_fails")
"""Columns that are shares and get a percent axis."""

P = ParamSpec("P")


def styled(make: Callable[P, Figure]) -> Callable[P, Figure]:
    """Returns the figure function so that it draws in our style, whatever the notebook has set."""

    @functools.wraps(make)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        style = {**sns.axes_style("whitegrid"), **sns.plotting_context("paper", font_scale=1.15)}
        ours = {
            "axes.edgecolor": "#888888",
            "grid.color": "#E3E3E3",
            "axes.titlesize": 10.5,
            "axes.titleweight": "bold",
            "legend.frameon": False,
            "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same figure on every machine
            "font.sans-serif": ["DejaVu Sans"],
        }
        with matplotlib.rc_context({**style, **ours}):
            return make(*args, **kwargs)

    return drawn


def show(figure: Figure, path: str | Path) -> Image:
    """Writes the figure as PNG, the same bytes for the same data, and returns it for the notebook to show.

    With a palette of 128 colours, a third of the size: executed notebooks are committed.
    """
    import PIL.Image
    from IPython.display import Image

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn, small = io.BytesIO(), io.BytesIO()
    with matplotlib.rc_context({"figure.facecolor": "white", "font.family": ["DejaVu Sans"]}):
        figure.savefig(drawn, format="png", dpi=DPI)
    with PIL.Image.open(drawn) as picture:
        few = picture.convert("RGB").quantize(128, dither=PIL.Image.Dither.NONE)
        few.save(small, format="png", optimize=True)
    path.write_bytes(small.getvalue())
    return Image(data=small.getvalue(), format="png", width=round(figure.get_figwidth() * 96))


@styled
def rates(
    table: pd.DataFrame,
    *,
    x: str,
    hue: str,
    metrics: Sequence[str] = ("valid", "optimal"),
    labels: Mapping[str, str] | None = None,
    n: str = "boards",
) -> Figure:
    """Returns one panel a metric: estimate and 95% interval over `x`, a line for each value of `hue`.

    Args:
        table: Rows of `evaluate.rates`: columns x, hue, `<metric>`, `<metric>_low`, `<metric>_high`, and `n`.
        x: Column of the horizontal axis.
        hue: Column of the lines; an arm looks the same in all figures.
        metrics: Columns to show, shares in [0, 1].
        labels: What columns are called on the axes.
        n: Column with the number of boards behind an estimate.
    """
    labels = {"size": "board size", "agents": "agents", **(labels or {})}
    figure = Figure(figsize=(3.7 * len(metrics) + 0.2, 3.5), layout="constrained")
    axes = figure.subplots(1, len(metrics), sharey=True, squeeze=False)[0]
    places = {value: i for i, value in enumerate(sorted(table[x].unique()))}
    groups = _groups(table, hue)
    top = _top(max(table[f"{metric}_high"].max() for metric in metrics))
    for ax, metric in zip(axes, metrics, strict=True):
        for i, (group, look) in enumerate(groups.items()):
            rows = table[table[hue] == group].sort_values(x)
            at = np.array([places[v] for v in rows[x]]) + 0.09 * (i - (len(groups) - 1) / 2)
            errors = [rows[metric] - rows[f"{metric}_low"], rows[f"{metric}_high"] - rows[metric]]
            ax.errorbar(
                at, rows[metric], yerr=errors, label=str(group), capsize=2.5, lw=1.6, elinewidth=1.1, **_look(look, 5.5)
            )
        ax.set(xlabel=labels.get(x, x), xticks=range(len(places)), xlim=(-0.5, len(places) - 0.5))
        ax.set_title(metric.replace("_", " "), loc="left")
        ax.set_xticklabels([_tick(x, value) for value in places])
        _percent(ax, top)
    _legend(figure, axes[0])
    _say_n(axes[-1], table[n])
    return figure


@styled
def curves(
    table: pd.DataFrame,
    *,
    hue: str = "arm",
    metrics: Sequence[str] = ("valid", "optimal"),
    smooth: int = 1,
    boundaries: Sequence[int] = (),
    xlabel: str = "GRPO step",
) -> Figure:
    """Returns learning curves: one panel a metric over `step`, raw points faint, a running mean on top.

    Args:
        table: Columns step, hue and the metrics.
        hue: Column of the lines.
        metrics: Columns to show; shares get a percent axis.
        smooth: Steps of the running mean.
        boundaries: Steps at which a round begins, marked by a line.
        xlabel: Of the horizontal axis.
    """
    figure = Figure(figsize=(3.7 * len(metrics) + 0.2, 3.4), layout="constrained")
    axes = figure.subplots(1, len(metrics), squeeze=False)[0]
    groups = _groups(table, hue) if hue in table else {None: 0}
    for ax, metric in zip(axes, metrics, strict=True):
        for group, look in groups.items():
            rows = (table if group is None else table[table[hue] == group]).sort_values("step")
            rows = rows.dropna(subset=[metric])
            color, line = COLORS[look % len(COLORS)], LINES[look % len(LINES)]
            if smooth > 1:
                ax.plot(rows["step"], rows[metric], color=color, lw=0.7, alpha=0.35)
            mean = rows[metric].rolling(smooth, min_periods=1, center=True).mean()
            ax.plot(rows["step"], mean, color=color, ls=line, lw=1.8, label=None if group is None else str(group))
        for step in boundaries:
            ax.axvline(step - 0.5, color="#888888", lw=0.9, ls=":")
        ax.set_title(metric.replace("_", " "), loc="left")
        ax.set_xlabel(xlabel)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        if metric in SHARES:
            _percent(ax, _top(table[metric].max()))
    if len(groups) > 1:
        _legend(figure, axes[0])
    return figure


@styled
def configurations(table: pd.DataFrame, *, title: str | None = None) -> Figure:
    """Returns what was trained on: data, hole and wait ratio by board size, one column of panels an arm, a bar a round.

    Args:
        table: Columns arm, round, size, data_ratio, hole_ratio, wait_ratio (NaN: as it falls).
        title: Above the figure.
    """
    arms, rounds = list(dict.fromkeys(table["arm"])), sorted(table["round"].unique())
    sizes = sorted(table["size"].unique())
    figure = Figure(figsize=(max(2.5 * len(arms), 4.2) + 0.6, 5.6), layout="constrained")
    axes = figure.subplots(3, len(arms), squeeze=False, sharex=True, sharey="row")
    shades = [matplotlib.colormaps["Blues"](v) for v in np.linspace(0.35, 0.95, max(len(rounds), 2))]
    hatches = ("", "///", "...", "xxx", "\\\\\\")
    width = 0.8 / len(rounds)
    tops = {"data_ratio": 1.08 * float(table["data_ratio"].max()), "hole_ratio": 0.52, "wait_ratio": 1.04}
    for column, arm in enumerate(arms):
        for line, key in enumerate(("data_ratio", "hole_ratio", "wait_ratio")):
            ax: Axes = axes[line, column]
            for i, index in enumerate(rounds):
                rows = table[(table["arm"] == arm) & (table["round"] == index)].set_index("size")
                values = [float(rows[key].get(size, 0.0)) for size in sizes]
                at = np.arange(len(sizes)) + width * (i - (len(rounds) - 1) / 2)
                ax.bar(
                    at, np.nan_to_num(values), width * 0.92, color=shades[i], hatch=hatches[i % len(hatches)],
                    edgecolor="white", lw=0.4, label=f"round {index}",
                )  # fmt: skip
                for place, value in zip(at, values, strict=True):
                    if np.isnan(value):
                        ax.text(place, 0.005, "any", rotation=90, ha="center", va="bottom", fontsize=7)
            ax.set(xticks=range(len(sizes)), ylim=(0, tops[key]))
            ax.set_xticklabels([_tick("size", size) for size in sizes], fontsize=8.5 if len(sizes) < 6 else 7)
            ax.grid(axis="x", visible=False)
            if line == 0:
                ax.set_title(str(arm))
            if column == 0:
                ax.set_ylabel(key.replace("_", " "))
    _legend(figure, axes[0, 0])
    if title:
        figure.suptitle(title)
    return figure


@styled
def differences(
    table: pd.DataFrame, *, baseline: str, metrics: Sequence[str] = ("valid", "optimal"), label: str = "arm"
) -> Figure:
    """Returns a forest plot: difference to the baseline in percentage points with its 95% interval, one row an arm.

    Args:
        table: Columns `label`, metric, difference, low, high (shares), n.
        baseline: What the difference is to; named on the axis.
        metrics: One panel each.
        label: Column of the rows.
    """
    names = list(dict.fromkeys(table[label]))
    figure = Figure(figsize=(3.6 * len(metrics) + 1.2, 0.42 * len(names) + 1.3), layout="constrained")
    axes = figure.subplots(1, len(metrics), sharey=True, sharex=True, squeeze=False)[0]
    for ax, metric in zip(axes, metrics, strict=True):
        rows = table[table["metric"] == metric].set_index(label).loc[names]
        mean, low, high = (100 * rows[key].to_numpy() for key in ("difference", "low", "high"))
        place = np.arange(len(names))[::-1]
        for k in range(len(names)):
            clear = low[k] > 0 or high[k] < 0
            ax.errorbar(
                mean[k], place[k], xerr=[[mean[k] - low[k]], [high[k] - mean[k]]], color=COLORS[0], capsize=3, lw=1.6,
                marker="o", markersize=7, markerfacecolor=COLORS[0] if clear else "white", markeredgewidth=1.5,
            )  # fmt: skip
        ax.axvline(0, color="#444444", lw=1)
        ax.set_title(metric.replace("_", " "), loc="left")
        ax.set(yticks=place, xlabel=f"points against {baseline}", ylim=(-0.6, len(names) - 0.4))
        ax.set_yticklabels(names)
        ax.grid(axis="y", visible=False)
    _say_n(axes[-1], table["n"])
    return figure


@styled
def panels(table: pd.DataFrame, *, x: str, ys: Mapping[str, str], hue: str) -> Figure:
    """Returns one panel a column of `ys` (column -> title) over x, a line a group: exact numbers, without intervals."""
    figure = Figure(figsize=(3.1 * len(ys), 3.3), layout="constrained")
    axes = figure.subplots(1, len(ys), squeeze=False)[0]
    groups = sorted(table[hue].unique())
    for ax, (y, title) in zip(axes, ys.items(), strict=True):
        for i, group in enumerate(groups):
            rows = table[table[hue] == group].sort_values(x)
            ax.plot(rows[x], rows[y], label=_tick(hue, group), lw=1.6, **_look(i, 5.5))
        ax.set(xlabel=x.replace("_", " "), ylim=(0, None))
        ax.set_title(title, loc="left")
        if y in SHARES:
            _percent(ax, _top(table[y].max()))
    _legend(figure, axes[0])
    return figure


@styled
def failures(table: pd.DataFrame, *, hue: str, title: str | None = None) -> Figure:
    """Returns which checks fail how often: share of completions by kind of violation, a bar for each value of `hue`.

    Args:
        table: Columns kind, share, hue.
        hue: Column of the bars, in the order in which they first occur.
        title: Above the figure.
    """
    kinds, groups = list(dict.fromkeys(table["kind"])), list(dict.fromkeys(table[hue]))
    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    ax = figure.subplots()
    shades = [matplotlib.colormaps["Blues"](v) for v in np.linspace(0.35, 0.95, max(len(groups), 2))]
    hatches = ("", "///", "...", "xxx", "\\\\\\")
    width = 0.8 / len(groups)
    for i, group in enumerate(groups):
        rows = table[table[hue] == group].set_index("kind")["share"]
        ax.bar(
            np.arange(len(kinds)) + width * (i - (len(groups) - 1) / 2), [rows.get(kind, 0.0) for kind in kinds],
            width * 0.92, label=str(group), color=shades[i], hatch=hatches[i % len(hatches)], edgecolor="white", lw=0.4,
        )  # fmt: skip
    ax.set(xticks=range(len(kinds)), ylabel="completions with it")
    ax.set_xticklabels(kinds)
    ax.grid(axis="x", visible=False)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    _legend(figure, ax)
    if title:
        figure.suptitle(title)
    return figure


def _look(i: int, size: float) -> dict[str, Any]:
    return {
        "color": COLORS[i % len(COLORS)],
        "marker": MARKERS[i % len(MARKERS)],
        "ls": LINES[i % len(LINES)],
        "markersize": size,
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
    }


def _tick(name: str, value: Any) -> str:
    return f"{value}x{value}" if name == "size" else str(value)


def _percent(ax: Axes, top: float) -> None:
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_ylim(0, top)


def _top(largest: float) -> float:
    """Returns where a percent axis ends: at 100%, or at the next 10% where all is far below."""
    return 1.0 if largest > 0.6 else min(1.0, math.ceil(10 * largest + 0.2) / 10)


def _groups(table: pd.DataFrame, hue: str) -> dict[Any, int]:
    """Returns the values of `hue` and the number of each one's look: arms have their own, others count up."""
    found, known = list(dict.fromkeys(table[hue])), list(NAMES.values())
    looks = {group: known.index(group) for group in known if group in found}
    free = [i for i in range(len(COLORS)) if i not in looks.values()] or [0]
    others = [group for group in found if group not in known]
    return looks | {group: free[i % len(free)] for i, group in enumerate(others)}


def _say_n(ax: Axes, counts: pd.Series) -> None:
    least, most = int(counts.min()), int(counts.max())
    text = f"n = {least} boards a point" if least == most else f"n = {least} to {most} boards a point"
    ax.annotate(text, (1, 1.015), xycoords="axes fraction", ha="right", va="bottom", fontsize=8)


def _legend(figure: Figure, ax: Axes) -> None:
    """Puts the legend below the panels, in as many columns as fit."""
    handles, names = ax.get_legend_handles_labels()
    fitting = int(figure.get_figwidth() / (0.077 * max(map(len, names)) + 0.65))
    rows = -(-len(names) // max(1, fitting))
    figure.legend(handles, names, loc="outside lower center", ncols=-(-len(names) // rows), handlelength=2.8)
