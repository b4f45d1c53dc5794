"""The numbered claims of README.md and docs/claims.md, each refused if its difference does not support it.

A claim is about two arms, or about designs in the trials of reports/laboratory.md (`GATE_CLAIMS`). The sentences are
written by hand; their numbers come from the records. Each interval is for its own comparison; reports/results.md and
reports/controls.md have the p-values corrected for several comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mapflake.study.cells import Study
from mapflake.study.comparisons import compare
from mapflake.study.designs import spent
from mapflake.study.engineers import first_designs
from mapflake.study.names import BASE, ROUND_0
from mapflake.study.statistics import Estimate, t_estimate

ASKED, LATE = "†", "‡"
TWO_AGENTS: Mapping[str, Any] = {"agents": 2}
"""The boards of the questions that were written down before the study: the paper's benchmark, agents as in training."""


@dataclass(frozen=True)
class Claim:
    """A sentence, without numbers, on the difference between two arms in the share of valid plans.

    Attributes:
        text: The sentence.
        arm: The arm that the sentence is about.
        against: The arm that it is compared with; in `GATE_CLAIMS`, a key of `benchmarks.gate.values`.
        shows: A key of `SUPPORTED`; `late start` is about `head_start`, `reads` about `engineers.first_designs`.
        marks: Of each set of cells: whether the question was written down before its cells (`ASKED`), after a part of
            them had been seen (`LATE`), or never.
        kept: The boards of the benchmark, as `Study.rates` takes them.
        elsewhere: What the further sets of cells that have its arms show, if it is not what the first does: keys of
            `SUPPORTED`, in the order of the sets.
    """

    text: str
    arm: str
    against: str
    shows: str
    marks: tuple[str, ...] = ()
    kept: Mapping[str, Any] = field(default_factory=lambda: TWO_AGENTS)
    elsewhere: tuple[str, ...] = ()


SUPPORTED: Mapping[str, Callable[[float, float], bool]] = {
    "more": lambda low, high: low > 0,
    "less": lambda low, high: high < 0,
    "no difference": lambda low, high: low <= 0 <= high,
    "late start": lambda low, high: high < 0,
    "reads": lambda low, high: low > 0,
}
"""What a claim shows -> whether a 95% interval supports it."""

GATE_CLAIMS = (
    Claim(
        "**Designs matter**: the best design for a student teaches it more than random ones do, a mean over six.",
        *("the best design", "designing", "more"),
    ),
    Claim(
        "The best design for each student teaches **little more than the benchmark's own mixture** of boards"
        " (*evaluation-matched*), and even that is not shown after correction for the five comparisons of the trials.",
        *("the best design", "against benchmark", "more"),
    ),
    Claim(
        "On average over students, it is **not shown to teach more than the one design that suits all of them best**,"
        " though [what a design teaches depends on the student](reports/laboratory.md).",
        *("the best design", "reading", "no difference"),
    ),
)

CLAIMS = (
    Claim(
        "**The trained engineer beats *fixed***, the paper's baseline, in the study. On the first fresh students it is"
        " ahead, but this was not asked and does not hold after correction for all arms. **On the second ones it is not"
        " shown.**",
        *("engineer_trained", "fixed", "more", (ASKED, "", ASKED), TWO_AGENTS, ("more", "no difference")),
    ),
    Claim(
        "***Evaluation-matched* beats *fixed***, too, without an engineer: boards drawn as the benchmark's are. On the"
        " first fresh students this does not hold after correction.",
        *("evaluation_matched", "fixed", "more", ("", ASKED)),
    ),
    Claim(
        "The trained engineer is **not shown to beat *evaluation-matched***.",
        *("engineer_trained", "evaluation_matched", "no difference", (ASKED, "")),
    ),
    Claim(
        "**Dynamic sampling beats *fixed* without a designer**: groups of answers that all earn the same reward are"
        " drawn again on other boards (DAPO).",
        *("fixed_dynamic", "fixed", "more", ("", ASKED)),
    ),
    Claim(
        "**The paper's engineer**, the current policy without RL on designs, is ahead"
        " of *fixed* on average over eight seeds of the study. This is not shown with the two seeds that were left out,"
        " after correction for all arms, or on the first fresh students.",
        *("engineer", "fixed", "more", (ASKED, LATE), TWO_AGENTS, ("no difference",)),
    ),
    Claim(
        "**The sizes that the trained engineer asks for"
        " [follow its report](reports/figures/analysis_first_designs.png)**: the same weights ask for larger boards"
        " when they read a stronger student's report (mean side length).",
        *("engineer_trained", "engineer_trained_another", "reads", (LATE, LATE)),
    ),
    Claim(
        "**A student's own report is not shown to be worth more** than another student's.",
        *("engineer_trained", "engineer_trained_another", "no difference", (ASKED, LATE)),
    ),
)

