"""Actions: the projection, strict reading of hostile replies, one schema for parser, prompt and grammar, boards."""

import functools
import json
import math
import re
import tracemalloc
from dataclasses import replace

import jsonschema
import llguidance
import numpy as np
import pytest
from engineer_samples import REPLY
from hypothesis import given
from hypothesis import strategies as st

from mapflake import repro
from mapflake.engineer import (
    ENGINEER_WORDS,
    Proposal,
    boards,
    format_config,
    project,
    read_replies,
    read_reply,
    reply_grammar,
)
from mapflake.engineer.boards import apply_fallback, sample_boards
from mapflake.engineer.reply import reply_schema
from mapflake.env import VOCABULARY, EnvConfig, GenerationError, SizeConfig, generate

ALL = tuple(range(3, 11))
SIZES = (3, 4)
finite = st.floats(allow_nan=False, allow_infinity=False)
subsets = st.sets(st.sampled_from(ALL), min_size=1)


# ---------------------------------------------------------------- projection


@st.composite
def legal(draw):
    """A configuration that `EnvConfig` accepts, built without `project`."""
    agents = draw(st.integers(1, 5))
    sizes = sorted(draw(subsets))
    weights = [draw(st.integers(0, 50)) for _ in sizes]
    weights[draw(st.integers(0, len(sizes) - 1))] += 1
    parts = {}
    for size, weight in zip(sizes, weights, strict=True):
        max_hole = 0.5 if weight == 0 else min(0.5, (size * size - 6) / (size * size))
        hole = draw(st.floats(0, max_hole))
        parts[size] = SizeConfig(weight / sum(weights), hole, draw(st.one_of(st.none(), st.floats(0, 1))))
    return EnvConfig(parts, agents)


@st.composite
def asked(draw):
    """Any finite ratios by size, of which at least one data ratio is above 0."""
    sizes = sorted(draw(subsets))
    request = {
        s: {"data_ratio": draw(finite), "hole_ratio": draw(finite), "wait_ratio": draw(st.one_of(st.none(), finite))}
        for s in sizes
    }
    request[draw(st.sampled_from(sizes))]["data_ratio"] = draw(st.floats(5e-324, 1.7e308))
    return request


@given(asked(), st.integers(1, 9))
def test_project_is_legal_idempotent_and_keeps_proportions(wanted, agents):
    config = project(wanted, ALL, agents)  # EnvConfig would not be built if it were not legal
    assert math.isclose(sum(c.data_ratio for c in config.sizes.values()), 1, abs_tol=1e-9)
    assert config.num_agents == agents
    assert project(config, ALL, agents) == config
    weights = {s: max(0.0, v["data_ratio"]) for s, v in wanted.items()}
    largest = max(weights, key=lambda s: weights[s])
    for size, weight in weights.items():
        expected = weight / weights[largest]
        assert math.isclose(config.sizes[size].data_ratio / config.sizes[largest].data_ratio, expected, abs_tol=2e-6)


def test_project_clips_by_hand():
    request = {
        3: {"data_ratio": 2.0, "hole_ratio": 0.9, "wait_ratio": 1.5},
        4: {"data_ratio": -1.0, "hole_ratio": -0.1, "wait_ratio": -0.1},
        9: {"data_ratio": 6.0, "hole_ratio": 0.2, "wait_ratio": None},
        10: {"data_ratio": 8.0, "hole_ratio": 0.2, "wait_ratio": None},
    }
    parts = {3: SizeConfig(0.25, 0.5, 1.0), 4: SizeConfig(0.0, 0.0, 0.0), 9: SizeConfig(0.75, 0.2, None)}
    assert project(request, (3, 4, 9)) == EnvConfig(parts)
    assert project({3: request[3]}, (3,), 5).sizes[3].hole_ratio == 3 / 9  # 5 agents need 6 of 9 squares
    for agents in (0, 10, "x", True):
        with pytest.raises(ValueError, match=f"num_agents: {agents!r} is not an integer in 1"):
            project({3: request[3]}, (3,), agents)
    for values, sizes, message in (
        (request[3] | {"hole_ratio": math.nan}, ALL, r"size 3: hole_ratio .* is not finite"),
        (request[3] | {"hole_ratio": None}, ALL, "size 3: hole_ratio: None is not a number"),
        (request[3] | {"wait_ratio": "0.5"}, ALL, "size 3: wait_ratio: '0.5' is not a number"),
        (request[3] | {"hole": 0.1}, ALL, "size 3: 'hole' is none of data_ratio, hole_ratio, wait_ratio"),
        ({"data_ratio": 1.0}, ALL, "size 3: lacks hole_ratio, wait_ratio"),
        (request[3], [4], r"no size of \[4\] has a data ratio above 0"),
        (request[4], ALL, r"no size of .* has a data ratio above 0"),
    ):
        with pytest.raises(ValueError, match=message):
            project({3: values}, sizes)
    with pytest.raises(ValueError, match="asked: sizes are integers, not '3'"):
        project({"3": request[3]}, ALL)
    with pytest.raises(ValueError, match="asked: ratios by size, as in"):
        project(EnvConfig.uniform([3], 0.1).sizes, ALL)


