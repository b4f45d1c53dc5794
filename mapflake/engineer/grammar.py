"""The grammar of an engineer's reply, for decoding under it: every text of it is a reply that `read_reply` accepts.

Written for llguidance (Lark with its extensions). The only rejections left are a design in which no size gets data, and
a reply that is cut off. JSON: prose of up to 2,000 characters without braces or `<` (a short reasoning, a summary),
then the object, ratios with at most four decimals, each within its legal range. Compact: sizes in ascending order. So
the grammar is narrower than what is read (our choice: one way to write each design, no number that runs on for ever).
Not covered: enforcing it (`mapflake.trainer.constrain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mapflake.engineer.space import ANY, DIALECTS, END, PERCENT, STEP, legal_sizes

_JSON_SIZE = (
    r's{size}: "\"{size}\": {{\"data_ratio\": " UNIT ", '
    r'\"hole_ratio\": " HALF ", \"wait_ratio\": " (UNIT | "null") "}}"'
)

_JSON = r"""
start: PROSE "{{\"sizes\": {{" ({sizes}) "}}}}"
{rules}
PROSE: /[^{{}}<\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]{{0,2000}}/
UNIT: /0(\.[0-9]{{1,4}})?|1(\.0)?/
HALF: /0(\.[0-4][0-9]{{0,3}}|\.50{{0,3}})?/
"""

_COMPACT_SIZE = "s{size}: <size{size}> ratio hole wait"

_COMPACT = """
start: ({sizes}) <{end}>
{rules}
ratio: {percents}
hole: {holes}
wait: ratio | <{any}>
"""


def reply_grammar(sizes: Iterable[int], dialect: str = "json") -> str:
    """Returns the grammar of replies over `sizes`; in compact the word w of the vocabulary is written `<w>`.

    Raises:
        ValueError: The dialect is unknown, or the sizes are none or not boards.
    """
    sizes = legal_sizes(sizes)
    if dialect == "json":
        rules = "\n".join(_JSON_SIZE.format(size=size) for size in sizes)
        return _JSON.format(sizes=_some(sizes, '", "'), rules=rules)
    if dialect == "compact":
        rules = "\n".join(_COMPACT_SIZE.format(size=size) for size in sizes)
        percents, holes = (" | ".join(f"<{word}>" for word in words) for words in (PERCENT, PERCENT[: STEP // 2 + 1]))
        return _COMPACT.format(sizes=_some(sizes, ""), rules=rules, percents=percents, holes=holes, any=ANY, end=END)
    raise ValueError(f"dialect: {dialect!r} is none of {', '.join(DIALECTS)}")


def _some(sizes: Sequence[int], between: str) -> str:
    """Returns the rule for at least one of the sizes, ascending: one line for each that may come first."""
    lines = []
    for i, first in enumerate(sizes):
        lines.append(" ".join([f"s{first}", *(f"({between} s{size})?" for size in sizes[i + 1 :])]))
    return " | ".join(lines)
