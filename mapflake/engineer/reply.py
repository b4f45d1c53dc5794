"""From the engineer's words to a configuration: strict reading, then projection onto the legal space.

Reading decides whether a reply says one configuration, unmistakably; each rejection states its reason. Projection
moves what was said to the nearest legal configuration. The two are separate, and a `Proposal` records both.

What is rejected and what is projected (our choice; the paper does not say): a reply that is not one configuration in
the schema, or holds a value that no reader could take for a ratio (negative, not finite, not a number), is rejected.
Ratios above their limit are clipped, and data ratios are weights: they are scaled to sum to 1.
A reply is read the same way however it was decoded. Not covered: decoding constrained by a grammar (`grammar`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mapflake.engineer.space import (
    ANY,
    END,
    PERCENT,
    PROMPT_FORMATS,
    STEP,
    Requested,
    legal_sizes,
    project,
    words_a_size,
)
from mapflake.env import EnvConfig
from mapflake.env.config import DIMENSIONS
from mapflake.repro import shown

MAX_TEXT = 1_000_000  # characters of a reply, reasoning included; longer ones are not looked at
MAX_OBJECT = 20_000  # characters of the JSON object (a legal one takes about 600)
MAX_COMPACT = 10_000  # characters of a compact reply (a legal one takes about 170)
MAX_BRACKETS = 100  # opening brackets in the object (a legal one has at most 10): bounds the parser's recursion

_UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Proposal:
    """A design: what was said, what was asked, and the legal configuration made of it, or why there is none.

    Attributes:
        reply: The raw text (of a model), or one line of why (of a rule).
        config: The projected configuration; None if the reply was rejected.
        rejection: Why there is no configuration; None if there is one.
        requested: The ratios asked for, before projection; None if the reply was rejected.
        prompt: What the engineer was told; empty for a rule.
        prompt_format: How `reply` is read; None for a rule, whose `requested` is not read from text.
        sizes: The board sizes that could be asked for.
        num_agents: Agents of the configuration.
        replies: All samples drawn, in order; `reply` is the first that was not rejected (or the first). Empty: one.
        spent: What the design cost beyond the round's budget, e.g. `{"rollouts": 512}` for probes; empty: nothing.
    """

    reply: str
    config: EnvConfig | None
    rejection: str | None
    requested: Requested | None = None
    prompt: str = ""
    prompt_format: str | None = None
    sizes: tuple[int, ...] = ()
    num_agents: int = 2
    replies: tuple[str, ...] = ()
    spent: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.config is None) == (self.rejection is None):
            raise ValueError("a proposal has either a configuration or the reason why there is none")

    def to_dict(self) -> dict[str, Any]:
        """Returns the proposal as JSON values; `from_dict` takes it back."""
        return {
            **vars(self),
            "config": None if self.config is None else self.config.to_dict(),
            "requested": None if self.requested is None else {str(s): dict(v) for s, v in self.requested.items()},
            "sizes": list(self.sizes),
            "replies": list(self.replies),
            "spent": dict(self.spent),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Proposal:
        """Returns the proposal that `to_dict` wrote."""
        config, requested = data["config"], data["requested"]
        return cls(
            **{
                **data,
                "config": None if config is None else EnvConfig.from_dict(config),
                "requested": None if requested is None else {int(s): v for s, v in requested.items()},
                "sizes": tuple(data["sizes"]),
                "replies": tuple(data["replies"]),
            }
        )


class _Rejected(Exception):
    """A reply that is not one configuration; the message is the reason. Never leaves this module."""


def read_reply(text: str, sizes: Iterable[int], prompt_format: str = "json", *, num_agents: int = 2) -> Proposal:
    """Returns the proposal that `text` makes: a configuration, or a rejection with its reason. Never raises on text.

    JSON: reasoning up to the last `</think>` is passed over. In the rest, what stands from the first `{` to the last
    `}` must be exactly one object of the schema; prose or a Markdown fence around it is allowed if it holds no braces.
    Keys are all required within a size; a size that is left out gets no data; `null` as wait ratio means "as it falls".
    Compact: `size3 p25 p10 p50 ... end`: data, hole and wait ratio (or `any`) of each size, any order, none twice.
    Dimensions of one's own follow these three, in the table's order.

    Args:
        text: The engineer's reply; model text, so anything at all. Linear time, bounded memory.
        sizes: Board sizes that may be asked for.
        prompt_format: "json" or "compact".
        num_agents: Agents of the configuration.

    Raises:
        ValueError: The prompt_format is unknown, or the sizes are none or not boards (a wrong call, not wrong text).
    """
    sizes = legal_sizes(sizes)
    if prompt_format not in PROMPT_FORMATS:
        raise ValueError(f"prompt_format: {prompt_format!r} is none of {', '.join(PROMPT_FORMATS)}")
    proposal = Proposal("", None, "unread", prompt_format=prompt_format, sizes=sizes, num_agents=num_agents)
    try:
        if not isinstance(text, str):
            raise _Rejected("not text")
        proposal = replace(proposal, reply=text)
        requested = (_read_json if prompt_format == "json" else _read_compact)(text, sizes)
        if not any(ratios["data_ratio"] for ratios in requested.values()):
            raise _Rejected("all data ratios are zero: no size would get an instance")
    except _Rejected as rejected:
        return replace(proposal, rejection=str(rejected))
    config = project(requested, sizes, num_agents)
    return replace(proposal, config=config, rejection=None, requested=requested)


def read_replies(
    texts: Sequence[str], sizes: Iterable[int], prompt_format: str = "json", *, num_agents: int = 2
) -> Proposal:
    """Returns the proposal of several samples: the first that is not rejected, or the first; all are kept in `replies`.

    Args:
        texts: The samples, at least one, in the order in which they were drawn.
        sizes: As for `read_reply`, as are prompt_format and num_agents.
        prompt_format: "json" or "compact".
        num_agents: Agents of the configuration.

    Raises:
        ValueError: As for `read_reply`, or there are no texts.
    """
    if not texts:
        raise ValueError("texts: there is no reply to read")
    sizes = legal_sizes(sizes)
    read = [read_reply(text, sizes, prompt_format, num_agents=num_agents) for text in texts]
    return replace(next((p for p in read if p.config is not None), read[0]), replies=tuple(texts))


# ---------------------------------------------------------------- reading


def _read_json(text: str, sizes: Sequence[int]) -> dict[int, dict[str, float | None]]:
    if len(text) > MAX_TEXT:
        raise _Rejected(f"too long: {len(text)} characters, at most {MAX_TEXT} are read")
    if bad := _UNREADABLE.search(text):
        raise _Rejected(f"control character or lone surrogate U+{ord(bad[0]):04X}")
    answer = text.rpartition("</think>")[2]
    if "<think>" in answer:
        raise _Rejected("the reasoning is not closed (the reply was cut off)")
    if not answer.strip():
        raise _Rejected("empty")
    first, last = answer.find("{"), answer.rfind("}")
    if first < 0:
        raise _Rejected("no JSON object")
    if last < first:
        raise _Rejected("the JSON object is not closed (the reply was cut off)")
    body = answer[first : last + 1]
    if len(body) > MAX_OBJECT:
        raise _Rejected(f"the JSON object is too long: {len(body)} characters, at most {MAX_OBJECT} are read")
    if body.count("{") + body.count("[") > MAX_BRACKETS:
        raise _Rejected(f"more than {MAX_BRACKETS} opening brackets")
    try:
        value = json.loads(
            body,
            object_pairs_hook=_unique,
            parse_int=_number(int),
            parse_float=_number(float),
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise _Rejected("more than one JSON object, or braces in the text around it") from None
        cut = " (the reply may be cut off)" if error.pos >= len(body) else ""
        raise _Rejected(f"not JSON: {error.msg} at character {error.pos}{cut}") from None
    return _in_schema(value, sizes)


def _in_schema(value: Any, sizes: Sequence[int]) -> dict[int, dict[str, float | None]]:
    _exact_keys(value, ["sizes"], ["sizes"], "the object")
    listed = value["sizes"]
    _exact_keys(listed, [], [str(s) for s in sizes], '"sizes"')
    if not listed:
        raise _Rejected('"sizes" is empty')
    for size, ratios in listed.items():
        _exact_keys(ratios, [*DIMENSIONS], [*DIMENSIONS], f"size {size}")
        for key, ratio in ratios.items():
            if ratio is None and DIMENSIONS[key].nullable:
                continue
            if isinstance(ratio, bool) or not isinstance(ratio, int | float):
                raise _Rejected(f"size {size}: {key} is {shown(ratio)}, not a number")
            if ratio < 0:
                raise _Rejected(f"size {size}: {key} {shown(ratio)} is negative")
    return {
        size: {key: None if (v := listed[str(size)][key]) is None else float(v) + 0.0 for key in DIMENSIONS}
        for size in sizes
        if str(size) in listed
    }


def _exact_keys(value: Any, required: Sequence[str], legal: Sequence[str], where: str) -> None:
    if not isinstance(value, dict):
        raise _Rejected(f"{where} is {shown(value)}, not an object")
    if unknown := [key for key in value if key not in legal]:
        raise _Rejected(f"unknown key {shown(unknown[0])} in {where}; legal: {', '.join(legal)}")
    if missing := [key for key in required if key not in value]:
        raise _Rejected(f"{where} lacks {missing[0]!r}")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise _Rejected(f"key {shown(key)} is given twice")
        seen[key] = value
    return seen


def _number(kind: Callable[[str], float]) -> Callable[[str], float]:
    def parse(digits: str) -> float:
        # Python refuses integers of more than 4300 digits and turns 1e999 into inf: neither is a ratio.
        value = kind(digits) if len(digits) <= 300 else math.inf
        if math.isinf(value):
            raise _Rejected(f"number {shown(digits)} is out of range")
        return value

    return parse


def _constant(name: str) -> float:
    raise _Rejected(f"{name} is not a number")


def _read_compact(text: str, sizes: Sequence[int]) -> dict[int, dict[str, float | None]]:
    if len(text) > MAX_COMPACT:
        raise _Rejected(f"too long: {len(text)} characters, at most {MAX_COMPACT} are read")
    if bad := _UNREADABLE.search(text):
        raise _Rejected(f"control character or lone surrogate U+{ord(bad[0]):04X}")
    words = text.split()
    if not words:
        raise _Rejected("empty")
    if words[-1] != END:
        raise _Rejected(f"does not close with {END!r} (the reply may be cut off)")
    if END in words[:-1]:
        raise _Rejected(f"goes on after {END!r}")
    body = words[:-1]
    if not body:
        raise _Rejected("names no size")
    named = {f"size{s}": s for s in sizes}
    requested: dict[int, dict[str, float | None]] = {}
    for i in range(0, len(body), words_a_size()):
        name, *ratios = body[i : i + words_a_size()]
        if name not in named:
            raise _Rejected(f"word {i + 1} is {shown(name)}, not one of {', '.join(named)}")
        if named[name] in requested:
            raise _Rejected(f"{name} is given twice")
        if len(ratios) < len(DIMENSIONS):
            raise _Rejected(f"{name} lacks its {[*DIMENSIONS][len(ratios)]}")
        said = dict(zip(DIMENSIONS, ratios, strict=True))
        for key, word in said.items():
            if word not in PERCENT and not (word == ANY and DIMENSIONS[key].nullable):
                raise _Rejected(f"{name}: {key} is {shown(word)}, not one of p00, p05, ... p100")
        requested[named[name]] = {
            key: None if word == ANY else PERCENT.index(word) / STEP for key, word in said.items()
        }
    return {size: requested[size] for size in sorted(requested)}
