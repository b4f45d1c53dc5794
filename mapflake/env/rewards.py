"""The reward: a function of the verdict, the same for every trainer, arm and round, out of the engineer's reach.

Half for a valid plan, half for an optimal one: 0, 0.5 or 1 (our choice, the paper does not say; a reward for validity
alone makes plans longer). Format, length and partial credit earn nothing. `reward_functions` go into any GRPO script
as they are; TRL itself is not imported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mapflake.env.dataset import task_of
from mapflake.env.task import Task, judge
from mapflake.env.text import check_prompt_format
from mapflake.env.verifier import Verdict
from mapflake.repro import shown

REWARD = {"valid": 0.5, "optimal": 0.5}
"""Field of a `Verdict` -> weight; `list(REWARD.values())` are TRL's `reward_weights`."""

BUILT_IN = dict(REWARD)


def reward(verdict: Verdict) -> float:
    """Returns the reward of a verdict: 0, 0.5 or 1."""
    return sum(weight * getattr(verdict, name) for name, weight in REWARD.items())


def reward_functions(prompt_format: str = "chat") -> list[Callable[..., list[float]]]:
    """Returns one function for TRL for each entry of `REWARD`, of that name; a completion is judged once for all.

    They take TRL's arguments: `completions` and the column `task` of `to_dataset`. A completion is a text or a chat,
    whose answer is the text of the last message of the assistant (empty if there is none). Called on rows that are no
    tasks, they raise the errors of `tasks_of`.

    Raises:
        ValueError: Unknown prompt_format.
    """
    check_prompt_format(prompt_format)

    @functools.lru_cache(maxsize=1 << 8)  # the samples of a board's group come one after the other
    def read(task: str) -> Task:
        return task_of(task, "a row of the training set")

    @functools.lru_cache(maxsize=1 << 12)  # the functions are called one after the other on a batch
    def scores(task: str, text: str) -> tuple[float, ...]:
        verdict = judge(read(task), text, prompt_format)
        return tuple(float(getattr(verdict, name)) for name in REWARD)

    def scored(place: int, name: str) -> Callable[..., list[float]]:
        def score(completions: Sequence[Any], task: Sequence[str] | None = None, **columns: Any) -> list[float]:
            if task is None:
                raise ValueError("task: missing; the rows of the training set are those of to_dataset")
            return [
                scores(row, answer_of(completion))[place] for row, completion in zip(task, completions, strict=True)
            ]

        score.__name__ = name
        return score

    return [scored(place, name) for place, name in enumerate(REWARD)]


def answer_of(completion: Any) -> str:
    """Returns the text of a completion: itself, or that of the last message of the assistant in a chat."""
    if isinstance(completion, str):
        return completion
    if not isinstance(completion, list | tuple) or not all(isinstance(message, Mapping) for message in completion):
        raise ValueError(f"completions: {shown(completion)} is neither a text nor a list of messages")
    contents = [message.get("content") for message in completion if message.get("role", "assistant") == "assistant"]
    content = (contents[-1] if contents else None) or ()  # None is a call of a tool
    parts = [content] if isinstance(content, str) else content
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str | Mapping) for part in parts):
        raise ValueError(f"completions: the content {shown(content)} is neither a text nor a list of texts and parts")
    return "".join(part if isinstance(part, str) else part.get("text") or "" for part in parts)  # others are pictures
