"""The numbered claims of the README. Each rests on one difference between two arms and is refused if that fails.

The sentences are written by hand; their numbers come from the records. Each interval is for its own comparison;
reports/results.md has the p-values corrected for several comparisons.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from mapflake.study.cells import Study
from mapflake.study.comparisons import Difference, compare, place, points
from mapflake.study.designs import spent
from mapflake.study.names import ROUND_0
from mapflake.study.statistics import Estimate, student


@dataclass(frozen=True)
class Claim:
    """A sentence on the difference between two arms in the share of valid plans.

    Attributes:
        text: The sentence, without numbers.
        arm: The arm that the sentence is about.
        against: The arm that it is compared with.
        shows: `more`: the 95% interval lies above 0; `more, uncorrected`: it does, but the difference is not
            significant after Holm's correction for all arms of the study; `no difference`: the interval includes 0;
            `no head start`: before its first design the arm is not ahead of the other one (`head_start`).
        boards: The set of boards, as `Study.rates` takes it.
    """

    text: str
    arm: str
    against: str
    shows: Literal["more", "more, uncorrected", "no difference", "no head start"]
    boards: str = "benchmark"


CLAIMS = (
    Claim(
        "**RL on designs pays.** An engineer that was trained with RL to design boards yields a better policy than one"
        " random configuration that is kept.",
        *("engineer_trained", "fixed", "more"),
    ),
    Claim(
        "The lead comes with the designs. RL on designs also changes the weights, but before its first design the"
        " trained engineer's policy is not ahead of the policy of the other arms.",
        *("engineer_trained", ROUND_0, "no head start"),
    ),
    Claim(
        "More samples alone are unlikely to explain this. The fixed configuration is behind even if it trains for more"
        " rounds (significant before correction for all arms, not after it).",
        *("engineer_trained", "fixed_longer", "more, uncorrected"),
    ),
    Claim(
        "The trained engineer also beats the paper's engineer: the current RL checkpoint, which was never trained on"
        " designs.",
        *("engineer_trained", "engineer", "more"),
    ),
    Claim(
        "The paper's engineer is ahead of the fixed configuration (significant before correction"
        " for all arms, not after it).",
        *("engineer", "fixed", "more, uncorrected"),
    ),
    Claim(
        "**We have no evidence that the engineer uses its report.** The result does not differ significantly if the"
        " rows of its report are swapped between sizes.",
        *("engineer_trained", "engineer_trained_shuffled", "no difference"),
    ),
    Claim(
        "Nor does it differ significantly if the engineer is told no report at all.",
        *("engineer_trained", "engineer_trained_none", "no difference"),
    ),
    Claim(
        "**No gain on the paper's benchmark**, where half of the boards need a wait: the trained engineer does not"
        " differ significantly from the fixed configuration.",
        *("engineer_trained", "fixed", "no difference", "benchmark"),
    ),
    Claim(
        "The trained engineer does not differ significantly from a simple rule that samples boards by learnability,"
        " p (1 - p).",
        *("engineer_trained", "learnability", "no difference"),
    ),
)


def difference_of(claim: Claim, study: Study) -> Difference:
    """Returns the difference that a claim rests on.

    Raises:
        ValueError: The difference was not measured over two seeds, or does not support the claim.
    """
    rows = compare(study, [claim.arm], claim.against, boards=claim.boards)
    if not rows or rows[0].estimate.low is None or rows[0].estimate.high is None:
        raise ValueError(f"claim {claim.text!r}: {claim.arm} against {claim.against} was not measured over two seeds")
    low, high = rows[0].estimate.low, rows[0].estimate.high
    supported = low <= 0 <= high if claim.shows == "no difference" else low > 0
    if claim.shows == "more, uncorrected":
        corrected = {row.arm: row for row in compare(study, study.arms, claim.against, boards=claim.boards)}
        supported = supported and not corrected[claim.arm].significant
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


def claims_markdown(study: Study, claims: Iterable[Claim] = CLAIMS) -> str:
    """Returns the claims as a numbered list in Markdown: difference, valid rates and extra samples of both arms.

    Raises:
        ValueError: As `difference_of`.
    """
    lines = []
    for claim in claims:
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
    return float(study.rates(arm, boards=row.boards).loc[sorted(common)].to_numpy().mean())


def _cost(claim: Claim, study: Study) -> str:
    """Returns the extra samples of both arms in words; "" if neither took any."""
    extra = spent(study)["extra"]
    own, other = (float(extra.get(arm, 0.0)) for arm in (claim.arm, claim.against))
    return f", extra samples {own:.0%} against {other:.0%}" if own or other else ""
