"""The parts of reports/controls.md on the search by the reward: what it wins, and what its report is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from mapflake.engineer.reading import waits
from mapflake.study.cells import Study, span, together
from mapflake.study.comparisons import Difference, against_each, compare, listed, points
from mapflake.study.engineers import mean_size
from mapflake.study.names import name
from mapflake.study.statistics import paired

SEARCH, ANOTHER, MATCHED = "engineer_search", "engineer_search_another", "evaluation_matched"
AGAINST = ("fixed", ANOTHER, MATCHED)
SEARCHED = """
The [reward](../docs/method.md#training-the-engineer) of RL on designs is a formula in success rates. *Search by the
reward* guesses these rates from the report and asks for the best of 540 designs. It takes no training and no
extra samples; that the reward was chosen in [trials](laboratory.md) is not counted. No trained engineer was run on
these students, so the two are not compared. Here are other fresh students, of the training seeds {seeds_search}
(`reports/cells/search`), each told its own report or that of another student, two ages older or younger, after the same
round of the *fixed* run. Two differences were asked before the first of these cells:

{search}

Four more students, {seeds_again} (`reports/cells/search_again`), had been planned "if there is time". After these
results we decided to run them, with the same two questions for them alone:

{search_again}

For all eight students together this is the second look, so here only p < 2.5% counts:

{search_together}

Also, for all eight and not corrected:

{search_beside}

So the search is ahead of *fixed*, without RL on designs. Over these eight students it is ahead of evaluation-matched,
too, by a little; this is not corrected, and neither set of four shows it. What the search loses by another's report is
not shown to be more than nothing over these students, for it differs much between ages, and the interval takes ages
for chance. The ages were chosen beforehand, though. With each student compared with the mean of its age in place of
all, own - another's is {within} points. We chose this interval after these results, so it decides nothing on these
eight.

Eight more students, {seeds_by_age} (`reports/cells/search_by_age`), two of each age, were to decide it. Two differences
were asked of them before the first of their rounds of GRPO, with students compared within their age, and we looked
once:

{search_by_age}

Also, with the usual interval and not corrected:

{by_age_beside}

**So a student's own report is worth more to the search than that of a student two ages away**, over students of these
four ages. It is not shown that the search beats evaluation-matched, which was [asked of others
later](#does-the-search-beat-boards-drawn-as-the-benchmarks-are). Within ages, too, search - *fixed* is {ahead_within}
points.

By student, of all three sets: the valid rate on the validation boards after round 0; of the first design, told the own
report or another's, the mean side length and the share of boards that need a wait; how many points the search is
ahead of *fixed*, of evaluation-matched, and of itself told another's report, on the benchmark's boards with 2 agents;
and the last of these on those of the boards that need a wait:

{search_by_student}

What a wrong report costs is mostly about waits. Told the weakest student's report, the students of the third age were
given no boards that need a wait, and lost what they could do on them. The weakest students, who hardly solve such
boards, are given none by their own reports.

All {students} students together, after the fact and not corrected; this is the third look at half of them, so it
confirms nothing:

{search_all}
"""

AGAINST_MATCHED = """
To beat *fixed*, it may be enough to know how the benchmark's boards are drawn. Evaluation-matched draws boards in this
way, and the reward that the search follows knows it, too. Above, the search was asked to beat evaluation-matched on
{seeds_by_age}, which was not shown; on {seeds_lessons}, where it was not asked, it was ahead. So it was asked once
more, of fresh students of the training seeds {seeds_matched}, two of each age (`reports/cells/search_matched`), before
the first of their cells. We looked once:

{matched}

Also, not corrected, first with students compared within their age:

{matched_beside}

By student: the valid rate on the validation boards after round 0; of the first design, the mean side length and the
share of boards that need a wait; and how many points the search is ahead on the benchmark's boards with 2 agents:

{matched_by_student}

**So the search beats evaluation-matched**, and it is not enough to know how the benchmark's boards are drawn. The
stronger the student, the larger the boards that the search asks for. That it needs its own student's report for this is
not shown: [told the mean one](#what-do-lessons-before-rl-on-designs-add-and-is-any-report-worth-as-much-as-ones-own) of
its group, it is not shown to do worse.

All {students} students that have both arms, {seeds_all}, after the fact and not corrected:

{matched_all}
"""


def searched_markdown(sets: Sequence[Study], ages: int) -> str:
    """Returns the text on the search, from three sets of cells whose students have so many ages.

    Raises:
        ValueError: A set does not have a student of each age as often as of any other.
    """
    first, again, by_age = sets
    both, every = together(first, again), together(*sets)
    questions = {
        title: against_each(students, SEARCH, [ANOTHER, "fixed"], agents=2)
        for title, students in (("search", first), ("search_again", again), ("search_together", both))
    }
    questions["search_by_age"] = against_each(by_age, SEARCH, [ANOTHER, MATCHED], agents=2, ages=ages)
    shown = {title: listed(rows).to_markdown(disable_numparse=True) for title, rows in questions.items()}
    shown["search_beside"] = uncorrected(compare(both, [MATCHED], "fixed", agents=2) + _leads(both, [MATCHED]))
    shown["by_age_beside"], shown["search_all"] = (uncorrected(_leads(students)) for students in (by_age, every))
    (within,) = compare(both, [SEARCH], ANOTHER, agents=2, ages=ages)
    shown["within"] = points(within.estimate)
    (ahead_within,) = compare(by_age, [SEARCH], "fixed", agents=2, ages=ages)
    shown["ahead_within"] = points(ahead_within.estimate)
    shown["search_by_student"] = by_student(every, SEARCH, ["fixed", MATCHED]).to_markdown(disable_numparse=True)
    shown["students"] = str(len(every.seeds(SEARCH)))
    shown["seeds_search"], shown["seeds_again"], shown["seeds_by_age"] = map(span, sets)
    return SEARCHED.format(**shown).strip()


def matched_markdown(sets: Sequence[Study], ages: int) -> str:
    """Returns the text on search and evaluation-matched, from five sets of cells whose students have so many ages."""
    *_, by_age, taught, last = sets
    every = together(*sets)
    (question,) = compare(last, [SEARCH], MATCHED, agents=2)
    beside = compare(last, [SEARCH], MATCHED, agents=2, ages=ages) + _ahead(last)
    return AGAINST_MATCHED.format(
        seeds_by_age=span(by_age),
        seeds_lessons=span(taught),
        seeds_matched=span(last),
        seeds_all=span(every),
        matched=listed([question]).to_markdown(disable_numparse=True),
        matched_beside=uncorrected(beside),
        matched_by_student=by_student(last, SEARCH, [MATCHED, "fixed"]).to_markdown(disable_numparse=True),
        students=len(every.seeds(SEARCH)),
        matched_all=uncorrected(compare(every, [SEARCH], MATCHED, agents=2) + _ahead(every)),
    ).strip()


def _ahead(study: Study) -> list[Difference]:
    """Returns further leads of the search over evaluation-matched, and the leads of both over *fixed*."""
    others: list[dict[str, Any]] = [{"agents": 2, "needs_wait": True}, {"agents": 3}, {"boards": "validation"}]
    leads = [row for kept in others for row in compare(study, [SEARCH], MATCHED, **kept)]
    return leads + [row for arm in (SEARCH, MATCHED) for row in compare(study, [arm], "fixed", agents=2)]


def _leads(study: Study, with_two_agents: Sequence[str] = AGAINST) -> list[Difference]:
    """Returns leads of the search with 2 agents, and over all of `AGAINST` with 3 and on the validation boards."""
    kept: list[dict[str, Any]] = [{"agents": 3}, {"boards": "validation"}]
    leads = against_each(study, SEARCH, with_two_agents, agents=2)
    return leads + [row for some in kept for row in against_each(study, SEARCH, AGAINST, **some)]


def uncorrected(rows: Sequence[Difference]) -> str:
    """Returns differences as a table in Markdown, without p-values."""
    return listed([replace(row, holm=None) for row in rows]).drop(columns="p").to_markdown(disable_numparse=True)


def by_student(study: Study, engineer: str, others: Sequence[str]) -> pd.DataFrame:
    """Returns what an engineer asks for first: a row a seed, the weakest first.

    Beside it is how far it ends ahead of `others` with 2 agents. If it was told another student's report as well, what
    it asks for then is there, too, and how far it ends ahead of itself.
    """
    another = f"{engineer}_another"
    arms = {"own": engineer, "another's": another} if study.seeds(another) else {"own": engineer}
    compared = {name(arm).removesuffix(" configuration"): arm for arm in others}
    compared |= {told: arm for told, arm in arms.items() if arm != engineer}
    ends = {arm: study.rates(arm, agents=2).mean(axis=1) for arm in (engineer, *compared.values())}
    rounds = {seed: {arm: study.history(arm, seed)[:2] for arm in arms.values()} for seed in study.seeds(engineer)}
    rows = {}
    for seed in sorted(rounds, key=lambda seed: rounds[seed][engineer][0].report.valid_rate):
        row = {"round 0: valid": f"{rounds[seed][engineer][0].report.valid_rate:.1%}"}
        configs = {told: rounds[seed][arm][1].config for told, arm in arms.items()}
        row |= {f"size, {told}": f"{mean_size(config):.1f}" for told, config in configs.items()}
        row |= {f"waits, {told}": f"{waits(config):.2f}" for told, config in configs.items()}
        for title, other in compared.items():
            row[f"own - {title}"] = f"{100 * (ends[engineer][seed] - ends[other][seed]):+.1f}"
        rows[seed] = row
    if another in arms.values():
        apart = paired(*(study.rates(arm, agents=2, needs_wait=True) for arm in arms.values())).mean(axis=1)
        for seed, row in rows.items():
            row["own - another's, with a wait"] = f"{100 * apart[seed]:+.1f}"
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("seed")
