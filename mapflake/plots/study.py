"""Figures of the study: arms against each other over training seeds, learning curves, designs.

Differences are in points and paired; a stroke is one seed, a bar the 95% interval over seeds and boards.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from mapflake.engineer.designers import DYNAMIC
from mapflake.plots import style
from mapflake.study import Study, statistics
from mapflake.study.comparisons import Difference, compare
from mapflake.study.designs import by_round
from mapflake.study.names import name

GREY = "#777777"
BETTER = "\N{LEFTWARDS ARROW} worse | better \N{RIGHTWARDS ARROW}"

DESIGNS = {
    "below_frontier": "boards below frontier\n(sizes)",
    "hole_ratio": "holes\n(share of cells)",
    "wait_ratio": "boards that need a wait\n(share)",
    "moved": "data moved\n(total variation)",
    "kept": "working settings kept\n(share of sizes)",
}
"""Columns of `study.changes` and their titles."""

LEADS = (
    *("engineer_trained", "engineer_trained_another", "engineer_trained_none", "trained_without_reports"),
    *("engineer", "engineer_base", "engineer_search", "engineer_search_another", "engineer_search_mean"),
    *("evaluation_matched", "constant", "learnability", "uniform", "frontier", "fixed_longer"),
    *(f"{arm}{DYNAMIC}" for arm in ("fixed", "engineer_trained", "evaluation_matched")),
)
"""Arms of the README's figure, from above: engineers, choices without an engineer, and dynamic sampling."""


@style.styled
def forest(compared: Mapping[str, Sequence[Difference]], *, against: str, order: Sequence[str] = ()) -> Figure:
    """Returns a panel for each title and its differences from `study.compare`: an arm a row, a stroke a seed.

    A dot is filled where p is below 5% after Holm's correction. There is a row for each arm in any of the panels, those
    in `order` first, and no panel for a title without differences. The axis names the arm compared with as `against`.
    """
    compared = {title: rows for title, rows in compared.items() if rows}
    if not compared:
        return _nothing()
    seeds: dict[str, set[int]] = {}  # panels may have different numbers
    for row in sorted(itertools.chain(*compared.values()), key=lambda row: [*order, row.arm].index(row.arm)):
        seeds.setdefault(row.arm, set()).add(row.estimate.seeds)
    figure = Figure(figsize=(2.7 * max(2, len(compared)) + 1.9, 0.33 * len(seeds) + 1.4), layout="constrained")
    axes = figure.subplots(1, len(compared), sharey=True, squeeze=False)[0]
    place = {arm: len(seeds) - 1 - i for i, arm in enumerate(seeds)}
    for ax, (title, rows) in zip(axes, compared.items(), strict=True):
        for row in rows:
            y = place[row.arm]
            ax.plot(100 * np.array(row.by_seed), np.full(len(row.by_seed), y - 0.24), "|", color=GREY, markersize=6)
            _interval(ax, 100 * row.estimate.mean, y, row.estimate, filled=row.significant)
            count, transform = str(row.estimate.seeds), ax.get_yaxis_transform()
            ax.text(1.01, y, count, transform=transform, va="center", fontsize=7.5, color=GREY)
        if not any(any(row.by_seed) for row in rows):
            ax.set_xlim(-1, 1)
        ax.axvline(0, color="#444444", lw=1)
        ax.set_title(title, loc="left")
        ax.set(yticks=list(place.values()), xlabel=f"points against {against}\n{BETTER}", ylim=(-0.7, len(seeds) - 0.4))
        ax.set_yticklabels([name(arm) for arm in seeds])
        ax.grid(axis="y", visible=False)
    intervals = "bar: 95% interval; " if max(map(max, seeds.values())) > 1 else "one seed: no interval; "
    note = f"grey number: seeds; tick: one seed; {intervals}filled: p < 5% after Holm's correction"
    figure.supxlabel(note, x=1, ha="right", fontsize=7.5)
    return figure


def leads(sets: Mapping[str, Study]) -> Figure:
    """Returns how far arms end ahead of *fixed* on the benchmark's boards with 2 agents: a panel a set of cells.

    The panels have the same axis. An arm that was not run in a set has no dot there. Holm's correction is for all arms
    that a set is given with, also those that are not drawn.
    """
    ahead = {title: compare(cells, cells.arms, "fixed", agents=2) for title, cells in sets.items()}
    ahead = {title: [row for row in rows if row.arm in LEADS] for title, rows in ahead.items()}
    figure = forest(ahead, against="fixed, 2 agents", order=LEADS)
    ends = [end for ax in figure.axes for end in ax.get_xlim()]
    for ax in figure.axes:
        ax.set_xlim(min(ends), max(ends))
    return figure