SEARCH_CLAIMS = (
    Claim(
        "***Search by the reward* beats *fixed***: it guesses success rates from the report and asks for the best of"
        " 540 designs by the reward of RL on designs, without a model or training.",
        *("engineer_search", "fixed", "more", (LATE, ASKED)),
    ),
    Claim(
        "**A student's own report is worth more** to the search than that of a student two ages away, as was asked of"
        " students 68 to 75. On 60 to 67 this is not shown.",
        *("engineer_search", "engineer_search_another", "no difference", (LATE, ASKED), TWO_AGENTS, ("more", "more")),
    ),
    Claim(
        "The search is **not shown to beat *evaluation-matched*** on students 68 to 75, where this was asked. On all"
        " sixteen it is ahead by a little.",
        *("engineer_search", "evaluation_matched", "more", (LATE, ASKED), TWO_AGENTS, ("no difference", "more")),
    ),
)

FURTHER_CLAIMS = (
    Claim(
        "The trained engineer is **not shown to beat *fixed* with dynamic sampling**.",
        *("engineer_trained", "fixed_dynamic", "no difference", ("", LATE)),
    ),
    Claim(
        "The paper's engineer is **not shown to beat the base model as engineer**: the paper's *checkpoint over base*.",
        *("engineer", "engineer_base", "no difference", ("", LATE)),
    ),
    Claim(
        "The trained engineer is **not shown to beat one that was trained without reports**, which can only learn one"
        " design for all students.",
        *("engineer_trained", "trained_without_reports", "no difference", ("", "", ASKED)),
    ),
    Claim(
        "**A report is not shown to help against none**, with the same weights, whose RL on designs always used one.",
        *("engineer_trained", "engineer_trained_none", "no difference", ("", LATE)),
    ),
    Claim(
        "The trained engineer is **not shown to beat one constant design**, which did well for the students of the"
        " trials.",
        *("engineer_trained", "constant", "no difference"),
    ),
    Claim(
        "It is **not shown to beat *learnability***, a rule that prefers boards which the student solves half of the"
        " time.",
        *("engineer_trained", "learnability", "no difference"),
    ),
    Claim(
        "It is **not shown to beat *fixed* with as many samples**, where solved boards that are shown count as"
        " samples, too (in the last column they do not). There are too few seeds to say more.",
        *("engineer_trained", "fixed_longer", "no difference"),
    ),
    Claim(
        "With dynamic sampling in both arms, it is **not shown to beat *fixed*** either.",
        *("engineer_trained_dynamic", "fixed_dynamic", "no difference", ("", LATE)),
    ),
    Claim(
        "With dynamic sampling in both arms, *evaluation-matched* is ahead of *fixed*, but not after correction.",
        *("evaluation_matched_dynamic", "fixed_dynamic", "more", ("", LATE)),
    ),
    Claim(
        "With dynamic sampling, the trained engineer is ahead of *fixed* without it, but not after correction for all"
        " arms.",
        *("engineer_trained_dynamic", "fixed", "more"),
    ),
    Claim(
        "*Evaluation-matched* with dynamic sampling is ahead of *fixed* without it, also after correction.",
        *("evaluation_matched_dynamic", "fixed", "more"),
    ),
    Claim(
        "In the study, the trained engineer is **not shown to beat the paper's engineer**; on the first fresh students"
        " it beats it.",
        *("engineer_trained", "engineer", "no difference", ("", ""), TWO_AGENTS, ("more",)),
    ),
    Claim(
        "In the study, **with 3 agents it is behind the paper's engineer**; on the first fresh students this is not"
        " shown. Of all training, only the supervised start has such boards.",
        *("engineer_trained", "engineer", "less", ("", ""), {"agents": 3}, ("no difference",)),
    ),
    Claim(
        "In the study, **with 3 agents it is behind *evaluation-matched***, too; on the first fresh students this is"
        " not shown.",
        *("engineer_trained", "evaluation_matched", "less", ("", ""), {"agents": 3}, ("no difference",)),
    ),
    Claim(
        "**The trained engineer starts behind**: RL on designs costs some solving, of which round 0 restores a part"
        " ([results](reports/results.md)). This row is about the validation boards after round 0, before its"
        " first design.",
        *("engineer_trained", ROUND_0, "late start"),
    ),
)


