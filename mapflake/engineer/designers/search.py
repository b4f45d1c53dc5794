"""Designers that search: they try configurations out, by probe rollouts or by whole trainings, and take the best.

The extra cost is recorded with the design (`Proposal.extra_cost`): a comparison at equal budgets has to charge it. A
probe of 32 boards with 4 samples is 128 rollouts; eight probes are 2 steps of the default round's 20 (64 prompts x 8
samples). Not covered: gradient-based or population methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mapflake.engineer.actions import Proposal, Requested, project, ratios
from mapflake.engineer.designers.rules import random_config, ruled
from mapflake.engineer.ledger import Designer, History, Round, next_index
from mapflake.engineer.report import FailureReport
from mapflake.env import EnvConfig, GenerationError, generate
from mapflake.env.config import custom_dimensions
from mapflake.repro import rng_for, seed_for

if TYPE_CHECKING:
    from mapflake.trainer.evaluate import Completer

CANDIDATES = 8  # configurations that are probed
BOARDS = 32  # boards of a probe
SAMPLES = 4  # completions of each board
TRIES = 4  # trainings of the oracle


def random_search(policy_for: Callable[[History], Completer], sizes: Sequence[int], *, seed: int) -> Designer:
    """Returns the designer that probes random configurations and takes the most learnable one.

    A search without a model and without memory (our choice of baseline).
    """

    def design(report: FailureReport, history: History) -> Proposal:
        policy, rng = policy_for(history), rng_for(seed, "candidates", next_index(history))
        wanted = [random_config(sizes, rng, history[-1].config.num_agents) for _ in range(CANDIDATES)]
        return _best_of_probes(policy, wanted, history, sizes, seed, "the most learnable of random configurations")

    return design


def accel_lite(policy_for: Callable[[History], Completer], sizes: Sequence[int], *, seed: int) -> Designer:
    """Returns the designer that probes mutations of the last configuration, and it, and takes the most learnable one.

    Source: ACCEL, Parker-Holder et al. 2022 (arXiv 2203.01302), which edits levels and keeps those of high regret.
    Lite, our choice: what is edited is the configuration, the score is learnability, and there is no buffer of levels.
    """

    def design(report: FailureReport, history: History) -> Proposal:
        policy, rng = policy_for(history), rng_for(seed, "candidates", next_index(history))
        last = project(history[-1].config, sizes, history[-1].config.num_agents)
        wanted = [last, *(_mutated(last, sizes, rng) for _ in range(CANDIDATES - 1))]
        return _best_of_probes(policy, wanted, history, sizes, seed, "the most learnable of mutations")

    return design


def oracle(try_out: Callable[[int, History, Designer], Round], sizes: Sequence[int], *, seed: int) -> Designer:
    """Returns the designer that trains on several configurations for real, from one checkpoint, and takes the best.

    An upper bound for small budgets: how much there is to win by one choice of a configuration. Tried are the last
    configuration and random ones; the best has the highest mean of valid and optimal rate on the validation boards.
    That is a choice by the outcome: its validation rates are biased upwards, its benchmark rates are not. The round
    then repeats the best training, so all tries are charged beside its own.
    """

    def design(report: FailureReport, history: History) -> Proposal:
        last = history[-1].config
        rng = rng_for(seed, "oracle", next_index(history))
        wanted = [ratios(last), *(ratios(random_config(sizes, rng, last.num_agents)) for _ in range(TRIES - 1))]
        legal = sorted({*sizes, *last.sizes})

        def asking(asked: Requested) -> Designer:
            return lambda report, history: ruled(asked, history, "a try of the oracle", legal)

        tried = [try_out(number, history, asking(asked)) for number, asked in enumerate(wanted)]
        scores = [(one.report.valid_rate + one.report.optimal_rate) / 2 for one in tried]
        best = int(np.argmax(scores))
        shown = ", ".join(f"{score:.4f}" for score in scores)
        why = f"try {best} of the tries, mean of valid and optimal rates after training: {shown}"
        return ruled(wanted[best], history, why, legal, {"rounds": TRIES})

    return design


def learnable(policy: Completer, config: EnvConfig, *, seed: int) -> float:
    """Returns the mean over a configuration's boards of p (1 - p), unbiased, p being the chance of a valid plan.

    -inf for a configuration whose boards cannot be drawn.
    """
    from mapflake.trainer.evaluate import rollout

    try:
        tasks = generate(config, BOARDS, seed=seed, split="train")
    except GenerationError:
        return -np.inf
    rollouts = rollout(policy, tasks, samples=SAMPLES, temperature=1.0, seed=seed)
    p = np.array([r.verdict.valid for r in rollouts], dtype=float).reshape(BOARDS, SAMPLES).mean(axis=1)
    return float((p * (1 - p)).mean() * SAMPLES / (SAMPLES - 1))


def _best_of_probes(
    policy: Completer, wanted: Sequence[EnvConfig], history: History, sizes: Sequence[int], seed: int, name: str
) -> Proposal:
    scores = [learnable(policy, config, seed=seed_for(seed, "probe", next_index(history))) for config in wanted]
    why = f"{name}, p (1 - p): {', '.join(f'{score:.4f}' for score in scores)}"
    best = wanted[int(np.argmax(scores))]
    return ruled(ratios(best), history, why, sizes, {"rollouts": len(wanted) * BOARDS * SAMPLES})


def _mutated(config: EnvConfig, sizes: Sequence[int], rng: np.random.Generator) -> EnvConfig:
    """Returns `config` with every ratio nudged; a size that it lacks may come in at its neighbours' levels."""
    present = list(config.sizes.values())
    hole = sum(p.hole_ratio for p in present) / len(present)
    asked: dict[int, dict[str, float | None]] = {}
    for size in sizes:
        part = config.sizes.get(size)
        wait = part.wait_ratio if part else None
        asked[size] = {
            "data_ratio": ((part.data_ratio if part else 0) + 0.05) * float(np.exp(rng.normal(0, 0.5))),
            "hole_ratio": (part.hole_ratio if part else hole) + float(rng.choice([-0.1, 0.0, 0.1])),
            "wait_ratio": None if wait is None else wait + float(rng.choice([-0.2, 0.0, 0.2])),
        }
        for name in custom_dimensions():
            asked[size][name] = (part.ratios[name] or 0.0 if part else 0.0) + float(rng.choice([-0.1, 0.0, 0.1]))
    return project(asked, sizes, config.num_agents)
