"""reports/controls.md: published ways to choose boards, and what a report is worth, on fresh students."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from scipy.stats import f_oneway

from mapflake.engineer.designers import DYNAMIC
from mapflake.study import paper
from mapflake.study.cells import Study, span
from mapflake.study.comparisons import ASKED, against_each, compare, corrected, listed, points
from mapflake.study.engineers import earns_more, head_start, load, mean_size, solving
from mapflake.study.lessons import lessons_markdown
from mapflake.study.names import name
from mapflake.study.report import TRAINED, in_parts, results_markdown, table
from mapflake.study.searched import matched_markdown, searched_markdown
from mapflake.study.statistics import estimate, paired

SETS = (
    *("study", "controls", "without_reports", "six_rounds", "search", "search_again", "search_by_age", "lessons"),
    "search_matched",
)
"""Folders of reports/cells; no two of them have a student in common."""

WITHOUT = "trained_without_reports"
ANOTHER = f"{TRAINED}_another"
PUBLISHED = (
    "engineer",
    "engineer_base",
    "learnability",
    f"fixed{DYNAMIC}",
    "evaluation_matched",
    "frontier",
    "uniform",
)
POOLED = tuple((against, agents) for against in ("fixed", ANOTHER, "evaluation_matched") for agents in (2, 3))
TOLD = {"reading": ("another", "none"), "beside": ("near", "mean"), "contexts": ("v1", "v2")}
CONTROLS = """# Controls, on fresh students