def head_start(study: Study, arm: str) -> Estimate:
    """Returns how far an arm with a round 0 of its own is ahead of the shared round 0, before its first design.

    Both train on the same configuration, the arm from weights of its own. The valid rates are those of their reports,
    on the validation boards; Student's interval over the training seeds.

    Raises:
        ValueError: The arm was not run, or its round 0 has another configuration than the shared one.
    """
    ahead = []
    for seed in sorted({*study.seeds(arm)} & {*study.seeds(ROUND_0)}):
        own, shared = (study.history(name, seed)[0] for name in (arm, ROUND_0))
        if own.config != shared.config:
            raise ValueError(f"{arm}-{seed}: its round 0 has another configuration than {ROUND_0}-{seed}")
        ahead.append(own.report.valid_rate - shared.report.valid_rate)
    if not ahead:
        raise ValueError(f"{arm} and {ROUND_0} have no training seed in common")
    return t_estimate(ahead)


class Measured(NamedTuple):
    """The difference that a claim is about: its estimate, and the factor and unit in which it is written."""

    estimate: Estimate
    scale: float = 1
    unit: str = ""


def claims_markdown(
    sets: Mapping[str, Study],
    search: Mapping[str, Study],
    gate: Mapping[str, Any],
    ages: int,
    *,
    further: bool = True,
    within: Collection[str] = (),
) -> str:
    """Returns claims as numbered tables in Markdown: `GATE_CLAIMS`, `CLAIMS`, `SEARCH_CLAIMS` and `FURTHER_CLAIMS`.

    `sets` are the cells of `CLAIMS` and `FURTHER_CLAIMS` by the titles of their columns, the study's first, and
    `search` those of `SEARCH_CLAIMS`; no two have a student in common. The last table is left out unless `further`.
    `gate` is the content of reports/laboratory/gate.json, `ages` the number of ages of students. In columns `within`
    students are compared within their age.

    Raises:
        ValueError: A difference was not measured over two seeds, or does not support its claim.
    """
    study = next(iter(sets.values()))
    seeds, arms = study.seeds("fixed"), (BASE, "fixed", "engineer_trained")
    solved = {arm: study.rates(arm, **TWO_AGENTS).loc[seeds].to_numpy() for arm in arms}
    begin, end, trained = (f"{rates.mean():.1%}" for rates in solved.values())
    title = (
        f"**What round 0 and two designed rounds teach**, in points on the benchmark's"
        f" {solved['fixed'].shape[1]} boards with 2 agents (in the study *fixed* begins at {begin} and ends at {end},"
        f" the trained engineer ends at {trained})"
    )
    parts = [
        (title, CLAIMS, sets),
        ("**A search in place of RL on designs**, in the same points", SEARCH_CLAIMS, search),
    ]
    if further:
        parts.append(("**More on these arms**, in the same points", FURTHER_CLAIMS, sets))
    tables, first = [gate_table(gate)], len(GATE_CLAIMS) + 1
    for heading, claims, cells in parts:
        tables.append(table(heading, claims, cells, ages, first=first, within=within))
        first += len(claims)
    return "\n\n".join(tables)


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
