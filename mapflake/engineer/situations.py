"""Situations in which an engineer is asked for a design, and what a design would teach there.

A situation holds what the engineer sees, the report and the history, and what it does not see: the success and the
learnability of the policy by kind of boards. `expected_gain` scores a design by these tables. Made-up situations cost
nothing (`compact.demonstrations`); real ones are measured on policies of a bank (`bank`). No table has custom
dimensions.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType

import numpy as np
from pydantic import Field, model_validator

from mapflake import repro
from mapflake.engineer.ledger import History
from mapflake.engineer.report import FailureReport
from mapflake.env import EnvConfig, GenerationError, Task, board_statistics, cells_needed, generate
from mapflake.repro import Params
from mapflake.trainer import evaluate
from mapflake.trainer.evaluate import Completer
from mapflake.trainer.params import RLParams, WarmStartParams

HOLES = (0.0, 0.15, 0.3, 0.45)
"""The hole ratios at which tables are measured; between them they are interpolated (our choice)."""

Kind = tuple[int, float, bool]
"""A kind of boards: size, hole ratio, whether a wait is needed."""

CENSUS = 400  # random boards from which the natural share of waits of a kind is counted

VALIDATED_HOLES = 0.15
"""Validation boards count as boards with this hole ratio of `HOLES`, the nearest to the paper's kind (our choice)."""


class TableParams(Params):
    """How much is sampled for a policy's tables: `boards` of each kind, and `samples` of each board."""

    boards: int = Field(default=12, ge=1)
    samples: int = Field(default=4, ge=2)


class LessonParams(Params):
    """Supervised lessons in designing: the best designs of made-up situations (`design_rl.taught`).

    Attributes:
        situations: How many situations there are; they are shown in turn, in all rows that are not boards.
        boards_share: Share of solved boards among what is shown, so that less of solving is forgotten.
        training: The recipe.
    """

    situations: int = Field(ge=1)
    boards_share: float = Field(default=0.5, ge=0, lt=1)
    training: WarmStartParams

    @model_validator(mode="after")
    def _all_shown(self) -> LessonParams:
        if self.situations > (room := self.rows - self.boards):
            raise ValueError(
                f"situations: {self.situations}, but {self.rows} rows less {self.boards} boards are {room}"
            )
        return self

    @property
    def rows(self) -> int:
        """The number of rows that are shown."""
        return self.training.steps * self.training.batch_size

    @property
    def boards(self) -> int:
        """The number of solved boards among the rows."""
        return round(self.boards_share * self.rows)


class DesignRLParams(Params):
    """RL on designs.

    Attributes:
        lessons: Supervised lessons in designing before it; None: none.
        boards_share: Share of the prompts that are boards to be solved, so that less of solving is forgotten.
        real_share: Share of the other prompts that are measured situations; the rest are made up.
        tables: How much is sampled where a policy's tables are measured.
        rl: GRPO: `instances` prompts in all, `prompts` a step, `generations` replies to each.
    """

    lessons: LessonParams | None = Field(default=None, exclude_if=lambda value: value is None)
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
        if self.rl.redraws:
            raise ValueError("rl.redraws: must be 0, for dynamic sampling would leave the count of its samples wrong")
        return self

    @property
    def boards(self) -> int:
        """The number of boards among the prompts."""
        return round(self.boards_share * self.rl.instances)


@dataclass(frozen=True)
class KindTable:
    """A value for each kind of board: `values[size]` has a pair for each ratio of `HOLES`, without a wait and with one.

    A value that is missing or not finite is a ValueError that names the kind.
    """

    values: Mapping[int, tuple[tuple[float, float], ...]]

    def __post_init__(self) -> None:
        if not self.values:
            raise ValueError("a table needs the values of at least one size")
        for size, rows in self.values.items():
            if len(rows) != len(HOLES):
                raise ValueError(f"size {size}: {len(rows)} rows, expected one for each hole ratio of {HOLES}")
            for hole, row in zip(HOLES, rows, strict=True):
                if len(row) != 2 or not all(map(math.isfinite, row)):
                    raise ValueError(f"size {size}, holes {hole:g}: {row} is not a pair of finite values")

    def value(self, kind: Kind) -> float:
        """Returns the value of a kind of boards; ValueError if the table has no such size or hole ratio."""
        size, hole, waits = kind
        if size not in self.values:
            raise ValueError(f"size {size}: the table has {', '.join(map(str, self.values))}")
        if hole not in HOLES:
            raise ValueError(f"holes {hole}: the table has {', '.join(map(str, HOLES))}")
        return self.values[size][HOLES.index(hole)][waits]

    @functools.cached_property
    def vector(self) -> np.ndarray:
        """The values of all kinds, in the order of `kinds`."""
        values = np.array([self.value(kind) for kind in kinds(self.values)])
        values.flags.writeable = False  # the array is cached
        return values


