"""Rollouts of a policy on tasks, and rates with intervals.

Intervals are 95% percentile bootstraps over boards (scipy): samples of one board are not independent, boards are.
Differences between two policies are paired by board. Not covered: variation over training seeds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mapflake import repro
from mapflake.env import Plan, Task, Verdict, judge_completion, render_prompt
from mapflake.extras import needs

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

RESAMPLES = 2000
SCHEMA = 2
COLUMNS = ["board", "agents", "size", "holes", "needs_wait", "sample", "valid", "optimal", "soc_optimal"]


class Completer(Protocol):
    """The interface of a policy: `policy.Policy`, `openai_client.OpenAIPolicy`, or one of your own."""

    @property
    def prompt_format(self) -> str:
        """The prompt format that the policy reads and writes, one of `mapflake.env.PROMPT_FORMATS`."""

    def complete(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
        seed: int = 0,
        progress: str | None = None,
    ) -> Sequence[Sequence[str | None]]:
        """Returns n texts for each prompt, None for one that a server did not give; `Policy` also takes `grammar`.

        Args:
            prompts: In the policy's prompt format; a chat policy gets each as one user message.
            n: Samples a prompt.
            temperature: 0 is greedy; None is 1.
            max_new_tokens: Where a completion is cut off; None is the policy's own length.
            seed: Seed of the noise: same seed, same prompts, same completions (many servers do not care).
            progress: Title of a progress bar; None shows none.
        """


@dataclass(frozen=True)
class Rollout:
    """One completion of one task, read and judged once.

    Attributes:
        task: The board with its answer.
        sample: Number of the completion among those of the task, from 0.
        prompt_format: The format of prompt and completion.
        completion: The policy's text; lone surrogates, which no file can hold, are replaced by "?".
        plan: The plan in the completion; None if it cannot be parsed.
        verdict: The judgement of the completion.
    """

    task: Task
    sample: int
    prompt_format: str
    completion: str
    plan: Plan | None
    verdict: Verdict


def rollout(
    policy: Completer,
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
        ServerError: The server is gone, or refuses.
    """
    written = policy.prompt_format
    completions = policy.complete(
        [render_prompt(task.instance, prompt_format=written) for task in tasks],
        n=samples,
        temperature=temperature,
        seed=seed,
        progress=progress,
    )
    answered = [
        (task, sample, text.encode(errors="replace").decode())
        for task, texts in zip(tasks, completions, strict=True)
        for sample, text in enumerate(texts)
        if text is not None
    ]
    if lost := len(tasks) * samples - len(answered):
        if not answered:
            raise ValueError(f"none of {lost} samples was answered")
        logger.warning("%d of %d samples were not answered and are left out", lost, len(tasks) * samples)
    return [Rollout(t, i, written, text, *judge_completion(t, text, written)) for t, i, text in answered]


def save_rollouts(path: str | Path, rollouts: Iterable[Rollout]) -> None:
    """Writes rollouts as JSONL, one a line with its task, plan and verdict; atomic."""
    repro.write_jsonl(path, ({"schema": SCHEMA, **repro.to_json(r)} for r in rollouts))


def load_rollouts(path: str | Path) -> list[Rollout]:
    """Returns the rollouts that `save_rollouts` wrote.

    Raises:
        ValueError: A line has another schema, or is no rollout; names file, line and key.
    """
    found = []
    for number, row in enumerate(repro.read_jsonl(path), start=1):
        where = f"{path}, line {number}"
        if row.pop("schema", None) != SCHEMA:
            raise ValueError(f"{where}: schema: this version reads rollouts of schema {SCHEMA}")
        found.append(repro.from_json(Rollout, row, f"{where}: rollout"))
    return found


def frame(rollouts: Iterable[Rollout]) -> pd.DataFrame:
    """Returns one row a rollout, with the columns `COLUMNS`."""
    with needs("train"):
        import pandas as pd

    rows = [
        (
            r.task.instance.key,
            r.task.instance.num_agents,
            r.task.instance.size,
            len(r.task.instance.holes),
            r.task.needs_wait,
            r.sample,
            float(r.verdict.valid),
            float(r.verdict.optimal),
            float(r.verdict.soc_optimal),
        )
        for r in rollouts
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def mean_interval(values: pd.Series, rollouts: pd.Series) -> tuple[float, float, float]:
    """Returns mean, lower and upper end of the 95% bootstrap interval over boards.

    Args:
        values: The mean of each board.
        rollouts: The number of rollouts of each board; all rollouts count alike.
    """
    with needs("train"):
        from scipy.stats import bootstrap

    if values.empty:
        raise ValueError("no boards to average over")
    data, counts = values.to_numpy(float), rollouts.to_numpy(float)
    mean = float(np.average(data, weights=counts))
    if np.ptp(data) == 0:  # nothing to resample
        return mean, mean, mean

    def average(x: np.ndarray, n: np.ndarray, axis: int) -> np.ndarray:
        return (x * n).sum(axis=axis) / n.sum(axis=axis)

    rng = repro.rng_for(0, "bootstrap")
    result = bootstrap(
        (data, counts), average, paired=True, n_resamples=RESAMPLES, method="percentile", rng=rng, batch=200
    )
    return mean, float(result.confidence_interval.low), float(result.confidence_interval.high)


def rates(
    rollouts: pd.DataFrame, by: Sequence[str] = (), metrics: Sequence[str] = ("valid", "optimal")
) -> pd.DataFrame:
    """Returns a row for each group: boards, rollouts, and `<metric>`, `<metric>_low`, `<metric>_high` in [0, 1].

    Args:
        rollouts: A `frame`.
        by: Columns to group by; none gives one row.
        metrics: Columns to average over rollouts, as a failure report counts them: a board that is in a set twice
            counts twice. Intervals are over boards.
    """
    import pandas as pd

    groups = rollouts.groupby(list(by), sort=True) if by else [((), rollouts)]
    rows = []
    for key, group in groups:
        row: dict[str, Any] = dict(zip(by, key, strict=True))
        row |= {"boards": int(group["board"].nunique()), "rollouts": len(group)}
        for metric in metrics:
            boards = group.groupby("board", sort=True)[metric].agg(["mean", "size"])
            mean, low, high = mean_interval(boards["mean"], boards["size"])
            row |= {metric: mean, f"{metric}_low": low, f"{metric}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def paired_difference(a: pd.DataFrame, b: pd.DataFrame, metric: str) -> tuple[float, float, float]:
    """Returns the mean of a - b with its 95% interval, paired by board, for two frames over the same boards.

    Raises:
        ValueError: The two are not over the same boards.
    """
    left, right = (x.groupby("board", sort=True)[metric].agg(["mean", "size"]) for x in (a, b))
    if not left.index.equals(right.index):
        raise ValueError(f"not the same boards: {len(left.index.symmetric_difference(right.index))} are in one only")
    return mean_interval(left["mean"] - right["mean"], left["size"])
