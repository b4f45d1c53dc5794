"""Comparisons of arms: differences paired by training seed and board, with intervals and Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from mapflake.engineer.designers import DYNAMIC, RULES, engineer_arm
from mapflake.repro import shown, whole
from mapflake.study import statistics
from mapflake.study.cells import Study, listed_values
from mapflake.study.names import NAMES, name
from mapflake.study.records import METRICS
from mapflake.study.statistics import Estimate, estimate, paired

ASKED: Mapping[str, Any] = {"metric": "valid", "arm": "engineer", "against": ["fixed"]}
"""Default of `analysis.comparison` in params.yaml: the questions written down beforehand, one arm against others."""


@dataclass(frozen=True)
class Difference:
    """The difference in rates, as shares, between an arm and another one; `compare` explains the first fields.

    Attributes:
        estimate: The mean difference, with its 95% interval.
        by_seed: The mean difference of each training seed.
        holm: The p-value after Holm's correction for the differences made together; None with one seed.
    """

    arm: str
    against: str
    boards: str
    kept: Mapping[str, Any]
    estimate: Estimate
    by_seed: tuple[float, ...]
    holm: float | None = None

    @property
    def significant(self) -> bool:
        """Whether p < 5% after Holm's correction."""
        return self.holm is not None and self.holm < 0.05


def compare(
    study: Study,
    arms: Sequence[str],
    against: str,
    metric: str = "valid",
    boards: str = "benchmark",
    *,
    ages: int | None = None,
    **kept: Any,
) -> list[Difference]:
    """Returns the difference between each arm and `against`, paired by training seed and board and corrected together.

    Arms that share no training seed with `against` are left out, and so is `against` itself. The list is empty if
    `against` was not run.

    Args:
        study: Finished cells.
        arms: The arms.
        against: The arm to compare with.
        metric: One of `records.METRICS`.
        boards: "benchmark", one of its subsets, or "validation".
        ages: So many ages the seeds have in turn, and students are compared within their age (`statistics.estimate`).
        kept: Only boards with these values, e.g. `agents=2` or `size=[5, 6, 7]`.

    Raises:
        ValueError: An arm is none, neither by its name nor in the records; there is no such metric, or no such boards;
            or `ages` is no number from 1 on, or the seeds do not have each age as often as any other, and at least
            twice.
    """
    if isinstance(arms, str):
        raise ValueError(f"arms: takes a list of names, not {arms!r}")
    if not isinstance(against, str):
        raise ValueError(f"against: takes the name of one arm, not {shown(against)}")
    known = {*NAMES, *RULES, *(arm for arm, _ in study.records)}
    if wrong := [
        arm for arm in (*arms, against) if not {arm, arm.removesuffix(DYNAMIC)} & known and not engineer_arm(arm)
    ]:
        raise ValueError(f"{', '.join(map(shown, wrong))}: no such arm; the records have {', '.join(study.arms)}")
    if metric not in METRICS:
        raise ValueError(f"metric: {shown(metric)} is none of {', '.join(METRICS)}")
    ages = None if ages is None else whole(ages, "ages", 1)
    study.chosen(boards, kept)  # refused even if no arm was run
    rows = []
    for arm in dict.fromkeys(arms):
        if arm != against and {*study.seeds(against)} & {*study.seeds(arm)}:
            values = paired(*(study.rates(side, metric, boards, **kept) for side in (arm, against)))
            by_seed = tuple(values.mean(axis=1))
            mean = estimate(values, None if ages is None else [seed % ages for seed in values.index])
            rows.append(Difference(arm, against, boards, kept, mean, by_seed))
    return corrected(rows)


def against_each(
    study: Study, arm: str, others: Sequence[str], metric: str = "valid", boards: str = "benchmark", **kept: Any
) -> list[Difference]:
    """Returns the differences between one arm and each of `others` that was run, corrected together.

    The arguments are those of `compare`, `ages` among them.
    """
    if isinstance(others, str):
        raise ValueError(f"others: takes a list of names, not {others!r}")
    rows = [row for other in dict.fromkeys(others) for row in compare(study, [arm], other, metric, boards, **kept)]
    return corrected(rows)


def asked(study: Study, comparison: Mapping[str, Any] = ASKED) -> list[Difference]:
    """Returns the differences that were asked for before the first run, of arms that have cells."""
    arm, others = comparison["arm"], [other for other in comparison["against"] if study.seeds(other)]
    if not study.seeds(arm):
        return []
    return against_each(study, arm, others, comparison["metric"], **boards_of(comparison))


def boards_of(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the boards that `comparison` is about, as keyword arguments of `compare`."""
    kept = {"size": comparison.get("sizes"), "agents": comparison.get("agents")}
    return {key: value for key, value in kept.items() if value}


def power(study: Study, comparison: Mapping[str, Any] = ASKED) -> pd.DataFrame:
    """Returns the smallest true difference, in points, that a study with so many seeds detects with a power of 80%.

    The variance is estimated on the validation boards. The table is empty if the two arms share fewer than two seeds.
    """
    arm, against, metric = comparison["arm"], comparison["against"][0], comparison["metric"]
    shown = {}
    if len({*study.seeds(arm)} & {*study.seeds(against)}) > 1:
        differences = paired(*(study.rates(side, metric, "validation") for side in (arm, against)))
        shown = {seeds: 100 * statistics.detectable(differences, seeds) for seeds in (4, 8, 16, 32)}
    return pd.Series(shown, name="detectable, points", dtype=float).rename_axis("seeds").to_frame()


def points(estimate: Estimate, star: bool = False) -> str:
    """Returns a difference in points, with its 95% interval in brackets if it has one, and a star if asked for."""
    return estimate.text("+.1f", 100) + ("*" if star else "")


def place(row: Difference) -> str:
    """Returns the boards of a difference in words."""
    number = row.estimate.boards
    named = {"validation": "the validation boards", "benchmark": f"the benchmark's {number} boards"}
    boards = named.get(row.boards, f"{row.boards}, {number} boards")
    sizes = [f"{n}x{n}" for n in listed_values(row.kept.get("size", ()))]
    agents = ", ".join(map(str, listed_values(row.kept.get("agents", ()))))
    needed = {*listed_values(row.kept.get("needs_wait", (True, False)))}
    waits = {(True,): " that need a wait", (False,): " that need no wait"}.get((*needed,), "")
    return boards + (f" of {', '.join(sizes)}" if sizes else "") + (f" with {agents} agents" if agents else "") + waits


def listed(rows: Sequence[Difference]) -> pd.DataFrame:
    """Returns differences as a table of text, one row for each: points, and p corrected for those made together."""
    shown = [
        (
            name(row.arm),
            name(row.against),
            place(row),
            row.estimate.seeds,
            points(row.estimate, row.significant),
            "" if row.holm is None else f"{row.holm:.2g}",
        )
        for row in rows
    ]
    return pd.DataFrame(shown, columns=["arm", "against", "boards", "seeds", "points", "p"]).set_index("arm")


def corrected(rows: Sequence[Difference]) -> list[Difference]:
    """Returns the differences with p-values corrected together (Holm)."""
    together = statistics.holm([row.estimate.p for row in rows])
    return [replace(row, holm=p) for row, p in zip(rows, together, strict=True)]