@functools.cache
def _natural_waits(size: int, num_agents: int, hole: float) -> float:
    """Returns the share of random solvable boards that need a wait."""
    hole = min(hole, (size * size - cells_needed(num_agents)) / size**2)  # a mixture may name a ratio without room
    count = board_statistics(size, num_agents, hole, boards=CENSUS, seed=0)
    return count.waits / max(1, count.solved)


@dataclass(frozen=True)
class Situation:
    """A point of a run at which the engineer is asked.

    `success` is the chance of a valid plan by kind of boards, `learnability` 4 p (1 - p) by kind, averaged over boards
    (`learnable`); `origin` is the run that it comes from: situations are held out by it.
    """

    report: FailureReport
    history: History
    success: KindTable
    learnability: KindTable
    origin: str = "made up"


Reward = Callable[[Situation, EnvConfig], float]
"""What a design is worth in a situation: at least 0, the worth of a reply that is rejected."""


@dataclass(frozen=True)
class ExpectedGain:
    """The gain on validation boards that a round on a design's boards is expected to bring, at least 0: a `Reward`.

    It is what the design teaches minus what is forgotten, with q_k the share of kind k among the design's boards, w_v
    that of kind v among the validation boards times size ** `size_power`, p and L the success and the learnability:

        sum_v w_v L_v sqrt(sum_k q_k L_k K(k, v)) - forgetting sum_c w_c p_c max(0, 1 - q_c / kept)

    The nearness K falls with the distance in size (a normal curve of deviation `near_sizes`) and in holes
    (`near_holes`), and is less by the factor `other_waits` between boards of which one needs a wait. The second sum is
    over the two classes c, boards that need a wait and boards that need none: a class that is hardly trained on is
    forgotten, the more so the better it was solved. Boards of sizes that the tables lack teach nothing. The form is our
    choice. The numbers are those by which the designs ranked first gain most in the trials of reports/laboratory.md,
    nearly all of one training seed (`benchmarks.rewards` chooses and judges); `near_holes` was not varied.
    """

    near_sizes: float = 0.7
    near_holes: float = 0.2
    other_waits: float = 0.5
    size_power: float = 1.0
    forgetting: float = 1.0
    kept: float = 0.5

    def __post_init__(self) -> None:
        """Raises ValueError if a number is not finite, or a deviation or `kept` is not above 0."""
        divisors = ("near_sizes", "near_holes", "kept")
        for name, value in vars(self).items():
            if not math.isfinite(value) or (name in divisors and value <= 0):
                raise ValueError(f"{name}: {value} is not a finite number{' above 0' * (name in divisors)}")

    def __call__(self, situation: Situation, config: EnvConfig) -> float:
        """Returns the expected gain of a design in a situation."""
        rollouts: dict[Kind, int] = {}  # of the report, by kind
        for size_report in situation.report.sizes:
            rollouts[size_report.size, VALIDATED_HOLES, True] = size_report.wait_rollouts
            _, rollouts[size_report.size, VALIDATED_HOLES, False] = size_report.without_wait
        shares, table_kinds = kind_shares(config), kinds(situation.learnability.values)
        learnability = situation.learnability.vector
        success = np.array([situation.success.value(kind) for kind in table_kinds])  # its table may have more sizes
        q = np.array([shares.get(kind, 0.0) for kind in table_kinds])
        w = np.array([rollouts.get(kind, 0) * kind[0] ** self.size_power for kind in table_kinds], dtype=float)
        w /= w.sum() or 1.0
        gain = w @ (learnability * np.sqrt(self._nearness(tuple(table_kinds)) @ (q * learnability)))
        waits = np.array([wait for _, _, wait in table_kinds])
        lost = sum((w * success)[side].sum() * max(0.0, 1 - q[side].sum() / self.kept) for side in (waits, ~waits))
        return max(0.0, float(gain - self.forgetting * lost))

    @functools.cache  # noqa: B019 - there are few models and few lists of kinds
    def _nearness(self, table_kinds: tuple[Kind, ...]) -> np.ndarray:
        """Returns K, `[kinds, kinds]`, 1 between a kind and itself."""
        size, hole, wait = (np.array(column)[:, None] for column in zip(*table_kinds, strict=True))
        distance = ((size - size.T) / self.near_sizes) ** 2 + ((hole - hole.T) / self.near_holes) ** 2
        near = np.exp(-distance / 2) * np.where(wait == wait.T, 1.0, self.other_waits)
        near.flags.writeable = False  # the array is cached
        return near


expected_gain = ExpectedGain()
"""The reward of design RL."""


