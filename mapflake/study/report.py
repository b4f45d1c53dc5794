"""The tables and files of any study: the table of results, results.md and metrics.json."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mapflake.study import engineers, paper
from mapflake.study.cells import Study
from mapflake.study.comparisons import ASKED, Difference, asked, compare, corrected, listed, points
from mapflake.study.designs import spent, tokens
from mapflake.study.names import BASE, BEGINNINGS, name
from mapflake.study.records import METRICS, code_sha256
from mapflake.study.statistics import Estimate, estimate, t_estimate

TRAINED = "engineer_trained"
EXTRA = """ Extra samples are rollouts and replies beyond the rounds that all arms train, as a
share of the samples of those rounds; trials that chose a constant design are not counted."""
PER_TOKEN = """ Points per million tokens are the points gained since
before RL, on boards with the smallest number of agents, by tokens sampled for training from round 0 on; extra answers
and replies are counted at the mean length of an answer in round 0, answers to validation boards are not counted."""
QUESTIONS = "## The questions (`analysis.comparison` of params.yaml)"
DESIGN_RL = """The mean reward of a design, of the engineer before and after design RL and of others, with 95% intervals
over seeds (fewer than three seeds: each one's value). *own*: in its own situation; *another's*: the same
designs in situations of other policies; *shuffled*: the designs made from a report whose rows were
swapped between sizes. *accepted*: the share of replies that are legal. *reading*: own minus another's; at
0, designs earn as much in other policies' situations, even where they differ from report to report.
*moved*: the share of the data that goes to other sizes after the swap."""


def table(study: Study) -> pd.DataFrame:
    """Returns the results table as text, one row for each arm: rates in percent, differences in points of valid plans.

    Differences have 95% intervals; rates have none, for students differ in strength. Extra samples: `designs.spent`.
    Points per million tokens are those gained since before RL, with the smallest number of agents (`designs.tokens`).
    """
    everyone = _everyone(study)
    columns: dict[str, dict[str, Any]] = {"seeds": {arm: len(study.seeds(arm)) for arm in everyone}}
    agents: dict[str, dict[str, Any]] = {f"{n} agents": {"agents": n} for n in sorted({*study.boards["agents"]})}
    measured = {f"valid %, {title}": ("valid", b) for title, b in agents.items()} | {"optimal %": ("optimal", {})}
    for title, (metric, boards) in measured.items():
        shares = {arm: study.rates(arm, metric, **boards).to_numpy().mean() for arm in everyone}
        columns[title] = {arm: f"{100 * share:.1f}" for arm, share in shares.items()}
    everywhere = f"all {len(study.boards)} boards"
    waits = {"boards that need a wait": {"needs_wait": True}} if study.boards["needs_wait"].any() else {}
    places = agents | {everywhere: {}} | waits | {"validation": {"boards": "validation"}}
    differences = {f"{title}, against fixed": ("fixed", boards) for title, boards in places.items()}
    differences[f"{everywhere}, against evaluation-matched"] = ("evaluation_matched", {})
    for title, (against, boards) in differences.items():
        if rows := compared(study, against, **boards):
            columns[title] = {row.arm: points(row.estimate, row.significant) for row in rows}
    if extra := {arm: f"{share:+.0%}" for arm, share in spent(study)["extra"].items()}:
        columns["extra samples"] = extra
    gained = {row.arm: 100 * row.estimate.mean for row in compare(study, everyone, BASE, **next(iter(agents.values())))}
    if used := {arm: f"{gained[arm] / million:.1f}" for arm, million in tokens(study).items() if arm in gained}:
        columns["points per million tokens"] = used
    return pd.DataFrame(columns).astype(object).fillna("").rename(index=name).rename_axis("arm")


def _everyone(study: Study) -> list[str]:
    return [arm for arm in (*BEGINNINGS, *study.arms) if study.seeds(arm)]


def in_parts(table: pd.DataFrame) -> str:
    """Returns `table` as Markdown in two tables, rates and differences: it is too wide for a page."""
    differences = [column for column in table if "against" in column]
    parts = [table.drop(columns=differences), table[differences]] if differences else [table]
    return "\n\n".join(part.to_markdown(disable_numparse=True) for part in parts)


def compared(study: Study, against: str, **asked: Any) -> list[Difference]:
    """Returns `compare` of all arms with one arm, corrected together; those of `BEGINNINGS` separately."""
    return [row for arms in (BEGINNINGS, study.arms) for row in compare(study, arms, against, **asked)]


def results_markdown(
    study: Study,
    profile: str,
    comparison: Mapping[str, Any] = ASKED,
    design_rl: engineers.Records = (),
    planned: Sequence[int] | None = None,
    ages: int = 1,
) -> str:
    """Returns the text of reports/results.md: the full table, the questions, and the commits of the cells.

    `comparison` is the questions that were written down beforehand, `design_rl` is from `engineers.load`, `ages` the
    number of ages of students. The text says which of the training seeds that were `planned` are there.
    """
    made = [record.made for record in study.records.values()]
    commits = ", ".join(sorted({origin.commit or "no commit" for origin in made}))
    unclean = sum(not origin.clean for origin in made)
    origins = [f"The cells were made at these commits: {commits}."]
    if unclean:
        origins.append(
            f"When {unclean} of them were made, files other than results and params.yaml had been changed or added."
        )
    if all(origin.code_sha256 == code_sha256() for origin in made):
        origins.append("The code that decides results is still the same.")
    else:
        origins.append(
            "The code that decides results has changed since: `dvc repro` would train these cells anew; a checkout of "
            "its commit makes a cell again, on the same kind of processor."
        )
    parts = [
        f"# Results, profile {profile}",
        "The names of arms and columns are explained in the [glossary](../docs/glossary.md).",
        "## The questions that were written down before the first run" if profile == "study" else QUESTIONS,
        answers(study, comparison).to_markdown(disable_numparse=True),
        "The p-values of a table are corrected together (Holm). A star marks p < 5%.",
    ]
    arm = comparison["arm"]
    if arm not in study.arms:
        parts.append(f"There is no cell of the arm that the questions are about ({name(arm)}).")
        arm = "fixed"
    done = [seed for seed in study.seeds(arm) if seed in (planned or ())]
    if planned and len(done) < len(planned):
        progress = f"{len(done)} of {len(planned)} planned training seeds are there ({', '.join(map(str, done))})"
        parts.append(f"**The study is not finished**: {progress}.")
    if not (differences := not_asked(study, comparison)).empty:
        parts += ["## Other differences, not among these questions", differences.to_markdown(disable_numparse=True)]
    if any(study.history(TRAINED, seed) for seed in study.seeds(TRAINED)):
        parts.append(_of_the_trained(study, ages))
    parts += [
        "## All arms: rates, and differences in points",
        "**Do not compare the rates of two rows**: arms have different training seeds, whose students differ in\n"
        "strength. The differences in the second table are paired by seed and board. Arms with fewer seeds were added\n"
        "later, stopped for want of time, or lack cells that were left out after they had been seen; the\n"
        "[log](log.md) says which.",
        in_parts(table(study)),
        f"There are {len(made)} cells (arm x training seed); the [log](log.md) names any that were run and left\n"
        f"out. Policies answer at temperature 1; the benchmark has {len(study.boards)} different boards.\n"
        "Rates are means in percent over an arm's own training seeds,\n"
        "differences are in points of valid plans. Brackets hold 95% intervals over training seeds and boards; one\n"
        "seed gives none. A star marks p < 5% after Holm's correction for all arms of the column; *before RL* and\n"
        "*round 0* are corrected apart from them. Designers see the validation boards only."
        + ("" if spent(study)["extra"].empty else EXTRA)
        + ("" if tokens(study).empty else PER_TOKEN),
        "## The paper's claims",
        "A difference that should be above zero, with its 95% interval; not corrected for the number of claims.",
        paper.claims(study).to_markdown(disable_numparse=True),
    ]
    if design_rl:
        cost = engineers.solving(design_rl)
        parts += [
            "## Design RL",
            f"Before round 0, it changes the valid rate on the validation boards by {points(cost)} points\n"
            f"({cost.seeds} seeds).",
            DESIGN_RL,
        ]
        for situations, rows in engineers.table(design_rl).groupby(level=0, sort=False):
            shown = rows.droplevel(0).rename_axis("designs").to_markdown(disable_numparse=True)
            parts += [f"### Situations: {situations}", shown]
    return "\n\n".join([*parts, "\n".join(origins)]) + "\n"


def _of_the_trained(study: Study, ages: int) -> str:
    """Returns sentences on the trained engineer: its late start, its optimal plans, and its first designs."""
    lead, fewest = engineers.head_start(study, TRAINED), study.boards["agents"].min()
    sentences = [
        "After round 0, before its first design, the policy of the trained engineer differs from that of the other arms"
        f" by {points(lead)} points on the validation boards ({lead.seeds} training seeds). Its differences from arms"
        " with other weights include this."
    ]
    for row in compare(study, [TRAINED], "fixed", "optimal", agents=fewest):
        sentences.append(
            f"In *optimal* plans it differs from the fixed configuration by {points(row.estimate)} points on boards"
            f" with {fewest} agents ({row.estimate.seeds} training seeds)."
        )
    designs = engineers.first_designs(study, ages) if ages > 1 else pd.DataFrame()
    if len(designs):  # of both reports, and not rejected
        response = t_estimate(designs["response"].to_numpy())
        sentences.append(
            "Told another student's report, it first asks for boards whose mean side length differs by"
            f" {response.text('+.1f')} squares in the direction of that student's strength ({response.seeds} training"
            " seeds)."
        )
    return textwrap.fill(" ".join(sentences), 110)


def answers(study: Study, comparison: Mapping[str, Any] = ASKED) -> pd.DataFrame:
    """Returns the questions that were written down beforehand as a table of text."""
    return listed(asked(study, comparison))


def not_asked(study: Study, comparison: Mapping[str, Any] = ASKED) -> pd.DataFrame:
    """Returns further differences, which no question asked for, as a table of text.

    The rows are the difference of the first question on the validation boards, and the lead of the trained engineer
    over the paper's engineer for each number of agents.
    """
    arm, first, metric = comparison["arm"], comparison["against"][0], comparison["metric"]
    rows = compare(study, [arm], first, metric, "validation") if study.seeds(arm) and study.seeds(first) else []
    if TRAINED in study.arms and "engineer" not in comparison["against"]:
        for agents in sorted({*study.boards["agents"]}):
            rows += compare(study, [TRAINED], "engineer", agents=agents)
    return listed(corrected(rows))


def metrics(study: Study, comparison: Mapping[str, Any] = ASKED) -> dict[str, Any]:
    """Returns the content of metrics.json: every rate and difference as a share, with 95% intervals over several seeds.

    Keys: `asked`, the comparisons that were written down beforehand, by the arm compared with; `benchmark`, by arm,
    with `all`, `by_agents`, `by_size` and `against_fixed`; `validation_by_round`, a row for each arm and round.
    """
    against = {m: {row.arm: row for row in compared(study, "fixed", metric=m)} for m in METRICS}
    strata = {key: sorted({*study.boards[key].tolist()}) for key in ("agents", "size")}

    def rates(arm: str, **selection: int) -> dict[str, dict[str, float]]:
        return {m: _json(estimate(study.rates(arm, m, "benchmark", **selection))) for m in METRICS}

    on_benchmark, by_round = {}, []
    for arm in _everyone(study):
        rows = {m: by_arm[arm] for m, by_arm in against.items() if arm in by_arm}
        on_benchmark[arm] = {
            "all": rates(arm),
            **{f"by_{key}": {str(v): rates(arm, **{key: v}) for v in values} for key, values in strata.items()},
            "against_fixed": {m: _json(row.estimate, holm=row.holm) for m, row in rows.items()},
        }
        for i, index in enumerate(study.measured_rounds(arm)):
            means = {m: study.rates(arm, m, "validation", index=i).to_numpy().mean() for m in METRICS}
            by_round.append({"arm": name(arm), "round": index} | {m: round(float(x), 4) for m, x in means.items()})
    answers = {row.against: _json(row.estimate, holm=row.holm) for row in asked(study, comparison)}
    return {"asked": {**comparison, "against": answers}, "benchmark": on_benchmark, "validation_by_round": by_round}


def _json(estimate: Estimate, **extras: float | None) -> dict[str, float]:
    return {key: round(value, 4) for key, value in (vars(estimate) | extras).items() if value is not None}
