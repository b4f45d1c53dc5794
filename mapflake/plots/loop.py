"""The method in one picture: a failure, the report, the design, and boards that were drawn from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure

from mapflake.engineer import History, Round
from mapflake.engineer.report import FailureExample
from mapflake.engineer.situations import kind_shares
from mapflake.env import Instance, Plan, check
from mapflake.plots import boards, style

TITLES = (
    "1. The policy fails on\nvalidation boards",
    "2. The report counts\nwhat it solves",
    "3. The engineer designs\nthe next boards",
    "4. Boards drawn from the\ndesign, for the next GRPO",
)
PLAIN, WAIT = matplotlib.colormaps["Blues"]([0.4, 0.85])
"""Colours of boards that need no wait, and of boards that need one."""


@style.styled
def loop(histories: Mapping[str, History]) -> Figure:
    """Returns the way from round 0 to the boards of round 1: a row for each policy, under its title.

    Raises:
        ValueError: No failure of round 0 that is on record has a plan.
    """
    figure = Figure(figsize=(9.6, 0.5 + 2.75 * len(histories)), layout="constrained")
    rows = figure.subfigures(len(histories), 1, squeeze=False)[:, 0]
    for row, (title, history) in zip(rows, histories.items(), strict=True):
        before, after = history[:2]
        row.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
        columns = row.subfigures(1, 4, width_ratios=(1.15, 1.1, 1.1, 1.2))
        _failure(columns[0], before.report.examples)
        first = row is rows[0]
        _report(columns[1].subplots(), before, legend=first)
        _design(columns[2].subplots(), after, legend=first)
        _boards(columns[3], after)
        if first:
            for column, words in zip(columns, TITLES, strict=True):
                column.suptitle(words, fontsize=9.5)
    return figure


def _failure(place: SubFigure, examples: Sequence[FailureExample]) -> None:
    """Draws the failure on the smallest board on record to its first violation; of several, the one with the fewest."""
    failures = [(Instance.from_text(example.board), Plan(example.moves)) for example in examples if example.moves]
    if not failures:
        raise ValueError("no failure of round 0 that is on record has a plan")
    board, plan = min(failures, key=lambda pair: (pair[0].size, len(check(*pair).violations)))
    boards.draw_plan(place.subplots(), board, plan, whole=False)


def _report(ax: Axes, round_: Round, *, legend: bool) -> None:
    """Draws the valid rates of the report by size, without and with a wait."""
    parts = round_.report.sizes
    waits = [s.wait_valid / max(s.wait_rollouts, 1) for s in parts]
    plain = [valid / max(rollouts, 1) for valid, rollouts in (s.without_wait for s in parts)]
    for shift, values, color, words in ((-0.2, plain, PLAIN, "needs no wait"), (0.2, waits, WAIT, "needs a wait")):
        ax.bar(np.arange(len(parts)) + shift, values, 0.38, color=color, label=words)
    ax.set_ylabel("valid plans", fontsize=9)
    _sizes(ax, [s.size for s in parts], legend=legend)


def _design(ax: Axes, round_: Round, *, legend: bool) -> None:
    """Draws the share of the boards that each size has in a design, and that of boards that need a wait in it."""
    parts = {size: part for size, part in round_.config.sizes.items() if part.data_ratio > 0}
    shares = np.array([part.data_ratio for part in parts.values()])
    kinds = kind_shares(round_.config)
    waits = [sum(share for (s, _, wait), share in kinds.items() if wait and s == size) for size in parts]
    sizes = sorted({s.size for s in round_.report.sizes} | {*parts})
    at = [sizes.index(size) for size in parts]
    ax.bar(at, shares - waits, 0.7, bottom=waits, color=PLAIN, label="needs no wait")
    ax.bar(at, waits, 0.7, color=WAIT, label="needs a wait")
    ax.set_ylabel("share of boards", fontsize=9)
    _sizes(ax, sizes, legend=legend)


def _sizes(ax: Axes, sizes: Sequence[int], *, legend: bool) -> None:
    """Labels what the two panels of bars share."""
    if legend:
        ax.legend(fontsize=8, loc="upper right", handlelength=1)
    ax.set_xlim(-0.6, len(sizes) - 0.4)
    ax.set_xticks(range(len(sizes)), [style.tick("size", size) for size in sizes])
    ax.set_xlabel("size of the board", fontsize=9)
    style.percent(ax, 1)  # the same axis in all rows
    ax.tick_params(labelsize=7.5)
    ax.grid(axis="x", visible=False)


def _boards(place: SubFigure, round_: Round) -> None:
    """Draws the first four boards of a round, with their optimal plans."""
    for ax, task in zip(place.subplots(2, 2).ravel(), round_.boards(), strict=False):
        boards.draw_plan(ax, task.instance, task.solution.plan)
