"""The part of reports/controls.md on the search by the reward: what it wins, and what its report is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from mapflake.engineer.reading import waits
from mapflake.study.cells import Study, span, together
from mapflake.study.comparisons import Difference, against_each, compare, listed, points
from mapflake.study.engineers import mean_size

SEARCH, ANOTHER, MATCHED = "engineer_search", "engineer_search_another", "evaluation_matched"
SEARCHED = """
The [reward](../docs/method.md#training-the-engineer) of RL on designs is a formula in success rates. *Search by the
reward* guesses these rates from the report and asks for the best of 540 designs. It takes no training and no
extra samples; that the reward was chosen in [trials](laboratory.md) is not counted. No trained engineer was run on
these students, so the two are not compared. Here are other fresh students, of the training seeds {seeds_search}
(`reports/cells/search`), each told its own report or that of another student, two ages older or younger, after the same
round of the *fixed* run. Two differences were asked before the first of these cells:

{search}

After these results we decided to run four more students, {seeds_again} (`reports/cells/search_again`), and wrote down
the same two questions for them alone:

{search_again}

For all eight students together this is the second look, so here p counts below 2.5% only:

{search_together}

Beside them, for all eight and not corrected:

{search_beside}

By student: the valid rate on the validation boards after round 0; of the first design, told the own report or
another's, the mean side length and the share of boards that need a wait; and how many points the search is ahead of
*fixed*, and of itself told another's report, on the benchmark's boards with 2 agents:

{search_by_student}

So the search is ahead of *fixed*, without RL on designs. Over all eight students it is ahead of evaluation-matched,
too, by a little; this is not corrected, and neither set of four shows it. What the search loses by another's report is
not shown to be more than nothing over all students, for it differs much between ages, and the interval takes ages for
chance. Two students lose much: told the weakest student's report, they were given no boards that need a wait, and lost
what they could do on them. The ages were chosen beforehand, though. With each student compared with the mean of its age
in place of all, own - another's is {within} points. We chose this interval after these
results, so it decides nothing here; eight other students were begun to decide it ([log](log.md)).
"""


def searched_markdown(sets: Sequence[Study], ages: int) -> str:
    """Returns the text on the search, from two sets of cells whose students have so many ages.

    Raises:
        ValueError: The sets do not have a student of each age as often as of any other.
    """
    first, again = sets
    both = together(first, again)
    questions = {
        title: against_each(students, SEARCH, [ANOTHER, "fixed"], agents=2)
        for title, students in (("search", first), ("search_again", again), ("search_together", both))
    }
    shown = {title: listed(rows).to_markdown(disable_numparse=True) for title, rows in questions.items()}
    shown["search_beside"] = _uncorrected(
        compare(both, [MATCHED], "fixed", agents=2)
        + against_each(both, SEARCH, [MATCHED], agents=2)
        + against_each(both, SEARCH, ["fixed", ANOTHER, MATCHED], agents=3)
        + against_each(both, SEARCH, ["fixed", ANOTHER, MATCHED], boards="validation")
    )
    (within,) = compare(both, [SEARCH], ANOTHER, agents=2, ages=ages)
    shown["within"] = points(within.estimate)
    shown["search_by_student"] = _by_student(both).to_markdown(disable_numparse=True)
    shown["seeds_search"], shown["seeds_again"] = map(span, sets)
    return SEARCHED.format(**shown).strip()


def _uncorrected(rows: Sequence[Difference]) -> str:
    """Returns differences as a table in Markdown, without p-values."""
    return listed([replace(row, holm=None) for row in rows]).drop(columns="p").to_markdown(disable_numparse=True)


def _by_student(study: Study) -> pd.DataFrame:
    """Returns what the search asks for first and its leads with 2 agents: a row a training seed, the weakest first."""
    arms, rows = {"own": SEARCH, "another's": ANOTHER}, {}
    ends = {arm: study.rates(arm, agents=2).mean(axis=1) for arm in ("fixed", *arms.values())}
    rounds = {seed: {arm: study.history(arm, seed)[:2] for arm in arms.values()} for seed in study.seeds(SEARCH)}
    for seed in sorted(rounds, key=lambda seed: rounds[seed][SEARCH][0].report.valid_rate):
        row = {"round 0: valid": f"{rounds[seed][SEARCH][0].report.valid_rate:.1%}"}
        configs = {told: rounds[seed][arm][1].config for told, arm in arms.items()}
        row |= {f"size, {told}": f"{mean_size(config):.1f}" for told, config in configs.items()}
        row |= {f"waits, {told}": f"{waits(config):.2f}" for told, config in configs.items()}
        for title, other in (("own - fixed", "fixed"), ("own - another's", ANOTHER)):
            row[title] = f"{100 * (ends[SEARCH][seed] - ends[other][seed]):+.1f}"
        rows[seed] = row
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("seed")
