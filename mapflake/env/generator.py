"""From a distribution of boards to tasks with their answers.

A configuration and a number of tasks determine how many tasks of each kind (size, wait label) there are: the data
ratios by largest remainder, wait ratios and holes rounded with halves upwards (shares.py). Task number k of its kind
depends only on (seed, split, size, holes, agents, wait label, k) and on the excluded boards. So any worker can make any
slice, and configurations that ask for boards of one kind get the same ones. A larger set contains a smaller one if no
size has fewer tasks: always if there is one size, or if all sizes have equal shares. Splits (splits.py) have no board
in common; within one split boards may repeat. All tasks are solvable and no agent starts on its goal.

The sampling is our choice, the paper does not describe it: holes, starts and goals uniformly over all choices in which
no agent starts on its goal, from SplitMix64 (Steele, Lea and Flood 2014); boards without a plan, with the wrong wait
label or over the budget are thrown away. Custom dimensions then move holes and agents; their boards are sampled in
Python. Without a compiler the boards are the same ones (except where a search spends its budget: the two solvers count
nodes differently), with other plans of equal cost. Not covered: many processes.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from mapflake.env import kernel
from mapflake.env.config import DIMENSIONS, EnvConfig, num_holes
from mapflake.env.instance import Instance
from mapflake.env.kernel import Sample
from mapflake.env.plain import ANALYSE, APART, BUDGET, NONE, SOLVED, Answer
from mapflake.env.shares import apportion, rounded_share
from mapflake.env.solver import search, solution_of
from mapflake.env.splits import ALL_BUCKETS, BUCKETS, SPLITS, bucket, canonical
from mapflake.env.task import Task
from mapflake.repro import dumps, rng_for, seed_for, shown, to_json, whole

MAX_ATTEMPTS = 200_000  # boards drawn for one task before giving up
AT_ONCE = 1000  # boards that one call of the kernel draws, which nothing interrupts; fewer with more than one agent
SEARCH_BUDGET = 100_000  # nodes of the search for each random board; boards that take more are dropped, and counted
_WORD = (1 << 64) - 1
Ratios = tuple[tuple[str, float], ...]


class GenerationError(ValueError):
    """A configuration from which no task of some `size` could be drawn; the message has the numbers."""

    def __init__(self, message: str, size: int = 0) -> None:  # the default, so that it can be pickled
        super().__init__(message)
        self.size = size


class TaskSpec(NamedTuple):
    """The kind of one task, with the number of tasks of this kind before it; `waits` is None for either label."""

    size: int
    waits: bool | None
    number: int


def plan_tasks(config: EnvConfig, n: int, *, seed: int, split: str = "train") -> list[TaskSpec]:
    """Returns the kinds of n tasks, shuffled."""
    kinds: list[tuple[int, bool | None]] = []
    for size, boards in apportion(n, config.data_ratios).items():
        ratio = config.sizes[size].wait_ratio
        if ratio is None:
            kinds += [(size, None)] * boards
        else:
            waits = rounded_share(ratio, boards)
            kinds += [(size, True)] * waits + [(size, False)] * (boards - waits)
    keys = rng_for(seed, "layout", split, dumps(to_json(config)), n).random(n)
    counters = {kind: count() for kind in kinds}
    shuffled = [kinds[i] for i in np.argsort(keys, kind="stable")]
    return [TaskSpec(size, waits, next(counters[size, waits])) for size, waits in shuffled]


def generate(
    config: EnvConfig,
    n: int,
    *,
    seed: int,
    split: str = "train",
    exclude: Iterable[Instance | Task] = (),
    indices: Iterable[int] | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[Task]:
    """Returns n tasks drawn from `config`, all of one split; two splits have no board in common.

    Boards in `exclude` do not occur, in any orientation and under any order of agents. `indices` makes only these of
    the n tasks, in this order, the same that the whole set has there. `progress` is called with 1 after each task.

    Raises:
        GenerationError: No board was found for a task; names size, agents, free cells and attempts.
        ValueError: Unknown split, or n, seed or an index out of range, or a custom dimension that this process does
            not have in `DIMENSIONS`.
    """
    n, seed = whole(n, "n", 0), whole(seed, "seed", 0)
    if split not in SPLITS:
        raise ValueError(f"split: {split!r} is none of {', '.join(SPLITS)}")
    for name in sorted({name for part in config.sizes.values() for name, _ in part.custom} - {*DIMENSIONS}):
        raise ValueError(
            f"{name}: the configuration has this dimension and DIMENSIONS does not; "
            "add it in every process that draws boards"
        )
    banned = frozenset(canonical(board.instance if isinstance(board, Task) else board) for board in exclude)
    specs = plan_tasks(config, n, seed=seed, split=split)
    tasks: list[Task] = []
    for i in range(n) if indices is None else indices:
        if i not in range(n):
            raise ValueError(f"indices: {i!r} is not in 0..{n - 1}")
        tasks.append(find(config, specs[i], seed, split, banned))
        if progress is not None:
            progress(1)
    return tasks


def find(
    config: EnvConfig, spec: TaskSpec, seed: int, split: str, banned: frozenset = frozenset(), seconds: float = math.inf
) -> Task:
    """Returns the task of a kind, none of the `banned` canonical boards; GenerationError if none is found in time."""
    size, waits, agents = spec.size, spec.waits, config.num_agents
    custom = config.sizes[size].custom
    holes = num_holes(size, config.sizes[size].hole_ratio)
    state = seed_for(seed, "task", split, size, holes, agents, str(waits), spec.number, *map(str, custom), bits=64)
    boards = dropped = 0
    if waits and agents == 1:
        raise GenerationError(
            "wait_ratio: one agent waits for nobody: num_agents 1 takes a wait_ratio of 0 or None", size
        )
    deadline, batch = time.monotonic() + seconds, max(1, AT_ONCE // agents**2) if seconds == math.inf else 1
    while boards < MAX_ATTEMPTS and time.monotonic() <= deadline:
        sample = _sample(custom, state, size, holes, agents, waits, BUCKETS[split], min(batch, MAX_ATTEMPTS - boards))
        state, boards, dropped = sample.state, boards + sample.boards, dropped + sample.dropped
        if sample.found and not (banned and canonical(sample.found) in banned):
            answer = sample.answer
            return Task(sample.found, solution_of(answer), answer.needs_wait, answer.best_sum)
    kind = {None: "", True: " that needs a wait", False: " that needs no wait"}[waits]
    limit = "" if boards == MAX_ATTEMPTS else f" and {seconds:g} seconds"
    raise GenerationError(
        f"no solvable board{kind} found in {boards} attempts{limit}: size {size}, {agents} agents, "
        f"{size * size - holes} free cells, split {split!r}, {dropped} dropped over budget",
        size,
    )


def _sample(
    custom: Ratios, state: int, size: int, holes: int, agents: int, waits: bool | None, buckets: int, attempts: int
) -> Sample:
    """Returns what `kernel.sample` does, also for boards with custom dimensions and without a compiler."""
    if not custom and kernel.takes(size, agents):
        return kernel.sample(state, size, holes, agents, waits, buckets, attempts, SEARCH_BUDGET)
    dropped, answer = 0, Answer(NONE)
    for attempt in range(1, attempts + 1):
        state, cells = _random_cells(state, size, holes, agents)
        board = kernel.board_of(size, holes, agents, cells)
        if custom:
            board = _transformed(board, custom, np.random.default_rng(state))
        if buckets == ALL_BUCKETS or buckets >> bucket(board) & 1:
            answer = search(board, ANALYSE, SEARCH_BUDGET)
            dropped += answer.status == BUDGET
            if answer.status == SOLVED and waits in (None, answer.needs_wait):
                return Sample(state, attempt, dropped, board, answer)
    return Sample(state, attempts, dropped, None, answer)


def _random_cells(state: int, size: int, holes: int, agents: int) -> tuple[int, list[int]]:
    """Returns the next state and the cells (row * size + col) of random holes, starts and goals, as the kernel does."""
    board = list(range(size * size))
    state = _choose(state, board, holes + agents)
    starts = board[holes : holes + agents]
    goals = starts
    while any(start == goal for start, goal in zip(starts, goals, strict=True)):
        ice = board[holes:]
        state = _choose(state, ice, agents)
        goals = ice[:agents]
    return state, board[:holes] + starts + goals


def _choose(state: int, cells: list[int], number: int) -> int:
    """Puts a random choice of the cells to the front of the list and returns the next state."""
    for i in range(number):
        state = state + 0x9E3779B97F4A7C15 & _WORD
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _WORD
        j = i + ((z ^ z >> 31) * (len(cells) - i) >> 64)
        cells[i], cells[j] = cells[j], cells[i]
    return state


def _transformed(board: Instance, custom: Ratios, rng: np.random.Generator) -> Instance:
    """Returns the board as its custom dimensions change it; an error names the one whose transform is at fault."""
    for name, level in custom:
        transform = DIMENSIONS[name].transform
        if transform is None:
            raise ValueError(f"{name}: its entry in DIMENSIONS has no transform")
        old_shape = (board.size, len(board.holes), board.num_agents)
        try:
            board = transform(board, level, rng)
        except Exception as error:
            error.add_note(f"raised by the transform of the dimension {name}")
            raise
        if not isinstance(board, Instance):
            raise ValueError(f"{name}: its transform returned {shown(board)} and not an Instance")
        new_shape = (board.size, len(board.holes), board.num_agents)
        if old_shape != new_shape:
            raise ValueError(f"{name}: its transform made size, holes and agents {new_shape} out of {old_shape}")
        if any(start == goal for start, goal in zip(board.starts, board.goals, strict=True)):
            raise ValueError(f"{name}: its transform puts an agent on its goal")
    return board


@dataclass(frozen=True)
class BoardStatistics:
    """Numbers of random boards of one kind, before any is thrown away.

    Attributes:
        boards: All that were drawn.
        connected: Those on which every agent can reach its goal, others aside.
        over_budget: Connected ones that are neither solved nor proven to have no plan.
        solved: Connected ones with a plan.
        waits: Solved ones that need a wait.
    """

    boards: int
    connected: int
    over_budget: int
    solved: int
    waits: int


def board_statistics(size: int, num_agents: int, hole_ratio: float, *, boards: int, seed: int) -> BoardStatistics:
    """Returns the statistics of `boards` random boards of one kind.

    Raises:
        ValueError: There is no such kind of board; the message of `EnvConfig`.
    """
    config, boards = EnvConfig.uniform([size], hole_ratio, None, num_agents), whole(boards, "boards", 0)
    ((size, part),), num_agents = config.sizes.items(), config.num_agents
    holes = num_holes(size, part.hole_ratio)
    state = seed_for(seed, "census", size, holes, num_agents, bits=64)
    statuses: Counter[int] = Counter()
    waits = 0
    for _ in range(boards):
        sample = _sample((), state, size, holes, num_agents, None, ALL_BUCKETS, 1)
        state = sample.state
        statuses[sample.answer.status] += 1
        waits += sample.answer.needs_wait
    return BoardStatistics(boards, boards - statuses[APART], statuses[BUDGET], statuses[SOLVED], waits)
