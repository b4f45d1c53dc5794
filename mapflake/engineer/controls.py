"""Controls for a model engineer: reports that are not those of the current checkpoint, told as if they were.

If a control designs as well as the engineer, reading the failures was not what helped. The third control, the schema
alone, is a variant (`context`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from mapflake.engineer.ledger import History, next_index
from mapflake.engineer.report import FailureReport
from mapflake.repro import rng_for

Told = Literal["current", "shuffled", "previous"]


def as_told(report: FailureReport, history: History, told: Told, *, seed: int) -> tuple[FailureReport, History]:
    """Returns report and history as a control tells them; what both say is changed in both.

    Args:
        report: Of the current checkpoint.
        history: The rounds so far.
        told: `current`, the truth; `shuffled`, every row of the tables (of all rounds, in one way) belongs to another
            size, while examples stay; `previous`, the report of the round before (the truth before round 2, which
            has no older one).
        seed: Of the shuffling; the round's index goes in too.
    """
    if told == "current" or (told == "previous" and len(history) < 2):
        return report, history
    if told == "previous":
        older = history[-2].report
        return older, (*history[:-1], replace(history[-1], report=older))
    sizes = [s.size for s in report.sizes]
    order = rng_for(seed, "shuffled", next_index(history)).permutation(len(sizes)).tolist()
    other = {sizes[order[i - 1]]: sizes[order[i]] for i in range(len(sizes))}  # one cycle: no size keeps its row
    return _renamed(report, other), tuple(replace(one, report=_renamed(one.report, other)) for one in history)


def _renamed(report: FailureReport, other: Mapping[int, int]) -> FailureReport:
    sizes, before = (
        tuple(sorted((replace(s, size=other.get(s.size, s.size)) for s in rows), key=lambda s: s.size))
        for rows in (report.sizes, report.before)
    )
    return replace(report, sizes=sizes, before=before)
