"""What was found, as numbered sentences: each with the difference that bears it out, and refused if it does not.

The sentences are written by hand, their figures are not. An interval is each claim's own; what was asked before the
first cell, and the corrections for several comparisons, are in the page that a claim names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mapflake.study.cells import Study
from mapflake.study.comparisons import Difference, compare
from mapflake.study.conclusions import place, points


@dataclass(frozen=True)
class Claim:
    """A sentence on how far one arm is ahead of another in valid plans.

    Attributes:
        text: The sentence, without figures.
        profile: The study that has both arms.
        arm: The arm.
        against: The other one.
        shows: `more`: the 95% interval lies above 0; `no difference`: 0 is in it.
        boards: As `Study.rates` takes it.
        sizes: Boards of these sizes alone; all, unless given.
    """

    text: str
    profile: str
    arm: str
    against: str
    shows: Literal["more", "no difference"]
    boards: str = "held_out"
    sizes: tuple[int, ...] = ()


CLAIMS = (
    Claim(
        "An engineer that is reinforced over its designs trains a better policy than a fixed random configuration.",
        *("default", "trained_engineer", "fixed", "more"),
    ),
    Claim(
        "It also trains a better one than the engineer of the paper, the RL checkpoint as it is.",
        *("default", "trained_engineer", "engineer", "more"),
    ),
    Claim(
        "That it reads its report is not shown: no difference is seen when it is told other sizes' rows.",
        *("default", "trained_engineer", "trained_shuffled", "no difference"),
    ),
    Claim(
        "On the paper's benchmark, half of whose boards need a wait, no gain over the fixed configuration is shown.",
        *("default", "trained_engineer", "fixed", "no difference", "benchmark"),
    ),
    Claim(
        "Over all sizes no difference to a free rule is seen: sampling boards by learnability.",
        *("default", "trained_engineer", "learnability", "no difference"),
    ),
    Claim(
        "On boards within reach and fresh seeds, it is ahead of that rule.",
        *("fresh", "trained_engineer", "learnability", "more", "held_out", (5, 6, 7)),
    ),
    Claim(
        "An engineer that is reinforced in every round, for six rounds, is ahead of the fixed configuration too.",
        *("long_fresh", "co_trained", "fixed", "more", "held_out", (5, 6, 7)),
    ),
)


def found(claim: Claim, study: Study) -> Difference:
    """Returns the difference that a claim is about.

    Raises:
        ValueError: It was not measured, or does not bear the claim out.
    """
    kept: dict[str, Any] = {"size": [*claim.sizes]} if claim.sizes else {}
    rows = compare(study, [claim.arm], claim.against, boards=claim.boards, **kept)
    if not rows or rows[0].found.low is None or rows[0].found.high is None:
        raise ValueError(f"claim {claim.text!r}: {claim.arm} against {claim.against} was not measured over two seeds")
    low, high = rows[0].found.low, rows[0].found.high
    if (low <= 0) if claim.shows == "more" else not low <= 0 <= high:
        raise ValueError(f"claim {claim.text!r} is not borne out: {points(rows[0].found)} points")
    return rows[0]


def claims_markdown(studies: Mapping[str, tuple[Study, str]], chosen: Iterable[Claim] = CLAIMS) -> str:
    """Returns the claims as a numbered list in Markdown.

    Args:
        studies: Profile -> its finished cells and the path of its page.
        chosen: The claims.

    Raises:
        ValueError: As `found`.
    """
    lines = []
    for number, claim in enumerate(chosen, start=1):
        study, page = studies[claim.profile]
        row = found(claim, study)
        where = f"{place(row)}, {row.found.seeds} training seeds; [{claim.profile}]({page})"
        lines.append(f"{number}. {claim.text} **{points(row.found)} points** on {where}.")
    return "\n".join(lines)
