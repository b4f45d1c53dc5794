"""From a distribution of boards to tasks with their answers: `EnvConfig`, `generate`, `judge`, and files of tasks.

What `generate` promises: task i depends on (seed, split, config, n, i) and on `exclude` alone, so any worker can make
any slice; the data ratios are met by largest remainder, the wait ratio of each size by a quota, the holes of a
board by `floor(hole_ratio * size^2 + 0.5)`; the splits have no board in common, not even up to a symmetry of the
square or a renaming of agents. Boards within one split may repeat: there are few small ones. All tasks are
solvable and no agent starts on its goal. Not covered: parallel generation; figures of what a config generates.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mapflake.env.instance import Cell, Instance, Plan, transform
from mapflake.env.solver import BudgetExceeded, Solution, Unsolvable, analyse
from mapflake.env.text import PlanParseError, parse_completion
from mapflake.env.verifier import Verdict, Violation, check
from mapflake.repro import read_jsonl, rng_for, write_jsonl

logger = logging.getLogger(__name__)

SPLITS = ("train", "validation", "benchmark")

_SPLIT_OF_DIGIT = ("train",) * 8 + ("validation", "benchmark")

MIN_SIZE, MAX_SIZE, MAX_AGENTS = 3, 10, 9
MAX_HOLE_RATIO = 0.5

MAX_ATTEMPTS = 200_000
"""Boards drawn for one task before giving up."""

SCHEMA = "mapflake.tasks/1"


class GenerationError(ValueError):
    """A configuration from which a task could not be drawn; the message has the numbers."""


# ---------------------------------------------------------------- configuration


@dataclass(frozen=True)
class SizeConfig:
    """What boards of one size are like.

    Attributes:
        data_ratio: Share of the tasks, in [0, 1]; over all sizes these sum to 1.
        hole_ratio: Share of the cells that are holes, in [0, 0.5].
        wait_ratio: Share of this size's tasks that need a wait (`needs_wait`), in [0, 1]; None: as it falls.
    """

    data_ratio: float
    hole_ratio: float
    wait_ratio: float | None = None

    def __post_init__(self) -> None:
        for name, top in (("data_ratio", 1.0), ("hole_ratio", MAX_HOLE_RATIO), ("wait_ratio", 1.0)):
            value = getattr(self, name)
            if name == "wait_ratio" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name}: {value!r} is not a number in [0, {top:g}]")
            if not 0 <= value <= top:  # also nan
                raise ValueError(f"{name}: {value!r} is not in [0, {top:g}]")
            object.__setattr__(self, name, float(value))


@dataclass(frozen=True)
class EnvConfig:
    """A distribution over instances: the whole of what an environment engineer can choose.

    Attributes:
        sizes: For each board size its `SizeConfig`; read-only, ascending.
        num_agents: Agents on every board.

    Raises:
        ValueError: Names key, value and what is legal.
    """

    sizes: Mapping[int, SizeConfig]
    num_agents: int = 2

    def __post_init__(self) -> None:
        agents = self.num_agents
        if type(agents) is not int or not 1 <= agents <= MAX_AGENTS:
            raise ValueError(f"num_agents: {agents!r} is not an integer in 1..{MAX_AGENTS}")
        if not isinstance(self.sizes, Mapping) or not self.sizes:
            raise ValueError(f"sizes: {self.sizes!r} does not map board sizes to SizeConfig")
        for size, part in self.sizes.items():
            if type(size) is not int or not MIN_SIZE <= size <= MAX_SIZE:
                raise ValueError(f"sizes: {size!r} is not an integer in {MIN_SIZE}..{MAX_SIZE}")
            if not isinstance(part, SizeConfig):
                raise ValueError(f"sizes.{size}: {part!r} is not a SizeConfig")
            free = size * size - num_holes(size, part.hole_ratio)
            if part.data_ratio > 0 and free < cells_needed(agents):
                most = (size * size - cells_needed(agents) + 0.5) / (size * size)
                legal = f"below {most:.3f}" if most > 0 else "none"
                raise ValueError(
                    f"sizes.{size}.hole_ratio: {part.hole_ratio:g} leaves {free} free cells for {agents} agents, "
                    f"which need {cells_needed(agents)}; legal for this size: {legal}"
                )
        total = math.fsum(part.data_ratio for part in self.sizes.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"data_ratio: the ratios of all sizes sum to {total:g}, not to 1")
        object.__setattr__(self, "sizes", MappingProxyType(dict(sorted(self.sizes.items()))))

    def __hash__(self) -> int:
        return hash((tuple(self.sizes.items()), self.num_agents))

    def __reduce__(self) -> tuple[Any, ...]:  # a mappingproxy cannot be pickled
        return EnvConfig, (dict(self.sizes), self.num_agents)

    def __repr__(self) -> str:
        return f"EnvConfig(sizes={dict(self.sizes)!r}, num_agents={self.num_agents})"

    @classmethod
    def uniform(
        cls, sizes: Iterable[int], hole_ratio: float, wait_ratio: float | None = None, num_agents: int = 2
    ) -> EnvConfig:
        """Returns the configuration with the same share for each of `sizes` and the same ratios everywhere."""
        chosen = sorted(set(sizes))
        share = 1 / len(chosen) if chosen else 0.0
        return cls({size: SizeConfig(share, hole_ratio, wait_ratio) for size in chosen}, num_agents)

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as JSON values; `from_dict` reads them back."""
        sizes = {
            str(size): {"data_ratio": p.data_ratio, "hole_ratio": p.hole_ratio, "wait_ratio": p.wait_ratio}
            for size, p in self.sizes.items()
        }
        return {"sizes": sizes, "num_agents": self.num_agents}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EnvConfig:
        """Returns the configuration that `to_dict` wrote; `num_agents` may be left out (2).

        Raises:
            ValueError: Names key, value and what is legal.
        """
        _only(data, "config", ("sizes",), ("num_agents",))
        if not isinstance(data["sizes"], Mapping):
            raise ValueError(f"sizes: {data['sizes']!r} does not map board sizes to ratios")
        sizes: dict[int, SizeConfig] = {}
        for key, part in data["sizes"].items():
            size = int(key) if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 4 else key
            if size in sizes:
                raise ValueError(f"sizes: {key!r} is there twice")
            _only(part, f"sizes.{key}", ("data_ratio", "hole_ratio"), ("wait_ratio",))
            try:
                sizes[size] = SizeConfig(**part)
            except ValueError as error:
                raise ValueError(f"sizes.{key}.{error}") from None
        return cls(sizes, data.get("num_agents", 2))


