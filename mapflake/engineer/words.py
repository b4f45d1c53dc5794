"""The small policy's language: its closed vocabulary, and replies in it; ratios are in steps of 1/20.

A reply is `size3 p25 p10 p50 ... end`: for each size the ratio of every dimension (`p00`, `p05`, ... `p100`), in the
table's order. All of it is our choice; the paper has no such policy. For prompts in these words see `brief`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mapflake.env import EnvConfig, apportion
from mapflake.env.config import DIMENSIONS
from mapflake.repro import shown

STEP = 20  # steps from 0 to 1
ANY = "any"  # a ratio of None: as chance gives it
END = "end"
PERCENT = tuple(f"p{100 * i // STEP:02d}" for i in range(STEP + 1))
ENGINEER_WORDS = (
    *PERCENT,
    *(f"round{i}" for i in range(10)),
    *("engineer", "guide", "report", "history", "summary", "rejected", "details", "none", "design"),
    ANY,
    END,
)
"""The engineer's words that are not in `mapflake.env.VOCABULARY`."""


def percent(ratio: float) -> str:
    """Returns the word of a ratio in [0, 1], to the nearest 1/20 (halves up)."""
    return PERCENT[math.floor(ratio * STEP + 0.5)]


def config_words(config: EnvConfig) -> list[str]:
    """Returns a configuration in words, without `end`: sizes ascending, data ratios rounded so that they sum to 1."""
    steps = apportion(STEP, config.data_ratios)
    words = []
    for size, c in config.sizes.items():
        _, *levels = c.ratios.values()
        words += [f"size{size}", PERCENT[steps[size]], *(ANY if r is None else percent(r) for r in levels)]
    return words


def reply_words(sizes: Sequence[int]) -> int:
    """Returns the limit on the words of a reply over these sizes: a whole design and 8 more."""
    return (1 + len(DIMENSIONS)) * len(sizes) + 8


def read_words(text: str, sizes: Sequence[int]) -> dict[int, dict[str, float | None]]:
    """Returns the ratios that a reply in words asks for, by size.

    Raises:
        ValueError: It is not one configuration; the message is the reason.
    """
    *body, end = text.split()
    if end != END:
        raise ValueError(f"does not close with {END!r} (the reply may be cut off)")
    if END in body:
        raise ValueError(f"goes on after {END!r}")
    if not body:
        raise ValueError("names no size")
    size_of = {f"size{s}": s for s in sizes}
    requested: dict[int, dict[str, float | None]] = {}
    width = 1 + len(DIMENSIONS)  # words of a size
    for i in range(0, len(body), width):
        name, *ratios = body[i : i + width]
        if name not in size_of:
            raise ValueError(f"word {i + 1} is {shown(name)}, not one of {', '.join(size_of)}")
        if size_of[name] in requested:
            raise ValueError(f"{name} is given twice")
        if len(ratios) < len(DIMENSIONS):
            raise ValueError(f"{name} lacks its {[*DIMENSIONS][len(ratios)]}")
        words = dict(zip(DIMENSIONS, ratios, strict=True))
        for key, word in words.items():
            if word not in PERCENT and not (word == ANY and DIMENSIONS[key].nullable):
                raise ValueError(f"{name}: {key} is {shown(word)}, not one of p00, p05, ... p100")
        requested[size_of[name]] = {
            key: None if word == ANY else PERCENT.index(word) / STEP for key, word in words.items()
        }
    return dict(sorted(requested.items()))


def words_grammar(sizes: Sequence[int]) -> str:
    """Returns the grammar of replies over `sizes`, ascending, in llguidance's Lark; the word w is written `<w>`."""
    numbers = {1.0: "unit", 0.5: "half"}
    ratios = " ".join(f"({numbers[d.top]} | <{ANY}>)" if d.nullable else numbers[d.top] for d in DIMENSIONS.values())
    choices = " | ".join(  # at least one size: one alternative for each that may come first
        " ".join([f"s{first}", *(f"s{size}?" for size in sizes[i + 1 :])]) for i, first in enumerate(sizes)
    )
    unit, half = (" | ".join(f"<{word}>" for word in words) for words in (PERCENT, PERCENT[: STEP // 2 + 1]))
    rules = [f"s{size}: <size{size}> {ratios}" for size in sizes]
    return "\n".join([f"start: ({choices}) <{END}>", *rules, f"unit: {unit}", f"half: {half}"]) + "\n"
