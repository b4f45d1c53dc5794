"""The designer that measures: fresh boards of each kind before each round, and the kinds that are worth most.

The answers that it takes are charged (`Proposal.extra_cost`), so it shows what a designer that knew its policy well
could win. Of the report it reads the mean hole ratio alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mapflake.engineer.actions import Requested
from mapflake.engineer.designers.rules import ruled
from mapflake.engineer.ledger import Designer, History, next_index
from mapflake.engineer.reply import Proposal
from mapflake.engineer.report import FailureReport
from mapflake.env import EnvConfig, GenerationError, generate
from mapflake.repro import seed_for
from mapflake.trainer.evaluate import Completer, rollout

BOARDS, SAMPLES = 16, 4  # fresh boards of a kind, answers to each; our choice
NEAR = 0.8  # of the best kind's value, from which a kind is asked for; our choice


def frontier(policy_for: Callable[[History], Completer], sizes: Sequence[int], *, seed: int) -> Designer:
    """Returns the designer that asks, in equal parts, for the kinds whose p (1 - p) is at least 0.8 of the best.

    A kind is a size and whether a wait is needed. Our choice; the paper has no such designer.
    """

    def design(report: FailureReport, history: History) -> Proposal:
        policy, round_seed = policy_for(history), seed_for(seed, "frontier", next_index(history))
        bins = [b for b in report.bins if b.size in sizes]
        holes = sum(b.hole_ratio * b.rollouts for b in bins) / max(1, sum(b.rollouts for b in bins))
        agents, kinds = history[-1].config.num_agents, [(size, wait) for size in sizes for wait in (False, True)]
        values = {k: v for k in kinds if (v := success_variance(policy, k, holes, agents, seed=round_seed)) is not None}
        best = max(values.values(), default=0.0)
        near = [kind for kind, value in values.items() if value >= NEAR * best]
        requested: Requested = {
            size: {"data_ratio": float(len(waits)), "hole_ratio": holes, "wait_ratio": sum(waits) / len(waits)}
            for size in sizes
            if (waits := [wait for near_size, wait in near if near_size == size])
        }
        listing = ", ".join(
            f"{size}x{size}{' with waits' * wait} {value:.3f}" for (size, wait), value in values.items()
        )
        cost = {"rollouts": len(values) * BOARDS * SAMPLES}
        return ruled(requested, history, f"kinds with p (1 - p) near the best: {listing}", sizes, cost)

    return design


def success_variance(
    policy: Completer, kind: tuple[int, bool], holes: float, agents: int, *, seed: int
) -> float | None:
    """Returns the mean of p (1 - p) over fresh boards of a kind, without bias; None if its boards cannot be drawn.

    Raises:
        ValueError: An answer did not come.
    """
    size, wait = kind
    try:
        config = EnvConfig.uniform([size], holes, float(wait), agents)
    except ValueError:  # no room for so many agents
        return None
    try:
        tasks = generate(config, BOARDS, seed=seed, split="train")
    except GenerationError:
        return None
    rollouts = rollout(policy, tasks, samples=SAMPLES, temperature=1.0, seed=seed)
    if lost := BOARDS * SAMPLES - len(rollouts):
        raise ValueError(f"frontier: {lost} of {BOARDS * SAMPLES} answers on boards of {size}x{size} did not come")
    p = np.array([r.verdict.valid for r in rollouts], dtype=float).reshape(BOARDS, SAMPLES).mean(axis=1)
    return float((p * (1 - p)).mean() * SAMPLES / (SAMPLES - 1))
