"""From a distribution of boards to tasks with their answers.

A configuration and a number of tasks say how many tasks of each kind (size, wait label) there are: the data ratios by
largest remainder, the wait ratio of each size by a quota (halves upwards), the holes of a board by `num_holes`. Task
number k of its kind depends on (seed, split, size, holes, agents, wait label, k) and on what is excluded alone. So any
worker can make any slice, a larger set has the boards of a smaller one, and configurations that ask for boards of one
kind get the same ones. Splits have no board in common, not even up to a symmetry of the square or a renaming of
agents: a hash of what these leave alone decides where a board belongs. Boards within one split may repeat: there are
few small ones. All tasks are solvable and no agent starts on its goal.

How boards are drawn is our choice, the paper does not say: holes, starts and goals uniformly, boards that cannot be
solved or have the wrong wait label thrown away. Not covered: many processes (dataset.py), dimensions of one's own
(shaped.py).
"""

from __future__ import annotations

import functools
import json
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from mapflake.env.config import MAX_HOLE_RATIO, MAX_SIZE, MIN_SIZE, EnvConfig, SizeConfig, cells_needed, num_holes
from mapflake.env.exact import kernel, tenths
from mapflake.env.exact.draw import ALL_TENTHS, draw
from mapflake.env.exact.search import APART, BUDGET, SOLVED
from mapflake.env.instance import Instance
from mapflake.env.shaped import draw_shaped
from mapflake.env.solver import solution_of
from mapflake.env.task import Task
from mapflake.repro import rng_for, seed_for

__all__ = [
    "MAX_ATTEMPTS",
    "MAX_HOLE_RATIO",
    "MAX_SIZE",
    "MIN_SIZE",
    "SPLITS",
    "Census",
    "EnvConfig",
    "GenerationError",
    "SizeConfig",
    "Slot",
    "apportion",
    "canonical",
    "cells_needed",
    "census",
    "generate",
    "layout",
    "num_holes",
    "split_of",
]

logger = logging.getLogger(__name__)

SPLITS = ("train", "validation", "benchmark")
"""What boards are for; no board is in two of them, not even turned, mirrored or with agents renamed."""

_SPLIT_OF_TENTH = ("train",) * 8 + ("validation", "benchmark")
_TENTHS = {name: sum(1 << k for k, split in enumerate(_SPLIT_OF_TENTH) if split == name) for name in SPLITS}

MAX_ATTEMPTS = 200_000
"""Boards drawn for one task before giving up."""

DRAW_BUDGET = 100_000
"""Nodes of the search for each board that is drawn; boards that take more are dropped, and counted."""


class GenerationError(ValueError):
    """A configuration from which a task could not be drawn; the message has the numbers.

    Attributes:
        size: The size of board that was not found.
    """

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message, size)  # both, so that it can be pickled
        self.size = size

    def __str__(self) -> str:
        return str(self.args[0])


# ---------------------------------------------------------------- splits


def canonical(instance: Instance) -> tuple[Any, ...]:
    """Returns what is common to an instance, its 8 images, and all renamings of its agents."""
    return tenths.canonical(instance.size, instance.holes, instance.starts, instance.goals)


def split_of(instance: Instance) -> str:
    """Returns the one split that the instance, its images and its renamings may belong to.

    8 in 10 boards are for training, one is for validation, one for the benchmark.
    """
    return _SPLIT_OF_TENTH[tenths.tenth(canonical(instance))]


# ---------------------------------------------------------------- drawing


K = TypeVar("K", bound=Hashable)


def apportion(n: int, shares: Mapping[K, float]) -> dict[K, int]:
    """Returns n in whole parts, in proportion to `shares`: largest remainder, equal remainders to the first."""
    total = math.fsum(shares.values())
    exact = {key: n * share / total for key, share in shares.items()}
    counts = {key: math.floor(share + 1e-9) for key, share in exact.items()}
    order = sorted(exact, key=lambda key: -round(exact[key] - counts[key], 9))
    for key in order[: n - sum(counts.values())]:
        counts[key] += 1
    return counts


class Slot(NamedTuple):
    """What one task is to be like.

    Attributes:
        size: Rows of its board.
        waits: Whether it needs a wait; None as it falls.
        number: How many tasks like it come before.
    """

    size: int
    waits: bool | None
    number: int


