"""How a reply says a configuration, and what is read of it: its form, its grammar, its parser.

What is rejected is our choice, the paper does not say: a reply that is not one configuration in the schema, or that
holds a value that no reader could take for a ratio (negative, not finite, not a number). All else is moved to the
nearest legal configuration (`actions.project`), and a `Proposal` records both.

A JSON reply has one description, the pydantic model of `_reply_model`: it is the parser, the JSON Schema in the prompt,
and the grammar. The small policy's way of writing is in `words`; `mapflake.trainer.constrain` enforces a grammar.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import ConfigDict, Field, WithJsonSchema, create_model

from mapflake.engineer.actions import Requested, legal_sizes, project
from mapflake.engineer.words import END, config_words, read_words, words_grammar
from mapflake.env import EnvConfig
from mapflake.env.config import DIMENSIONS, MAX_AGENTS, Dimension
from mapflake.repro import ParamError, Params, shown, whole

REPLY_FORMATS = ("json", "brief", "compact")
"""How an engineer is asked. It replies in JSON to a prompt in full or in few words (`brief`), else in closed words."""

MAX_CHARACTERS = 1_000_000  # of a reply, reasoning included; longer ones are not read
MAX_OBJECT = 20_000  # characters of the JSON object (a legal one takes about 600)
MAX_BRACKETS = 100  # opening brackets in the object (a legal one has at most 10): bounds the parser's recursion
MAX_PROSE = 800  # characters before the object under the grammar: five sentences, and no room for a model to drift

_UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def reply_format(prompt_format: str) -> str:
    """Returns the format in which a policy is asked as engineer: its own (`env.PROMPT_FORMATS`), "json" for chat."""
    return "json" if prompt_format == "chat" else prompt_format


def check_format(prompt_format: str) -> None:
    """Raises ValueError unless `prompt_format` is one of `REPLY_FORMATS`."""
    if prompt_format not in REPLY_FORMATS:
        raise ValueError(f"prompt_format: {prompt_format!r} is none of {', '.join(REPLY_FORMATS)}")


class _Sizes(Params):
    model_config = ConfigDict(json_schema_extra={"minProperties": 1})


@functools.lru_cache
def _reply_model(sizes: tuple[int, ...], dimensions: tuple[tuple[str, Dimension], ...]) -> type[Params]:
    """Returns the model of a reply: `{"sizes": {"3": {"data_ratio": ..., ...}}}`, each size at most once.

    The schema states the limits and at most four decimals; the parser takes more, and `project` clips.
    """
    fields: dict[str, Any] = {}
    for name, dimension in dimensions:
        limits = {"type": "number", "minimum": 0, "maximum": dimension.top, "multipleOf": 0.0001}
        number = Annotated[float, Field(ge=0), WithJsonSchema(limits)]
        fields[name] = (number | None if dimension.nullable else number, ...)
    ratios_model = create_model("Ratios", __base__=Params, **fields)
    size_fields: dict[str, Any] = {str(size): (ratios_model, None) for size in sizes}
    return create_model("Reply", __base__=Params, sizes=(create_model("Sizes", __base__=_Sizes, **size_fields), ...))


def reply_schema(sizes: Iterable[int]) -> dict[str, Any]:
    """Returns the JSON Schema of a reply over `sizes`; raises what `legal_sizes` raises."""
    schema = _reply_model(legal_sizes(sizes), tuple(DIMENSIONS.items())).model_json_schema()
    return _bare({"properties": schema.pop("properties"), **schema})


def _bare(schema: Any) -> Any:
    """Returns the schema without titles and defaults, which say nothing here."""
    if not isinstance(schema, dict):
        return schema
    said = ("title", "default")  # a dimension may have such a name, too: what it says is a schema
    return {key: _bare(part) for key, part in schema.items() if key not in said or isinstance(part, dict)}


def reply_grammar(sizes: Iterable[int], prompt_format: str = "json") -> str:
    """Returns the grammar of replies over `sizes` in llguidance's Lark: every text of it is one that is accepted.

    The only rejections left are a design in which no size gets data, and a reply that is cut off. JSON: at most
    `MAX_PROSE` characters without braces or `<`, then the object of `reply_schema`, its sizes ascending.

    Raises:
        ValueError: The prompt format is unknown, or the sizes are none or not boards.
    """
    check_format(prompt_format)
    sizes = legal_sizes(sizes)
    if prompt_format == "compact":
        return words_grammar(sizes)
    written = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    schema = json.dumps({**reply_schema(sizes), "x-guidance": written})
    prose = rf"/[^{{}}<\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]{{0,{MAX_PROSE}}}/"
    return f"start: PROSE reply\nreply: %json {schema}\nPROSE: {prose}\n"


def rounded(config: EnvConfig) -> EnvConfig:
    """Returns the configuration with ratios that are multiples of 1/20, as compact words say it.

    A hole ratio that leaves too little room for the agents becomes the largest that does.
    """
    requested = read_words(format_config(config, "compact"), sorted(config.sizes))
    return project(requested, config.sizes, config.num_agents)


def format_config(config: EnvConfig, prompt_format: str = "json") -> str:
    """Returns the reply that asks for `config`.

    Exact in JSON; in "compact" ratios are rounded to 1/20, data ratios so that they still sum to 1.
    """
    if prompt_format != "compact":
        return json.dumps({"sizes": {str(size): c.ratios for size, c in sorted(config.sizes.items())}})
    return " ".join([*config_words(config), END])


@dataclass(frozen=True)
class Proposal:
    """A design: the reply, the ratios asked for, and the legal configuration made of them, or why there is none.

    Attributes:
        reply: The raw text (of a model), or one line of why (of a rule).
        config: The projected configuration; None if the reply was rejected.
        rejection: Why there is no configuration; None if there is one.
        requested: The ratios asked for, before projection; None if the reply was rejected.
        prompt: What the engineer was sent; empty for a rule.
        prompt_format: How `reply` is read; None for a rule.
        sizes: The board sizes that could be asked for.
        num_agents: Agents of the configuration.
        replies: All samples drawn, in order; `reply` is the first that was not rejected (or the first). Empty: one.
        extra_cost: The design's cost beyond the round's budget, e.g. `{"rollouts": 512}` for probes; empty: nothing.
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
    extra_cost: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.config is None) == (self.rejection is None):
            raise ValueError("a proposal has either a configuration or the reason why there is none")


