"""Situations in which an engineer is asked for a design, and what each kind of board would teach there.

A situation is what the engineer sees (report and history) with what it does not: tables over the kinds of boards (size,
holes, whether a wait is needed), by which any design can be scored. Made-up ones are free (`compact.demonstrations`),
real ones are measured on policies of a bank (`bank`). Not covered: custom dimensions, which no table has.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from mapflake import repro
from mapflake.engineer.ledger import History
from mapflake.engineer.report import FailureReport
from mapflake.env import EnvConfig, GenerationError, SizeConfig, Task, board_statistics, generate
from mapflake.env.config import cells_needed, num_holes
from mapflake.repro import Params
from mapflake.trainer import evaluate
from mapflake.trainer.evaluate import Completer
from mapflake.trainer.params import RLParams

HOLES = (0.0, 0.15, 0.3, 0.45)
"""The hole ratios at which tables are measured; between them they are interpolated (our choice)."""

Kind = tuple[int, float, bool]
"""A kind of boards: size, hole ratio, whether a wait is needed."""

CENSUS = 400  # random boards from which the natural share of waits of a kind is counted

VALIDATED_HOLES = 0.3
"""`transfer` looks at natural boards with holes up to this ratio, as validation has them (our choice)."""

NEAR_SIZES, NEAR_HOLES, OTHER_WAITS = 1.0, 0.2, 0.5  # of `transfer_table`


RewardName = Literal["learnability", "transfer"]
"""A table by which designs can be rewarded."""


class TableParams(Params):
    """How much is sampled for a policy's tables: `boards` of each kind, and `samples` of each board."""

    boards: int = Field(default=12, ge=1)
    samples: int = Field(default=4, ge=2)


class DesignRLParams(Params):
    """Reinforcement over designs.

    Attributes:
        reward: The table whose mean over a design's boards is its reward.
        boards_share: Share of the prompts that are boards to be solved, lest solving is unlearned.
        real_share: Share of the other prompts that are measured situations; the rest are made up.
        tables: How much is sampled where a policy's tables are measured.
        rl: GRPO: `instances` prompts in all, `prompts` a step, `generations` replies to each.
    """

    reward: RewardName = "transfer"
    boards_share: float = Field(default=0.0, ge=0, lt=1)
    real_share: float = Field(default=0.5, ge=0, le=1)
    tables: TableParams = TableParams()
    rl: RLParams

    @model_validator(mode="after")
    def _designs(self) -> DesignRLParams:
        if self.boards == self.rl.instances:
            raise ValueError(
                f"boards_share: {self.boards_share:g} of {self.rl.instances} prompts leaves no design among them"
            )
        return self

    @property
    def boards(self) -> int:
        """The number of boards among the prompts."""
        return round(self.boards_share * self.rl.instances)


@dataclass(frozen=True)
class KindTable:
    """A value for each kind of board; that of a configuration is the mean over the boards that it asks for.

    Attributes:
        values: Size -> for each ratio of `HOLES` the values of boards that need no wait and of those that need one.
        num_agents: Agents of the boards.

    Raises:
        ValueError: A value is missing or not finite; names the kind.
    """

    values: Mapping[int, tuple[tuple[float, float], ...]]
    num_agents: int = 2

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a table needs the values of at least one size")
        for size, rows in self.values.items():
            if len(rows) != len(HOLES):
                raise ValueError(f"size {size}: {len(rows)} rows, expected one for each hole ratio of {HOLES}")
            for hole, row in zip(HOLES, rows, strict=True):
                if not all(map(math.isfinite, row)):
                    raise ValueError(f"size {size}, holes {hole:g}: {row} is not a pair of finite values")

    def mean(self, config: EnvConfig) -> float:
        """Returns the mean over a configuration's boards; a size that the table lacks counts 0."""
        return sum(c.data_ratio * self._of_size(size, c) for size, c in config.sizes.items() if size in self.values)

    def _of_size(self, size: int, part: SizeConfig) -> float:
        columns = zip(*self.values[size], strict=True)
        calm, busy = (float(np.interp(part.hole_ratio, HOLES, column)) for column in columns)
        waits = part.wait_ratio
        if waits is None:
            waits = float(np.interp(part.hole_ratio, HOLES, _natural_waits(size, self.num_agents)))
        return (1 - waits) * calm + waits * busy

    def value(self, kind: Kind) -> float:
        """Returns the value of a kind of boards."""
        size, hole, waits = kind
        return self.values[size][HOLES.index(hole)][waits]

    def best_kind(self) -> Kind:
        """Returns the kind of the largest value, which no design exceeds; of a measured table it is biased upwards."""
        return max(kinds(self.values), key=self.value)


@functools.cache
def _natural_waits(size: int, num_agents: int) -> tuple[float, ...]:
    """Returns for each ratio of `HOLES` the share of random solvable boards that need a wait."""
    counts = [board_statistics(size, num_agents, hole, boards=CENSUS, seed=0) for hole in HOLES]
    return tuple(one.waits / max(1, one.solved) for one in counts)


@dataclass(frozen=True)
class Situation:
    """A point of a run at which the engineer is asked.

    Attributes:
        report: Failures of the policy.
        history: The rounds so far.
        tables: Name of a reward -> its table.
        origin: The run that it comes from: situations are held out by it.
    """

    report: FailureReport
    history: History
    tables: Mapping[str, KindTable] = field(default_factory=dict)
    origin: str = "made up"


# ---------------------------------------------------------------- what is measured on a policy


def kinds(sizes: Iterable[int]) -> list[Kind]:
    """Returns all kinds of boards of a table: (size, hole ratio, whether a wait is needed)."""
    return [(size, hole, waits) for size in sizes for hole in HOLES for waits in (False, True)]


