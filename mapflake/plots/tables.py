"""Long tables for figures and for reading: tasks, rounds and their curves as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from mapflake import repro
from mapflake.env import KINDS, Task, naive_plan_fails
from mapflake.study.names import METRICS, name
from mapflake.trainer import evaluate

if TYPE_CHECKING:
    from mapflake.engineer import Round
    from mapflake.trainer.evaluate import Rollout

__all__ = ["METRICS", "benchmark", "configurations", "curves", "differences", "failures", "name", "summary", "tasks"]

COLUMNS = {
    "rewards/valid/mean": "valid",
    "rewards/optimal/mean": "optimal",
    "frac_reward_zero_std": "groups_without_signal",
    "completions/mean_length": "completion_length",
}
"""Column of TRL's log -> its name in figures."""


def tasks(chosen: Iterable[Task]) -> pd.DataFrame:
    """Returns one row a task: agents, size, hole_ratio (to 0.1), makespan, needs_wait and naive_plan_fails (0 or 1)."""
    return pd.DataFrame(
        {
            "agents": t.instance.num_agents,
            "size": t.instance.size,
            "hole_ratio": round(len(t.instance.holes) / t.instance.size**2, 1),
            "makespan": t.solution.makespan,
            "needs_wait": float(t.needs_wait),
            "naive_plan_fails": float(naive_plan_fails(t.instance)),
        }
        for t in chosen
    )


def summary(chosen: Iterable[Task]) -> pd.DataFrame:
    """Returns the makeup of a set of tasks, a row for each (agents, size)."""
    groups = tasks(chosen).groupby(["agents", "size"])
    table = groups.agg(
        boards=("makespan", "size"),
        makespan=("makespan", "mean"),
        needs_wait=("needs_wait", "mean"),
        naive_plan_fails=("naive_plan_fails", "mean"),
    )
    return table.round(2)


def configurations(history: Sequence[Round], arm: str) -> pd.DataFrame:
    """Returns one row for each (round, size) of an arm: the ratios that it trained on."""
    return pd.DataFrame(
        {"arm": arm, "round": one.index, "size": size}
        | {name: float("nan") if value is None else value for name, value in part.ratios.items()}
        for one in history
        for size, part in one.config.sizes.items()
    )


def failures(history: Sequence[Round]) -> pd.DataFrame:
    """Returns one row for each (round, kind of violation): the share of validation completions that show it."""
    rows = []
    for one in history:
        total = sum(s.rollouts for s in one.report.sizes)
        for i, kind in enumerate(KINDS):
            count = sum(s.failures[i] for s in one.report.sizes)
            rows.append({"round": f"round {one.index}", "kind": kind, "share": count / total})
    return pd.DataFrame(rows)


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


def differences(frame: pd.DataFrame, baseline: str, metrics: Sequence[str] = ("valid", "optimal")) -> pd.DataFrame:
    """Returns one row for each (arm, metric): its difference to the arm `baseline`, paired by board, with interval.

    The interval is over boards alone: it holds for these checkpoints, not for other training seeds.
    """
    reference = frame[frame["arm"] == baseline]
    rows = []
    for arm in dict.fromkeys(frame["arm"]):
        if arm != baseline:
            own = frame[frame["arm"] == arm]
            for metric in metrics:
                mean, low, high = evaluate.paired_difference(own, reference, metric)
                row = {"arm": arm, "metric": metric, "difference": mean, "low": low, "high": high}
                rows.append(row | {"n": int(own["board"].nunique())})
    return pd.DataFrame(rows)
