"""One board of a configuration for a seed: what an environment of another framework resets with.

A set of `generate` meets the shares of a configuration exactly, so a set of one board would always have the size with
the largest share. `draw` samples instead: the size by the data ratios, the wait label by the size's wait ratio, then a
board of that kind. The board is that of `generate` for the kind alone and the same seed; only the time is bounded here.
"""

from __future__ import annotations

import math
import time

import numpy as np

from mapflake.env import EnvConfig, GenerationError, Task, num_holes
from mapflake.env.generator import MAX_ATTEMPTS, _sample
from mapflake.env.solver import solution_of
from mapflake.env.splits import BUCKETS, SPLITS
from mapflake.repro import rng_for, seed_for, shown

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

    Args:
        config: The distribution.
        seed: An integer in 0..2^63 - 1.
        split: The use of the board, one of `SPLITS`.
        seconds: Time after which the search ends, by the clock; one board's check may outlast it.

    Raises:
        GenerationError: No board was found in `seconds`, or in as many attempts as `generate` makes.
        ValueError: Seed or split is out of range.
    """
    if type(seed) is not int or not 0 <= seed <= MAX_SEED:
        raise ValueError(f"seed: {shown(seed)} is not an integer in 0..{MAX_SEED}")
    if split not in SPLITS:
        raise ValueError(f"split: {shown(split)} is none of {', '.join(SPLITS)}")
    until = time.monotonic() + seconds
    size, waits = kind(config, seed)
    custom, agents = config.sizes[size].custom, config.num_agents
    holes = num_holes(size, config.sizes[size].hole_ratio)
    state = seed_for(seed, "task", split, size, holes, agents, str(waits), 0, *map(str, custom), bits=64)
    attempts = 0
    while attempts < MAX_ATTEMPTS and time.monotonic() <= until:
        drawn = _sample(custom, state, size, holes, agents, waits, BUCKETS[split], 1)  # a call cannot be ended
        if drawn.found:
            answer = drawn.answer
            return Task(drawn.found, solution_of(answer), answer.needs_wait, answer.best_sum)
        state, attempts = drawn.state, attempts + 1
    label = {None: "", True: " that needs a wait", False: " that needs no wait"}[waits]
    limit = "" if attempts == MAX_ATTEMPTS else f" and {seconds:g} seconds"
    raise GenerationError(
        f"no solvable board{label} found in {attempts} attempts{limit}: size {size}, {agents} agents, "
        f"{size * size - holes} free cells, split {split!r}",
        size,
    )
