"""The part of reports/controls.md on an engineer with lessons before RL on designs, and a search told a mean report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mapflake.study.cells import Study, span
from mapflake.study.comparisons import against_each, compare, corrected, listed, points
from mapflake.study.engineers import head_start, load, solving, table
from mapflake.study.report import TRAINED
from mapflake.study.searched import MATCHED, SEARCH, by_student, uncorrected

ANOTHER, MEAN = f"{TRAINED}_another", f"{SEARCH}_mean"
LESSONS = """
The engineer of the study learns to design from rewards alone, and does not follow its report far. Here
[lessons](../docs/method.md#lessons) before RL on designs show it 1,600 made-up situations, each with the design that is
worth most there. The search, which needs no training, is told its own student's report or the mean one of the four
students of its group. Both are asked of fresh students of the training seeds {seeds_lessons}, two of each age
(`reports/cells/lessons`). Three differences were asked before the first of these cells; we looked once:

{lessons}

In the first and the third, students are compared within their age, as was written down. With the other interval, and
not corrected:

{lessons_other}

Also, over students and not corrected (evaluation-matched, which no question was about, was run after we had
looked, as planned):

{lessons_beside}

By student, of the engineer with lessons: the valid rate on the validation boards after its own round 0, and as above of
its first design and its leads.

{lessons_by_student}

So none of the three is shown. In made-up situations the lessons did what they were for: after them and RL on designs,
designs earn more, and depend more on the report, than those of the study's engineers
([results](results.md#design-rl)). In real situations that were held out, they earn as much
told another's report. Lessons and RL on designs change the valid rate on the validation boards by {lessons_solving}
points; after round 0, before the first design, it differs from that of the shared round 0 by {lessons_head_start}. Why
the engineer ends behind the search is not known. The search is ahead of *fixed* on these students, too, which was not
one of the questions. What designs earn, as means over students with 95% intervals, in situations that are

{lessons_rewards}
"""


def lessons_markdown(study: Study, ages: int, folder: Path) -> str:
    """Returns the text on lessons, from cells of students of so many ages; `folder` has the records of RL on designs.

    Raises:
        ValueError: There are not at least two students of each age, and of each as many.
    """
    kept: dict[str, Any] = {"agents": 2}
    told = [(SEARCH, MEAN), (TRAINED, ANOTHER)]
    mean, another = (compare(study, [arm], other, ages=ages, **kept)[0] for arm, other in told)
    over = [row for arm, other in told for row in compare(study, [arm], other, **kept)]
    lead, lead_within = (compare(study, [TRAINED], "fixed", ages=number, **kept)[0] for number in (None, ages))
    beside = against_each(study, SEARCH, ["fixed", MATCHED], **kept)
    beside += against_each(study, TRAINED, [SEARCH, MATCHED], **kept) + compare(study, [MATCHED], "fixed", **kept)
    beside += compare(study, [MEAN], MATCHED, **kept)
    others: list[dict[str, Any]] = [{"agents": 2, "needs_wait": True}, {"agents": 3}, {"boards": "validation"}]
    for some in others:
        beside += against_each(study, SEARCH, [MEAN, "fixed"], **some)
        beside += against_each(study, TRAINED, ["fixed", ANOTHER], **some)
    records = load(folder)
    rewards = [
        f"{situations}:\n\n{rows.droplevel(0).to_markdown(disable_numparse=True)}"
        for situations, rows in table(records).groupby(level=0, sort=False)
    ]
    return LESSONS.format(
        seeds_lessons=span(study),
        lessons=listed(corrected([mean, lead, another])).to_markdown(disable_numparse=True),
        lessons_other=uncorrected([over[0], lead_within, over[1]]),
        lessons_beside=uncorrected(beside),
        lessons_by_student=by_student(study, TRAINED, ["fixed", SEARCH]).to_markdown(disable_numparse=True),
        lessons_solving=points(solving(records)),
        lessons_head_start=points(head_start(study, TRAINED)),
        lessons_rewards="\n\n".join(rewards),
    ).strip()