# ---------------------------------------------------------------- writing


@given(legal())
def test_a_legal_configuration_is_kept_by_project_and_by_what_is_written_in_json(config):
    assert project(config, ALL, config.num_agents) == config
    assert read_reply(format_config(config), ALL, num_agents=config.num_agents).config == config


@given(legal())
def test_format_config_in_compact_is_the_nearest_step_in_closed_words(config):
    text = format_config(config, "compact")
    assert set(text.split()) <= {*VOCABULARY, *ENGINEER_WORDS}
    read_config = read_reply(text, ALL, "compact", num_agents=config.num_agents).config
    assert read_config is not None
    # With more than 2 agents, the projection may lower the hole ratio of a dense 3x3.
    assert format_config(read_config, "compact") == text or config.num_agents > 2
    for size, c in config.sizes.items():
        assert abs(read_config.sizes[size].data_ratio - c.data_ratio) < 0.05 + 1e-9
        if config.num_agents <= 2:
            assert abs(read_config.sizes[size].hole_ratio - c.hole_ratio) <= 0.025 + 1e-9
        assert (read_config.sizes[size].wait_ratio is None) == (c.wait_ratio is None)


# ---------------------------------------------------------------- reading


def reply(three='{"data_ratio": 1, "hole_ratio": 0.1, "wait_ratio": 0.5}', more=""):
    return f'{{"sizes": {{"3": {three}{more}}}}}'


def ratios(data="1", hole="0.1", wait="0.5"):
    return reply(f'{{"data_ratio": {data}, "hole_ratio": {hole}, "wait_ratio": {wait}}}')


GOOD = reply()

HOSTILE = [  # one of each kind of mistake; tests/fuzz has arbitrary texts
    ("json", " \n\t ", "empty"),
    ("json", "I would put everything on small boards.", "no JSON object"),
    ("json", f"First {GOOD} or rather {GOOD}.", "more than one JSON object"),
    ("json", GOOD[:20], "is not closed"),
    ("json", GOOD[:-1], "may be cut off"),
    ("json", f"<think>a</think><think>b {GOOD}", "reasoning is not closed"),
    ("json", ratios("NaN"), "sizes.3.data_ratio: nan is not legal"),
    ("json", ratios("9" * 10_000), "sizes.3.data_ratio: inf is not legal"),
    ("json", ratios(hole="null"), "sizes.3.hole_ratio: None is not legal"),
    ("json", GOOD.replace("0.1", "0<|im_end|>.1"), "not JSON"),
    ("json", '{"sizes":' * 1500 + "1" + "}" * 1500, "over 20000 characters or 100 opening brackets"),
    ("json", reply(more=', "3": {"data_ratio": 1, "hole_ratio": 0, "wait_ratio": 0}'), "'3' is given twice"),
    ("json", reply(more=', "7": {"data_ratio": 1}'), "sizes.7: unknown key; legal keys: 3, 4"),
    ("json", reply(more=rf', "\u001b\n{"k" * 9000}": 1'), "sizes"),
    ("json", reply('{"data_ratio": 1, "hole_ratio": 0}'), "sizes.3.wait_ratio: missing"),
    ("json", '{"sizes": {}}', "all data ratios are zero"),
    ("json", ratios('"0.5"'), "sizes.3.data_ratio: '0.5' is not legal"),
    ("json", ratios(wait="-1e-9"), "sizes.3.wait_ratio: -1e-09 is not legal"),
    ("json", "\x1b[2J" + GOOD, r"U\+001B"),
    ("compact", "size3 p50 p10 p50 end size4 p50 p10 p50 end", "goes on after 'end'"),
    ("compact", "end", "names no size"),
    ("compact", "size3 p50 p10 p50 size4 p50 p10 end", "size4 lacks its wait_ratio"),
    ("compact", "size7 p50 p10 p50 end", "word 1 is 'size7', not one of size3, size4"),
    ("compact", "size3 p50 p10 p50 size3 p50 p10 p50 end", "size3 is given twice"),
    ("compact", "size3 p50 p11 p50 end", "size3: hole_ratio is 'p11'"),
]


