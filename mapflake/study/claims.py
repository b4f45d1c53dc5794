"""The numbered claims of the README, each refused if its difference does not support it.

A claim is about two arms of the study, or about designs in the trials of reports/laboratory.md (`GATE_CLAIMS`). The
sentences are written by hand; their numbers come from the records. Each interval is for its own comparison;
reports/results.md has the p-values corrected for several comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mapflake.study.cells import Study
from mapflake.study.comparisons import Difference, compare, place
from mapflake.study.designs import spent
from mapflake.study.engineers import first_designs
from mapflake.study.names import ROUND_0
from mapflake.study.statistics import Estimate, t_estimate


@dataclass(frozen=True)
class Claim:
    """A sentence, without numbers, on the difference between two arms in the share of valid plans.

    Attributes:
        text: The sentence.
        arm: The arm that the sentence is about.
        against: The arm that it is compared with; in `GATE_CLAIMS`, a key of `study.gate.values`.
        shows: A key of `SUPPORTED`; `late start` is about `head_start`, `reads` about `engineers.first_designs`.
        kept: The boards of the benchmark, as `Study.rates` takes them.
    """

    text: str
    arm: str
    against: str
    shows: str
    kept: Mapping[str, Any] = field(default_factory=dict)


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
        "**Designs matter.** One round on the boards of the best design for a student teaches it more than a round on"
        " those of a random design.",
        *("the best design", "designing", "more"),
    ),
    Claim(
        "**No lead over the benchmark's own mixture of boards is shown.** The best design for each student does not"
        " gain significantly more than this one mixture (the arm *evaluation-matched*). The summaries of the paper"
        " that we read mention no such baseline.",
        *("the best design", "against benchmark", "no difference"),
    ),
    Claim(
        "**It is not shown that students need different designs.** The best design for each student does not gain"
        " significantly more than the one design that suits these students best on average.",
        *("the best design", "reading", "no difference"),
    ),
)

TWO_AGENTS = {"agents": 2}
"""The boards of the questions that were written down before the study: the paper's benchmark, agents as in training."""

CLAIMS = (
    Claim(
        "**The trained engineer beats the fixed configuration on the benchmark's boards with 2 agents.** The student of"
        " the engineer that was trained with RL on designs ends ahead of one that keeps the random configuration of"
        " round 0.",
        *("engineer_trained", "fixed", "more", TWO_AGENTS),
    ),
    Claim(
        "**So does the benchmark's own mixture (*evaluation-matched*).** Boards drawn as the benchmark's take no"
        " engineer.",
        *("evaluation_matched", "fixed", "more", TWO_AGENTS),
    ),
    Claim(
        "**The trained engineer is not shown to beat *evaluation-matched*.** Its student does not end significantly"
        " ahead of one that trains on boards drawn in this mixture.",
        *("engineer_trained", "evaluation_matched", "no difference", TWO_AGENTS),
    ),
    Claim(
        "**In the study, it is not shown to beat the paper's engineer.** Its student does not end significantly"
        " ahead of one whose engineer is the current policy without RL on designs.",
        *("engineer_trained", "engineer", "no difference", TWO_AGENTS),
    ),
    Claim(
        "**With 3 agents it is behind the paper's engineer.** No round trains on 3 agents: only the supervised start"
        " has shown such boards.",
        *("engineer_trained", "engineer", "less", {"agents": 3}),
    ),
    Claim(
        "**The trained engineer's board sizes follow its report.** Told the report of a stronger student, the same"
        " weights ask for larger boards than for their own student; told that of a weaker one, for smaller boards.",
        *("engineer_trained", "engineer_trained_another", "reads"),
    ),
    Claim(
        "**It is not shown that this helps.** The student of an engineer that was told its own report does not end"
        " significantly ahead of one whose engineer was told another student's.",
        *("engineer_trained", "engineer_trained_another", "no difference", TWO_AGENTS),
    ),
    Claim(
        "**The trained engineer starts behind.** RL on designs costs some solving: after round 0, before the first"
        " design, its policy solves fewer boards than that of the other arms. Its differences from arms with other"
        " weights include this.",
        *("engineer_trained", ROUND_0, "late start"),
    ),
)

CONTROL_CLAIMS = (
    Claim(
        "**Dynamic sampling beats the fixed configuration without a designer.** The student ends ahead if groups of"
        " answers without signal, which all earn the same reward, are drawn again on other boards (DAPO).",
        *("fixed_dynamic", "fixed", "more", TWO_AGENTS),
    ),
    Claim(
        "**The trained engineer is not shown to beat dynamic sampling.** Its student, without dynamic sampling, does"
        " not end significantly ahead of that of the fixed configuration with it.",
        *("engineer_trained", "fixed_dynamic", "no difference", TWO_AGENTS),
    ),
    Claim(
        "**It is not shown that the trained engineer adds to dynamic sampling.** With dynamic sampling in both arms,"
        " its student does not end significantly ahead of that of the fixed configuration.",
        *("engineer_trained_dynamic", "fixed_dynamic", "no difference", TWO_AGENTS),
    ),
    Claim(
        "**It is not shown that a report helps against none.** The student of an engineer that was told its own report"
        " does not end significantly ahead of one whose engineer, with the same weights, was told none. RL on designs"
        " never used a prompt without a report.",
        *("engineer_trained", "engineer_trained_none", "no difference", TWO_AGENTS),
    ),
)
"""Claims about the students of reports/controls.md, who are not those of the study."""


