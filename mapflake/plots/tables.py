"""Tables for figures and for reading: tasks, rounds and their curves, and which boards can be generated at all.

Shares in `acceptance` and `feasibility_table` refer to random boards, before the generator keeps those of one split.
Boards over the solver's budget count as not solved, although they may well need a wait.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mapflake import repro
from mapflake.env import (
    KINDS,
    BoardStatistics,
    EnvConfig,
    Task,
    board_statistics,
    cells_needed,
    distances,
    naive_plan_fails,
    num_holes,
)
from mapflake.study.names import name as name
from mapflake.study.records import METRICS as METRICS
from mapflake.trainer import evaluate

if TYPE_CHECKING:
    from mapflake.engineer import Round
    from mapflake.trainer.evaluate import Rollout

COLUMNS = {
    "rewards/valid/mean": "valid",
    "rewards/optimal/mean": "optimal",
    "frac_reward_zero_std": "groups_without_signal",
    "completions/mean_length": "completion_length",
}
"""Column of TRL's log -> its name in figures."""

SIZES = tuple(range(3, 11))
AGENTS = (2, 3, 5)
HOLE_RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""The 144 kinds: the paper's sizes and hole ratios; 2 agents as in training, 3 and the most, 5, as in its tests."""


def tasks(chosen: Iterable[Task]) -> pd.DataFrame:
    """Returns one row a task: agents, size, hole_ratio (to 0.1), makespan, needs_wait, naive_plan_fails and these.

    `distance` is the longest of the agents' shortest paths, a lower bound of the makespan. `excess` is the optimal sum
    of costs minus the sum of shortest paths: above 0 only where agents are in each other's way.
    """
    rows = []
    for task in chosen:
        board = task.instance
        shortest = [distances(board, goal)[start] for start, goal in zip(board.starts, board.goals, strict=True)]
        rows.append(
            {
                "agents": board.num_agents,
                "size": board.size,
                "hole_ratio": round(len(board.holes) / board.size**2, 1),
                "distance": max(shortest),
                "makespan": task.solution.makespan,
                "excess": task.best_sum_of_costs - sum(shortest),
                "needs_wait": float(task.needs_wait),
                "naive_plan_fails": float(naive_plan_fails(board)),
            }
        )
    return pd.DataFrame(rows)


def summary(chosen: Iterable[Task]) -> pd.DataFrame:
    """Returns the makeup of a set of tasks, a row for each (agents, size): their number and means of `tasks`.

    `conflict` is the share of boards on which agents are in each other's way.
    """
    table = tasks(chosen)
    groups = table.assign(conflict=table["excess"] > 0).groupby(["agents", "size"])
    means = groups[["makespan", "distance", "conflict", "needs_wait", "naive_plan_fails"]].mean()
    return groups.size().to_frame("boards").join(means).round(2)


def configurations(history: Sequence[Round], arm: str) -> pd.DataFrame:
    """Returns one row for each (round, size) of an arm: the ratios that it trained on."""
    return pd.DataFrame(
        {"arm": arm, "round": round_.index, "size": size}
        | {key: float("nan") if value is None else value for key, value in part.ratios.items()}
        for round_ in history
        for size, part in round_.config.sizes.items()
    )


def failures(history: Sequence[Round]) -> pd.DataFrame:
    """Returns the share of validation completions that fail each check: a row a kind of violation, a column a round."""
    shares = {}
    for round_ in history:
        counts = np.sum([size.failures for size in round_.report.sizes], axis=0)
        shares[f"round {round_.index}"] = counts / sum(size.rollouts for size in round_.report.sizes)
    return pd.DataFrame(shares, index=list(KINDS))


def curves(history: Sequence[Round], arm: str) -> pd.DataFrame:
    """Returns one row a GRPO step of an arm, steps counted on through its rounds."""
    rows: list[dict[str, Any]] = []
    for round_ in history:
        offset = len(rows)
        steps = repro.read_jsonl(round_.checkpoint / "curve.jsonl")
        rows += [row | {"arm": arm, "round": round_.index, "step": offset + i} for i, row in enumerate(steps, start=1)]
    return pd.DataFrame(rows).rename(columns=COLUMNS)


def benchmark(measured: Mapping[str, Mapping[str, Sequence[Rollout]]]) -> pd.DataFrame:
    """Returns the rollouts of `study.benchmark` on the paper's subsets: an `evaluate.frame`, arm and subset."""
    parts = [
        evaluate.frame(rollouts).assign(arm=arm, subset=subset)
        for arm, by_subset in measured.items()
        for subset, rollouts in by_subset.items()
    ]
    return pd.concat(parts, ignore_index=True)


def acceptance(config: EnvConfig, *, boards: int, seed: int) -> pd.DataFrame:
    """Returns one row a size that has boards: shares of random ones, and how many are sampled for one that is kept.

    The columns are size, hole_ratio, wait_ratio (NaN: unconstrained), boards, connected, solved, over_budget,
    needs_wait (a share of the solved boards), and attempts: the expected number of boards sampled for one of the wanted
    mix, of any split and without custom dimensions, infinite where none of a wanted kind was found.
    """
    rows = []
    for size, part in config.sizes.items():
        if not part.data_ratio:
            continue
        counts = board_statistics(size, config.num_agents, part.hole_ratio, boards=boards, seed=seed)
        wanted = [(1.0, counts.solved)]
        if part.wait_ratio is not None:
            wanted = [(part.wait_ratio, counts.waits), (1 - part.wait_ratio, counts.solved - counts.waits)]
        attempts = sum(share * boards / count if count else np.inf for share, count in wanted if share)
        ratios = {"hole_ratio": part.hole_ratio, "wait_ratio": np.nan if part.wait_ratio is None else part.wait_ratio}
        rows.append({"size": size, **ratios, **_shares(counts), "attempts": attempts})
    return pd.DataFrame(rows)


def feasibility_table(*, boards: int, seed: int) -> pd.DataFrame:
    """Returns one row for each of 144 kinds of boards, the whole design space, from so many random boards each.

    The columns are agents, size, hole_ratio, holes, and boards to needs_wait as in `acceptance`. A kind with fewer free
    cells than its agents need, see `cells_needed`, has 0 boards and NaN.
    """
    rows: list[dict[str, Any]] = []
    for agents, size, ratio in itertools.product(AGENTS, SIZES, HOLE_RATIOS):
        holes = num_holes(size, ratio)
        row: dict[str, Any] = {"agents": agents, "size": size, "hole_ratio": ratio, "holes": holes, "boards": 0}
        if size * size - holes >= cells_needed(agents):
            row |= _shares(board_statistics(size, agents, ratio, boards=boards, seed=seed))
        rows.append(row)
    return pd.DataFrame(rows)


def _shares(counts: BoardStatistics) -> dict[str, float]:
    shares = {key: round(getattr(counts, key) / counts.boards, 4) for key in ("connected", "solved", "over_budget")}
    waits = round(counts.waits / counts.solved, 4) if counts.solved else np.nan
    return {"boards": counts.boards, **shares, "needs_wait": waits}
