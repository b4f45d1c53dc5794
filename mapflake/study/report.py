"""Comparisons of arms, and the tables and sentences made of them; no number of a conclusion is typed anywhere.

Differences are in points (percent of all answers), paired by seed and board. A sentence says that a difference is seen
where the 95% interval leaves out zero; of several arms, where p is below 5% after Holm's correction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from mapflake.study import statistics
from mapflake.study.cells import Study
from mapflake.study.designs import changes
from mapflake.study.names import BASE, BEGINNINGS, METRICS, ROUND_0, name
from mapflake.study.records import code_sha256
from mapflake.study.statistics import Estimate, estimate, paired

ASKED: Mapping[str, Any] = {"metric": "valid", "arm": "engineer", "against": ["fixed"], "boards": "benchmark"}

VERBS = {"valid": "solves", "optimal": "solves optimally", "soc_optimal": "solves with the least sum of costs"}

PAPER = {
    "base": ("Qwen3-4B, no training", {3: (14.83, 14.00), 4: (3.43, 3.05), 5: (1.44, 1.22)}),
    "fixed": ("GRPO, fixed random configuration", {3: (40.42, 26.08), 4: (26.67, 16.10), 5: (15.11, 9.11)}),
    "base_engineer": ("GRPO, engineer: untrained base", {3: (45.21, 30.00), 4: (27.62, 19.62), 5: (16.00, 10.89)}),
    "engineer": ("GRPO, engineer: RL checkpoint", {3: (51.67, 31.67), 4: (33.14, 21.33), 5: (18.67, 11.00)}),
}
"""Our arm -> the paper's name of it (arXiv 2606.17682) and, by agents, its valid and optimal rates in percent."""


@dataclass(frozen=True)
class Difference:
    """An arm against others.

    Attributes:
        arm: The arm.
        found: Mean difference, a share.
        holm: p-value corrected for the number of arms compared together; None with one seed.
        by_seed: Mean difference of each seed.
    """

    arm: str
    found: Estimate
    holm: float | None
    by_seed: tuple[float, ...]

    @property
    def seen(self) -> bool:
        """Whether p is below 5% after Holm's correction."""
        return self.holm is not None and self.holm < 0.05


def compare(
    study: Study, arms: Sequence[str], against: str | Sequence[str], metric: str = "valid", **boards: int
) -> list[Difference]:
    """Returns the difference of each arm to `against`, on the benchmark.

    Arms without a seed in common with it are left out, and so is `against`; the list is empty if that was not run.

    Args:
        study: Finished cells.
        arms: The arms, corrected together.
        against: An arm, or several, of which the mean is taken.
        metric: One of `names.METRICS`.
        boards: Boards of the benchmark to keep, e.g. `agents=2`; `validation=1` takes the validation boards instead,
            `held_out=1` those like them that no designer sees.
    """
    others = [against] if isinstance(against, str) else list(against)
    common = set.intersection(*({*study.seeds(other)} for other in others)) if others else set()
    kept = [arm for arm in arms if arm not in others and common & {*study.seeds(arm)}]

    def rates(arm: str) -> pd.DataFrame:
        if "validation" in boards:
            return study.validation(arm, metric)
        return study.held_out(arm, metric) if "held_out" in boards else study.benchmark(arm, metric, **boards)

    if "held_out" in boards and "held_out" not in study.sets:
        return []
    found = {arm: paired(rates(arm), *map(rates, others)) for arm in kept}
    estimates = [estimate(values) for values in found.values()]
    corrected = statistics.holm([one.p for one in estimates])
    return [
        Difference(arm, one, p, tuple(found[arm].mean(axis=1)))
        for arm, one, p in zip(kept, estimates, corrected, strict=True)
    ]


def power(study: Study, comparison: Mapping[str, Any] = ASKED) -> pd.DataFrame:
    """Returns the difference, in points, that each number of seeds would show in 4 of 5 studies like this one.

    From the validation boards alone; empty where the two arms have fewer than two seeds in common.
    """
    arm, against, metric = comparison["arm"], comparison["against"][0], comparison["metric"]
    shown, counts = [], (3, 5, 10, 20)
    if len({*study.seeds(arm)} & {*study.seeds(against)}) > 1:
        found = paired(study.validation(arm, metric), study.validation(against, metric))
        shown = [100 * statistics.detectable(found, n) for n in counts]
    return pd.DataFrame({"seeds": counts[: len(shown)], "detectable, points": shown}).set_index("seeds")