def head_start(study: Study, arm: str) -> Estimate:
    """Returns how far an arm with a round 0 of its own is ahead of the shared round 0, before its first design.

    Both train on the same configuration, the arm from weights of its own. The valid rates are those of their reports,
    on the validation boards; Student's interval over the training seeds.

    Raises:
        ValueError: The arm was not run, or its round 0 has another configuration than the shared one.
    """
    ahead = []
    for seed in sorted({*study.seeds(arm)} & {*study.seeds(ROUND_0)}):
        own, shared = (study.history(one, seed)[0] for one in (arm, ROUND_0))
        if own.config != shared.config:
            raise ValueError(f"{arm}-{seed}: its round 0 has another configuration than {ROUND_0}-{seed}")
        ahead.append(own.report.valid_rate - shared.report.valid_rate)
    if not ahead:
        raise ValueError(f"{arm} was not run")
    return t_estimate(ahead)


class Measured(NamedTuple):
    """The difference that a claim is about: its estimate, times `scale` in `unit`, and boards, seeds and cost."""

    estimate: Estimate
    unit: str
    where: str
    scale: float = 1

    @property
    def text(self) -> str:
        """The difference with its interval."""
        return self.estimate.text("+.1f", self.scale)


def _line(claim: Claim, found: Measured | None) -> str:
    """Returns a claim with its difference; raises as for `claims_markdown`."""
    if found is None or found.estimate.seeds < 2:
        raise ValueError(f"claim {claim.text!r}: {claim.arm} against {claim.against} was not measured over two seeds")
    said = f"{found.text} {found.unit}"
    low, high = found.estimate.low, found.estimate.high
    if low is None or high is None or not SUPPORTED[claim.shows](low, high):
        raise ValueError(f"claim {claim.text!r} does not hold: {said}")
    return f"{claim.text} **{said}**{found.where}."


def claims_markdown(
    study: Study,
    claims: Iterable[Claim] = CLAIMS,
    gate: Mapping[str, Any] | None = None,
    ages: int = 1,
    controls: Study | None = None,
) -> str:
    """Returns the claims as a numbered list in Markdown, each with its difference: of the gate, the study, controls.

    A claim about rates on the benchmark also has the valid rates and the extra samples of both arms, and one about the
    study the same difference in `controls`, the cells that `CONTROL_CLAIMS` are about. `gate` is the content of
    reports/laboratory/gate.json, `ages` the number of ages of students.

    Raises:
        ValueError: A difference was not measured over two seeds, or does not support its claim.
    """
    lines = []
    if gate:
        where = f" on the validation boards, {gate['students']} students, {gate['seeds']} training seeds"
        for claim in GATE_CLAIMS:
            found = Estimate(seeds=gate["seeds"], boards=gate["students"], **gate[claim.against])
            lines.append(_line(claim, Measured(found, "points a round", where)))
    for claim in claims:
        line = _line(claim, _measured(study, claim, ages))
        if controls and (again := _measured(controls, claim, ages)):
            line += f" Other students: {again.text}, {again.estimate.seeds} training seeds."
        lines.append(line)
    if controls:
        lines += [_line(claim, _measured(controls, claim, ages)) for claim in CONTROL_CLAIMS]
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))


def _measured(study: Study, claim: Claim, ages: int) -> Measured | None:
    """Returns the difference that a claim is about, None if its arms have no training seed in common."""
    if not {*study.seeds(claim.arm)} & {*study.seeds(claim.against)}:
        return None
    if claim.shows == "reads":
        designs = first_designs(study, ages, claim.arm)
        if designs.empty:
            return None
        response = t_estimate(designs["response"].to_numpy())
        where = f", first design, {response.seeds} training seeds"
        return Measured(response, "squares in the mean side length of the boards", where)
    if claim.shows == "late start":
        ahead = head_start(study, claim.arm)
        return Measured(ahead, "points", f" after round 0, on the validation boards, {ahead.seeds} training seeds", 100)
    (row,) = compare(study, [claim.arm], claim.against, **claim.kept)
    return Measured(row.estimate, "points", _where(claim, row, study), 100)


def _where(claim: Claim, row: Difference, study: Study) -> str:
    """Returns both arms' valid rates, the boards and seeds of a difference, and the extra samples if there were any."""
    sides = (claim.arm, claim.against)
    common = sorted({*study.seeds(claim.arm)} & {*study.seeds(claim.against)})
    rates = [study.rates(arm, boards=row.boards, **row.kept).loc[common].to_numpy().mean() for arm in sides]
    own, other = (float(spent(study)["extra"].get(arm, 0.0)) for arm in sides)
    cost = f", extra samples {own:.0%} against {other:.0%}" if own or other else ""
    return f" ({rates[0]:.1%} against {rates[1]:.1%}) on {place(row)}, {row.estimate.seeds} training seeds{cost}"
