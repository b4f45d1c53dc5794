"""Figures of training and of arms: rates, learning curves, configurations over rounds, failures, feasible boards.

Tables come in as data frames, long, one row an estimate. An estimate is shown with its 95% interval and n.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from mapflake.env.config import DIMENSIONS
from mapflake.plots import style

METRICS = ("valid", "optimal")
FEW = 20  # boards with a plan, below which a share of them says little


@style.styled
def rates(table: pd.DataFrame, *, x: str, hue: str) -> Figure:
    """Returns a panel for valid and one for optimal: estimate and 95% interval over `x`, a line for each `hue`.

    `table` is from `evaluate.rates`, by these two columns; an arm looks the same in all figures.
    """
    figure = Figure(figsize=(7.6, 3.5), layout="constrained")
    axes = figure.subplots(1, len(METRICS), sharey=True)
    places = {value: i for i, value in enumerate(sorted(table[x].unique()))}
    groups = style.looks(table, hue)
    largest = max(table[f"{metric}_high"].max() for metric in METRICS)
    for ax, metric in zip(axes, METRICS, strict=True):
        for i, (group, look) in enumerate(groups.items()):
            rows = table[table[hue] == group].sort_values(x)
            at = np.array([places[v] for v in rows[x]]) + 0.09 * (i - (len(groups) - 1) / 2)
            errors = [rows[metric] - rows[f"{metric}_low"], rows[f"{metric}_high"] - rows[metric]]
            ax.errorbar(
                at, rows[metric], yerr=errors, label=str(group), **look, ms=5.5, markeredgecolor="white",
                markeredgewidth=0.6, capsize=2.5, lw=1.6, elinewidth=1.1,
            )  # fmt: skip
        ax.set(xlabel="board size" if x == "size" else x, xlim=(-0.5, len(places) - 0.5))
        ax.set_title(metric, loc="left")
        ax.set_xticks(range(len(places)), [style.tick(x, value) for value in places])
        style.percent(ax, largest)
    style.legend(figure, axes[0])
    fewest, most = table["boards"].min(), table["boards"].max()
    counts = f"n = {fewest}{f' to {most}' if most > fewest else ''} boards a point"
    axes[-1].annotate(counts, (1, 1.015), xycoords="axes fraction", ha="right", va="bottom", fontsize=8)
    return figure


@style.styled
def curves(
    table: pd.DataFrame,
    *,
    metrics: Sequence[str] = METRICS,
    x: str = "step",
    hue: str = "arm",
    smooth: int = 1,
    boundaries: Sequence[int] = (),
    levels: Mapping[str, float] | None = None,
    xlabel: str = "GRPO step, on the arm's boards",
) -> Figure:
    """Returns a panel a metric over `x`, a line for each `hue`: raw points faint, a running mean of `smooth` on top.

    `table` has the columns x, hue and the metrics, of which shares get a percent axis. `boundaries` are the steps at
    which a round begins, marked by a line, `levels` yardsticks by name, lines across the first panel. An arm looks the
    same in all figures.
    """
    figure = Figure(figsize=(3.7 * len(metrics) + 0.2, 3.4), layout="constrained")
    axes = figure.subplots(1, len(metrics), squeeze=False)[0]
    groups = style.looks(table, hue)
    for ax, metric in zip(axes, metrics, strict=True):
        for group, look in groups.items():
            rows = table[table[hue] == group].sort_values(x).dropna(subset=[metric])
            if smooth > 1:
                ax.plot(rows[x], rows[metric], color=look["color"], lw=0.7, alpha=0.35)
            mean = rows[metric].rolling(smooth, min_periods=1, center=True).mean()
            ax.plot(rows[x], mean, color=look["color"], ls=look["ls"], lw=1.8, label=style.tick(hue, group))
        for step in boundaries:
            ax.axvline(step - 0.5, color="#888888", lw=0.9, ls=":")
        ax.set_title(metric.replace("_", " "), loc="left")
        ax.set_xlabel(xlabel)
        ax.locator_params(axis="x", nbins=6)
        if metric in style.SHARES:
            style.percent(ax, table[metric].max())
    for title, level in (levels or {}).items():
        axes[0].axhline(level, color="#888888", lw=0.9, ls="--")
        axes[0].annotate(title, (1, level), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7)
    if len(groups) > 1:
        style.legend(figure, axes[0])
    return figure


@style.styled
def configurations(table: pd.DataFrame) -> Figure:
    """Returns the configurations of `tables.configurations`: panels by ratio and arm, over size, a bar a round."""
    names = [name for name in DIMENSIONS if name in table]
    arms = table.groupby("arm", sort=False)
    figure = Figure(figsize=(max(2.5 * len(arms), 4.2) + 0.6, 5.6 * len(names) / 3), layout="constrained")
    axes = figure.subplots(len(names), len(arms), squeeze=False, sharex=True, sharey="row")
    tops = {name: 1.04 * DIMENSIONS[name].top for name in names}
    tops["data_ratio"] = 1.08 * float(table["data_ratio"].max())
    for column, (arm, rows) in zip(axes.T, arms, strict=True):
        column[0].set_title(str(arm))
        shares = rows.pivot(index="size", columns="round", values="data_ratio").rename(columns="round {}".format)
        for key, ax in zip(names, column, strict=True):
            ratios = rows.pivot(index="size", columns="round", values=key).rename(columns="round {}".format)
            style.bars(ax, ratios)
            for bars, values in zip(ax.containers, ratios.T.to_numpy(), strict=True):
                absent = shares[bars.get_label()].isna()  # a size that is not asked for has no ratios
                words = ["any" if np.isnan(v) and not gone else "" for v, gone in zip(values, absent, strict=True)]
                ax.bar_label(bars, words, rotation=90, padding=1, fontsize=7)
            ax.set_ylim(0, tops[key])
    for key, ax in zip(names, axes[:, 0], strict=True):
        ax.set_ylabel(key.replace("_", " "))
    style.legend(figure, axes[0, 0])
    return figure


@style.styled
def failures(table: pd.DataFrame) -> Figure:
    """Returns how often each check fails, from `tables.failures`: bars by kind of violation, one a round."""
    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    ax = figure.subplots()
    style.bars(ax, table)
    ax.set_ylabel("share with this error")
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    style.legend(figure, ax)
    return figure


@style.styled
def feasibility_map(table: pd.DataFrame) -> Figure:
    """Returns heat maps of the table from `feasibility_table`: a row of panels a quantity, a column a number of agents.

    Connected is the share of random boards on which every agent can reach its goal. Boards that need a wait are counted
    among those with a plan; the share is in brackets where fewer than 20 have one. Crossed out: too few free cells for
    the agents. A dot: no board had a plan.
    """
    titles = {"connected": "boards connected", "needs_wait": "boards that need a wait"}
    counts = sorted(table["agents"].unique())
    figure = Figure(figsize=(3.3 * len(counts) + 0.5, 5.8), layout="constrained")
    axes = figure.subplots(len(titles), len(counts), squeeze=False, sharex=True, sharey=True)
    for (name, title), line in zip(titles.items(), axes, strict=True):
        top = 1.0 if name == "connected" else max(float(table[name].max()), 0.01)
        for agents, ax in zip(counts, line, strict=True):
            _heat(ax, table[table["agents"] == agents], name, top)
            ax.set_title(f"{agents} agents: {title}", loc="left")
            ax.set(xlabel="hole ratio" if name == "needs_wait" else "", ylabel="board size" if ax is line[0] else "")
    over_budget = (table["over_budget"] * table["boards"]).sum() / table["boards"].sum()
    note = (
        f"n = {table['boards'].max()} random boards a cell, {_percent(over_budget)} of all over budget; "
        f"crossed out: impossible; a dot: none had a plan; in brackets: of fewer than {FEW} with a plan"
    )
    figure.supxlabel(note, fontsize=8, x=0.99, ha="right")
    return figure


def _heat(ax: Axes, kinds: pd.DataFrame, name: str, top: float) -> None:
    """Draws one quantity over hole ratio and size, each cell with its number."""
    few = (kinds["solved"] * kinds["boards"] < FEW - 0.5) & (name == "needs_wait")
    words = kinds[name].map(_percent, na_action="ignore")
    words = words.mask(few, "(" + words + ")").fillna("\u00b7")
    possible = kinds.assign(words=words, share=kinds[name].fillna(0.0).where(kinds["boards"] > 0))
    shares, words = (possible.pivot(index="size", columns="hole_ratio", values=v) for v in ("share", "words"))
    look = {"cmap": "Blues", "vmin": 0, "vmax": 1.15 * top, "cbar": False, "annot_kws": {"fontsize": 8}}
    sns.heatmap(shares, ax=ax, annot=words, fmt="", **look)
    ax.grid(visible=False)
    ax.patch.set(fc="#EEEEEE", ec="#999999", hatch="xxx")  # seen where there is no number
    ax.set_yticklabels([style.tick("size", size) for size in shares.index], rotation=0)


def _percent(share: float) -> str:
    """Returns a share in percent, with a decimal where it would else be 0."""
    return f"{100 * share:.1f}%" if 0 < share < 0.01 else f"{100 * share:.0f}%"


@style.styled
def frontier(success: pd.DataFrame, asked: pd.DataFrame) -> Figure:
    """Returns what a policy can do (above) and which boards its engineer asks for (below), by size.

    Both tables, of valid rates and of mean data ratios, have a row a size and a column a stage of the policy.
    """
    figure = Figure(figsize=(max(2.0 * len(success.columns), 4.0) + 0.6, 3.9), layout="constrained")
    axes = figure.subplots(2, len(success.columns), squeeze=False, sharex=True, sharey="row")
    for line, table, label, color in ((axes[0], success, "solved", 2), (axes[1], asked, "boards asked for", 0)):
        for ax, stage in zip(line, table.columns, strict=True):
            ax.bar(range(len(table)), table[stage], color=style.COLORS[color], width=0.75)
            ax.set_xticks(range(len(table)), [str(size) for size in table.index])
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        line[0].set_ylabel(label)
    for (top, bottom), stage in zip(axes.T, success.columns, strict=True):
        top.set_title(str(stage), loc="left")
        bottom.set_xlabel("board size")
    return figure


@style.styled
def response(table: pd.DataFrame) -> Figure:
    """Returns what an engineer asks for as one row of its report is moved (`reading.response`).

    A flat line means that the row is not used. Left: the share of boards of a size against the success told of that
    size, a line a size. Right: the share of boards that need a wait against success on those.
    """
    figure = Figure(figsize=(7.4, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = table[table["moved"] != "waits"]
    shades = sns.color_palette("Blues", sizes["moved"].nunique() + 2)[2:]
    for shade, (size, rows) in zip(shades, sizes.groupby("moved", sort=False), strict=True):
        left.plot(rows["told"], rows["asked"], "o-", color=shade, markersize=4, label=style.tick("size", size))
    waits = table[table["moved"] == "waits"]
    right.plot(waits["told"], waits["asked"], "o-", color=style.COLORS[0], markersize=4)
    left.set(xlabel="success of this size in the report", title="Share of boards asked for, by size")
    label = "success in the report where a wait\nis needed, as a share of that elsewhere"
    right.set(xlabel=label, title="Share that needs a wait")
    for ax, rows in ((left, sizes), (right, waits)):
        ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        style.percent(ax, float(np.nanmax([*rows["asked"], 0.0])))
    style.legend(figure, left)
    return figure
