"""The grammar of an engineer's reply, for decoding under it: every text of it is a reply that `read_reply` accepts.

Written for llguidance (Lark with its extensions). The only rejections left are a design in which no size gets data, and
a reply that is cut off. JSON: prose of up to 2,000 characters without braces or `<` (a short reasoning, a summary),
then the object, ratios with at most four decimals, each within its legal range. Compact: sizes in ascending order. So
the grammar is narrower than what is read (our choice: one way to write each design, no number that runs on for ever).
Not covered: enforcing it (`mapflake.trainer.constrain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mapflake.engineer.space import ANY, END, PERCENT, PROMPT_FORMATS, STEP, legal_sizes
from mapflake.env.config import DIMENSIONS, Dimension

_JSON = r"""
start: PROSE "{{\"sizes\": {{" ({sizes}) "}}}}"
{rules}
PROSE: /[^{{}}<\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]{{0,2000}}/
UNIT: /0(\.[0-9]{{1,4}})?|1(\.0)?/
HALF: /0(\.[0-4][0-9]{{0,3}}|\.50{{0,3}})?/
"""

_COMPACT = """
start: ({sizes}) <{end}>
{rules}
unit: {unit}
half: {half}
"""


def reply_grammar(sizes: Iterable[int], prompt_format: str = "json") -> str:
    """Returns the grammar of replies over `sizes`; in compact the word w of the vocabulary is written `<w>`.

    Raises:
        ValueError: The prompt_format is unknown, or the sizes are none or not boards.
    """
    sizes = legal_sizes(sizes)
    if prompt_format == "json":
        rules_of = {name: _ratio(dimension, "UNIT", "HALF", '"null"') for name, dimension in DIMENSIONS.items()}
        ratios = ", ".join(rf'\"{name}\": " {rule} "' for name, rule in rules_of.items())
        rules = "\n".join(rf's{size}: "\"{size}\": {{{ratios}}}"' for size in sizes)
        return _JSON.format(sizes=_some(sizes, '", "'), rules=rules)
    if prompt_format == "compact":
        ratios = " ".join(_ratio(d, "unit", "half", f"<{ANY}>") for d in DIMENSIONS.values())
        rules = "\n".join(f"s{size}: <size{size}> {ratios}" for size in sizes)
        unit, half = (" | ".join(f"<{word}>" for word in words) for words in (PERCENT, PERCENT[: STEP // 2 + 1]))
        return _COMPACT.format(sizes=_some(sizes, ""), rules=rules, unit=unit, half=half, end=END)
    raise ValueError(f"prompt_format: {prompt_format!r} is none of {', '.join(PROMPT_FORMATS)}")


def _ratio(dimension: Dimension, unit: str, half: str, null: str) -> str:
    """Returns the rule for one ratio, in terms of the rules for numbers up to 1 and up to 0.5, and for none."""
    number = unit if dimension.top == 1 else half
    return f"({number} | {null})" if dimension.nullable else number


def _some(sizes: Sequence[int], between: str) -> str:
    """Returns the rule for at least one of the sizes, ascending: one line for each that may come first."""
    lines = []
    for i, first in enumerate(sizes):
        lines.append(" ".join([f"s{first}", *(f"({between} s{size})?" for size in sizes[i + 1 :])]))
    return " | ".join(lines)