def layout(config: EnvConfig, n: int, *, seed: int, split: str = "train") -> list[Slot]:
    """Returns for each of the n tasks what it is to be like, shuffled."""
    kinds: list[tuple[int, bool | None]] = []
    for size, count in apportion(n, {size: part.data_ratio for size, part in config.sizes.items()}).items():
        ratio = config.sizes[size].wait_ratio
        if ratio is None:
            kinds += [(size, None)] * count
        else:
            waits = math.floor(ratio * count + 0.5)
            kinds += [(size, True)] * waits + [(size, False)] * (count - waits)
    keys = rng_for(seed, "layout", split, json.dumps(config.to_dict()), n).random(n)
    before: Counter[tuple[int, bool | None]] = Counter()
    slots = []
    for i in np.argsort(keys, kind="stable"):
        slots.append(Slot(kinds[i][0], kinds[i][1], before[kinds[i]]))
        before[kinds[i]] += 1
    return slots


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
    tasks: list[Task] = []
    boards = dropped = 0
    began = time.perf_counter()
    for i in range(n) if indices is None else indices:
        if i not in range(n):
            raise ValueError(f"indices: {i!r} is not in 0..{n - 1}")
        task, tried, over = _find(config, slots[i], seed, split, banned)
        tasks.append(task)
        boards, dropped = boards + tried, dropped + over
        if progress is not None:
            progress(1)
    spent = time.perf_counter() - began
    logger.info("%d tasks from %d boards in %.1f s, %d dropped over budget", len(tasks), boards, spent, dropped)
    return tasks


def _find(
    config: EnvConfig, slot: Slot, seed: int, split: str, banned: frozenset[tuple[Any, ...]]
) -> tuple[Task, int, int]:
    """The task of a slot, the boards drawn for it, and how many of them were dropped over budget."""
    size, waits, agents = slot.size, slot.waits, config.num_agents
    part = config.sizes[size]
    holes = num_holes(size, part.hole_ratio)
    state = seed_for(
        seed, "task", split, size, holes, agents, str(waits), slot.number, *map(str, part.further), bits=64
    )
    find = kernel.draw if kernel.takes(size, agents) else draw
    if part.further:
        find = functools.partial(draw_shaped, part.further, find)
    boards = dropped = 0
    while boards < MAX_ATTEMPTS:
        drawn = find(state, size, holes, agents, waits, _TENTHS[split], MAX_ATTEMPTS - boards, DRAW_BUDGET)
        state, boards, dropped = drawn.state, boards + drawn.boards, dropped + drawn.dropped
        if not drawn.found:
            break
        instance = _instance(size, holes, agents, drawn.cells)
        if not (banned and canonical(instance) in banned):
            answer = drawn.answer
            return Task(instance, solution_of(answer), answer.needs_wait, answer.best_sum), boards, dropped
    kind = {None: "", True: " that needs a wait", False: " that needs no wait"}[waits]
    raise GenerationError(
        f"no solvable board{kind} found in {boards} attempts: size {size}, {agents} agents, "
        f"{size * size - holes} free cells, split {split!r}, {dropped} dropped over budget",
        size,
    )


def _instance(size: int, holes: int, agents: int, cells: bytes) -> Instance:
    places = [divmod(cell, size) for cell in cells]
    return Instance(
        size, frozenset(places[:holes]), tuple(places[holes : holes + agents]), tuple(places[holes + agents :])
    )


# ---------------------------------------------------------------- what there is to draw from


@dataclass(frozen=True)
class Census:
    """What random boards of one kind are like, before any is thrown away.

    Attributes:
        size: Rows of the board.
        num_agents: How many.
        holes: How many.
        boards: Drawn, no agent of which starts on its goal.
        connected: Of these, every agent can reach its goal, others aside.
        over_budget: Of the connected ones, neither solved nor proven to have no plan.
        solved: Of the connected ones.
        waits: Of the solved ones, those that need a wait.
    """

    size: int
    num_agents: int
    holes: int
    boards: int
    connected: int
    over_budget: int
    solved: int
    waits: int


def census(size: int, num_agents: int, hole_ratio: float, *, boards: int, seed: int) -> Census:
    """Returns what `boards` random boards are like.

    Raises:
        ValueError: There is no such kind of board, as `EnvConfig` says.
    """
    holes = num_holes(size, EnvConfig.uniform([size], hole_ratio, None, num_agents).sizes[size].hole_ratio)
    state = seed_for(seed, "census", size, holes, num_agents, bits=64)
    find = kernel.draw if kernel.takes(size, num_agents) else draw
    ends: Counter[int] = Counter()
    waits = 0
    for _ in range(boards):
        drawn = find(state, size, holes, num_agents, None, ALL_TENTHS, 1, DRAW_BUDGET)
        state = drawn.state
        ends[drawn.answer.status] += 1
        waits += drawn.answer.needs_wait
    return Census(size, num_agents, holes, boards, boards - ends[APART], ends[BUDGET], ends[SOLVED], waits)