def _nothing() -> Figure:
    """Returns a figure that says that there is nothing to compare yet."""
    figure = Figure(figsize=(4, 0.6))
    figure.text(0.5, 0.5, "nothing to compare: run further arms", ha="center", va="center")
    return figure


def _interval(
    ax: Axes, x: float, y: float, estimate: statistics.Estimate, *, filled: bool, upright: bool = False
) -> None:
    """Draws an estimate as a dot at (x, y) with its interval, if it has one, along x or upright."""
    bar = None
    if estimate.low is not None and estimate.high is not None:
        bar = [[100 * (estimate.mean - estimate.low)], [100 * (estimate.high - estimate.mean)]]
    color, along, across = style.COLORS[0], None if upright else bar, bar if upright else None
    ax.errorbar(
        x, y, xerr=along, yerr=across, color=color, capsize=3, lw=1.6, marker="o", markersize=6,
        markerfacecolor=color if filled else "white", markeredgewidth=1.5, zorder=3,
    )  # fmt: skip


@style.styled
def learning(study: Study, arms: Sequence[str]) -> Figure:
    """Returns paired learning curves: a panel an arm, its gain over `fixed` on the validation boards, a line a seed.

    Arms of a seed share round 0, where the difference is zero; one with a round 0 of its own begins at round 1. Dots
    are means over seeds; the axis shows all seeds and may cut a wide 95% interval.
    """
    paired_arms = [arm for arm in arms if arm != "fixed" and {*study.seeds(arm)} & {*study.seeds("fixed")}]
    if not paired_arms:
        return _nothing()
    columns = min(4, len(paired_arms))  # wide enough for the longest name
    lines = -(-len(paired_arms) // columns)
    figure = Figure(figsize=(max(4.3, 2.4 * columns + 0.7), 1.8 * lines + 0.7), layout="constrained")
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    largest = 1.0
    for ax, arm in zip(axes.flat, paired_arms, strict=False):
        rounds = study.measured_rounds(arm)
        differences = [
            statistics.paired(*(study.rates(key, "valid", "validation", index=i) for key in (arm, "fixed")))
            for i in range(min(len(rounds), len(study.measured_rounds("fixed"))))
        ]
        by_seed = 100 * np.stack([rows.mean(axis=1) for rows in differences], axis=1)
        first = study.records[arm, study.seeds(arm)[0]].rounds[:1]
        begin = [] if first and first[0]["index"] == 0 else [0]
        at = [*begin, *rounds[: len(differences)]]
        for curve in by_seed:
            ax.plot(at, [*begin, *curve], color=GREY, lw=0.8, alpha=0.7)
        ax.plot(at, [*begin, *by_seed.mean(axis=0)], color=style.COLORS[0], lw=1.8)
        for x, rows in zip(rounds, differences, strict=False):
            estimate = statistics.estimate(rows)
            _interval(ax, x, 100 * estimate.mean, estimate, filled=False, upright=True)
        largest = max(largest, float(abs(by_seed).max()))
        ax.axhline(0, color="#444444", lw=1)
        ax.set_title(f"{name(arm)} ({len(by_seed)})", loc="left", fontsize=7)
        ax.set_xticks([0, *rounds[: len(differences)]])
    axes[0, 0].set_ylim(-1.2 * largest, 1.2 * largest)
    for ax in axes.flat[len(paired_arms) - columns : len(paired_arms)]:
        ax.tick_params(axis="x", labelbottom=True)  # also where the row below is not full
    for ax in axes.flat[len(paired_arms) :]:
        ax.set_visible(False)
    note = "round (0: shared by the arms of a seed); (n) seeds, grey: one seed; bar: 95% interval"
    figure.supxlabel(note, fontsize=8.5)
    figure.supylabel("valid: points against fixed", fontsize=8)
    return figure


@style.styled
def designs(changes: pd.DataFrame, order: Sequence[str]) -> Figure:
    """Returns what designers changed (`study.changes`): a panel a column, a row an arm in `order`, a dot a design.

    A bar marks the mean; open dots are designs of round 1, filled ones of later rounds.
    """
    arms = [arm for arm in order if arm in set(changes["arm"])]
    if not arms:
        return _nothing()
    figure = Figure(figsize=(1.9 * len(DESIGNS) + 1.7, 0.33 * len(arms) + 1.2), layout="constrained")
    axes = figure.subplots(1, len(DESIGNS), sharey=True, squeeze=False)[0]
    changes, look = changes.assign(later=changes["round"] > 1), {False: "white", True: style.COLORS[0]}
    for ax, column in zip(axes, DESIGNS, strict=True):
        sns.stripplot(
            changes, x=column, y="arm", order=arms, hue="later", palette=look, dodge=True,
            jitter=False, size=4.5, linewidth=1, edgecolor=style.COLORS[0], legend=False, ax=ax,
        )  # fmt: skip
        mean = changes.groupby("arm")[column].mean().reindex(arms)
        ax.plot(mean, range(len(arms)), "|", color="#222222", markersize=16, markeredgewidth=1.8)
        ax.set_yticks(range(len(arms)), [name(arm) for arm in arms])
        ax.set_xlabel(DESIGNS[column], fontsize=8.5)
        ax.set_ylabel("")
    figure.supxlabel("a dot: one design (open: round 1); |: mean of the arm", x=1, ha="right", fontsize=7.5)
    return figure


@style.styled
def doses(table: pd.DataFrame) -> Figure:
    """Returns how far ahead an engineer's own report was, against how far the exchanged report was from its own.

    The table is from `engineers.doses`; a dot is a training seed and a control. Above zero: the engineer that was told
    its own student's report ended ahead.
    """
    if table.empty:
        return _nothing()
    figure = Figure(figsize=(5.2, 3.3), layout="constrained")
    ax = figure.subplots()
    looks = {"another": "another student's", "near": "of a neighbouring age", "mean": "mean of all ages"}
    for i, (report, label) in enumerate(looks.items()):
        rows = table[table["report"] == report]
        if len(rows):
            ax.plot(
                rows["distance"], rows["gained"], style.MARKERS[i], color=style.COLORS[i], label=label, markersize=6
            )
    ax.axhline(0, color="#444444", lw=1)
    ax.axvline(0, color="#bbbbbb", lw=0.8)
    ax.set(xlabel="valid rate told minus the student's own, points", ylabel="own report ahead by, points")
    ax.set_title("Own report against another student's", loc="left")
    if table["report"].nunique() > 1:
        style.legend(figure, ax)
    return figure


@style.styled
def first_designs(table: pd.DataFrame) -> Figure:
    """Returns the mean size of the boards that an engineer asks for first (`engineers.first_designs`).

    A line is a training seed: the same weights, told the report of their own student and that of another one.
    """
    if table.empty:
        return _nothing()
    figure = Figure(figsize=(5.6, 3.5), layout="constrained")
    ax = figure.subplots()
    for row in table.itertuples():
        ax.plot([100 * row.own_valid, 100 * row.other_valid], [row.own_size, row.other_size], color="#bbbbbb", lw=1)
    for i, (report, label) in enumerate({"own": "its student's report", "other": "another student's report"}.items()):
        valid, size = 100 * table[f"{report}_valid"], table[f"{report}_size"]
        ax.plot(valid, size, style.MARKERS[i], color=style.COLORS[i], label=label, markersize=7)
    ax.set(xlabel="valid rate in the report, %  (a line: the same weights)", ylabel="mean size of boards asked for")
    ax.set_title("What the engineer asks for follows its report", loc="left")
    style.legend(figure, ax)
    return figure


@style.styled
def frontiers(study: Study, arms: Sequence[str]) -> Figure:
    """Returns what policies solve (above) and which boards they trained on (below), by size.

    A column an arm, a bar a round. Rates are those on the validation boards; all are means over the seeds of the arm.
    """
    run_arms = [arm for arm in arms if study.seeds(arm)]
    if not run_arms:
        return _nothing()
    figure = Figure(figsize=(2.3 * len(run_arms) + 0.8, 4.1), layout="constrained")
    axes = figure.subplots(2, len(run_arms), squeeze=False, sharex=True, sharey="row")
    for arm, column in zip(run_arms, axes.T, strict=True):
        for ax, table in zip(column, by_round(study, arm), strict=True):
            style.bars(ax, table)
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            ax.tick_params(axis="x", labelsize=8)
        column[0].set_title(f"{name(arm)} ({len(study.seeds(arm))})", loc="left", fontsize=7)
    axes[0, 0].set_ylabel("solved after it")
    axes[1, 0].set_ylabel("boards asked for")
    style.legend(figure, axes[0, 0])
    return figure
