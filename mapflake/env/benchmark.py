"""The benchmark: subsets by wait ratio, each with as many boards for every number of agents and size.

The shape is the paper's: wait ratios 0.25, 0.5 and 0.75, 3 to 5 agents, 50 boards for each of 21 pairs of agents and
size, 3150 in all. Its hole ratio is not stated there; 0.2 is our choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mapflake.env.config import EnvConfig
from mapflake.env.generator import generate
from mapflake.env.task import Task
from mapflake.repro import shown, whole

PAPER_STRATA: Mapping[int, Sequence[int]] = {3: range(3, 11), 4: range(4, 11), 5: range(5, 11)}
"""Number of agents -> sizes."""


def benchmark_sets(
    seed: int = 0,
    *,
    strata: Mapping[int, Sequence[int]] = PAPER_STRATA,
    wait_ratios: Sequence[float] = (0.25, 0.5, 0.75),
    hole_ratio: float = 0.2,
    boards: int = 50,
    split: str = "benchmark",
) -> dict[str, list[Task]]:
    """Returns the subsets, `{"wr025": [...], "wr050": [...], "wr075": [...]}`: the paper's without arguments.

    Each has a wait ratio, and `boards` boards of the split for every number of agents and size in `strata`, sorted by
    agents, sizes shuffled. The wait ratio is met in each stratum (halves upwards: 13, 25 and 38 of 50).

    Raises:
        GenerationError: No board was found for a task.
        ValueError: An argument is out of range; names it.
    """
    names = [f"wr{round(100 * ratio):03d}" for ratio in wait_ratios]
    if len({*names}) < len(names):
        raise ValueError(f"wait_ratios: {list(wait_ratios)} give two subsets one name, of {', '.join(names)}")
    boards = whole(boards, "boards", 0)
    for agents, sizes in strata.items():
        if len({*sizes}) < len(sizes):
            raise ValueError(f"strata: {shown(sizes)}, of {agents} agents, has a size twice")
    subsets: dict[str, list[Task]] = {name: [] for name in names}
    for name, ratio in zip(names, wait_ratios, strict=True):
        for agents, sizes in strata.items():
            config = EnvConfig.uniform(sizes, hole_ratio, ratio, agents)
            subsets[name] += generate(config, boards * len(sizes), seed=seed, split=split)
    return subsets
