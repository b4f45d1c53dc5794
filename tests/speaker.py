"""A policy whose answers a function gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Speaker:
    """Gives `answer(prompt, i)` as sample i of a prompt; `asked` are the other arguments of each call."""

    def __init__(self, answer: Callable[[str, int], str | None], prompt_format: str = "compact") -> None:
        self.answer, self.prompt_format = answer, prompt_format
        self.asked: list[dict[str, Any]] = []

    def complete(self, prompts: list[str], *, n: int = 1, **options: Any) -> list[list[str | None]]:
        self.asked.append(options)
        return [[self.answer(prompt, i) for i in range(n)] for prompt in prompts]
