"""The reward of GRPO, the same for every arm and every round, out of the engineer's reach.

Half for a valid plan, half for an optimal one: 0, 0.5 or 1 (our choice, the paper does not say; a reward for validity
alone makes plans longer). Format, length and partial credit earn nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from mapflake.env import Task, Verdict, judge

REWARD = {"valid": 0.5, "optimal": 0.5}
"""Field of a `Verdict` -> weight."""


def reward_functions(tasks: Sequence[Task], dialect: str) -> list[Callable[..., list[float]]]:
    """Returns one function for TRL for each entry of `REWARD`, of that name; a completion is judged once for all.

    They take `completions` (texts, or chats of one message), the index `task` of each, and `failed`, True where an
    engine gave no completion: that is no wrong answer, it scores NaN and trains nothing.
    """

    @functools.lru_cache(maxsize=1 << 14)
    def verdict(task: int, text: str) -> Verdict:
        return judge(tasks[task], text, dialect)

    def scored(name: str) -> Callable[..., list[float]]:
        def score(
            completions: Sequence[Any], task: Sequence[int], failed: Sequence[bool] | None = None, **_: Any
        ) -> list[float]:
            texts = [c if isinstance(c, str) else c[0]["content"] for c in completions]
            lost = failed or [False] * len(texts)
            return [
                math.nan if gone else float(getattr(verdict(i, text), name))
                for i, text, gone in zip(task, texts, lost, strict=True)
            ]

        score.__name__ = name
        return score

    return [scored(name) for name in REWARD]
