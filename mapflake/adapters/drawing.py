"""One board of a configuration for a seed: what an environment of another framework resets with.

A set of `generate` meets the shares of a configuration exactly, so a set of one board would always have the size with
the largest share. `draw` samples instead: the size by the data ratios, the wait label by the size's wait ratio, then a
board of that kind. The board is that of `generate` for the kind alone and the same seed; only the time is bounded here.
"""

from __future__ import annotations

import math

import numpy as np

from mapflake.env import EnvConfig, Task
from mapflake.env.generator import TaskSpec, find
from mapflake.env.splits import SPLITS
from mapflake.repro import plain, rng_for, shown

MAX_SEED = 2**63 - 1


def kind(config: EnvConfig, seed: int) -> tuple[int, bool | None]:
    """Returns a size and a wait label (None: either), drawn from `config` by its ratios."""
    rng = rng_for(seed, "kind")
    sizes, shares = zip(*config.data_ratios.items(), strict=True)
    size = int(rng.choice(sizes, p=np.array(shares) / math.fsum(shares)))
    ratio = config.sizes[size].wait_ratio
    return size, None if ratio is None else bool(rng.random() < ratio)


def draw(config: EnvConfig, seed: int, *, split: str = "train", seconds: float = math.inf) -> Task:
    """Returns the board of a seed, with its answer; boards over seeds follow the ratios of `config`.

    The search ends after `seconds` by the clock; one board's check may outlast it.

    Raises:
        GenerationError: No board was found in `seconds`, or in as many attempts as `generate` makes; or there is one
            agent, and boards of a size are to need a wait.
        ValueError: Seed or split is out of range.
    """
    seed = plain(seed)
    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed: {shown(seed)} is not an integer in 0..{MAX_SEED}")
    if split not in SPLITS:
        raise ValueError(f"split: {shown(split)} is none of {', '.join(SPLITS)}")
    if config.num_agents == 1:  # `find` refuses a wait; here whatever the seed, also that of a board that needs none
        for lonely, part in config.sizes.items():
            if part.data_ratio and part.wait_ratio:
                find(config, TaskSpec(lonely, True, 0), seed, split)
    size, waits = kind(config, seed)
    return find(config, TaskSpec(size, waits, 0), seed, split, seconds=seconds)