def asked(study: Study, comparison: Mapping[str, Any] = ASKED) -> dict[str, Difference]:
    """Returns the arm of the questions asked first against each other one, by its name, corrected for their number."""
    arm, metric, boards = comparison["arm"], comparison["metric"], boards_of(comparison)
    rows = {other: compare(study, [arm], other, metric, **boards) for other in comparison["against"]}
    found = {other: one for other, (one,) in ((other, row) for other, row in rows.items() if row)}
    corrected = statistics.holm([one.found.p for one in found.values()])
    return {other: replace(one, holm=p) for (other, one), p in zip(found.items(), corrected, strict=True)}


# ---------------------------------------------------------------- tables


def points(found: Estimate, star: bool = False) -> str:
    """Returns a difference as text: points, and the 95% interval if there is one; `star` marks it as seen."""
    return f"{100 * found.mean:+.1f}{_interval(found, '+.1f')}" + ("*" if star else "")


def _interval(found: Estimate, form: str, words: str = "") -> str:
    if found.low is None or found.high is None:
        return ""
    return f" ({words}{100 * found.low:{form}} to {100 * found.high:{form}})"


def table(study: Study, arms: Sequence[str] | None = None) -> pd.DataFrame:
    """Returns the results table as text, a row for each of `arms`: rates in percent, differences in points.

    With 95% intervals; all arms that there are, unless given.
    """
    chosen = [arm for arm in arms or [*BEGINNINGS, *study.arms] if study.seeds(arm)]
    found: dict[str, dict[str, Any]] = {"seeds": {arm: len(study.seeds(arm)) for arm in chosen}}
    columns = {"held out, valid %": study.held_out} if "held_out" in study.sets else {}
    columns |= {f"{metric} %": study.benchmark for metric in ("valid", "optimal")}
    for title, rates in columns.items():
        shares = {arm: estimate(rates(arm, "optimal" if "optimal" in title else "valid")) for arm in chosen}
        found[title] = {arm: f"{100 * e.mean:.1f}{_interval(e, '.1f')}" for arm, e in shares.items()}
    asked: dict[str, tuple[str, dict[str, int]]] = {
        "held out against fixed": ("fixed", {"held_out": 1}),
        "valid against fixed": ("fixed", {}),
        "valid against evaluation-matched": ("evaluation_matched", {}),
        "on validation against fixed": ("fixed", {"validation": 1}),
    }
    for title, (other, boards) in asked.items():
        if other in chosen and (rows := compare(study, chosen, other, "valid", **boards)):
            found[title] = {d.arm: points(d.found, d.seen) for d in rows}
    return pd.DataFrame(found).fillna("").rename(index=name).rename_axis("arm")


def beside_paper(study: Study) -> pd.DataFrame:
    """Returns the paper's rates and ours: valid / optimal in percent by agents, in brackets the gain over fixed."""

    def ours(arm: str, n: int) -> tuple[float, ...]:
        return tuple(100 * study.benchmark(arm, m, agents=n).to_numpy().mean() for m in ("valid", "optimal"))

    columns: dict[str, dict[str, tuple[float, ...]]] = {}
    for n in PAPER["fixed"][1]:
        columns[f"paper, {n} agents"] = {arm: PAPER[arm][1][n] for arm in PAPER}
    for n in sorted({*study.boards["agents"]}):
        columns[f"ours, {n} agents"] = {arm: ours(arm, n) for arm in PAPER if study.seeds(arm)}
    cells: dict[str, dict[str, str]] = {}
    for title, rates in columns.items():
        cells[title] = {PAPER[arm][0]: "{:.1f} / {:.1f}".format(*both) for arm, both in rates.items()}
        for arm in rates.keys() - {BASE, "fixed"} if "fixed" in rates else ():
            cells[title][PAPER[arm][0]] += f" ({rates[arm][0] - rates['fixed'][0]:+.1f})"
    return pd.DataFrame(cells, index=[label for label, _ in PAPER.values()]).fillna("")


# ---------------------------------------------------------------- sentences


