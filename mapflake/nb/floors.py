"""What a language model's run should reach, on its page (`page`): a sentence names the floors that were missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mapflake.extras import needs

with needs("lab"):
    import pandas as pd

from mapflake.study import engineers
from mapflake.study.comparisons import Difference, points

START = {"valid": 0.3, "where the naive plan fails": 0.1}
"""The valid rates that a supervised start should reach: less, and RL has little to reinforce. Our choice."""
LEGAL, READING, SOLVING = 0.95, 0.1, -0.02
"""Legal designs before RL on designs; the reward that is lost after it where another's report is told; how it may
change the valid rate on boards. Our choice."""


def missed(before: Sequence[Mapping[str, float]], gains: Sequence[Difference], designs: engineers.Records) -> str:
    """Returns a sentence that names the floors that were missed, or "" if none was; what was not run has no floor.

    Args:
        before: For each training seed the rates on the validation boards before RL, those of `START` that it has.
        gains: What GRPO on boards gains.
        designs: The records of RL on designs.
    """
    floors: list[tuple[bool, str]] = []
    for kind, floor in START.items():
        if rates := [seed[kind] for seed in before if kind in seed]:
            mean = sum(rates) / len(rates)
            floors.append((mean >= floor, f"{kind} before RL {mean:.1%} (target {floor:.0%})"))
    for gain in gains:
        reached = gain.estimate.excludes_zero and gain.estimate.mean > 0
        floors.append((reached, f"GRPO on boards gains {points(gain.estimate)} points (target: above zero)"))
    if designs:
        floors += _of_designs(designs)
    misses = [text for reached, text in floors if not reached]
    return f"Of the targets that were set beforehand, these were missed: {'; '.join(misses)}." if misses else ""


def _of_designs(designs: engineers.Records) -> list[tuple[bool, str]]:
    readings = engineers.readings(designs)
    means = readings[readings["situations"] == engineers.MADE_UP].groupby("engineer").mean(numeric_only=True)
    legal, after = means.loc[engineers.BEFORE, "accepted"], means.loc[engineers.AFTER]
    yardsticks = pd.DataFrame([record["yardsticks"][engineers.MADE_UP] for record in designs]).mean()
    rule = yardsticks.filter(like="rule").max()
    best_loss = yardsticks["best of one size"] - yardsticks["best of one size for another's"]
    solving = sum(record["solving"]["mean"] for record in designs) / len(designs)
    text = (
        f"told another's report, designs lose {after['reading']:z.2f} (target {READING:.2f}; the best design of one "
        f"size for each situation loses {best_loss:.2f})"
    )
    return [
        (legal >= LEGAL, f"legal designs before RL on designs {legal:.1%} (target {LEGAL:.0%})"),
        (after["own"] > rule, f"designs earn {after['own']:.2f} (target: above {rule:.2f}, the best hand rule)"),
        (after["reading"] >= READING, text),
        (
            solving >= SOLVING,
            f"RL on designs changes valid by {100 * solving:+.1f} points (target {100 * SOLVING:+.0f})",
        ),
    ]
