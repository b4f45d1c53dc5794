"""The numbered claims of the README. Each rests on one difference and is refused if that fails.

A claim is about two arms of the study, or about designs in the trials of reports/laboratory.md (`GATE_CLAIMS`).

The sentences are written by hand; their numbers come from the records. Each interval is for its own comparison;
reports/results.md has the p-values corrected for several comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mapflake.study.cells import Study
from mapflake.study.comparisons import Difference, compare, place, points
from mapflake.study.designs import spent
from mapflake.study.engineers import first_designs
from mapflake.study.names import ROUND_0
from mapflake.study.statistics import Estimate, student


@dataclass(frozen=True)
class Claim:
    """A sentence on the difference between two arms in the share of valid plans.

    Attributes:
        text: The sentence, without numbers.
        arm: The arm that the sentence is about.
        against: The arm that it is compared with.
        shows: `more`: the 95% interval lies above 0; `no difference`: the interval includes 0; `no head start`: before
            its first design the arm is not ahead of the other one (`head_start`); `reads`: its first design follows the
            report (`engineers.first_designs`).
        kept: The boards of the benchmark, as `Study.rates` takes them.
    """

    text: str
    arm: str
    against: str
    shows: Literal["more", "no difference", "no head start", "reads"]
    kept: Mapping[str, Any] = field(default_factory=dict)


GATE_CLAIMS = (
    (
        "**Designs matter.** One round on the boards of the best design for a student teaches it more than a round on"
        " those of a random design.",
        *("designing", "more"),
    ),
    (
        "**No lead over the benchmark's own mixture of boards is shown.** The best design for each student does not"
        " gain significantly more than this one mixture. The paper lacks this baseline.",
        *("against benchmark", "no difference"),
    ),
    (
        "**It is not shown that students need different designs.** The best design for each student does not gain"
        " significantly more than the one design that suits all students best.",
        *("reading", "no difference"),
    ),
)
"""Text, value of `study.gate.values`, what it shows."""

TWO_AGENTS = {"agents": 2}
"""The boards of the questions that were written down before the study: the paper's benchmark, agents as in training."""

CLAIMS = (
    Claim(
        "**The trained engineer reads its report.** Told the report of a stronger student, the same weights ask for"
        " larger boards than for their own; told that of a weaker one, for smaller boards.",
        *("engineer_trained", "engineer_trained_another", "reads"),
    ),
    Claim(
        "**That reading helps is not shown.** The student of an engineer that was told its own report does not end"
        " significantly ahead of one whose engineer was told another student's.",
        *("engineer_trained", "engineer_trained_another", "no difference", TWO_AGENTS),
    ),
    Claim(
        "**No gain is shown on the paper's benchmark** so far. The engineer that was trained with RL to design boards"
        " does not differ significantly from keeping the random configuration of round 0.",
        *("engineer_trained", "fixed", "no difference", TWO_AGENTS),
    ),
    Claim(
        "**No lead over one good constant design is shown.** The trained engineer does not end significantly ahead of"
        " one design for all, which did well for other students in the trials. The samples of the trials are not"
        " counted.",
        *("engineer_trained", "constant", "no difference", TWO_AGENTS),
    ),
    Claim(
        "RL on designs changes the weights, too. Before the first design, these weights are not shown to solve more"
        " boards than those of the other arms.",
        *("engineer_trained", ROUND_0, "no head start"),
    ),
)


def difference_of(claim: Claim, study: Study) -> Difference:
    """Returns the difference that a claim rests on.

    Raises:
        ValueError: The difference was not measured over two seeds, or does not support the claim.
    """
    rows = compare(study, [claim.arm], claim.against, **claim.kept)
    if not rows or rows[0].estimate.low is None or rows[0].estimate.high is None:
        raise ValueError(f"claim {claim.text!r}: {claim.arm} against {claim.against} was not measured over two seeds")
    low, high = rows[0].estimate.low, rows[0].estimate.high
    supported = low <= 0 <= high if claim.shows == "no difference" else low > 0
    if not supported:
        raise ValueError(f"claim {claim.text!r} does not hold: {points(rows[0].estimate)} points")
    return rows[0]