def sentence(study: Study, arm: str, against: str, metric: str = "valid", **boards: int) -> str:
    """Returns one comparison in words, with its interval and whether a difference is seen; "" if it was not run.

    Arguments as `compare`.
    """
    rows = compare(study, [arm], against, metric, **boards)
    return _said(rows[0], against, metric, **boards) if rows else ""


def _said(row: Difference, against: str, metric: str, corrected: int = 1, **boards: int) -> str:
    """Returns a difference in words, as one of `corrected` questions."""
    found = row.found
    where = _where(found.boards, **boards)
    more = "more" if found.mean >= 0 else "less"
    said = (
        f"*{name(row.arm)}* {VERBS[metric]} {100 * abs(found.mean):.2f} points {more} of {where} than *{name(against)}*"
    )
    if found.seeds == 1:
        return f"With one training seed, {said}; one seed gives no interval, so this says nothing about other seeds."
    interval = _interval(found, "+.2f", "95% interval ")
    holm = f" (p = {row.holm:.2g} after Holm's correction for {corrected} questions)" if corrected > 1 else ""
    return f"Over {found.seeds} training seeds, {said}{interval}: {'a' if row.seen else 'no'} difference is seen{holm}."


def _where(number: int, **boards: int) -> str:
    """Returns in words which boards an estimate is of."""
    sets = {"validation": "the validation boards", "held_out": f"{number} held-out boards"}
    where = next((sets[key] for key in boards if key in sets), f"the benchmark's {number} boards")
    return where + "".join(f" with {n} agents" for key, n in boards.items() if key == "agents")


def sentences(study: Study, comparison: Mapping[str, Any] = ASKED) -> dict[str, str]:
    """Returns all conclusions in words, by topic; what was not run is left out.

    Topics: asked, paper, validation, training, arms, matched, model, trained, contexts, designs, agents.
    """
    arm, others, metric = (comparison[key] for key in ("arm", "against", "metric"))
    agents, there, against = sorted({*study.boards["agents"]}), boards_of(comparison), others[0]
    rows = asked(study, comparison)
    answers = [
        _said(rows[other], other, metric, len(rows), **there)
        if other in rows
        else f"*{name(arm)}* against *{name(other)}*: not run."
        for other in others
    ]
    found = {
        "asked": " ".join(answers),
        "paper": _beside_gain(study, arm, against, metric),
        "validation": sentence(study, arm, against, metric, validation=1),
        "training": sentence(study, "fixed", BASE, "valid", **there),
        "arms": _which(study, "fixed", **there),
        "matched": _which(study, "evaluation_matched", **there),
        "model": sentence(study, "base_engineer", "engineer", "valid", **there),
        "trained": " ".join(
            said
            for one in ("fixed", "engineer", "trained_shuffled", "trained_schema_only", "learnability", "uniform")
            if not (arm == "trained_engineer" and one in others)
            and (said := sentence(study, "trained_engineer", one, metric, **there))
        ),
        "contexts": " ".join(
            sentence(study, one, "engineer", "valid", **there) for one in ("shuffled_failures", "schema_only")
        ).strip(),
        "designs": _designs(study),
        "agents": " ".join(said for n in agents if (said := _which(study, "fixed", agents=n))),
    }
    return {topic: text for topic, text in found.items() if text}


def boards_of(comparison: Mapping[str, Any]) -> dict[str, int]:
    """Returns the boards that a question is asked on, as `compare` takes them."""
    return {} if comparison["boards"] == "benchmark" else {comparison["boards"]: 1}


def _beside_gain(study: Study, arm: str, against: str, metric: str) -> str:
    """Returns whether the interval of a comparison that the paper made leaves out a gain in proportion to its own."""
    rows = compare(study, [arm], against, metric)
    if not rows or not {arm, against} <= {*PAPER} or metric not in ("valid", "optimal"):
        return ""
    theirs = [PAPER[one][1][3][("valid", "optimal").index(metric)] for one in (arm, against)]
    gain = theirs[0] / theirs[1] - 1
    found = rows[0].found
    here = gain * float(study.benchmark(against, metric).to_numpy().mean())
    said = f"The paper's gain with 3 agents is {gain:.0%} of *{name(against)}*, in proportion {100 * here:+.2f} points"
    if found.low is None or found.high is None:
        return f"{said}."
    return f"{said}, which the interval {'includes' if found.low <= here <= found.high else 'leaves out'}."