The study ([results](results.md)) has no row for the base model as engineer, learnability, frontier, uniform or dynamic
sampling. This page has them, on students of other training seeds: {seeds} (`reports/cells/controls`). Training without
reports and the contexts V3 to V5 were tried on {seeds_without}, more rounds on {seeds_longer}, a search in place of RL
on designs on {seeds_search}, {seeds_again}, {seeds_by_age} and {seeds_matched}, and lessons before RL on designs on
{seeds_lessons}. The [log](log.md) has each question and what was expected, written down before the cells that were run
for it. The [glossary](../docs/glossary.md) explains the names of arms and columns, and [a section
below](#about-these-records) says how the records were made.

## Are published ways to choose boards ahead of *fixed*?

The paper has its engineer, the RL checkpoint, ahead of the base model as engineer. This and each arm against *fixed*
were asked before the first cell, of four students; that there would be eight was decided when three had been seen.

{published}

The p-values of a table are corrected together (Holm). A star marks p < 5%.

## Does a designer add anything to dynamic sampling?

With dynamic sampling (DAPO), groups of answers without signal are drawn again on other boards, up to four times.

{questions}

What dynamic sampling adds to each arm (the first row answers a question, too):

{added}

## Is the report worth anything?

The same trained engineer, with the same weights, is told its own student's report, another student's (of the *fixed*
run), or no report. RL on designs always told it a report; the supervised start has shown it prompts without one.

{reading}

Also, it was told the report of a student of a neighbouring age, and the pooled reports of its group:

{beside}

## Is it worth anything to have been trained with reports?

The arm *trained without reports* has the same supervised start, situations, rewards and number of replies as the
trained engineer, but no report, neither in RL on designs nor between rounds: its prompts have the task and the form of
a reply alone. So it can learn which design is good on average, and nothing about its student. Other fresh students
answer this, of the training seeds {seeds_without} (`reports/cells/without_reports`); eight were planned, and 51 was not
finished. Two differences were asked:

{without}

Also:

{without_fixed}

So it is not shown that training with reports is worth anything, nor that the trained engineer is ahead of *fixed* on
these students, as it was in the study and, before correction for all arms, on the first fresh students. The rates,
differences and points per token, as explained below the table of all arms:

{arms_without}

Both engineers have weights of their own, so the differences are between whole engineers, not reports alone. RL on
designs changes the valid rate on the validation boards by {solving} points, without reports by {solving_without}. After
round 0, before the first design, this rate of the trained engineer differs from that of the shared round 0 by
{head_start} points, that of the one without reports by {head_start_without}. In unseen situations of RL on designs, the
reward of the trained engineer's designs minus that of the other's is

{earned}

First designs, by the valid rate after round 0; *size* is the mean side length of the boards asked for:

{first_designs}

## What does each section of its prompt add?

The same engineer, trained and elsewhere asked in context V6, is asked in contexts with other
[sections](../docs/method.md#what-the-engineer-reads):

{contexts}

Contexts V3 to V5 were asked of the other fresh students, {seeds_without}:

{more_contexts}

So V6 is not shown to be ahead of V1 to V5. In the paper, it is ahead of
{modules} points on
the subset wr025; its engineer is another model, not trained on designs.

## Do more rounds change this?

Everything above ends after two designed rounds, as in the paper. Here are {rounds}, for other fresh students, of the
training seeds {seeds_longer} (`reports/cells/six_rounds`): *fixed*, the trained engineer with its own student's
report, and the same engineer with another's. Two differences were asked before the first of these cells:

{longer}

Also:

{longer_beside}

On the validation boards, after each designed round, in percent and points; these intervals are not corrected:

{by_round}

So more rounds are not shown to change anything: neither difference is clear of zero, and neither is shown to grow
from round to round. With so few students the intervals are wide.

## Does it take RL on designs to design by its reward?

{searched}

## What do lessons before RL on designs add, and is any report worth as much as one's own?

{lessons}

## Does the search beat boards drawn as the benchmark's are?

{matched}

## All students together, after the fact

Each set of students has its own questions, and they were not to be pooled. After all results were known, we pooled them
all the same: the trained engineer against another arm, over the study's students and all fresh ones in which that arm
was run, after two designed rounds or after {rounds}. The intervals are not corrected. *Sets differ* is the p-value of
an analysis of variance between the sets of students.

{pooled}

So over these students, the trained engineer leads *fixed* with 2 agents, and its own student's report leads another's
by a little; against evaluation-matched, no lead is shown. With 3 agents, which are in no training boards of a round, it
is not shown to lead any of the three, and is behind evaluation-matched. Nobody asked this beforehand, so it can suggest
questions for other students, and decides none.

## About these records

The study's students cannot be taken up again on another processor, so all of these are others. Students {seeds} have
all four ages. Eight were planned; of the last only round 0 is on record, for its report was told to the engineer of
another student. Cells of other arms had been seen when the questions about these students were written down; those
about the others were written down before any of their cells. When {unclean} of the {cells} records on this page but not
in the study were made, files other than results and params.yaml were changed or added since their commit, such as the
script that ran the cells; each record has the hash of the code that decided it.
"""


def controls_markdown(sets: Mapping[str, Study], ages: int, folder: Path) -> str:
    """Returns the text of reports/controls.md, from the cells of `SETS`, whose students have so many ages.

    `folder` has the folders of these cells, where the records of RL on designs are.
    """
    earlier, study, without, longer, *searches, taught, last = (sets[name] for name in SETS)
    plain = ("fixed", TRAINED, "evaluation_matched")
    asked_of = [f"{TRAINED}{DYNAMIC}", TRAINED, f"evaluation_matched{DYNAMIC}"]
    told = {
        title: against_each(study, TRAINED, [f"{TRAINED}_{report}" for report in reports], agents=2)
        for title, reports in TOLD.items()
    }
    tables = told | {
        "questions": compare(study, asked_of, f"fixed{DYNAMIC}", agents=2),
        "added": corrected([row for arm in plain for row in compare(study, [f"{arm}{DYNAMIC}"], arm, agents=2)]),
    }
    tables["without"] = against_each(without, TRAINED, [WITHOUT, "fixed"], agents=2)
    to_fixed = ((WITHOUT, 2), (TRAINED, 3), (WITHOUT, 3))
    tables["without_fixed"] = corrected(
        [row for arm, n in to_fixed for row in compare(without, [arm], "fixed", agents=n)]
    )
    checkpoint_over_base = compare(study, ["engineer"], "engineer_base", agents=2)
    tables["published"] = corrected(checkpoint_over_base + compare(study, PUBLISHED, "fixed", agents=2))
    tables["more_contexts"] = against_each(without, TRAINED, [f"{TRAINED}_{v}" for v in ("v3", "v4", "v5")], agents=2)
    tables["longer"] = against_each(longer, TRAINED, [ANOTHER, "fixed"], agents=2)
    tables["longer_beside"] = against_each(longer, TRAINED, [ANOTHER, "fixed"], agents=3)
    shown = {title: listed(rows).to_markdown(disable_numparse=True) for title, rows in tables.items()}
    shown["searched"] = searched_markdown(searches, ages)
    shown["seeds_search"], shown["seeds_again"], shown["seeds_by_age"] = map(span, searches)
    shown["lessons"], shown["seeds_lessons"] = lessons_markdown(taught, ages, folder / "lessons"), span(taught)
    shown["matched"], shown["seeds_matched"] = matched_markdown([*searches, taught, last], ages), span(last)
    later = (study, without, longer, *searches, taught, last)
    fresh = [record.made for students in later for record in students.records.values()]
    shown["cells"], shown["unclean"] = str(len(fresh)), str(sum(not made.clean for made in fresh))
    shown["seeds_without"], shown["arms_without"] = span(without), in_parts(table(without))
    shown["modules"] = ", ".join(f"{context} by {ahead:g}" for context, ahead in paper.MODULES.items())
    shown["head_start"], shown["head_start_without"] = (points(head_start(without, arm)) for arm in (TRAINED, WITHOUT))
    trained = folder / "without_reports"
    untold = trained / WITHOUT
    shown["solving"], shown["solving_without"] = (points(solving(load(records))) for records in (trained, untold))
    earned = earns_more(trained, untold)
    lines = (f"- {kind}: {mean.text('+.3f')}, {mean.seeds} training seeds" for kind, mean in earned.items())
    shown["earned"] = "\n".join(lines)
    shown["first_designs"] = _first_sizes(without).to_markdown(disable_numparse=True)
    shown["by_round"] = _by_round(longer).to_markdown(disable_numparse=True)
    shown["rounds"], shown["seeds_longer"] = str(longer.measured_rounds("fixed")[-1]), span(longer)
    shown["pooled"] = _pooled([earlier, study, without, longer]).to_markdown(index=False, disable_numparse=True)
    base = {**ASKED, "arm": "engineer", "against": ["engineer_base"], "agents": [2]}
    mark = "## Other differences"  # the part before it is for one arm against others
    differences = results_markdown(study, "study", base, ages=ages).split(mark, 1)[1]
    return f"{CONTROLS.format(seeds=span(study), **shown)}\n{mark}{differences}"


def _first_sizes(study: Study) -> pd.DataFrame:
    """Returns the mean side length of the boards that both engineers ask for first: a row a training seed."""
    rows: dict[int, dict[str, str]] = {}
    order = {seed: study.history(TRAINED, seed)[0].report.valid_rate for seed in study.seeds(WITHOUT)}
    for seed in sorted(order, key=lambda seed: order[seed]):
        rows[seed] = {}
        for arm in (TRAINED, WITHOUT):
            first, then = study.history(arm, seed)[:2]
            config = then.proposal.config if then.proposal else None
            rows[seed] |= {
                f"{name(arm)}: valid": f"{first.report.valid_rate:.1%}",
                f"{name(arm)}: size": f"{mean_size(config):.1f}" if config else "rejected",
            }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("seed")


def _pooled(sets: Sequence[Study]) -> pd.DataFrame:
    """Returns the trained engineer's lead over others among the students of all sets: a row for each of `POOLED`."""
    rows = []
    for against, agents in POOLED:
        studies = [study for study in sets if study.seeds(against)]
        leads = [paired(study.rates(TRAINED, agents=agents), study.rates(against, agents=agents)) for study in studies]
        mean, p = estimate(pd.concat(leads)), f_oneway(*(lead.mean(axis=1) for lead in leads)).pvalue
        rows.append([name(against), agents, mean.seeds, points(mean), f"{mean.p:.2g}", f"{p:.2g}"])
    return pd.DataFrame(rows, columns=["against", "agents", "students", "points", "p", "sets differ"])


def _by_round(study: Study) -> pd.DataFrame:
    """Returns the valid rates of three arms on the validation boards, and two differences: a row a designed round."""
    rows: dict[int, dict[str, str]] = {}
    for i, index in enumerate(study.measured_rounds("fixed")):
        rates = {arm: study.rates(arm, boards="validation", index=i) for arm in ("fixed", TRAINED, ANOTHER)}
        rows[index] = {name(arm): f"{100 * values.to_numpy().mean():.1f}" for arm, values in rates.items()}
        for title, arm in (("own report - another's", ANOTHER), ("own report - fixed", "fixed")):
            rows[index][title] = points(estimate(paired(rates[TRAINED], rates[arm])))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("designed rounds")
