"""The study's documents: the table of results, results.md and metrics.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mapflake.study.cells import Study
from mapflake.study.comparisons import ASKED, Difference, asked, compare
from mapflake.study.conclusions import percent, points, sentences
from mapflake.study.designs import spent
from mapflake.study.names import BEGINNINGS, name
from mapflake.study.records import METRICS, code_sha256
from mapflake.study.statistics import Estimate, estimate

RATES = {  # column of the table -> metric, boards
    "held out, valid %": ("valid", "held_out"),
    "valid %": ("valid", "benchmark"),
    "optimal %": ("optimal", "benchmark"),
}
DIFFERENCES = {  # column -> against, boards
    "held out against fixed": ("fixed", "held_out"),
    "valid against fixed": ("fixed", "benchmark"),
    "valid against evaluation-matched": ("evaluation_matched", "benchmark"),
    "on validation against fixed": ("fixed", "validation"),
}


def table(study: Study, arms: Sequence[str] | None = None) -> pd.DataFrame:
    """Returns the results table as text, a row for each of `arms`: rates in percent, differences in points.

    With 95% intervals, and what an arm took beside the samples of the rounds; all arms that there are, unless given.
    """
    chosen = [arm for arm in arms or [*BEGINNINGS, *study.arms] if study.seeds(arm)]
    found: dict[str, dict[str, Any]] = {"seeds": {arm: len(study.seeds(arm)) for arm in chosen}}
    for title, (metric, boards) in RATES.items():
        if study.has(boards):
            shares = {arm: estimate(study.rates(arm, metric, boards)) for arm in chosen}
            found[title] = {arm: percent(share) for arm, share in shares.items()}
    for title, (against, boards) in DIFFERENCES.items():
        if against in chosen and (rows := compared(study, against, "valid", boards)):
            found[title] = {row.arm: points(row.found, row.seen) for row in rows if row.arm in chosen}
    if besides := {arm: f"{share:+.0%}" for arm, share in spent(study)["besides"].items() if arm in chosen}:
        found["samples besides"] = besides
    return pd.DataFrame(found).fillna("").rename(index=name).rename_axis("arm")


def compared(study: Study, against: str, metric: str, boards: str = "benchmark") -> list[Difference]:
    """Returns the difference of all arms to one, corrected together, and of what all begin with, apart."""
    return [row for arms in (BEGINNINGS, study.arms) for row in compare(study, arms, against, metric, boards)]


def results_markdown(study: Study, profile: str, comparison: Mapping[str, Any] = ASKED, *more: str) -> str:
    """Returns reports/results.md: the full table, the conclusions, and the commits that the cells were made at.

    `more` are further conclusions.
    """
    made = [record.made for record in study.records.values()]
    commits = sorted({one.commit or "no commit" for one in made})
    clean = "clean" if all(one.clean for one in made) else "not clean: something beside results was changed"
    same = all(one.code_sha256 == code_sha256() for one in made)
    lines = [
        f"# Results, profile {profile}",
        "",
        table(study).to_markdown(disable_numparse=True),
        "",
        f"{len(made)} cells on {len(study.boards)} boards of the benchmark, temperature 1. Rates are in percent,",
        "differences in points, with 95% intervals over training seeds and boards where there are two seeds; a star:",
        "p < 5% after Holm's correction for all arms of the column. Designers see the validation boards. Samples",
        "besides: of design RL, probes or trials, as a share of the samples of the rounds that all arms train.",
        "",
        *(f"- {text}" for text in [*sentences(study, comparison).values(), *more] if text),
        "",
        f"Measured at {', '.join(commits)} (working tree {clean}). The code that decides a result",
        "is still the same." if same else "has changed since.",
    ]
    return "\n".join(lines) + "\n"


def metrics(study: Study, comparison: Mapping[str, Any] = ASKED) -> dict[str, Any]:
    """Returns metrics.json: every rate and difference as shares, with intervals where there are two seeds.

    Keys: `asked`, the comparisons that were named beforehand, by whom they are against; `benchmark`, by arm `all`,
    `by_agents`, `by_size` and `against_fixed`; `validation_by_round`, a row for each arm and round.
    """
    everyone = [arm for arm in (*BEGINNINGS, *study.arms) if study.seeds(arm)]
    against = {m: {row.arm: row for row in compared(study, "fixed", m)} for m in METRICS}
    strata = {key: sorted({*study.boards[key].tolist()}) for key in ("agents", "size")}

    def rates(arm: str, **kept: int) -> dict[str, dict[str, float]]:
        return {m: _json(estimate(study.rates(arm, m, "benchmark", **kept))) for m in METRICS}

    found, by_round = {}, []
    for arm in everyone:
        rows = {m: compared[arm] for m, compared in against.items() if arm in compared}
        found[arm] = {
            "all": rates(arm),
            **{f"by_{key}": {str(v): rates(arm, **{key: v}) for v in values} for key, values in strata.items()},
            "against_fixed": {m: _json(row.found, holm=row.holm) for m, row in rows.items()},
        }
        for i, index in enumerate(study.measured_rounds(arm)):
            means = {m: study.rates(arm, m, "validation", index=i).to_numpy().mean() for m in METRICS}
            by_round.append({"arm": name(arm), "round": index} | {m: round(float(x), 4) for m, x in means.items()})
    answers = {row.against[0]: _json(row.found, holm=row.holm) for row in asked(study, comparison)}
    return {"asked": {**comparison, "against": answers}, "benchmark": found, "validation_by_round": by_round}


def _json(found: Estimate, **more: float | None) -> dict[str, float]:
    return {key: round(value, 4) for key, value in (vars(found) | more).items() if value is not None}
