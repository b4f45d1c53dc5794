"""From a distribution of boards to tasks with their answers.

Task i depends on (seed, split, config, n, i) and on what is excluded alone, so any worker can make any slice. The
data ratios are met by largest remainder, the wait ratio of each size by a quota (halves upwards), the holes of a board
by `num_holes`. Splits have no board in common, not even up to a symmetry of the square or a renaming of agents:
a hash of what these leave alone decides where a board belongs. Boards within one split may repeat: there are few
small ones. All tasks are solvable and no agent starts on its goal.

How boards are drawn is our choice, the paper does not say: holes, starts and goals uniformly, boards that cannot be
solved or have the wrong wait label thrown away. Not covered: parallel generation; statistics of a config.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from mapflake.env.config import MAX_HOLE_RATIO, MAX_SIZE, MIN_SIZE, EnvConfig, SizeConfig, cells_needed, num_holes
from mapflake.env.instance import Cell, Instance
from mapflake.env.solver import BudgetExceeded, Unsolvable
from mapflake.env.task import Task
from mapflake.repro import rng_for

__all__ = [
    "MAX_ATTEMPTS",
    "MAX_HOLE_RATIO",
    "MAX_SIZE",
    "MIN_SIZE",
    "SPLITS",
    "EnvConfig",
    "GenerationError",
    "SizeConfig",
    "apportion",
    "canonical",
    "cells_needed",
    "generate",
    "layout",
    "num_holes",
    "split_of",
]

logger = logging.getLogger(__name__)

SPLITS = ("train", "validation", "benchmark")

_SPLIT_OF_DIGIT = ("train",) * 8 + ("validation", "benchmark")

MAX_ATTEMPTS = 200_000
"""Boards drawn for one task before giving up."""


class GenerationError(ValueError):
    """A configuration from which a task could not be drawn; the message has the numbers."""


# ---------------------------------------------------------------- splits


def canonical(instance: Instance) -> tuple[Any, ...]:
    """Returns what is common to an instance, its 8 images, and all renamings of its agents."""
    size, last = instance.size, instance.size - 1
    pairs = [(*start, *goal) for start, goal in zip(instance.starts, instance.goals, strict=True)]
    images = []
    for k, turn in enumerate(_TURNS):
        images.append((sorted((*turn(a, b, last), *turn(c, d, last)) for a, b, c, d in pairs), k))
    best = min(agents for agents, _ in images)
    # Holes decide only between the images whose agents are alike: usually there is one.
    holes = min(
        sorted(_TURNS[k](row, col, last) for row, col in instance.holes) for agents, k in images if agents == best
    )
    return size, tuple(best), tuple(holes)


_TURNS: tuple[Callable[[int, int, int], Cell], ...] = (
    lambda r, c, n: (r, c),
    lambda r, c, n: (n - r, c),
    lambda r, c, n: (r, n - c),
    lambda r, c, n: (n - r, n - c),
    lambda r, c, n: (c, r),
    lambda r, c, n: (n - c, r),
    lambda r, c, n: (c, n - r),
    lambda r, c, n: (n - c, n - r),
)


def split_of(instance: Instance) -> str:
    """Returns the one split that the instance, its images and its renamings may belong to.

    8 in 10 boards are for training, one is for validation, one for the benchmark.
    """
    digest = hashlib.blake2b(repr(canonical(instance)).encode(), digest_size=8).digest()
    return _SPLIT_OF_DIGIT[int.from_bytes(digest, "little") % 10]


# ---------------------------------------------------------------- drawing


def apportion(n: int, config: EnvConfig) -> dict[int, int]:
    """Returns how many of `n` tasks have each size: largest remainder, equal remainders to the smaller size."""
    total = math.fsum(part.data_ratio for part in config.sizes.values())
    exact = {size: n * part.data_ratio / total for size, part in config.sizes.items()}
    counts = {size: math.floor(share + 1e-9) for size, share in exact.items()}
    order = sorted(exact, key=lambda size: (-round(exact[size] - counts[size], 9), size))
    for size in order[: n - sum(counts.values())]:
        counts[size] += 1
    return counts


def layout(config: EnvConfig, n: int, *, seed: int, split: str = "train") -> list[tuple[int, bool | None]]:
    """Returns for each of the n tasks its size and whether it needs a wait (None: as it falls), shuffled."""
    slots: list[tuple[int, bool | None]] = []
    for size, count in apportion(n, config).items():
        ratio = config.sizes[size].wait_ratio
        if ratio is None:
            slots += [(size, None)] * count
        else:
            waits = math.floor(ratio * count + 0.5)
            slots += [(size, True)] * waits + [(size, False)] * (count - waits)
    keys = rng_for(seed, "layout", split, _config_key(config), n).random(n)
    return [slots[i] for i in np.argsort(keys, kind="stable")]


def generate(
    config: EnvConfig,
    n: int,
    *,
    seed: int,
    split: str = "train",
    exclude: Iterable[Instance] = (),
    indices: Iterable[int] | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[Task]:
    """Returns n tasks drawn from `config`.

    Args:
        config: What to draw from.
        n: How many.
        seed: Any non-negative integer.
        split: One of `SPLITS`; they have no board in common.
        exclude: Boards that must not occur, in no orientation and under no order of agents.
        indices: Make only these of the n tasks, in this order; None makes all. Whoever makes a slice gets what
            the whole has there.
        progress: Called with 1 after each task.

    Raises:
        GenerationError: No board was found for a task; names size, agents, free cells and attempts.
        ValueError: Unknown split, or n, seed or an index out of range.
    """
    for name, count in (("n", n), ("seed", seed)):
        if type(count) is not int or count < 0:
            raise ValueError(f"{name}: {count!r} is not an integer from 0")
    if split not in SPLITS:
        raise ValueError(f"split: {split!r} is none of {', '.join(SPLITS)}")
    banned = frozenset(map(canonical, exclude))
    slots = layout(config, n, seed=seed, split=split)
    tasks = []
    for i in range(n) if indices is None else indices:
        if i not in range(n):
            raise ValueError(f"indices: {i!r} is not in 0..{n - 1}")
        rng = rng_for(seed, "task", split, _config_key(config), n, i)
        tasks.append(_draw(rng, config, *slots[i], split, banned))
        if progress is not None:
            progress(1)
    return tasks


def _config_key(config: EnvConfig) -> str:
    return json.dumps(config.to_dict(), separators=(",", ":"))


def _draw(
    rng: np.random.Generator,
    config: EnvConfig,
    size: int,
    waits: bool | None,
    split: str,
    banned: frozenset[tuple[Any, ...]],
) -> Task:
    holes = num_holes(size, config.sizes[size].hole_ratio)
    over_budget = 0
    for attempts, instance in enumerate(_boards(rng, size, holes, config.num_agents), start=1):
        if attempts > MAX_ATTEMPTS:
            break
        if instance is None or split_of(instance) != split or (banned and canonical(instance) in banned):
            continue
        try:
            task = Task.of(instance)
        except Unsolvable:
            continue
        except BudgetExceeded:
            over_budget += 1
            continue
        if waits is None or task.needs_wait == waits:
            logger.debug("size %d, needs_wait %s: attempt %d, %d over budget", size, waits, attempts, over_budget)
            return task
    kind = {None: "", True: " that needs a wait", False: " that needs no wait"}[waits]
    raise GenerationError(
        f"no solvable board{kind} found in {MAX_ATTEMPTS} attempts: size {size}, {config.num_agents} agents, "
        f"{size * size - holes} free cells, split {split!r}, {over_budget} dropped over budget"
    )


def _boards(rng: np.random.Generator, size: int, holes: int, agents: int) -> Iterator[Instance | None]:
    """Yields random boards for ever, None for one with an agent that starts on its goal."""
    cells = [(row, col) for row in range(size) for col in range(size)]
    free = size * size - holes
    while True:
        order = [cells[i] for i in np.argsort(rng.random(size * size), kind="stable")]
        ice = order[holes:]
        starts = tuple(ice[:agents])
        goals = tuple(ice[i] for i in np.argsort(rng.random(free), kind="stable")[:agents])
        if any(start == goal for start, goal in zip(starts, goals, strict=True)):
            yield None
        else:
            yield Instance(size, frozenset(order[:holes]), starts, goals)