@functools.lru_cache(maxsize=1 << 12)  # a search asks for the same designs again and again
def kind_shares(config: EnvConfig) -> Mapping[Kind, float]:
    """Returns the share of each kind among a configuration's boards; they sum to 1.

    A hole ratio between two of `HOLES` counts as a mixture of both; boards whose waits are left to chance need one as
    often as random boards do.
    """
    shares: dict[Kind, float] = {}
    for size, part in config.sizes.items():
        for i, hole in enumerate(HOLES):
            near = float(np.interp(part.hole_ratio, HOLES, np.eye(len(HOLES))[i]))
            if not near:  # such boards may have no room for so many agents
                continue
            waits = part.wait_ratio
            if waits is None:
                waits = _natural_waits(size, config.num_agents, hole)
            for wait, share in ((False, 1 - waits), (True, waits)):
                if share:
                    shares[size, hole, wait] = part.data_ratio * near * share
    return MappingProxyType(shares)  # read-only, since it is cached


def checked(reward: Reward, situation: Situation, config: EnvConfig) -> float:
    """Returns what a design is worth; ValueError if it is no finite number from 0 on, which a rejected reply gets."""
    value = reward(situation, config)
    if not isinstance(value, Real) or not 0 <= value < math.inf:
        raise ValueError(f"a reward of designs is a number from 0 on, not {value!r}: {reward!r}")
    return float(value)


def best(situation: Situation, designs: Iterable[EnvConfig], reward: Reward = expected_gain) -> EnvConfig:
    """Returns the design that is worth most in a situation, the first of equals; raises as `checked`."""
    return max(designs, key=functools.partial(checked, reward, situation))


def best_of_one_size(situation: Situation, reward: Reward = expected_gain) -> EnvConfig:
    """Returns the design worth most of those of one size, one hole ratio, and waits on none, half or all of its boards.

    Of measured tables its worth is biased upwards.
    """
    sizes = situation.learnability.values
    designs = [EnvConfig.uniform([size], hole, waits) for size in sizes for hole in HOLES for waits in (0.0, 0.5, 1.0)]
    return best(situation, designs, reward)


def kinds(sizes: Iterable[int]) -> list[Kind]:
    """Returns all kinds of boards of a table."""
    return [(size, hole, waits) for size in sizes for hole in HOLES for waits in (False, True)]


def boards_of_kinds(sizes: Iterable[int], boards: int, *, seed: int) -> dict[Kind, list[Task]]:
    """Returns training boards of each kind, with two agents; kinds that are too rare to be found have none."""
    tasks: dict[Kind, list[Task]] = {kind: [] for kind in kinds(sizes)}
    for size, hole, waits in tasks:
        with contextlib.suppress(GenerationError):
            config = EnvConfig.uniform([size], hole, float(waits))
            tasks[size, hole, waits] = generate(config, boards, seed=seed, split="train")
    return tasks


def table(values: Mapping[Kind, float]) -> KindTable:
    """Returns the table of these values by kind, as `kinds` lists them."""
    sizes = sorted({size for size, _, _ in values})
    return KindTable({s: tuple((values[s, hole, False], values[s, hole, True]) for hole in HOLES) for s in sizes})


def learnable(valid: int, samples: int) -> float:
    """Returns the unbiased estimate of 4 p (1 - p) from the n samples of a board: 4 (k / n) (1 - k / n) n / (n - 1)."""
    return 4 * valid * (samples - valid) / (samples * (samples - 1))


def measure(policy: Completer, sizes: Sequence[int], params: TableParams, *, seed: int) -> tuple[KindTable, KindTable]:
    """Returns the success and the learnability of a policy by kind of boards (`Situation`).

    Source of learnability (`learnable`): "sampling for learnability", Rutherford et al. 2024 (arXiv 2408.15099); the
    factor 4, which makes 1 the largest value, is our choice. A kind that cannot be drawn has 0 in both. A board with
    fewer than two answers (others did not come) says nothing of learnability.
    """
    tasks = boards_of_kinds(sizes, params.boards, seed=repro.seed_for(seed, "kinds"))
    all_tasks = [task for kind_tasks in tasks.values() for task in kind_tasks]
    kind_of = {task.instance.key: kind for kind, kind_tasks in tasks.items() for task in kind_tasks}
    valid: dict[Kind, dict[str, list[bool]]] = {kind: {} for kind in tasks}  # by kind and board, of each sample
    for r in evaluate.rollout(policy, all_tasks, samples=params.samples, seed=seed, progress="kinds of boards"):
        key = r.task.instance.key
        valid[kind_of[key]].setdefault(key, []).append(r.verdict.valid)
    counts = {kind: [(sum(answers), len(answers)) for answers in boards.values()] for kind, boards in valid.items()}
    success = {kind: float(np.mean([k / n for k, n in board_counts] or [0.0])) for kind, board_counts in counts.items()}
    learnability = {
        kind: float(np.mean([learnable(k, n) for k, n in board_counts if n > 1] or [0.0]))
        for kind, board_counts in counts.items()
    }
    return table(success), table(learnability)
