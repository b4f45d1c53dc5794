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


@dataclass(frozen=True)
class Claim:
    """A sentence on the difference between two arms in the share of valid plans.

    Attributes:
        text: The sentence, without numbers.
        arm: The arm that the sentence is about.
        against: The arm that it is compared with.
        shows: `more`: the 95% interval lies above 0; `more, uncorrected`: it does, but the difference is not
            significant after Holm's correction for all arms of the study; `no difference`: the interval includes 0.
        boards: The set of boards, as `Study.rates` takes it.
    """

    text: str
    arm: str
    against: str
    shows: Literal["more", "more, uncorrected", "no difference"]
    boards: str = "held_out"


CLAIMS = (
    Claim(
        "**RL on designs pays.** An engineer that was trained with RL to design boards yields a better policy than one"
        " random configuration that is kept.",
        *("engineer_trained", "fixed", "more"),
    ),
    Claim(
        "More samples alone are unlikely to explain this. The fixed configuration is behind even if it trains for more"
        " rounds (p < 5% alone, not after correction for all arms).",
        *("engineer_trained", "fixed_longer", "more, uncorrected"),
    ),
    Claim(
        "The trained engineer also beats the paper's engineer: the current RL checkpoint, which was never trained on"
        " designs.",
        *("engineer_trained", "engineer", "more"),
    ),
    Claim(
        "The paper's engineer is ahead of the fixed configuration (p < 5% alone, not after correction for all arms).",
        *("engineer", "fixed", "more, uncorrected"),
    ),
    Claim(
        "**We have no evidence that the engineer uses its report.** The result does not differ significantly if it is"
        " told the failures of each size under another size.",
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


def claims_markdown(study: Study, claims: Iterable[Claim] = CLAIMS) -> str:
    """Returns the claims as a numbered list in Markdown: difference, valid rates and extra samples of both arms.

    Raises:
        ValueError: As `difference_of`.
    """
    lines = []
    for number, claim in enumerate(claims, start=1):
        row = difference_of(claim, study)
        rates = " against ".join(f"{100 * _rate(arm, row, study):.1f}%" for arm in (claim.arm, claim.against))
        where = f"{place(row)}, {row.estimate.seeds} training seeds{_cost(claim, study)}"
        lines.append(f"{number}. {claim.text} **{points(row.estimate)} points** ({rates}) on {where}.")
    return "\n".join(lines)


def _rate(arm: str, row: Difference, study: Study) -> float:
    """Returns the valid rate of an arm on the boards and seeds of a difference."""
    common = {*study.seeds(row.arm)} & {*study.seeds(row.against[0])}
    return float(study.rates(arm, boards=row.boards).loc[sorted(common)].to_numpy().mean())


def _cost(claim: Claim, study: Study) -> str:
    """Returns the extra samples of both arms in words; "" if neither took any."""
    extra = spent(study)["extra"]
    own, other = (float(extra.get(arm, 0.0)) for arm in (claim.arm, claim.against))
    return f", extra samples {own:.0%} against {other:.0%}" if own or other else ""
