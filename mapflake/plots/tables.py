"""Long tables for figures and for reading: tasks, rounds and their curves as data frames."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from mapflake import repro
from mapflake.env import KINDS, Task, careless_fails

if TYPE_CHECKING:
    from mapflake.engineer import Round


METRICS = ("valid", "optimal", "soc_optimal")

NAMES = {
    "warm_start": "before RL",
    "round_0": "round 0",
    "fixed": "fixed configuration",
    "engineer": "engineer: RL checkpoint",
    "base_engineer": "engineer: base model",
    "heuristic": "heuristic expert",
    "domain_randomisation": "domain randomisation",
}
"""What an arm is called in figures and tables; others go by their own name."""


COLUMNS = {
    "rewards/valid/mean": "valid",
    "rewards/optimal/mean": "optimal",
    "frac_reward_zero_std": "groups_without_signal",
    "completions/mean_length": "completion_length",
}
"""What TRL calls a column of its log, and what figures call it."""


def name(arm: str) -> str:
    """Returns what an arm is called in figures and tables."""
    return NAMES.get(arm, arm.replace("_", " "))


def tasks(chosen: Iterable[Task]) -> pd.DataFrame:
    """Returns one row a task: agents, size, hole_ratio (to 0.1), makespan, needs_wait and careless_fails (0 or 1)."""
    return pd.DataFrame(
        {
            "agents": t.instance.num_agents,
            "size": t.instance.size,
            "hole_ratio": round(len(t.instance.holes) / t.instance.size**2, 1),
            "makespan": t.solution.makespan,
            "needs_wait": float(t.needs_wait),
            "careless_fails": float(careless_fails(t.instance)),
        }
        for t in chosen
    )


def summary(chosen: Iterable[Task]) -> pd.DataFrame:
    """Returns what a set of tasks holds, a row for each (agents, size)."""
    groups = tasks(chosen).groupby(["agents", "size"])
    table = groups.agg(
        boards=("makespan", "size"),
        makespan=("makespan", "mean"),
        needs_wait=("needs_wait", "mean"),
        careless_fails=("careless_fails", "mean"),
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


def benchmark(folders: Mapping[str, Path], subsets: Iterable[str]) -> pd.DataFrame:
    """Returns the rollouts on the benchmark as `evaluate.frame` has them, with the columns arm and subset.

    Args:
        folders: Arm -> the folder that holds `<subset>.jsonl`.
        subsets: Names of the benchmark's subsets.
    """
    from mapflake.trainer import evaluate

    frames = []
    for arm, folder in folders.items():
        for subset in subsets:
            rows = evaluate.frame(evaluate.iter_rollouts(folder / f"{subset}.jsonl"))
            frames.append(rows.assign(arm=arm, subset=subset))
    return pd.concat(frames, ignore_index=True)


def differences(frame: pd.DataFrame, baseline: str, metrics: Sequence[str] = ("valid", "optimal")) -> pd.DataFrame:
    """Returns one row for each (arm, metric): its difference to the arm `baseline`, paired by board, with interval."""
    from mapflake.trainer import evaluate

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
