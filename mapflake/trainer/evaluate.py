"""Rollouts of a policy on tasks, and rates with intervals.

Intervals are 95% percentile bootstraps over boards (scipy): samples of one board are not independent, boards are.
Differences between two policies are paired by board. Not covered: variation over training seeds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mapflake import repro
from mapflake.env import Task, Verdict, judge, render_prompt

if TYPE_CHECKING:
    import pandas as pd

    from mapflake.trainer.openai_client import OpenAIPolicy
    from mapflake.trainer.policy import Policy

logger = logging.getLogger(__name__)

RESAMPLES = 2000
SCHEMA = 1


@dataclass(frozen=True)
class Rollout:
    """One completion of one task with its verdict; `sample` numbers the completions of a task from 0."""

    task: Task
    sample: int
    completion: str
    verdict: Verdict


def rollout(
    policy: Policy | OpenAIPolicy,
    tasks: Sequence[Task],
    *,
    samples: int = 1,
    temperature: float = 1.0,
    seed: int,
    progress: str | None = None,
) -> list[Rollout]:
    """Returns `samples` judged completions for each task, task-major: `[len(tasks) * samples]` if all were answered.

    The noise depends on `seed` and the position of the task alone, so two policies on the same tasks are paired.
    Samples for which a server had no answer (None) are left out, with a warning: they are not wrong answers.

    Raises:
        ValueError: There was no answer at all.
    """
    prompts = [render_prompt(task.instance, dialect=policy.dialect) for task in tasks]
    completions: Sequence[Sequence[str | None]] = policy.complete(
        prompts, n=samples, temperature=temperature, seed=seed, progress=progress
    )
    rollouts = [
        Rollout(task, sample, text, judge(task, text, policy.dialect))
        for task, texts in zip(tasks, completions, strict=True)
        for sample, text in enumerate(texts)
        if text is not None
    ]
    if lost := len(tasks) * samples - len(rollouts):
        if not rollouts:
            raise ValueError(f"none of {lost} samples was answered")
        logger.warning("%d of %d samples were not answered and are left out", lost, len(tasks) * samples)
    return rollouts


def save_rollouts(path: str | Path, rollouts: Iterable[Rollout], dialect: str) -> None:
    """Writes rollouts as JSONL: task, completion and the names of the failed checks, one rollout a line."""
    repro.write_jsonl(
        path,
        (
            {
                "schema": SCHEMA,
                "dialect": dialect,
                "task": r.task.to_dict(),
                "sample": r.sample,
                "completion": r.completion,
                "valid": r.verdict.valid,
                "optimal": r.verdict.optimal,
                "failed": sorted({v.kind for v in r.verdict.violations}),
            }
            for r in rollouts
        ),
    )


def load_rollouts(path: str | Path) -> list[Rollout]:
    """Returns the rollouts in a file of `save_rollouts`; verdicts are judged anew from the text.

    Raises:
        ValueError: A line has another schema, or is no rollout; names the file and the line.
    """
    rollouts = []
    for number, row in enumerate(repro.read_jsonl(path), start=1):
        if row.get("schema") != SCHEMA:
            found = repro.shown(row.get("schema"))
            raise ValueError(f"{path}, line {number}: schema {found}, this version reads {SCHEMA}")
        try:
            task = Task.from_dict(row["task"])
            verdict = judge(task, row["completion"], row["dialect"])
        except KeyError as error:
            raise ValueError(f"{path}, line {number}: {error.args[0]}: missing") from None
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        rollouts.append(Rollout(task, row["sample"], row["completion"], verdict))
    return rollouts


def frame(rollouts: Iterable[Rollout]) -> pd.DataFrame:
    """Returns one row a rollout: board, agents, size, holes, needs_wait, sample, valid, optimal, soc_optimal."""
    import pandas as pd

    rows = [
        {
            "board": r.task.instance.key,
            "agents": r.task.instance.num_agents,
            "size": r.task.instance.size,
            "holes": len(r.task.instance.holes),
            "needs_wait": r.task.needs_wait,
            "sample": r.sample,
            "valid": float(r.verdict.valid),
            "optimal": float(r.verdict.optimal),
            "soc_optimal": float(r.verdict.soc_optimal),
        }
        for r in rollouts
    ]
    return pd.DataFrame(rows)


def mean_interval(values: Sequence[float] | np.ndarray, *, seed: int = 0) -> tuple[float, float, float]:
    """Returns mean, lower and upper end of the 95% bootstrap interval of per-board values."""
    from scipy.stats import bootstrap

    data = np.asarray(values, dtype=float)
    if not len(data):
        raise ValueError("no boards to average over")
    mean = float(data.mean())
    if len(data) == 1 or np.ptp(data) == 0:  # nothing to resample
        return mean, mean, mean
    rng = repro.rng_for(seed, "bootstrap")
    result = bootstrap((data,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=rng, batch=200)
    return mean, float(result.confidence_interval.low), float(result.confidence_interval.high)


def rates(
    rollouts: pd.DataFrame, by: Sequence[str] = (), metrics: Sequence[str] = ("valid", "optimal")
) -> pd.DataFrame:
    """Returns a row for each group: boards, rollouts, and `<metric>`, `<metric>_low`, `<metric>_high` in [0, 1].

    Args:
        rollouts: A `frame`.
        by: Columns to group by; none gives one row.
        metrics: Columns to average: first within a board, then over boards.
    """
    import pandas as pd

    groups = rollouts.groupby(list(by), sort=True) if by else [((), rollouts)]
    rows = []
    for key, group in groups:
        row: dict[str, Any] = dict(zip(by, key, strict=True))
        row |= {"boards": int(group["board"].nunique()), "rollouts": len(group)}
        for metric in metrics:
            mean, low, high = mean_interval(group.groupby("board", sort=True)[metric].mean().to_numpy())
            row |= {metric: mean, f"{metric}_low": low, f"{metric}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def paired_difference(a: pd.DataFrame, b: pd.DataFrame, metric: str) -> tuple[float, float, float]:
    """Returns the mean of a - b with its 95% interval, paired by board, for two frames over the same boards.

    Raises:
        ValueError: The two are not over the same boards.
    """
    left, right = (x.groupby("board", sort=True)[metric].mean() for x in (a, b))
    if not left.index.equals(right.index):
        raise ValueError(f"not the same boards: {len(left.index.symmetric_difference(right.index))} are in one only")
    return mean_interval((left - right).to_numpy())
