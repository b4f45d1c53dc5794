"""Long tables for figures and for reading: tasks, rounds and their curves as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mapflake import repro
from mapflake.env import KINDS, Task, distances, naive_plan_fails
from mapflake.study.names import METRICS, name
from mapflake.trainer import evaluate

if TYPE_CHECKING:
    from mapflake.engineer import Round
    from mapflake.trainer.evaluate import Rollout

__all__ = ["METRICS", "benchmark", "configurations", "curves", "failures", "name", "summary", "tasks"]

COLUMNS = {
    "rewards/valid/mean": "valid",
    "rewards/optimal/mean": "optimal",
    "frac_reward_zero_std": "groups_without_signal",
    "completions/mean_length": "completion_length",
}
"""Column of TRL's log -> its name in figures."""


def tasks(chosen: Iterable[Task]) -> pd.DataFrame:
    """Returns one row a task: agents, size, hole_ratio (to 0.1), makespan, needs_wait, naive_plan_fails and these.

    `distance` is the longest of the agents' shortest paths, a lower bound of the makespan. `excess` is the optimal sum
    of costs minus the sum of shortest paths; it is above 0 only where agents are in each other's way.
    """
    rows = []
    for task in chosen:
        board = task.instance
        ends = zip(board.starts, board.goals, strict=True)
        shortest = [distances(board, goal)[start] for start, goal in ends]
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
        {"arm": arm, "round": one.index, "size": size}
        | {name: float("nan") if value is None else value for name, value in part.ratios.items()}
        for one in history
        for size, part in one.config.sizes.items()
    )


def failures(history: Sequence[Round]) -> pd.DataFrame:
    """Returns the share of validation completions that fail each check: a row a kind of violation, a column a round."""
    shares = {}
    for one in history:
        counts = np.sum([size.failures for size in one.report.sizes], axis=0)
        shares[f"round {one.index}"] = counts / sum(size.rollouts for size in one.report.sizes)
    return pd.DataFrame(shares, index=list(KINDS))


def curves(history: Sequence[Round], arm: str) -> pd.DataFrame:
    """Returns one row a GRPO step of an arm, steps counted on through its rounds."""
    rows: list[dict[str, Any]] = []
    for one in history:
        before = len(rows)
        steps = repro.read_jsonl(one.checkpoint / "curve.jsonl")
        rows += [row | {"arm": arm, "round": one.index, "step": before + i} for i, row in enumerate(steps, start=1)]
    return pd.DataFrame(rows).rename(columns=COLUMNS)


def benchmark(measured: Mapping[str, Mapping[str, Sequence[Rollout]]]) -> pd.DataFrame:
    """Returns the rollouts of `study.benchmark`, by arm, as an `evaluate.frame` with the columns arm and subset."""
    parts = [
        evaluate.frame(rollouts).assign(arm=arm, subset=subset)
        for arm, by_subset in measured.items()
        for subset, rollouts in by_subset.items()
    ]
    return pd.concat(parts, ignore_index=True)
