"""The rules that a model engineer is compared with: none asks a model, none draws a board.

All see what the engineer sees (the report and the rounds so far) and pass the same projection. The curricula over
cells (learnability, learning progress) give weights q_c to the kinds of validation boards c = (size, hole bin, needs a
wait), from which r_s = sum of q_c, h_s = E_q[holes | s], w_s = P_q[wait | s]. In the papers cited the weights choose
single levels; that a curriculum is a *configuration* here is our choice, and makes them comparable. Not covered:
designers that pay for rollouts (`probes`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from mapflake.engineer.ledger import Designer, History, next_index
from mapflake.engineer.reply import Proposal
from mapflake.engineer.report import Cell, FailureReport
from mapflake.engineer.space import STEP, Requested, in_steps, legal_sizes, project
from mapflake.env import EnvConfig
from mapflake.env.config import DIMENSIONS
from mapflake.repro import rng_for


def fixed() -> Designer:
    """Returns the designer that leaves the configuration as it is: the baseline "GRPO (random)" of the paper."""
    return lambda report, history: ruled(ratios(history[-1].config), history, "unchanged")


def fixed_random(sizes: Iterable[int], *, seed: int, number: int) -> Designer:
    """Returns the designer that draws one `random_config`, the `number`-th of the seed, and stays with it.

    Several numbers show how much a fixed configuration owes to its draw (our choice; the paper has one).
    """
    sizes = legal_sizes(sizes)

    def design(report: FailureReport, history: History) -> Proposal:
        drawn = random_config(sizes, rng_for(seed, "fixed_random", number), history[-1].config.num_agents)
        return ruled(ratios(drawn), history, f"random draw {number}, the same every round", sizes)

    return design


def uniform(sizes: Iterable[int]) -> Designer:
    """Returns the designer that asks for the middle of the space: sizes alike, holes 0.25, waits 0.5 (our choice).

    It is the mean of `random_config`, so it shows what a draw's chance is worth.
    """
    sizes = legal_sizes(sizes)
    asked = {s: {"data_ratio": 1 / len(sizes), "hole_ratio": 0.25, "wait_ratio": 0.5} for s in sizes}
    return lambda report, history: ruled(asked, history, "the middle of the space", sizes)


def evaluation_matched(sizes: Iterable[int], *, wait_ratio: float = 0.5) -> Designer:
    """Returns the designer that trains on what is evaluated: sizes and holes of the validation boards, waits 0.5.

    Half of the boards need a wait on average over the benchmark's subsets, as in the paper's (25%, 50%, 75%).
    """
    sizes = legal_sizes(sizes)

    def design(report: FailureReport, history: History) -> Proposal:
        asked = of_cells({c: float(c.rollouts) for c in report.cells if c.size in sizes})
        asked = {s: {**v, "wait_ratio": wait_ratio} for s, v in asked.items()}
        return ruled(asked, history, "as the validation boards, half of them with waits", sizes)

    return design


def heuristic_expert(sizes: Iterable[int], *, floor: float = 0.05) -> Designer:
    """Returns the designer that an RL practitioner might write down in five minutes.

    Data goes where the policy succeeds half of the time, r ~ max(floor, 1 - |2 v - 1|) with v the valid rate; where v
    is above 0.7, holes and waits go up by 0.1, where it is below 0.3, down. A size that the last configuration lacks
    starts at the mean hole and wait ratios of the others. All of it is our choice, made before any result was seen.
    """
    sizes = legal_sizes(sizes)

    def design(report: FailureReport, history: History) -> Proposal:
        last = history[-1].config
        present = list(last.sizes.values())
        waits = [c.wait_ratio for c in present if c.wait_ratio is not None]
        asked: dict[int, dict[str, float | None]] = {}
        for size in sizes:
            c, seen = last.sizes.get(size), report.at(size)
            valid = seen.valid_rate if seen else 0.5
            step = 0.1 if valid > 0.7 else -0.1 if valid < 0.3 else 0.0
            hole = c.hole_ratio if c else sum(p.hole_ratio for p in present) / len(present)
            wait = c.wait_ratio if c else sum(waits) / len(waits) if waits else None
            asked[size] = {
                **(c.ratios if c else {}),  # it knows of three and leaves others as they are
                "data_ratio": max(floor, 1 - abs(2 * valid - 1)),
                "hole_ratio": round(hole + step, 9),
                "wait_ratio": None if wait is None else round(wait + step, 9),
            }
        return ruled(asked, history, "data to half-solved sizes, holes and waits by 0.1 towards them", sizes)

    return design


def domain_randomisation(sizes: Iterable[int], *, seed: int) -> Designer:
    """Returns the designer that draws a new `random_config` every round, whatever the policy does.

    Source: domain randomisation, Tobin et al. 2017 (arXiv 1703.06907); that one draw lasts a round is our choice.
    """
    sizes = legal_sizes(sizes)

    def design(report: FailureReport, history: History) -> Proposal:
        rng = rng_for(seed, "domain_randomisation", next_index(history))
        drawn = random_config(sizes, rng, history[-1].config.num_agents)
        return ruled(ratios(drawn), history, "a new random draw", sizes)

    return design


def learnability(sizes: Iterable[int]) -> Designer:
    """Returns the designer that weights cells by p (1 - p), the variance of their success.

    Source: "sampling for learnability", Rutherford et al. 2024 (No Regrets, arXiv 2408.15099); the size of the
    advantage, by which PLR ranks (Jiang et al. 2021), gives the same order for rewards of 0 and 1.
    """
    return _over_cells(sizes, lambda report, history: {c: _p(c) * (1 - _p(c)) for c in report.cells}, "p (1 - p)")


def learning_progress(sizes: Iterable[int]) -> Designer:
    """Returns the designer that weights cells by |p_t - p_(t-1)|, their change since the round before.

    Source: absolute learning progress, Oudeyer et al. 2007, as in teacher-student curricula (Matiisen et al. 2017,
    arXiv 1707.00183; ALP-GMM, Portelas et al. 2019). After round 0 nothing has changed yet: all cells alike.
    """

    def weights(report: FailureReport, history: History) -> Mapping[Cell, float]:
        earlier = history[-2].report.cells if len(history) > 1 else ()
        before = {(c.size, c.hole_ratio, c.needs_wait): _p(c) for c in earlier}
        return {c: abs(_p(c) - before.get((c.size, c.hole_ratio, c.needs_wait), _p(c))) for c in report.cells}

    return _over_cells(sizes, weights, "change of p")


def _over_cells(
    sizes: Iterable[int], weights: Callable[[FailureReport, History], Mapping[Cell, float]], name: str
) -> Designer:
    """Returns the designer that turns weights of cells into a configuration; all cells alike where all weigh 0."""
    sizes = legal_sizes(sizes)

    def design(report: FailureReport, history: History) -> Proposal:
        weighed = {c: w for c, w in weights(report, history).items() if c.size in sizes}
        if not any(weighed.values()):
            return ruled(of_cells(dict.fromkeys(weighed, 1.0)), history, f"{name} is 0 in every cell: all alike", sizes)
        return ruled(of_cells(weighed), history, f"cells by {name}", sizes)

    return design


def _p(cell: Cell) -> float:
    """Returns the chance of success in a cell, the mean under a uniform prior: few rollouts say little."""
    return (cell.valid + 1) / (cell.rollouts + 2)


def of_cells(weights: Mapping[Cell, float]) -> Requested:
    """Returns the ratios of the mixture of cells with these weights (not all 0), by size.

    Raises:
        ValueError: There are no cells: the report was made without rollouts.
    """
    if not weights:
        raise ValueError("the report has no cells to weigh")
    asked: dict[int, dict[str, float | None]] = {}
    for size in sorted({c.size for c in weights}):
        own = {c: w for c, w in weights.items() if c.size == size}
        total = sum(own.values())
        if total > 0:
            hole = sum(w * c.hole_ratio for c, w in own.items()) / total
            wait = sum(w * c.needs_wait for c, w in own.items()) / total
            asked[size] = {"data_ratio": total / sum(weights.values()), "hole_ratio": hole, "wait_ratio": wait}
    return asked


def random_config(sizes: Iterable[int], rng: np.random.Generator, num_agents: int = 2) -> EnvConfig:
    """Returns a configuration drawn without knowledge of any policy: that of round 0.

    Data ratios uniform over the simplex (Dirichlet with all parameters 1), the others uniform over what is legal, so
    hole ratios in [0, 0.5] and wait ratios in [0, 1], all in steps of 1/20 (the grid of the compact
    prompt format)
    and projected. The distribution is our choice; the paper speaks of "random" only.
    """
    sizes = legal_sizes(sizes)
    steps = {"data_ratio": np.array(in_steps(list(rng.dirichlet(np.ones(len(sizes))))))}
    for name, dimension in DIMENSIONS.items():
        if name not in steps:
            steps[name] = rng.integers(0, round(dimension.top * STEP) + 1, len(sizes))
    asked = {size: {name: int(drawn[i]) / STEP for name, drawn in steps.items()} for i, size in enumerate(sizes)}
    return project(asked, sizes, num_agents)


def ratios(config: EnvConfig) -> Requested:
    """Returns a configuration as a request."""
    return {size: c.ratios for size, c in config.sizes.items()}


def ruled(
    asked: Requested, history: History, why: str, sizes: Iterable[int] = (), spent: Mapping[str, int] | None = None
) -> Proposal:
    """Returns the proposal of a rule: the same projection, and one line of why in place of a reply."""
    legal, agents = tuple(sizes) or tuple(asked), history[-1].config.num_agents
    return Proposal(
        why, project(asked, legal, agents), None, asked, sizes=legal, num_agents=agents, spent=dict(spent or {})
    )