def _only(data: Any, where: str, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: {data!r} is not an object with the keys {', '.join(required + optional)}")
    for key in data:
        if key not in required + optional:
            raise ValueError(f"{where}: unknown key {key!r}; legal keys: {', '.join(required + optional)}")
    for key in required:
        if key not in data:
            raise ValueError(f"{where}: missing key {key!r}")


def num_holes(size: int, hole_ratio: float) -> int:
    """Returns the number of holes of a board: `hole_ratio * size^2`, halves upwards."""
    return math.floor(hole_ratio * size * size + 0.5)


def cells_needed(num_agents: int) -> int:
    """Returns the least number of free cells on which every agent can leave its start for another cell.

    One more than agents, or as many: on a full board agents can only rotate along cycles, which takes free cells
    that all lie on cycles of the grid (4, or 6 and more).
    """
    return num_agents if num_agents == 4 or num_agents >= 6 else num_agents + 1


# ---------------------------------------------------------------- tasks


@dataclass(frozen=True)
class Task:
    """One board with its answer.

    Attributes:
        instance: The board.
        solution: A plan of optimal makespan.
        needs_wait: No plan of optimal sum of costs does without a wait, see `needs_wait`.
        best_sum_of_costs: The optimal sum of costs; that of `solution` may be larger.
    """

    instance: Instance
    solution: Solution
    needs_wait: bool
    best_sum_of_costs: int

    @classmethod
    def of(cls, instance: Instance) -> Task:
        """Returns the task of an instance of your own; raises what `solve` raises."""
        found = analyse(instance)
        return cls(instance, found.solution, found.needs_wait, found.best_sum_of_costs)

    def to_dict(self) -> dict[str, Any]:
        """Returns the task as JSON values; `from_dict` reads them back."""
        return {
            "instance": self.instance.to_dict(),
            "plan": list(self.solution.plan.moves),
            "makespan": self.solution.makespan,
            "sum_of_costs": self.solution.sum_of_costs,
            "needs_wait": self.needs_wait,
            "best_sum_of_costs": self.best_sum_of_costs,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Task:
        """Returns the task that `to_dict` wrote.

        Raises:
            ValueError: Names the key; also if the plan is not valid or its costs are not those recorded.
        """
        keys = ("instance", "plan", "makespan", "sum_of_costs", "needs_wait", "best_sum_of_costs")
        _only(data, "task", keys, ())
        for key in ("makespan", "sum_of_costs", "best_sum_of_costs"):
            if type(data[key]) is not int or data[key] < 0:
                raise ValueError(f"{key}: {data[key]!r} is not a count")
        if type(data["needs_wait"]) is not bool:
            raise ValueError(f"needs_wait: {data['needs_wait']!r} is not true or false")
        if not isinstance(data["instance"], Mapping) or not isinstance(data["plan"], list):
            raise ValueError("instance: not an object" if isinstance(data["plan"], list) else "plan: not a list")
        try:
            instance = Instance.from_dict(data["instance"])
        except ValueError as error:
            raise ValueError(f"instance: {error}") from None
        plan = Plan(tuple(data["plan"]))
        verdict = check(instance, plan)
        if not verdict.valid:
            raise ValueError(f"plan: {list(plan.moves)} is not valid ({', '.join(verdict.kinds)})")
        for key in ("makespan", "sum_of_costs"):
            if data[key] != getattr(verdict, key):
                raise ValueError(f"{key}: {data[key]} but the plan has {getattr(verdict, key)}")
        solution = Solution(plan, data["makespan"], data["sum_of_costs"])
        return cls(instance, solution, data["needs_wait"], data["best_sum_of_costs"])


def transform_task(task: Task, k: int = 0, agent_order: Sequence[int] | None = None) -> Task:
    """Returns the image of a task under a symmetry of the square and a renaming of agents, see `transform`.

    Its plan is as optimal as before, and it belongs to the same split; use it to augment demonstrations.
    """
    instance, plan = transform(task.instance, task.solution.plan, k, agent_order)
    if plan is None:  # cannot be: a plan went in
        raise ValueError("the task has no plan")
    return replace(task, instance=instance, solution=replace(task.solution, plan=plan))


def judge(task: Task, completion: str, dialect: str = "chat") -> Verdict:
    """Returns the verdict on a model's answer, also of a wrong or hostile one: text never raises.

    Raises:
        ValueError: Unknown dialect, or the completion is no string.
    """
    if not isinstance(completion, str):
        raise ValueError(f"completion: {type(completion).__name__} is not a string")
    try:
        plan = parse_completion(completion, task.instance.num_agents, dialect)
    except PlanParseError:
        return Verdict((Violation("parse"),))
    verdict = check(task.instance, plan)
    if not verdict.valid:
        return verdict
    return replace(
        verdict,
        optimal=verdict.makespan == task.solution.makespan,
        soc_optimal=verdict.sum_of_costs == task.best_sum_of_costs,
    )


def careless_fails(instance: Instance) -> bool:
    """Returns True if the plan of an agent that sees neither holes nor others is not valid.

    Each agent first goes up or down, then left or right, straight to its goal. About half of all natural boards
    are solved that way; a policy that learns from boards as they fall stays there.
    """
    moves = []
    for (row, col), (to_row, to_col) in zip(instance.starts, instance.goals, strict=True):
        down, right = to_row - row, to_col - col
        moves.append("D" * down + "U" * -down + "R" * right + "L" * -right)
    return not check(instance, Plan(tuple(moves))).valid


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
    progress: Callable[[int], object] | None = None,
) -> list[Task]:
    """Returns n tasks drawn from `config`.

    Args:
        config: What to draw from.
        n: How many.
        seed: Any non-negative integer.
        split: One of `SPLITS`; they have no board in common.
        exclude: Boards that must not occur, in no orientation and under no order of agents.
        progress: Called with 1 after each task.

    Raises:
        GenerationError: No board was found for a task; names size, agents, free cells and attempts.
        ValueError: Unknown split, negative n or seed.
    """
    if type(n) is not int or n < 0:
        raise ValueError(f"n: {n!r} is not a count")
    if type(seed) is not int or seed < 0:
        raise ValueError(f"seed: {seed!r} is not a non-negative integer")
    if split not in SPLITS:
        raise ValueError(f"split: {split!r} is none of {', '.join(SPLITS)}")
    banned = frozenset(canonical(instance) for instance in exclude)
    key = _config_key(config)
    tasks = []
    for i, (size, waits) in enumerate(layout(config, n, seed=seed, split=split)):
        rng = rng_for(seed, "task", split, key, n, i)
        tasks.append(
            _draw(rng, size, num_holes(size, config.sizes[size].hole_ratio), config.num_agents, waits, split, banned)
        )
        if progress is not None:
            progress(1)
    return tasks


def _config_key(config: EnvConfig) -> str:
    return json.dumps(config.to_dict(), separators=(",", ":"))


def _draw(
    rng: np.random.Generator,
    size: int,
    holes: int,
    agents: int,
    waits: bool | None,
    split: str,
    banned: frozenset[tuple[Any, ...]],
) -> Task:
    over_budget = 0
    for _, instance in zip(range(MAX_ATTEMPTS), _boards(rng, size, holes, agents), strict=False):
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
            return task
    wanted = {None: "board", True: "board that needs a wait", False: "board that needs no wait"}[waits]
    raise GenerationError(
        f"no {wanted} found in {MAX_ATTEMPTS} attempts: size {size}, {agents} agents, "
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


# ---------------------------------------------------------------- files


def save_tasks(path: str | Path, tasks: Iterable[Task]) -> None:
    """Writes tasks as JSONL, a first line with the schema and then one task a line; atomic."""
    write_jsonl(path, [{"schema": SCHEMA}, *(task.to_dict() for task in tasks)])


def load_tasks(path: str | Path) -> list[Task]:
    """Returns the tasks of a file that `save_tasks` wrote.

    Raises:
        ValueError: Names file, line and key.
    """
    rows = read_jsonl(path)
    if not rows or rows[0] != {"schema": SCHEMA}:
        found = rows[0].get("schema") if rows else "nothing"
        raise ValueError(f"{path}, line 1: expected schema {SCHEMA!r}, found {found!r}")
    tasks = []
    for number, row in enumerate(rows[1:], start=2):
        try:
            tasks.append(Task.from_dict(row))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return tasks