def _which(study: Study, against: str, **boards: int) -> str:
    """Returns which arms are seen to differ from one, after Holm's correction; "" if there is none to compare."""
    if not (rows := compare(study, study.arms, against, "valid", **boards)):
        return ""
    where = _where(rows[0].found.boards, **boards)
    if all(row.found.seeds == 1 for row in rows):
        return f"On {where} one seed gives no interval: none of {len(rows)} arms can be told from *{name(against)}*."
    seen = [f"*{name(row.arm)}* {points(row.found)}" for row in rows if row.seen]
    said = f"On {where}, of {len(rows)} arms against *{name(against)}*, corrected for"
    return f"{said} their number, a difference is seen for {'; '.join(seen) or 'none'}."


def _designs(study: Study) -> str:
    """Returns how the engineer's designs look, and how far other designers' are from them."""
    rows = changes(study)
    if rows.empty or "engineer" not in set(rows["arm"]):
        return ""
    own, parts = rows[rows["arm"] == "engineer"], []
    side = "below" if own["below_frontier"].mean() >= 0 else "above"
    parts.append(f"the engineer asks for boards {abs(own['below_frontier'].mean()):.1f} sizes {side} its frontier")
    if own["kept"].notna().any():
        parts.append(f"leaves {own['kept'].mean():.0%} of the settings that worked as they were")
    others = rows[rows["arm"] != "engineer"].dropna(subset="unlike")
    for model, who in ((True, "other contexts and models"), (False, "rules and fixed configurations")):
        by_arm = others[others["model"] == model].groupby("arm")["unlike"].mean()
        if len(by_arm):
            parts.append(f"{who} ask for {by_arm.min():.0%} to {by_arm.max():.0%} other boards than it does")
    return f"On average {'; '.join(parts)}."


# ---------------------------------------------------------------- files


def readme_blocks(study: Study, comparison: Mapping[str, Any] = ASKED, *more: str) -> dict[str, str]:
    """Returns the parts of the README that hold numbers, as Markdown: "answer", to which `more` is added, "results"."""
    said = sentences(study, comparison)
    topics = ("asked", "trained", "training", "arms", "matched", "designs")
    rows = table(study, [BASE, "fixed", "engineer", "base_engineer", "trained_engineer"])
    return {
        "answer": "\n".join(f"- {text}" for text in [*(said.get(topic) for topic in topics), *more] if text),
        "results": rows.drop(columns="on validation against fixed", errors="ignore").to_markdown(disable_numparse=True),
    }


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
        "p < 5% after Holm's correction for the arms of the column. Designers see the validation boards.",
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
    against = {m: {d.arm: d for d in compare(study, everyone, "fixed", m)} for m in METRICS}
    strata = {key: sorted({*study.boards[key].tolist()}) for key in ("agents", "size")}

    def rates(arm: str, **boards: int) -> dict[str, dict[str, float]]:
        return {m: _json(estimate(study.benchmark(arm, m, **boards))) for m in METRICS}

    found, by_round = {}, []
    for arm in everyone:
        rows = {m: compared[arm] for m, compared in against.items() if arm in compared}
        found[arm] = {
            "all": rates(arm),
            **{f"by_{key}": {str(v): rates(arm, **{key: v}) for v in values} for key, values in strata.items()},
            "against_fixed": {m: _json(d.found, holm=d.holm) for m, d in rows.items()},
        }
        for i, index in enumerate(measured_rounds(study, arm)):
            means = {m: round(float(study.validation(arm, m, i).to_numpy().mean()), 4) for m in METRICS}
            by_round.append({"arm": name(arm), "round": index, **means})
    answers = {other: _json(row.found, holm=row.holm) for other, row in asked(study, comparison).items()}
    return {"asked": {**comparison, "against": answers}, "benchmark": found, "validation_by_round": by_round}


def measured_rounds(study: Study, arm: str) -> list[int]:
    """Returns the rounds after which an arm was measured on the validation boards: -1 for the model before RL."""
    first = {BASE: -1, ROUND_0: 0}.get(arm, 1)
    return [first + i for i in range(len(study.records[arm, study.seeds(arm)[0]].validation))]


def _json(found: Estimate, **more: float | None) -> dict[str, float]:
    return {key: round(value, 4) for key, value in (vars(found) | more).items() if value is not None}
