"""The sentences of README.md and docs/claims.md on what was found; `study.claim_tables` has their numbers.

A claim is about two arms, or about designs in the trials of reports/laboratory.md (`GATE_CLAIMS`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mapflake.study.names import ROUND_0

ASKED, LATE = "†", "‡"
TWO_AGENTS: Mapping[str, Any] = {"agents": 2}
"""The boards of the questions that were written down before the study: the paper's benchmark, agents as in training."""


FINDINGS = (
    "**Designs matter; that they must fit the student is not shown.** In [trials](reports/laboratory.md) of one round,"
    " the best design for a student teaches more than random ones: {1a}. It is not shown, after correction, to teach"
    " more than boards drawn as the benchmark's are (*evaluation-matched*), {2a}, or than the design that suits all"
    " students best, {3a} (claims 1 to 3).",
    "**The paper's engineer**, the current policy without RL on designs, leads *fixed* by {paper}. Here it leads over"
    " eight of the study's sixteen students, {8a}, but not after correction, and not with two more that were"
    " [left out](docs/claims.md#left-out). On students 36 to 42 no lead is shown: {8b} (claim 8).",
    "**The trained engineer (RL on designs)** is ahead of *fixed* in the study, {4a}. On students 36 to 42 it is ahead,"
    " too, {4b}, but this was not asked beforehand and does not hold after correction. On 44 to 50, where it was asked,"
    " no lead is shown: {4c}. RL on designs costs {4x} more samples (claim 4).",
    "**It takes no engineer to beat *fixed*.** Evaluation-matched does so in the study, {5a}, without extra samples."
    " *Dynamic sampling* (groups of answers that all earn the same reward are replaced) does so on students 36 to 42,"
    " {7b}, with {7x} more samples. The trained engineer is not shown to beat either (claims 5 to 7 and 14).",
    "**The engineer's reward can be searched without a model.** A [search](docs/method.md#search) guesses success rates"
    " from the report and takes the best of 540 designs by the reward of RL on designs. It is ahead of *fixed* on"
    " students 60 to 67, {11a}, and 68 to 75, {11b} within ages (claim 11).",
    "**The trained engineer's designs follow its report; that this helps is not shown.** It asks for larger boards when"
    " the report shows a stronger student. But its own student's report is not shown to teach more than another's, in"
    " the study, {10a}, or on students 36 to 42, {10b} (claims 9 and 10).",
    "**For the search, a student's own report is worth more than that of a student two ages away**, if students are"
    " compared within their age, as was asked of 68 to 75: {12b}. If ages are taken as random, this is not shown. Most"
    " of it comes from [one age](reports/controls.md#does-it-take-rl-on-designs-to-design-by-its-reward) (claim 12).",
    "**More reward, and more use of made-up reports, are not shown to help.** An engineer with"
    " [lessons](docs/method.md#lessons) before RL on designs has both. On students 76 to 83 it is not shown to beat"
    " *fixed*, {30a}, or to gain from its own report, {31a}; nor is the search, against a mean report: {29a} (claims 29"
    " to 31).",
    "**It is not enough to know how the benchmark's boards are drawn.** Evaluation-matched knows only this. The search,"
    " whose reward knows it too, beats it on students 84 to 91, where this was the one question: {32b}. On 68 to 75 it"
    " had not been shown: {13b} within ages. Nor is it for the trained engineer (claims 6, 13, 32).",
    "**The largest doubt**: that designs must fit the student. Told the mean report of four students, the search is not"
    " shown to do worse than told its own student's (claim 29), and the trained engineer is not shown to beat one"
    " constant design that did well in trials (claim 18).",
)
"""What was found, for the README: `{4a}` is the number of claim 4 in its first column, `{4x}` its extra samples."""


@dataclass(frozen=True)
class Claim:
    """A sentence, without numbers, on the difference between two arms in the share of valid plans.

    Attributes:
        text: The sentence.
        arm: The arm that the sentence is about.
        against: The arm that it is compared with; in `GATE_CLAIMS`, a key of `benchmarks.gate.values`.
        shows: A key of `claim_tables.SUPPORTED`; `late start` is about `engineers.head_start`, `reads` about
            `engineers.first_designs`.
        marks: Of each set of cells: whether the question was written down before its cells (`ASKED`), after a part of
            them had been seen (`LATE`), or never.
        kept: The boards of the benchmark, as `Study.rates` takes them.
        elsewhere: What the further sets of cells that have its arms show, if it is not what the first does: keys of
            `claim_tables.SUPPORTED`, in the order of the sets.
    """

    text: str
    arm: str
    against: str
    shows: str
    marks: tuple[str, ...] = ()
    kept: Mapping[str, Any] = field(default_factory=lambda: TWO_AGENTS)
    elsewhere: tuple[str, ...] = ()


GATE_CLAIMS = (
    Claim(
        "**Designs matter**: the best design for a student, as chosen under other seeds, teaches it more than the mean"
        " of six random ones.",
        *("the best design", "designing", "more"),
    ),
    Claim(
        "The best design for each student teaches **little more than the benchmark's own mixture** of boards"
        " (*evaluation-matched*), and even that is not shown after correction for the five comparisons of the trials.",
        *("the best design", "against benchmark", "more"),
    ),
    Claim(
        "On average over students, the best design for each is **not shown to teach more than the one that suits all of"
        " them best**,"
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
        " it is ahead, which was not asked.",
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
        *("engineer_trained", "evaluation_matched", "less", (ASKED, ""), {"agents": 3}, ("no difference",)),
    ),
    Claim(
        "**The trained engineer starts behind**: RL on designs costs some solving, of which round 0 restores a part"
        " ([results](reports/results.md)). This row is about the validation boards after round 0, before its"
        " first design.",
        *("engineer_trained", ROUND_0, "late start"),
    ),
)

LESSON_CLAIMS = (
    Claim(
        "Told its own student's report, the search is **not shown to teach more than told the mean report** of the four"
        " students of a group.",
        *("engineer_search", "engineer_search_mean", "no difference", ("", ASKED)),
    ),
    Claim(
        "An engineer that had **lessons before RL on designs is not shown to beat *fixed***, though its designs earn"
        " more reward in made-up situations than those of RL on designs alone.",
        *("engineer_trained", "fixed", "no difference", (ASKED, "")),
    ),
    Claim(
        "Nor is a student's own report shown to be worth more to it than another student's.",
        *("engineer_trained", "engineer_trained_another", "no difference", ("", ASKED)),
    ),
)

MATCHED_CLAIMS = (
    Claim(
        "The search **beats *evaluation-matched*** on students 84 to 91, where this was the one question. On 76 to 83"
        " it was to be reported, and was no question.",
        *("engineer_search", "evaluation_matched", "more", (ASKED, ASKED)),
    ),
    Claim(
        "It is **ahead of *fixed***, too.",
        *("engineer_search", "fixed", "more", (ASKED, ASKED)),
    ),
)