def read_reply(text: str, sizes: Iterable[int], prompt_format: str = "json", *, num_agents: int = 2) -> Proposal:
    """Returns the proposal that `text` makes: a configuration, or a rejection with its reason. Never raises on text.

    JSON: reasoning up to the last `</think>` is passed over. In the rest, the text from the first `{` to the last
    `}` must be exactly one object of the schema; prose or a Markdown fence around it is allowed if it holds no braces.
    A size that is left out gets no data; `null` as wait ratio leaves it to chance. Compact: `size3 p25 p10 p50 end`,
    see `words`. Linear time, bounded memory.

    Raises:
        ValueError: The prompt format is unknown, the sizes are none or not boards, or the number of agents is no legal
            one (a wrong call, not wrong text).
    """
    sizes = legal_sizes(sizes)
    check_format(prompt_format)
    if not isinstance(text, str):
        raise ValueError(f"text: a reply is text, not {shown(text)}")
    num_agents = whole(num_agents, "num_agents", 1)
    if num_agents > MAX_AGENTS:
        raise ValueError(f"num_agents: {num_agents} is not an integer in 1..{MAX_AGENTS}")
    proposal = functools.partial(Proposal, text, prompt_format=prompt_format, sizes=sizes, num_agents=num_agents)
    try:
        requested = _read(text, sizes, prompt_format)
    except ValueError as reason:
        return proposal(None, str(reason))
    return proposal(project(requested, sizes, num_agents), None, requested)


def read_replies(
    texts: Sequence[str], sizes: Iterable[int], prompt_format: str = "json", *, num_agents: int = 2
) -> Proposal:
    """Returns what `read_reply` makes of the first sample that is not rejected, or of the first; keeps all.

    Raises:
        ValueError: As for `read_reply`, or there is no text.
    """
    sizes = legal_sizes(sizes)
    if isinstance(texts, str) or not (texts := tuple(texts)):
        raise ValueError(f"texts: takes a list of replies, not {shown(texts)}")
    proposals = [read_reply(text, sizes, prompt_format, num_agents=num_agents) for text in texts]
    return replace(next((p for p in proposals if p.config is not None), proposals[0]), replies=texts)


def _read(text: str, sizes: tuple[int, ...], prompt_format: str) -> dict[int, dict[str, float | None]]:
    """Returns the ratios that a reply asks for; ValueError with the reason if it says no configuration."""
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"too long: {len(text)} characters, at most {MAX_CHARACTERS} are read")
    if bad := _UNREADABLE.search(text):
        raise ValueError(f"control character or lone surrogate U+{ord(bad[0]):04X}")
    if not text.strip():
        raise ValueError("empty")
    requested = read_words(text, sizes) if prompt_format == "compact" else _read_json(text, sizes)
    if not any(ratios["data_ratio"] for ratios in requested.values()):
        raise ValueError("all data ratios are zero: no size would get an instance")
    return requested


def _read_json(text: str, sizes: tuple[int, ...]) -> dict[int, dict[str, float | None]]:
    answer = text.rpartition("</think>")[2]
    if "<think>" in answer:
        raise ValueError("the reasoning is not closed (the reply was cut off)")
    first, last = answer.find("{"), answer.rfind("}")
    if first < 0:
        raise ValueError("no JSON object")
    if last < first:
        raise ValueError("the JSON object is not closed (the reply was cut off)")
    body = answer[first : last + 1]
    if len(body) > MAX_OBJECT or body.count("{") + body.count("[") > MAX_BRACKETS:
        raise ValueError(f"the JSON object has over {MAX_OBJECT} characters or {MAX_BRACKETS} opening brackets")
    try:
        value = json.loads(body, object_pairs_hook=_unique, parse_int=float)
        reply = _reply_model(sizes, tuple(DIMENSIONS.items())).parse(value, "reply")
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise ValueError("more than one JSON object, or braces in the text around it") from None
        cut = " (the reply may be cut off)" if error.pos >= len(body) else ""
        raise ValueError(f"not JSON: {error.msg} at character {error.pos}{cut}") from None
    except ParamError as error:
        reason = str(error).partition("\n")[0]  # the first is enough
        raise ValueError(_UNREADABLE.sub("\ufffd", reason)) from None
    return {int(size): ratios for size, ratios in reply.model_dump(exclude_unset=True)["sizes"].items()}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, value in pairs:
        if key in seen:
            raise ValueError(f"key {shown(key)} is given twice")
        seen[key] = value
    return seen
