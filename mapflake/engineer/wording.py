"""How numbers and model text are written into prompts: tables, shares, and quotations that cannot act.

Not covered: what is said (`failures`, `context`), and the compact prompt format's words (`space`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_QUOTE = 600  # characters of a model's text that a report or a prompt keeps; the whole text is in the rollouts file

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def quote(text: str, limit: int = MAX_QUOTE) -> str:
    """Returns model text so that it cannot act inside a prompt: every line behind `| `, at most `limit` characters.

    A space after every `<` splits control tokens (`<|im_end|>`, `</think>`, `<s>`), marks in brackets (`[INST]`)
    likewise; runs of three or more backticks or tildes open no fence; the bar keeps headings and role names from the
    start of a line; control characters and lone surrogates become U+FFFD. What was cut is said.
    """
    shown = storable(text[:limit]).replace("\t", " ").replace("\r\n", "\n")
    shown = _CONTROL.sub("\ufffd", shown)
    shown = re.sub(r"<(?=\S)", "< ", shown)
    shown = re.sub(r"\[(?=/?[A-Z_]{2,}\])", "[ ", shown)
    shown = re.sub(r"`{3,}|~{3,}", lambda run: " ".join(run[0]), shown)
    more = f"\n[{len(text) - limit} more characters]" if len(text) > limit else ""
    return "\n".join(f"| {line}" for line in shown.split("\n")) + more


def storable(text: str) -> str:
    """Returns `text` with U+FFFD in place of lone surrogates, which no UTF-8 file can hold."""
    return re.sub(r"[\ud800-\udfff]", "\ufffd", text)


def describe(values: Mapping[str, Any]) -> str:
    """Returns nested values on one line, in the order given: `key value, key (key value, ...)`."""
    parts = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            value = f"({describe(value)})"
        elif isinstance(value, float):
            value = f"{value:.4g}"
        parts.append(f"{key} {value}")
    return ", ".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown, columns padded to equal width."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(x.ljust(w) for x, w in zip(line, widths, strict=True)) + " |" for line in lines)


def rate(part: int, whole: int) -> float:
    """Returns part / whole, 0 where there is nothing to divide by."""
    return part / whole if whole else 0.0


def share(part: int, whole: int) -> str:
    """Returns a count with its rate, e.g. `30 of 120 (25.0%)`."""
    return f"{part} of {whole} ({100 * part / whole:.1f}%)" if whole else "none"


def points(now: float, before: float) -> str:
    """Returns the change of a rate in percentage points, e.g. `+5.0`."""
    return f"{100 * (now - before):+.1f}"
