"""The reward: a function of the verdict, the same for every trainer, arm and round, out of the engineer's reach.

Half for a valid plan, half for an optimal one: 0, 0.5 or 1 (our choice, the paper does not say; a reward for validity
alone makes plans longer). Format, length and partial credit earn nothing. `reward_functions` go into any GRPO script
as they are; TRL itself is not imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from mapflake.env.dataset import task_of
from mapflake.env.task import Task, judge
from mapflake.env.text import check_prompt_format
from mapflake.env.verifier import Verdict

REWARD = {"valid": 0.5, "optimal": 0.5}
"""Field of a `Verdict` -> weight; `list(REWARD.values())` are TRL's `reward_weights`."""


def reward(verdict: Verdict) -> float:
    """Returns the reward of a verdict: 0, 0.5 or 1."""
    return sum(weight * getattr(verdict, name) for name, weight in REWARD.items())


def reward_functions(prompt_format: str = "chat") -> list[Callable[..., list[float]]]:
    """Returns one function for TRL for each entry of `REWARD`, of that name; a completion is judged once for all.

    They take TRL's arguments: `completions` (texts, or chats of one message) and the column `task` of `to_dataset`, a
    list as long. Other columns are ignored. Called on rows that are no tasks, they raise the errors of `tasks_of`.

    Raises:
        ValueError: Unknown prompt_format.
    """
    check_prompt_format(prompt_format)

    @functools.lru_cache(maxsize=1 << 12)  # each board comes once for each sample of its group
    def read(task: str) -> Task:
        return task_of(task, "a row of the training set")

    @functools.lru_cache(maxsize=1 << 14)
    def verdict(task: str, text: str) -> Verdict:
        return judge(read(task), text, prompt_format)

    def scored(name: str) -> Callable[..., list[float]]:
        def score(completions: Sequence[Any], task: Sequence[str] | None = None, **columns: Any) -> list[float]:
            if task is None:
                raise ValueError("task: missing; the rows of the training set are those of to_dataset")
            texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
            return [float(getattr(verdict(one, text), name)) for one, text in zip(task, texts, strict=True)]

        score.__name__ = name
        return score

    return [scored(name) for name in REWARD]
