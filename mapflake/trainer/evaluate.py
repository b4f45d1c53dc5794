"""Rollouts of a policy on tasks, and rates with intervals.

Intervals are 95% percentile bootstraps over boards: samples of one board are not independent, boards are. Not covered:
variation over training seeds.
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
from mapflake.env.task import listed_tasks
from mapflake.extras import needs
from mapflake.repro import shown

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

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
    """One completion of one task, read and judged once; `sample` is its number among those of the task, from 0.

    Lone surrogates in a completion, which no file can hold, are replaced by "?". `plan` is None if it cannot be parsed.
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

    The noise of a local policy depends on `seed`, `samples`, the most tokens of an answer and the position of the task,
    so two policies on the same tasks are paired if these are the same.
    Samples for which a server had no answer (None) are left out, with a warning: they are not wrong answers.

    Raises:
        ValueError: There was no answer at all, or one of `tasks` is none.
        ServerError: The server is gone, or refuses.
    """
    tasks, prompt_format = listed_tasks(tasks), policy.prompt_format
    completions = policy.complete(
        [render_prompt(task.instance, prompt_format=prompt_format) for task in tasks],
        n=samples,
        temperature=temperature,
        seed=seed,
        progress=progress,
    )
    answers = [
        (task, sample, text.encode(errors="replace").decode())
        for task, texts in zip(tasks, samples_of(completions, len(tasks), samples), strict=True)
        for sample, text in enumerate(texts)
        if text is not None
    ]
    if num_lost := len(tasks) * samples - len(answers):
        if not answers:
            raise ValueError(f"none of {num_lost} samples was answered")
        logger.warning("%d of %d samples were not answered and are left out", num_lost, len(tasks) * samples)
    return [Rollout(t, i, prompt_format, text, *judge_completion(t, text, prompt_format)) for t, i, text in answers]


def samples_of(completions: Any, prompts: int, n: int) -> list[list[str | None]]:
    """Returns what `Completer.complete` gave, n texts for each prompt, None for those left out; else a ValueError."""
    lists = list(completions) if isinstance(completions, Iterable) else [completions]
    for texts in lists:
        if isinstance(texts, str) or not isinstance(texts, Sequence | np.ndarray) or len(texts) > n:
            raise ValueError(f"complete: takes a list of up to {n} texts for each prompt, not {shown(texts)}")
        for text in texts:
            if not isinstance(text, str | None):
                raise ValueError(f"complete: {shown(text)} is neither a text nor None")
    if len(lists) != prompts:
        raise ValueError(f"complete: {len(lists)} lists of texts for {prompts} prompts")
    return [[*texts, *[None] * (n - len(texts))] for texts in lists]


def save_rollouts(path: str | Path, rollouts: Iterable[Rollout]) -> None:
    """Writes rollouts as JSONL, one a line with its task, plan and verdict; atomic."""
    repro.write_jsonl(path, ({"schema": SCHEMA, **repro.to_json(r)} for r in rollouts))


def load_rollouts(path: str | Path) -> list[Rollout]:
    """Returns the rollouts that `save_rollouts` wrote.

    Raises:
        ValueError: A line has another schema, or is no rollout; names file, line and key.
    """
    rollouts = []
    for number, row in enumerate(repro.read_jsonl(path), start=1):
        place = f"{path}, line {number}"
        if row.pop("schema", None) != SCHEMA:
            raise ValueError(f"{place}: schema: this version reads rollouts of schema {SCHEMA}")
        rollouts.append(repro.from_json(Rollout, row, f"{place}: rollout"))
    return rollouts


def frame(rollouts: Iterable[Rollout]) -> pd.DataFrame:
    """Returns one row a rollout, with the columns `COLUMNS`."""
    with needs("train"):
        import pandas as pd

    rows = []
    for r in rollouts:
        board, verdict = r.task.instance, r.verdict
        labels = board.key, board.num_agents, board.size, len(board.holes), r.task.needs_wait, r.sample
        rows.append((*labels, float(verdict.valid), float(verdict.optimal), float(verdict.soc_optimal)))
    return pd.DataFrame(rows, columns=COLUMNS)


def mean_interval(values: pd.Series, rollouts: pd.Series) -> tuple[float, float, float]:
    """Returns mean, lower and upper end of the 95% bootstrap interval over boards.

    `values` are the boards' means, `rollouts` their numbers of rollouts. Each rollout has the same weight.

    Raises:
        ValueError: There are no boards.
    """
    with needs("train"):
        from scipy.stats import bootstrap

    if values.empty:
        raise ValueError("no boards to average over")
    data, counts = values.to_numpy(float), rollouts.to_numpy(float)
    mean = float(np.average(data, weights=counts))
    if np.ptp(data) == 0:  # nothing to resample
        return mean, mean, mean
    result = bootstrap(
        (data, counts),
        lambda x, n, axis: np.average(x, weights=n, axis=axis),
        paired=True,
        n_resamples=2000,
        method="percentile",
        rng=repro.rng_for(0, "bootstrap"),
        batch=200,
    )
    return mean, float(result.confidence_interval.low), float(result.confidence_interval.high)


def rates(
    rollouts: pd.DataFrame, by: Sequence[str] = (), metrics: Sequence[str] = ("valid", "optimal")
) -> pd.DataFrame:
    """Returns a row for each group of a `frame`: boards, rollouts, and `<metric>`, `<metric>_low`, `<metric>_high`.

    Without columns to group `by` there is one row. Rates in [0, 1] are means over rollouts, as in a failure report: a
    board that is in a set twice counts twice. Intervals are over boards.
    """
    with needs("train"):
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
    """Returns the mean of a - b with its 95% interval, paired by board.

    Raises:
        ValueError: The two frames are not over the same boards, with as many rollouts of each.
    """
    left, right = (x.groupby("board", sort=True)[metric].agg(["mean", "size"]) for x in (a, b))
    if not left.index.equals(right.index):
        raise ValueError(f"not the same boards: {len(left.index.symmetric_difference(right.index))} are in one only")
    if unequal := int((left["size"] != right["size"]).sum()):
        raise ValueError(f"not as many rollouts: {unequal} boards have more in one of the two")
    return mean_interval(left["mean"] - right["mean"], left["size"])