def boards_of_kinds(sizes: Iterable[int], boards: int, *, num_agents: int = 2, seed: int) -> dict[Kind, list[Task]]:
    """Returns training boards of each kind; kinds that cannot be drawn have none, so that they teach nothing."""
    found: dict[Kind, list[Task]] = {}
    for size, hole, waits in kinds(sizes):
        found[size, hole, waits] = []
        if size * size - num_holes(size, hole) < cells_needed(num_agents):
            continue  # there is no such board
        config = EnvConfig.uniform([size], hole, float(waits), num_agents)
        with contextlib.suppress(GenerationError):  # too rare to be found
            found[size, hole, waits] = generate(config, boards, seed=seed, split="train")
    return found


def table(values: Mapping[Kind, float], num_agents: int = 2) -> KindTable:
    """Returns the table of these values by kind, as `kinds` lists them."""
    sizes = sorted({size for size, _, _ in values})
    rows = {s: tuple((values[s, hole, False], values[s, hole, True]) for hole in HOLES) for s in sizes}
    return KindTable(rows, num_agents)


def learnability_table(rollouts: Mapping[Kind, Sequence[evaluate.Rollout]]) -> KindTable:
    """Returns the table of 4 p (1 - p), p the chance of a valid plan on a board, from at least two samples a board.

    Without bias: k of n samples valid give 4 (k / n) (1 - k / n) n / (n - 1). Source: "sampling for learnability",
    Rutherford et al. 2024 (arXiv 2408.15099); the factor 4, which makes 1 the largest value, is ours.
    """
    values = {
        kind: float(np.mean([learnable(*one) for one in _by_board(own)] or [0.0])) for kind, own in rollouts.items()
    }
    return table(values, next((r.task.instance.num_agents for own in rollouts.values() for r in own), 2))


def learnable(valid: int, samples: int) -> float:
    """Returns the unbiased estimate of 4 p (1 - p) from the samples of one board."""
    return 4 * valid * (samples - valid) / (samples * (samples - 1))


def transfer_table(learnability: KindTable) -> KindTable:
    """Returns the table of what boards teach for those of validation, from their learnability L.

    It is how much a kind can teach, times how near it is to what validation boards can teach: L_k sum_j w_j K(k, j).
    The weights w_j, which sum to 1, are as L_j, as the square of the size (longer plans have more steps to get right,
    and more to learn from) and as the share of kind j among natural boards with holes up to `VALIDATED_HOLES`. K falls
    with the distance in size (a normal curve of deviation `NEAR_SIZES`) and in holes (`NEAR_HOLES`), and is less by the
    factor `OTHER_WAITS` between boards of which one needs a wait. Our choice; why it is not measured by gradients:
    reports/log.md.
    """
    some = kinds(learnability.values)
    values = np.array([learnability.value(kind) for kind in some])
    weights = values * [_asked(*kind, learnability.num_agents) for kind in some]
    found = values * (_nearness(tuple(some)) @ weights) / (weights.sum() or 1.0)
    return table(dict(zip(some, map(float, found), strict=True)), learnability.num_agents)


def _asked(size: int, hole_ratio: float, wait: bool, num_agents: int) -> float:
    """Returns a kind's share among natural boards of its size and holes, times size**2; 0 beyond `VALIDATED_HOLES`."""
    waits = _natural_waits(size, num_agents)[HOLES.index(hole_ratio)]
    return size**2 * (waits if wait else 1 - waits) if hole_ratio <= VALIDATED_HOLES else 0.0


@functools.cache
def _nearness(some: tuple[Kind, ...]) -> np.ndarray:
    """Returns K of `transfer_table`, `[kinds, kinds]`, 1 between a kind and itself."""
    size, hole, wait = (np.array(column)[:, None] for column in zip(*some, strict=True))
    apart = ((size - size.T) / NEAR_SIZES) ** 2 + ((hole - hole.T) / NEAR_HOLES) ** 2
    near = np.exp(-apart / 2) * np.where(wait == wait.T, 1.0, OTHER_WAITS)
    near.flags.writeable = False  # it is kept
    return near


def _by_board(rollouts: Sequence[evaluate.Rollout]) -> list[tuple[int, int]]:
    """Returns for each board how many of its samples are valid, and how many there are."""
    counts: dict[str, list[bool]] = {}
    for r in rollouts:
        counts.setdefault(r.task.instance.key, []).append(r.verdict.valid)
    return [(sum(valid), len(valid)) for valid in counts.values()]


def measure(
    policy: Completer,
    sizes: Sequence[int],
    params: TableParams,
    *,
    num_agents: int = 2,
    seed: int,
) -> dict[str, KindTable]:
    """Returns the tables of a policy, by name of the reward.

    Args:
        policy: The policy.
        sizes: Board sizes of the tables.
        params: How much is sampled.
        num_agents: Agents of the boards.
        seed: Root of boards and noise.
    """
    tasks = boards_of_kinds(sizes, params.boards, num_agents=num_agents, seed=repro.seed_for(seed, "kinds"))
    drawn = [task for own in tasks.values() for task in own]
    by_kind: dict[Kind, list[evaluate.Rollout]] = {kind: [] for kind in tasks}
    kind_of = {task.instance.key: kind for kind, own in tasks.items() for task in own}
    for r in evaluate.rollout(policy, drawn, samples=params.samples, seed=seed, progress="kinds of boards"):
        by_kind[kind_of[r.task.instance.key]].append(r)
    learnability = learnability_table(by_kind)
    return {"learnability": learnability, "transfer": transfer_table(learnability)}
