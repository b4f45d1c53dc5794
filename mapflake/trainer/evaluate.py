"""Rollouts of a policy on tasks, and rates with intervals.

Intervals are 95% percentile bootstraps over boards (scipy): samples of one board are not independent, boards are.
Differences between two policies are paired by board. Not covered: variation over training seeds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from mapflake import repro
from mapflake.env import Plan, Task, Verdict, judge_completion, render_prompt

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

RESAMPLES = 2000
SCHEMA = 1
FRAME = ["board", "agents", "size", "holes", "needs_wait", "sample", "valid", "optimal", "soc_optimal"]
PART = 2048  # rollouts; a policy may say less (`part`)


class Completer(Protocol):
    """What a policy is to all who ask one: `policy.Policy`, `openai_client.OpenAIPolicy`, or one of your own."""

    @property
    def prompt_format(self) -> str:
        """The prompt_format of `mapflake.env` that it speaks: "chat" or "compact"."""

    @property
    def identity(self) -> str:
        """What its answers depend on beside the prompts: `record` goes on with a file of this policy alone."""

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
        """Returns n texts for each prompt, None for one that a server did not give; `Policy` also takes `grammar`."""


@dataclass(frozen=True)
class Rollout:
    """One completion of one task with its verdict; `sample` numbers the completions of a task from 0."""

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
    call = _Call(policy, tasks, samples, temperature, seed, progress)
    return [r for part in range(call.parts) for r in call.roll_out(part)]


def record(
    policy: Completer,
    tasks: Sequence[Task],
    path: str | Path,
    *,
    samples: int = 1,
    temperature: float = 1.0,
    seed: int,
    progress: str | None = None,
) -> None:
    """Writes what `rollout` returns to `path`, holding no more than a part of it in memory.

    Finished parts wait in `<path>.unfinished`, so the same call goes on where one was interrupted; it does nothing if
    `path` is its result, which `<path>.made_from` tells. Raises what `rollout` raises.
    """
    path, call = Path(path), _Call(policy, tasks, samples, temperature, seed, progress)
    made_from, seal = call.sha256(), path.with_name(f"{path.name}.made_from")
    unfinished = repro.resumable(path, made_from)
    if not (path.is_file() and seal.is_file() and seal.read_text() == made_from):
        parts = [unfinished / f"{part:05d}.jsonl" for part in range(call.parts)]
        for number, part in enumerate(parts):
            if not part.is_file():
                save_rollouts(part, call.roll_out(number))
        seal.unlink(missing_ok=True)
        repro.write_text(path, (line for part in parts for line in part.open(encoding="ascii")))
        repro.write_text(seal, made_from)
    repro.drop_resumable(path)


@dataclass(frozen=True)
class _Call:
    """One evaluation, cut into parts: what a policy completes at once, and what an interruption may cost."""

    policy: Completer
    tasks: Sequence[Task]
    samples: int
    temperature: float
    seed: int
    progress: str | None

    @property
    def size(self) -> int:
        """Tasks of a part."""
        return max(1, getattr(self.policy, "part", PART) // self.samples)

    @property
    def parts(self) -> int:
        """Their number."""
        return -(-len(self.tasks) // self.size)

    def sha256(self) -> str:
        """Returns a hash of all that decides the result."""
        keys = [task.instance.key for task in self.tasks]
        sampling = [self.samples, self.temperature, self.seed, self.size]
        return repro.json_sha256([SCHEMA, self.policy.identity, self.policy.prompt_format, keys, sampling])

    def roll_out(self, part: int) -> list[Rollout]:
        """Returns the judged completions of one part."""
        first = part * self.size
        tasks = self.tasks[first : first + self.size]
        title = f"{self.progress}, part {part + 1} of {self.parts}" if self.parts > 1 else self.progress
        completions: Sequence[Sequence[str | None]] = self.policy.complete(
            [render_prompt(task.instance, prompt_format=self.policy.prompt_format) for task in tasks],
            n=self.samples,
            temperature=self.temperature,
            seed=repro.seed_for(self.seed, "part", part) if part else self.seed,
            progress=None if self.progress is None else title,
        )
        rollouts = [
            Rollout(
                task,
                sample,
                self.policy.prompt_format,
                text,
                *judge_completion(task, text, self.policy.prompt_format),
            )
            for task, texts in zip(tasks, completions, strict=True)
            for sample, text in enumerate(texts)
            if text is not None
        ]
        if lost := len(tasks) * self.samples - len(rollouts):
            if not rollouts:
                raise ValueError(f"none of {lost} samples was answered")
            logger.warning("%d of %d samples were not answered and are left out", lost, len(tasks) * self.samples)
        return rollouts


def save_rollouts(path: str | Path, rollouts: Iterable[Rollout]) -> None:
    """Writes rollouts as JSONL: task, completion and the names of the failed checks, one rollout a line."""
    repro.write_jsonl(
        path,
        (
            {
                "schema": SCHEMA,
                "prompt_format": r.prompt_format,
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


def iter_rollouts(path: str | Path) -> Iterator[Rollout]:
    """Yields the rollouts in a file of `record` or `save_rollouts` one by one; verdicts are judged anew from the text.

    Raises:
        ValueError: A line has another schema, or is no rollout; names the file and the line.
    """
    for number, row in enumerate(repro.iter_jsonl(path), start=1):
        if row.get("schema") != SCHEMA:
            found = repro.shown(row.get("schema"))
            raise ValueError(f"{path}, line {number}: schema {found}, this version reads {SCHEMA}")
        try:
            task = Task.from_dict(row["task"])
            plan, verdict = judge_completion(task, row["completion"], row["prompt_format"])
        except KeyError as error:
            raise ValueError(f"{path}, line {number}: {error.args[0]}: missing") from None
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        yield Rollout(task, row["sample"], row["prompt_format"], row["completion"], plan, verdict)


def load_rollouts(path: str | Path) -> list[Rollout]:
    """Returns all rollouts of a file, see `iter_rollouts`."""
    return list(iter_rollouts(path))


def frame(rollouts: Iterable[Rollout]) -> pd.DataFrame:
    """Returns one row a rollout, with the columns `FRAME`."""
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
    return pd.DataFrame(rows, columns=FRAME)


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
