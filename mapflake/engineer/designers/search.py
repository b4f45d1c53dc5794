"""The designer that searches for the design that is worth most by the reward of RL on designs.

RL on designs teaches a policy to write designs that earn this reward. This rule finds them without a model, by success
rates that it guesses from the report, and takes no answer beyond the report's: the control of RL on designs. All of it
is our choice. The reward knows boards with two agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mapflake.engineer.actions import legal_sizes, ratios
from mapflake.engineer.designers.rules import ruled
from mapflake.engineer.ledger import Designer, History
from mapflake.engineer.reply import Proposal
from mapflake.engineer.report import FailureReport
from mapflake.engineer.situations import (
    VALIDATED_HOLES,
    Kind,
    Reward,
    Situation,
    best,
    expected_gain,
    kinds,
    table,
)
from mapflake.env import EnvConfig
from mapflake.env.config import PAPER

# Log-odds of success: on a 3x3 board without a wait, lost with each size, lost where a wait is needed. Means and
# deviations are about those of made-up policies (`compact.demonstrations`), and so is the cost of holes.
MEANS, DEVIATIONS = np.array([1.25, 0.65, 1.5]), np.array([2.0, 0.5, 1.0])
HOLE_COST = 4.0  # log-odds lost with a unit of the hole ratio


def reward_search(sizes: Sequence[int], reward: Reward = expected_gain) -> Designer:
    """Returns the designer that asks for the best of `candidates` by a reward, at success rates that it guesses.

    It raises ValueError if the report has no sizes, or a design's reward is no finite number from 0 on.
    """
    designs = candidates(sizes)

    def design(report: FailureReport, history: History) -> Proposal:
        success = guessed(report, {*sizes, *(row.size for row in report.sizes)})  # validated sizes count, legal or not
        learnability = {kind: 4 * p * (1 - p) for kind, p in success.items()}
        situation = Situation(report, history, table(success), table(learnability))
        chosen = best(situation, designs, reward)
        why = f"worth {reward(situation, chosen):.3f}, the best of {len(designs)} designs"
        asked = {size: {key: part[key] for key in PAPER} for size, part in ratios(chosen).items()}
        return ruled(asked, history, why, sizes)

    return design


def candidates(sizes: Sequence[int]) -> list[EnvConfig]:
    """Returns the designs that are compared: neighbouring sizes in equal parts, one hole ratio, one share of waits."""
    ordered = legal_sizes(sizes)
    neighbours = [ordered[i:j] for i in range(len(ordered)) for j in range(i + 1, len(ordered) + 1)]
    return [
        EnvConfig.uniform(subset, holes, waits)
        for subset in neighbours
        for holes in (0.0, 0.15, 0.3)
        for waits in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]


def guessed(report: FailureReport, sizes: Iterable[int]) -> dict[Kind, float]:
    """Returns the chance of success by kind of boards, of all `sizes`: a logistic regression on the report's counts.

    Log-odds fall with the size, where a wait is needed, and with holes. The three numbers are the most probable ones
    under a normal prior, so a report without any success, or without a failure, has an answer too. ValueError if the
    report has no sizes.
    """
    if not report.sizes:
        raise ValueError("report: has no sizes, so there is nothing to guess success rates from")
    counts = [(s.size, False, *s.without_wait) for s in report.sizes]
    counts += [(s.size, True, s.wait_valid, s.wait_rollouts) for s in report.sizes]
    size, wait, valid, rollouts = (np.array(column, dtype=float) for column in zip(*counts, strict=True))
    x = np.stack([np.ones_like(size), 3 - size, -wait], axis=1)  # [kinds, 3]
    coefs = MEANS.copy()
    for _ in range(100):  # Newton's method on a concave function; without a limit on its steps it may oscillate
        p = 1 / (1 + np.exp(-x @ coefs))
        gradient = x.T @ (valid - rollouts * p) - (coefs - MEANS) / DEVIATIONS**2
        curvature = (x.T * (rollouts * p * (1 - p))) @ x + np.diag(1 / DEVIATIONS**2)
        step = np.linalg.solve(curvature, gradient)
        coefs += step / max(1.0, 2 * float(np.linalg.norm(step)))
    return {
        kind: float(1 / (1 + np.exp(-(coefs @ (1, 3 - kind[0], -kind[2])) + HOLE_COST * (kind[1] - VALIDATED_HOLES))))
        for kind in kinds(sizes)
    }