@pytest.mark.parametrize(("prompt_format", "text", "reason"), HOSTILE, ids=range(len(HOSTILE)))
def test_read_reply_rejects_a_hostile_reply_with_its_reason(prompt_format, text, reason):
    proposal = read_reply(text, SIZES, prompt_format)
    assert (proposal.config, proposal.requested, proposal.reply) == (None, None, text)
    assert re.search(reason, proposal.rejection)
    assert len(proposal.rejection) < 250
    assert proposal.rejection.isprintable()


def test_read_reply_passes_over_reasoning_and_prose_around_one_object():
    thought = f"<think>{{ unfinished [ \n {GOOD}</think>\n```json\n{GOOD}\n```"
    escaped = GOOD.replace(" ", "\r\n\t").replace("sizes", r"siz\u0065s")
    for text in (thought, escaped, ratios("1." + "0" * 10_000)):
        assert read_reply(text, SIZES).config == EnvConfig({3: SizeConfig(1.0, 0.1, 0.5)})


def test_read_reply_keeps_what_was_asked_and_what_it_became():
    proposal = read_reply(REPLY, (3, 4, 5, 6))
    assert proposal.requested == {
        3: {"data_ratio": 1.0, "hole_ratio": 0.7, "wait_ratio": 0.5},
        4: {"data_ratio": 3.0, "hole_ratio": 0.123456, "wait_ratio": None},
    }
    assert proposal.config == EnvConfig({3: SizeConfig(0.25, 0.5, 0.5), 4: SizeConfig(0.75, 0.123456, None)})
    proposal = read_reply(" size4 p50 p100 any\nsize3 p50 p00 p100 end ", SIZES, "compact")
    assert proposal.config == EnvConfig({3: SizeConfig(0.5, 0.0, 1.0), 4: SizeConfig(0.5, 0.5, None)})
    assert proposal.requested[4] == {"data_ratio": 0.5, "hole_ratio": 1.0, "wait_ratio": None}


def test_read_replies_takes_the_first_that_is_not_rejected():
    spare = ratios(hole="0.2")
    assert read_replies(["no", GOOD, spare], SIZES) == replace(read_reply(GOOD, SIZES), replies=("no", GOOD, spare))
    assert read_replies(iter(["no", GOOD]), SIZES).replies == ("no", GOOD)
    assert read_replies(["no", ""], SIZES) == replace(read_reply("no", SIZES), replies=("no", ""))
    proposal = read_replies(["size3 p100 p00 any end"], SIZES, "compact", num_agents=np.int64(3))
    assert proposal.config.num_agents == repro.to_json(proposal)["num_agents"] == 3  # it can be recorded


def test_a_huge_reply_takes_no_memory_to_reject():
    text = "size3 {" * 2_000_000
    tracemalloc.start()
    try:
        proposal = read_reply(text, SIZES)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert proposal.rejection.startswith("too long: 14000000 characters")
    assert peak < 100_000  # bytes; the text itself is not copied


def test_wrong_calls_are_errors():
    with pytest.raises(ValueError, match="prompt_format: 'xml' is none of json, brief, compact"):
        read_reply(GOOD, SIZES, "xml")
    for sizes in ([], [3, 11]):
        with pytest.raises(ValueError, match=r"is not one or more integers in 3\.\.10"):
            reply_grammar(sizes)
    huge = {3: {"data_ratio": 10**400, "hole_ratio": 0.0, "wait_ratio": None}}
    with pytest.raises(ValueError, match=r"size 3: data_ratio 10{10}.* is not finite"):
        project(huge, SIZES)
    assert read_replies(["no", GOOD], iter(SIZES)).config == read_reply(GOOD, SIZES).config
    with pytest.raises(ValueError, match="either a configuration or the reason"):
        Proposal("", None, None)


# ---------------------------------------------------------------- schema and grammar


class Bytes:
    """A tokenizer whose tokens are the 256 bytes, and the end of the text."""

    eos_token_id = 256
    bos_token_id = None
    tokens = [*(bytes([i]) for i in range(256)), b"<eos>"]  # noqa: RUF012
    special_token_ids = [256]  # noqa: RUF012

    def __call__(self, text):
        return list(text if isinstance(text, bytes) else text.encode())


TOKENIZER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))


@functools.cache
def matcher(grammar):
    """Returns the matcher of a grammar, which is slow to make."""
    made = llguidance.LLMatcher(TOKENIZER, grammar)
    assert not made.is_error(), made.get_error()
    return made


