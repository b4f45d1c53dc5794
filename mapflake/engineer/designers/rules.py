"""The rules that a model engineer is compared with: none asks a model, none draws a board (`measured.frontier` does).

All see what the engineer sees (the report and the rounds so far) and pass the same projection.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mapflake.engineer.actions import Requested, checked_request, legal_sizes, project, ratios
from mapflake.engineer.ledger import Designer, History, next_index
from mapflake.engineer.reply import Proposal
from mapflake.engineer.report import BoardBin, FailureReport
from mapflake.engineer.words import STEP
from mapflake.env import EnvConfig, apportion
from mapflake.env.config import DIMENSIONS
from mapflake.repro import plain, rng_for


def fixed() -> Designer:
    """Returns the designer that leaves the configuration as it is: the baseline "GRPO (random)" of the paper."""
    return lambda report, history: ruled(history[-1].config, history, "unchanged")


def constant(config: EnvConfig | None, sizes: Sequence[int]) -> Designer:
    """Returns the designer that asks for one given configuration.

    Raises:
        ValueError: There is none, or it has boards of a size that may not be asked for; called, as for `ruled`.
    """
    if config is None:
        raise ValueError("arm 'constant' asks for a configuration that is not given (ablations.constant)")
    if outside := {size for size, share in config.data_ratios.items() if share} - {*sizes}:
        raise ValueError(
            f"arm 'constant': size {min(outside)} may not be asked for; sizes: {', '.join(map(str, sizes))}"
        )

    def design(report: FailureReport, history: History) -> Proposal:
        return ruled(config, history, "the constant configuration", sizes)

    return design


def uniform(sizes: Sequence[int]) -> Designer:
    """Returns the designer that asks for the middle of the space, the mean of `random_config` (our choice)."""
    requested = {s: {"data_ratio": 1 / len(sizes), "hole_ratio": 0.25, "wait_ratio": 0.5} for s in sizes}
    return lambda report, history: ruled(requested, history, "the middle of the space", sizes)


def evaluation_matched(sizes: Sequence[int]) -> Designer:
    """Returns the designer that asks for the sizes and holes of the validation boards, and for waits 0.5.

    Half of the boards need a wait on average over the benchmark's subsets, as in the paper's (25%, 50%, 75%).
    """

    def design(report: FailureReport, history: History) -> Proposal:
        by_size = mixture({b: float(b.rollouts) for b in report.bins if b.size in sizes})
        requested = {s: {**v, "wait_ratio": 0.5} for s, v in by_size.items()}
        return ruled(requested, history, "as the validation boards, half of them with waits", sizes)

    return design


def towards_half(valid_rate: float) -> float:
    """Returns the change of hole and wait ratios: 0.1 where the valid rate is above 0.7, -0.1 where it is below 0.3."""
    return 0.1 * ((valid_rate > 0.7) - (valid_rate < 0.3))


def half_solved(valid_rate: float) -> float:
    """Returns the weight of a size, which peaks where half of its boards are solved: max(0.05, 1 - |2 v - 1|)."""
    return max(0.05, 1 - abs(2 * valid_rate - 1))


def heuristic_expert(sizes: Sequence[int]) -> Designer:
    """Returns the designer that an RL practitioner might write down in five minutes.

    Data goes where the policy succeeds half of the time (`half_solved`); holes and waits move `towards_half`. A size
    that the last configuration lacks starts at the mean ratios of the others, and one that the report lacks counts as
    not solved. Our choice, made before any result.
    """

    def design(report: FailureReport, history: History) -> Proposal:
        last = history[-1].config
        present = list(last.sizes.values())
        waits = [c.wait_ratio for c in present if c.wait_ratio is not None]
        requested: dict[int, dict[str, float | None]] = {}
        for size in sizes:
            c, size_report = last.sizes.get(size), report.at(size)
            valid = size_report.valid_rate if size_report else 0.0
            step = towards_half(valid)
            hole = c.hole_ratio if c else sum(p.hole_ratio for p in present) / len(present)
            wait = c.wait_ratio if c else sum(waits) / len(waits) if waits else None
            requested[size] = {
                **(c.ratios if c else {}),  # custom dimensions stay as they are
                "data_ratio": half_solved(valid),
                "hole_ratio": round(hole + step, 9),
                "wait_ratio": None if wait is None else round(wait + step, 9),
            }
        return ruled(requested, history, "data to half-solved sizes, holes and waits by 0.1 towards them", sizes)

    return design


def domain_randomisation(sizes: Sequence[int], *, seed: int) -> Designer:
    """Returns the designer that draws a new `random_config` every round, whatever the policy does.

    Source: domain randomisation, Tobin et al. 2017 (arXiv 1703.06907); that one draw lasts a round is our choice.
    """

    def design(report: FailureReport, history: History) -> Proposal:
        rng = rng_for(seed, "domain_randomisation", next_index(history))
        config = random_config(sizes, rng, history[-1].config.num_agents)
        return ruled(config, history, "a new random draw", sizes)

    return design


def learnability(sizes: Sequence[int]) -> Designer:
    """Returns the designer that weights bins by p (1 - p), the variance of their success.

    Source: "sampling for learnability", Rutherford et al. 2024 (No Regrets, arXiv 2408.15099), where the weights choose
    single levels; that they make a *configuration* here is our choice.
    """

    def design(report: FailureReport, history: History) -> Proposal:
        # The mean under a uniform prior: few rollouts say little.
        chances = {b: (b.valid + 1) / (b.rollouts + 2) for b in report.bins if b.size in sizes}
        weights = {b: p * (1 - p) for b, p in chances.items()}
        return ruled(mixture(weights), history, "bins by p (1 - p)", sizes)

    return design


def mixture(weights: Mapping[BoardBin, float]) -> Requested:
    """Returns the ratios of the mixture of bins with these weights (not all 0), by size; ValueError without bins."""
    if not weights:
        raise ValueError("the report has no bins to weigh")
    requested: dict[int, dict[str, float | None]] = {}
    for size in sorted({b.size for b in weights}):
        size_weights = {b: w for b, w in weights.items() if b.size == size}
        total = sum(size_weights.values())
        if total > 0:
            hole = sum(w * b.hole_ratio for b, w in size_weights.items()) / total
            wait = sum(w * b.needs_wait for b, w in size_weights.items()) / total
            requested[size] = {"data_ratio": total / sum(weights.values()), "hole_ratio": hole, "wait_ratio": wait}
    return requested


def random_config(sizes: Iterable[int], rng: np.random.Generator, num_agents: int = 2) -> EnvConfig:
    """Returns a configuration drawn without knowledge of any policy: that of round 0.

    Data ratios are uniform over the simplex, the others over what is legal, all in steps of 1/20 as in compact words.
    The distribution is our choice; the paper speaks of "random" only.
    """
    sizes = legal_sizes(sizes)
    shares = apportion(STEP, dict(enumerate(rng.dirichlet(np.ones(len(sizes))))))
    steps = {"data_ratio": [*shares.values()]}
    for name, dimension in DIMENSIONS.items():
        if name not in steps:
            steps[name] = rng.integers(0, round(dimension.top * STEP) + 1, len(sizes)).tolist()
    requested = {size: {name: values[i] / STEP for name, values in steps.items()} for i, size in enumerate(sizes)}
    return project(requested, sizes, num_agents)


def ruled(
    asked: Requested | EnvConfig,
    history: History,
    why: str,
    sizes: Iterable[int] = (),
    extra_cost: Mapping[str, int] | None = None,
) -> Proposal:
    """Returns the proposal of a rule that asks for these ratios, which need not be legal: projected as all are.

    `why` is one line for the record. `sizes` are the sizes that may be asked for; if empty, all sizes of `asked` may.
    Custom dimensions that `asked` does not name stay as in the last configuration, and so does the number of agents.

    Raises:
        ValueError: There is no history, `asked` does not map sizes to ratios by name, or asks for another number of
            agents.
    """
    if not history:
        raise ValueError("history: empty: a rule designs what follows a round")
    if isinstance(asked, EnvConfig):
        if asked.num_agents != history[-1].config.num_agents:
            num_agents = history[-1].config.num_agents
            raise ValueError(f"num_agents: the rounds have {num_agents}, and {asked.num_agents} are asked for")
        asked = ratios(asked)
    custom = {size: dict(part.custom) for size, part in history[-1].config.sizes.items()}
    asked = {size: {**custom.get(size, {}), **part} for size, part in checked_request(asked).items()}
    legal, agents = tuple(map(plain, sizes)) or tuple(asked), history[-1].config.num_agents
    config = project(asked, legal, agents)
    return Proposal(why, config, None, asked, sizes=legal, num_agents=agents, extra_cost=dict(extra_cost or {}))
