"""Comparisons of arms: differences paired by seed and board, with intervals and Holm's correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from mapflake.study import statistics
from mapflake.study.cells import Study
from mapflake.study.statistics import Estimate, estimate, paired

ASKED: Mapping[str, Any] = {"metric": "valid", "arm": "engineer", "against": ["fixed"], "boards": "benchmark"}
"""Questions, as `analysis.comparison` in params.yaml names them: an arm against each of others."""


@dataclass(frozen=True)
class Difference:
    """An arm against others.

    Attributes:
        arm: The arm.
        against: The others, of which the mean is taken.
        metric: One of `names.METRICS`.
        boards: "benchmark", "validation" or "held_out".
        kept: Which of these boards, e.g. `{"agents": 2}`; empty: all.
        found: Mean difference, a share.
        by_seed: Mean difference of each seed.
        together: How many differences are corrected together.
        holm: p-value corrected for that number; None with one seed.
    """

    arm: str
    against: tuple[str, ...]
    metric: str
    boards: str
    kept: Mapping[str, Any]
    found: Estimate
    by_seed: tuple[float, ...]
    together: int = 1
    holm: float | None = None

    @property
    def seen(self) -> bool:
        """Whether p is below 5% after Holm's correction."""
        return self.holm is not None and self.holm < 0.05


def compare(
    study: Study,
    arms: Sequence[str],
    against: str | Sequence[str],
    metric: str = "valid",
    boards: str = "benchmark",
    **kept: Any,
) -> list[Difference]:
    """Returns the difference of each arm to `against`, corrected together.

    Arms without a seed in common with it are left out, and so is `against` itself; the list is empty if that was not
    run, or if the study has no such boards.

    Args:
        study: Finished cells.
        arms: The arms.
        against: An arm, or several, of which the mean is taken.
        metric: One of `names.METRICS`.
        boards: As `Study.rates` takes it, for `kept` too.
        kept: Only boards of these, e.g. `agents=2`, or `size=[5, 6, 7]`.
    """
    others = (against,) if isinstance(against, str) else tuple(against)
    if not others or not study.has(boards):
        return []
    common = set.intersection(*({*study.seeds(other)} for other in others))
    theirs = [study.rates(other, metric, boards, **kept) for other in others if common]
    rows = []
    for arm in arms:
        if arm not in others and common & {*study.seeds(arm)}:
            values = paired(study.rates(arm, metric, boards, **kept), *theirs)
            by_seed = tuple(values.mean(axis=1))
            rows.append(Difference(arm, others, metric, boards, kept, estimate(values), by_seed))
    return _corrected(rows)


def against_each(
    study: Study,
    arm: str,
    others: Sequence[str],
    metric: str = "valid",
    boards: str = "benchmark",
    **kept: Any,
) -> list[Difference]:
    """Returns the difference of an arm to each of others, corrected together; what was not run is left out."""
    return _corrected([row for other in others for row in compare(study, [arm], other, metric, boards, **kept)])


def asked(study: Study, comparison: Mapping[str, Any] = ASKED) -> list[Difference]:
    """Returns the answers to the questions asked first."""
    return against_each(study, comparison["arm"], comparison["against"], comparison["metric"], **boards_of(comparison))


def boards_of(comparison: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the boards that questions are about, as `compare` takes them."""
    return {"boards": comparison["boards"]} | ({"size": comparison["sizes"]} if comparison.get("sizes") else {})


def power(study: Study, comparison: Mapping[str, Any] = ASKED) -> pd.DataFrame:
    """Returns the difference, in points, that each number of seeds would show in 4 of 5 studies like this one.

    From the validation boards alone; empty where the two arms have fewer than two seeds in common.
    """
    arm, against, metric = comparison["arm"], comparison["against"][0], comparison["metric"]
    shown, counts = [], (3, 5, 10, 20)
    if len({*study.seeds(arm)} & {*study.seeds(against)}) > 1:
        found = paired(*(study.rates(one, metric, "validation") for one in (arm, against)))
        shown = [100 * statistics.detectable(found, n) for n in counts]
    return pd.DataFrame({"seeds": counts[: len(shown)], "detectable, points": shown}).set_index("seeds")


def _corrected(rows: Sequence[Difference]) -> list[Difference]:
    corrected = statistics.holm([row.found.p for row in rows])
    return [replace(row, together=len(rows), holm=p) for row, p in zip(rows, corrected, strict=True)]