def allowed(text, sizes=(3, 4, 10)):
    """Whether the JSON grammar allows a text."""
    own, tokens = matcher(reply_grammar(sizes)).deep_copy(), list(text.encode())
    return own.validate_tokens(tokens) == len(tokens) and own.consume_tokens(tokens) and own.is_accepting()


ONE = '{"sizes": {"3": {"data_ratio": 1, "hole_ratio": 0.5, "wait_ratio": null}}}'
TWO = (
    'First 4x4.\nThen:\n{"sizes": {"4": {"data_ratio": 0.25, "hole_ratio": 0, "wait_ratio": 1.0}, '
    '"10": {"data_ratio": 0.75, "hole_ratio": 0.4999, "wait_ratio": 0.1}}}'
)


def test_the_grammar_and_the_schema_allow_legal_designs_and_nothing_illegal_or_ambiguous():
    for text in (ONE, TWO):
        assert allowed(text)
        assert read_reply(text, (3, 4, 10)).rejection is None
        jsonschema.validate(json.loads(text[text.index("{") :]), reply_schema((3, 4, 10)))
    changes = (('"3"', '"7"'), ("null", "-1"), ("0.5", "0.44444"), (', "wait_ratio": null', ""))
    for text in (*(ONE.replace(*change) for change in changes), "prose", "{} " + ONE, "x" * 801 + ONE):
        assert not allowed(text)


ratio = st.sampled_from(["0", "0.05", "0.3", "0.5", "7e-1"])


@given(
    st.dictionaries(st.sampled_from((3, 4, 10)), st.tuples(ratio, ratio, ratio | st.just("null")), min_size=1),
    st.text().filter(lambda prose: not re.search("[\ud800-\udfff]", prose)),
)
def test_all_that_the_grammar_allows_is_read(design, prose):
    entries = ", ".join(
        f'"{s}": {{"data_ratio": {d}, "hole_ratio": {h}, "wait_ratio": {w}}}' for s, (d, h, w) in sorted(design.items())
    )
    text = f'{prose}{{"sizes": {{{entries}}}}}'
    if allowed(text):
        assert (read_reply(text, ALL).rejection or "all data ratios are zero").startswith("all data ratios are zero")


# ---------------------------------------------------------------- boards

CONFIG = EnvConfig({3: SizeConfig(0.5, 0.2, 1.0), 4: SizeConfig(0.5, 0.45, 0.5)})


def refuse(monkeypatch, hopeless):
    """Lets the generator fail at once where `hopeless(size, part)`; the real one would first try 200,000 boards.

    Returns the list to which every configuration that the generator gets is appended.
    """
    configs = []

    def scarce(config, n, **options):
        configs.append(config)
        for size, part in config.sizes.items():
            if hopeless(size, part):
                raise GenerationError("no solvable board found in 200000 attempts", size)
        return generate(config, n, **options)

    monkeypatch.setattr(boards, "generate", scarce)
    return configs


def test_sample_boards_gives_up_waits_first_then_holes_and_keeps_other_sizes(monkeypatch):
    refuse(monkeypatch, lambda size, part: size == 4 and (part.wait_ratio is not None or part.hole_ratio > 0.3))
    tasks, fallback = sample_boards(CONFIG, 8, seed=4)
    config = EnvConfig({3: CONFIG.sizes[3], 4: SizeConfig(0.5, 0.25, None)})
    asked_ratios, got_ratios = {"hole_ratio": 0.45, "wait_ratio": 0.5}, {"hole_ratio": 0.25, "wait_ratio": None}
    assert fallback == {4: {"asked": asked_ratios, "got": got_ratios}}
    assert apply_fallback(CONFIG, fallback) == config
    assert tasks == generate(config, 8, seed=4, split="train")


def test_sample_boards_cannot_do_with_fewer_holes_than_none(monkeypatch):
    configs = refuse(monkeypatch, lambda size, part: size == 3)
    with pytest.raises(GenerationError, match="no solvable board") as error:
        sample_boards(CONFIG, 8, seed=4)
    assert error.value.size == 3
    assert [c.sizes[3].hole_ratio for c in configs] == [0.2, 0.2, 0.1, 0.0]


def test_the_generator_names_the_size_that_it_gives_up_on(monkeypatch):
    """`sample_boards` relies on this size. The generator is the real one: 1 in 260 boards of 10x10 needs a wait."""
    monkeypatch.setattr("mapflake.env.generator.MAX_ATTEMPTS", 3)
    tasks, fallback = sample_boards(EnvConfig({10: SizeConfig(1.0, 0.0, 1.0)}), 4, seed=4)
    assert fallback[10]["got"] == {"hole_ratio": 0.0, "wait_ratio": None}
    assert len(tasks) == 4
