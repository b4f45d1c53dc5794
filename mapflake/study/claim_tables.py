"""The tables of claims: each sentence of `study.claims` with its difference, refused if this does not support it.

The numbers come from the records. Each interval is for its own comparison; reports/results.md and reports/controls.md
have the p-values corrected for several comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from mapflake.study.cells import Study
from mapflake.study.claims import (
    CLAIMS,
    FINDINGS,
    FURTHER_CLAIMS,
    GATE_CLAIMS,
    LESSON_CLAIMS,
    MATCHED_CLAIMS,
    SEARCH_CLAIMS,
    TWO_AGENTS,
    Claim,
)
from mapflake.study.comparisons import compare
from mapflake.study.designs import spent
from mapflake.study.engineers import first_designs, head_start
from mapflake.study.names import BASE, ROUND_0
from mapflake.study.paper import PAPER
from mapflake.study.statistics import Estimate, t_estimate

SUPPORTED: Mapping[str, Callable[[float, float], bool]] = {
    "more": lambda low, high: low > 0,
    "less": lambda low, high: high < 0,
    "no difference": lambda low, high: low <= 0 <= high,
    "late start": lambda low, high: high < 0,
    "reads": lambda low, high: low > 0,
}
"""What a claim shows -> whether a 95% interval supports it."""


class Measured(NamedTuple):
    """The difference that a claim is about: its estimate, and the factor and unit in which it is written."""

    estimate: Estimate
    scale: float = 1
    unit: str = ""


def claims_markdown(
    sets: Mapping[str, Study],
    search: Mapping[str, Study],
    lessons: Mapping[str, Study],
    matched: Mapping[str, Study],
    gate: Mapping[str, Any],
    ages: int,
    *,
    within: Collection[str] = (),
) -> str:
    """Returns all claims as numbered tables in Markdown.

    `sets` are the cells of `CLAIMS` and `FURTHER_CLAIMS` by the titles of their columns, the study's first, `search`
    those of `SEARCH_CLAIMS`, `lessons` those of `LESSON_CLAIMS`, and `matched` those of `MATCHED_CLAIMS`. `gate` is the
    content of reports/laboratory/gate.json, `ages` the number of ages of students. In columns `within` students are
    compared within their age.

    Raises:
        ValueError: A difference was not measured over two seeds, or does not support its claim.
    """
    study = next(iter(sets.values()))
    seeds = study.seeds("fixed")
    solved = {arm: study.rates(arm, **TWO_AGENTS).loc[seeds].to_numpy() for arm in (BASE, "fixed")}
    begin, end = (f"{rates.mean():.1%}" for rates in solved.values())
    title = (
        f"**What round 0 and two designed rounds teach**, in points on the benchmark's"
        f" {solved['fixed'].shape[1]} boards with 2 agents (in the study *fixed* begins at {begin} and ends at {end})"
    )
    parts = [
        (title, CLAIMS, sets),
        ("**A search in place of RL on designs**, in the same points", SEARCH_CLAIMS, search),
        ("**More on these arms**, in the same points", FURTHER_CLAIMS, sets),
        ("**Lessons, and the search told a mean report**, in the same points", LESSON_CLAIMS, lessons),
        ("**The search against boards drawn as the benchmark's are**, in the same points", MATCHED_CLAIMS, matched),
    ]
    tables, first = [gate_table(gate)], len(GATE_CLAIMS) + 1
    for heading, claims, cells in parts:
        tables.append(table(heading, claims, cells, ages, first=first, within=within))
        first += len(claims)
    return "\n\n".join(tables)


def findings_markdown(tables: str) -> str:
    """Returns `FINDINGS` as a list with the numbers of claims, read from the text of `claims_markdown`."""
    rates = {agents: [PAPER[arm][1][agents][0] for arm in ("engineer", "fixed")] for agents in PAPER["fixed"][1]}
    leads = ", ".join(f"{engineer - fixed:.1f}" for engineer, fixed in rates.values())
    numbers = {"paper": f"{leads} points in the paper, with {', '.join(map(str, rates))} agents"}
    for number, _, *cells in ([cell.strip() for cell in line[1:-1].split("|")] for line in tables.splitlines() if line):
        numbers |= {f"{number}{column}": cell.partition(", ")[0] for column, cell in zip("abcd", cells, strict=False)}
        numbers[f"{number}x"] = cells[-1].partition(" against")[0]
    return "\n".join(f"- {text.format_map(numbers)}" for text in FINDINGS)


def gate_table(gate: Mapping[str, Any]) -> str:
    """Returns `GATE_CLAIMS` as a table; raises as for `claims_markdown`."""
    rows = []
    for number, claim in enumerate(GATE_CLAIMS, start=1):
        estimate = Estimate(seeds=gate["seeds"], boards=gate["students"], **gate[claim.against])
        rows.append([str(number), claim.text, _told(_supported(claim, Measured(estimate)))])
    title = "**What one round on the boards of a design teaches**, in points on the validation boards, at equal samples"
    return _markdown(["", title, f"trials, students of {gate['students']} ages"], rows)


def table(
    title: str,
    claims: Iterable[Claim],
    sets: Mapping[str, Study],
    ages: int = 1,
    *,
    first: int = 1,
    within: Collection[str] = (),
) -> str:
    """Returns claims about arms as a table in Markdown, with their differences in each of several sets of cells.

    Claims are numbered from `first` on; extra samples are those of both arms in the first set that has them. A claim is
    refused by each set that has its arms; `ages` and `within` are as for `claims_markdown`, which raises the same.
    """
    rows = []
    for number, claim in enumerate(claims, start=first):
        differences = {column: measured(cells, claim, ages, within=column in within) for column, cells in sets.items()}
        first_column = next((column for column, difference in differences.items() if difference), next(iter(sets)))
        texts, further = [], iter(claim.elsewhere)
        for (column, difference), mark in zip(differences.items(), (*claim.marks, *[""] * len(sets)), strict=False):
            if column == first_column:
                texts.append(_told(_supported(claim, difference)) + mark)
            elif difference:
                claim_there = replace(claim, shows=next(further, claim.shows))
                texts.append(_told(_supported(claim_there, difference)) + mark)
            else:
                texts.append("")
        rows.append([str(number), claim.text, *texts, _cost(claim, sets[first_column])])
    return _markdown(["", title, *sets, "extra samples"], rows)


def measured(study: Study, claim: Claim, ages: int, *, within: bool = False) -> Measured | None:
    """Returns the difference that a claim is about, None if its arms have no training seed in common.

    If `within`, rates of students are compared within their age.
    """
    if not {*study.seeds(claim.arm)} & {*study.seeds(claim.against)}:
        return None
    if claim.shows == "reads":
        designs = first_designs(study, ages, claim.arm)
        return None if designs.empty else Measured(t_estimate(designs["response"].to_numpy()), unit=" squares")
    if claim.shows == "late start":
        return Measured(head_start(study, claim.arm), 100)
    (row,) = compare(study, [claim.arm], claim.against, ages=ages if within else None, **claim.kept)
    return Measured(row.estimate, 100)


def _supported(claim: Claim, difference: Measured | None) -> Measured:
    """Returns the difference; raises as for `claims_markdown`."""
    if difference is None or difference.estimate.seeds < 2:
        raise ValueError(f"claim {claim.text!r}: {claim.arm} against {claim.against} was not measured over two seeds")
    low, high = difference.estimate.low, difference.estimate.high
    if low is None or high is None or not SUPPORTED[claim.shows](low, high):
        raise ValueError(f"claim {claim.text!r} does not hold: {_told(difference)}")
    return difference


def _told(difference: Measured) -> str:
    estimate = difference.estimate
    return f"{estimate.text('+.1f', difference.scale)}{difference.unit}, {estimate.seeds} seeds"


def _cost(claim: Claim, study: Study) -> str:
    """Returns the extra samples of both arms, nothing where the claim is about round 0."""
    extra = spent(study)["extra"]
    arm, against = (f"{float(extra.get(arm, 0.0)):.0%}" for arm in (claim.arm, claim.against))
    if claim.against == ROUND_0:
        return ""
    return f"both {arm}" if arm == against else f"{arm} against {against}"


def _markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = [*head]
    return "\n".join(
        "|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in (head, ["---"] * len(head), *rows)
    )
