"""Reports of other students, which an engineer can be told in place of its own: the controls of reading.

Students come in groups: a training seed's group has one student of each age (`StudentParams.ages`), so that every
student has a partner of another strength. Only reports are exchanged; the designs in the history are those of the run.
In the pipeline, the reports of other students are those of their *fixed* runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Literal

from mapflake.engineer.ledger import Designer, History, next_index
from mapflake.engineer.reply import Proposal
from mapflake.engineer.report import BoardBin, FailureReport, SizeReport

Other = Literal["another", "near", "mean"]
"""Whose reports are told: the student half of the ages away, a neighbour in age, or the whole group, pooled."""


def group_of(seed: int, ages: int) -> list[int]:
    """Returns the training seeds of a student's group, one for each of so many ages."""
    first = seed - seed % ages
    return list(range(first, first + ages))


def told_seeds(other: Other, seed: int, ages: int) -> list[int]:
    """Returns the training seeds whose reports an engineer is told; ValueError if there is one age."""
    if ages < 2:
        raise ValueError(f"report {other!r}: takes students of two ages or more (students.ages)")
    group, index = group_of(seed, ages), seed % ages
    if other == "mean":
        return group
    if other == "another":
        return [group[(index + ages // 2) % ages]]
    return [group[index + 1 if index % 2 == 0 and index + 1 < ages else index - 1]]


def told(other: Other, seed: int, ages: int, histories: Mapping[int, History]) -> tuple[FailureReport, ...]:
    """Returns the reports that are told, one for each round that all these students (`histories`) have.

    Raises:
        ValueError: As `told_seeds`, or a student's rounds are missing.
    """
    seeds = told_seeds(other, seed, ages)
    if missing := [s for s in seeds if not histories.get(s)]:
        raise ValueError(f"report {other!r}: training seed {missing[0]} has no recorded round")
    rounds = zip(*(histories[s] for s in seeds), strict=False)
    return tuple(pooled([r.report for r in group_rounds]) for group_rounds in rounds)


def telling(designer: Designer, reports: Sequence[FailureReport]) -> Designer:
    """Returns a designer that is told these reports, one a round; what they say of training boards stays the run's."""

    def design(report: FailureReport, history: History) -> Proposal:
        if next_index(history) > len(reports):
            raise ValueError(f"round {history[-1].index}: the reports that are told end after {len(reports)} rounds")
        past = tuple(replace(r, report=replace(reports[r.index], training=r.report.training)) for r in history)
        return designer(past[-1].report, past)

    return design


def pooled(reports: Sequence[FailureReport]) -> FailureReport:
    """Returns the report on the rollouts of several reports together; examples are taken from each in turn.

    It says nothing of the policies' behaviour in training, unless there is one report alone.
    """
    if len(reports) == 1:
        return reports[0]
    bins: Counter[tuple[int, float, bool]] = Counter()
    valid: Counter[tuple[int, float, bool]] = Counter()
    for board_bin in (board_bin for report in reports for board_bin in report.bins):
        kind = (board_bin.size, board_bin.hole_ratio, board_bin.needs_wait)
        bins[kind] += board_bin.rollouts
        valid[kind] += board_bin.valid
    most = max(len(report.examples) for report in reports)
    turns = [report.examples[i] for i in range(most) for report in reports if i < len(report.examples)]
    return FailureReport(
        sizes=_pooled(row for report in reports for row in report.sizes),
        examples=tuple(turns[:most]),
        before=_pooled(row for report in reports for row in report.before),
        bins=tuple(BoardBin(*kind, rollouts=bins[kind], valid=valid[kind]) for kind in sorted(bins)),
    )


def _pooled(rows: Iterable[SizeReport]) -> tuple[SizeReport, ...]:
    by_size: dict[int, list[SizeReport]] = {}
    for row in rows:
        by_size.setdefault(row.size, []).append(row)
    names = [field.name for field in fields(SizeReport) if field.name not in ("size", "failures")]
    size_reports = []
    for size, size_rows in sorted(by_size.items()):
        counts = {name: sum(getattr(row, name) for row in size_rows) for name in names}
        failures = tuple(map(sum, zip(*(row.failures for row in size_rows), strict=True)))
        size_reports.append(SizeReport(size, **counts, failures=failures))
    return tuple(size_reports)