def head_start(study: Study, arm: str) -> Estimate:
    """Returns by how much an arm with a round 0 of its own is ahead of the shared round 0, before its first design.

    Both train on the same configuration, the arm from weights of its own. It is the difference in the valid rates of
    their reports, on the validation boards, with Student's interval over the training seeds.

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
    return student(ahead)


def gate_lines(gate: Mapping[str, Any]) -> list[str]:
    """Returns `GATE_CLAIMS` with their numbers.

    Args:
        gate: Of reports/laboratory/gate.json: values of `gate.values` in points, and how many `students` and `seeds`.

    Raises:
        ValueError: A claim does not hold.
    """
    lines = []
    for text, name, shows in GATE_CLAIMS:
        mean, low, high = (gate[name][key] for key in ("mean", "low", "high"))
        said = f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"
        if not (low > 0 if shows == "more" else low <= 0 <= high):
            raise ValueError(f"claim {text!r} does not hold: {said} points")
        where = f"on the validation boards, {gate['students']} students, {gate['seeds']} training seeds"
        lines.append(f"{text} **{said} points a round** {where}.")
    return lines


def response(study: Study, claim: Claim, ages: int) -> Estimate:
    """Returns by how many cells of a board's side the first designs of an arm follow the report that it is told.

    The mean of `response` of `engineers.first_designs`, with Student's interval over the training seeds.

    Raises:
        ValueError: It was not measured over two seeds, or the interval does not lie above 0.
    """
    found = first_designs(study, ages, claim.arm)["response"]
    if len(found) < 2:
        raise ValueError(f"claim {claim.text!r}: {claim.arm} against {claim.against} was not measured over two seeds")
    one = student(found.to_numpy())
    if one.low is None or one.low <= 0:
        raise ValueError(f"claim {claim.text!r} does not hold: {one.mean:+.1f} cells")
    return one


def claims_markdown(
    study: Study, claims: Iterable[Claim] = CLAIMS, gate: Mapping[str, Any] | None = None, ages: int = 1
) -> str:
    """Returns the claims as a numbered list in Markdown, those of the gate first, each with its difference.

    A claim about arms also has the valid rates and the extra samples of both. `ages` is the number of ages of students.

    Raises:
        ValueError: As `difference_of`, `response` and `gate_lines`.
    """
    lines = gate_lines(gate) if gate else []
    for claim in claims:
        if claim.shows == "reads":
            one = response(study, claim, ages)
            said = f"{one.mean:+.1f} ({one.low:+.1f} to {one.high:+.1f}) cells in the mean side of a board"
            lines.append(f"{claim.text} **{said}**, first design, {one.seeds} training seeds.")
            continue
        if claim.shows == "no head start":
            ahead = head_start(study, claim.arm)
            if ahead.low is None or ahead.low > 0:
                raise ValueError(f"claim {claim.text!r} does not hold: {points(ahead)} points after round 0")
            where = f"after round 0, on the validation boards, {ahead.seeds} training seeds"
            lines.append(f"{claim.text} **{points(ahead)} points** {where}.")
            continue
        row = difference_of(claim, study)
        rates = " against ".join(f"{100 * _rate(arm, row, study):.1f}%" for arm in (claim.arm, claim.against))
        where = f"{place(row)}, {row.estimate.seeds} training seeds{_cost(claim, study)}"
        lines.append(f"{claim.text} **{points(row.estimate)} points** ({rates}) on {where}.")
    return "\n".join(f"{number}. {line}" for number, line in enumerate(lines, start=1))


def _rate(arm: str, row: Difference, study: Study) -> float:
    """Returns the valid rate of an arm on the boards and seeds of a difference."""
    common = {*study.seeds(row.arm)} & {*study.seeds(row.against[0])}
    return float(study.rates(arm, boards=row.boards, **row.kept).loc[sorted(common)].to_numpy().mean())


def _cost(claim: Claim, study: Study) -> str:
    """Returns the extra samples of both arms in words; "" if neither took any."""
    extra = spent(study)["extra"]
    own, other = (float(extra.get(arm, 0.0)) for arm in (claim.arm, claim.against))
    return f", extra samples {own:.0%} against {other:.0%}" if own or other else ""
