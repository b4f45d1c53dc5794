"""Replies are read strictly: hostile ones are rejected with their reason, and nothing raises."""

import json
import re
import tracemalloc
from dataclasses import replace

import pytest
from engineer_samples import REPLY
from hypothesis import given
from hypothesis import strategies as st

from mapflake.engineer import VOCABULARY, Proposal, format_config, read_replies, read_reply
from mapflake.env import EnvConfig, SizeConfig

SIZES = (3, 4)


def reply(three: str = '{"data_ratio": 1, "hole_ratio": 0.1, "wait_ratio": 0.5}', more: str = "") -> str:
    return f'{{"sizes": {{"3": {three}{more}}}}}'


GOOD = reply()


def ratios(data: str = "1", hole: str = "0.1", wait: str = "0.5") -> str:
    return reply(f'{{"data_ratio": {data}, "hole_ratio": {hole}, "wait_ratio": {wait}}}')


HOSTILE = {
    "empty": ("", "empty"),
    "white space": (" \n\t ", "empty"),
    "prose": ("I would put everything on small boards.", "no JSON object"),
    "no text": (None, "not text"),
    "two objects": (GOOD + GOOD, "more than one JSON object"),
    "two objects in prose": (f"First {GOOD} or rather {GOOD}.", "more than one JSON object"),
    "two fences": (f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```", "more than one JSON object"),
    "braces in prose": ("Holes {few}. " + GOOD, "not JSON"),
    "truncated at the start": (GOOD[:20], "cut off"),
    "truncated before the last brace": (GOOD[:-1], "cut off"),
    "truncated in a number": ('{"sizes": {"3": {"data_ratio": 0.', "cut off"),
    "reasoning not closed": (f"<think>maybe {GOOD}", "reasoning is not closed"),
    "reasoning opened again": (f"<think>a</think><think>b {GOOD}", "reasoning is not closed"),
    "only reasoning": (f"<think>{GOOD}</think>", "empty"),
    "NaN": (ratios("NaN"), "NaN is not a number"),
    "Infinity": (ratios(hole="Infinity"), "Infinity is not a number"),
    "-Infinity": (ratios(wait="-Infinity"), "-Infinity is not a number"),
    "1e999": (ratios("1e999"), "'1e999' is out of range"),
    "-1e999": (ratios("-1e999"), "'-1e999' is out of range"),
    "5,000 digits": (ratios("9" * 5000), "is out of range"),
    "5,000 decimals": (ratios("0." + "1" * 5000), "is out of range"),
    "100,000 brackets": (reply("[" * 100_000), "is not closed|too long"),
    "100,000 closed brackets": ("{" + "[" * 100_000 + "]" * 100_000 + "}", "too long"),
    "1,500 nested objects": ('{"sizes":' * 1500 + "1" + "}" * 1500, "more than 100 opening brackets"),
    "nested as deep as is read": ('{"sizes":' * 100 + "1" + "}" * 100, "unknown key 'sizes' in \"sizes\""),
    "duplicate size": (reply(more=', "3": {"data_ratio": 1, "hole_ratio": 0, "wait_ratio": 0}'), "'3' is given twice"),
    "duplicate ratio": (ratios('1, "data_ratio": 2'), "'data_ratio' is given twice"),
    "duplicate sizes": ('{"sizes": {}, "sizes": {}}', "'sizes' is given twice"),
    "unknown key": ('{"sizes": {}, "reward": 1}', "unknown key 'reward' in the object; legal: sizes"),
    "unknown size": (reply(more=', "7": {"data_ratio": 1}'), "unknown key '7' in \"sizes\"; legal: 3, 4"),
    "size with a zero": (reply(more=', "04": {"data_ratio": 1}'), "unknown key '04'"),
    "unknown ratio": (ratios('1, "agents": 5'), "unknown key 'agents' in size 3"),
    "a very long key": (f'{{"{"k" * 9000}": 1}}', r"unknown key 'k+\.\.\. in the object"),
    "key that is a surrogate": (r'{"\ud800": 1}', r"unknown key '\\ud800'"),
    "missing sizes": ("{}", "lacks 'sizes'"),
    "missing ratio": (reply('{"data_ratio": 1, "hole_ratio": 0}'), "size 3 lacks 'wait_ratio'"),
    "no sizes": ('{"sizes": {}}', "is empty"),
    "sizes is a list": ('{"sizes": [3]}', r'"sizes" is \[3\], not an object'),
    "size is a number": (reply("1"), "size 3 is 1, not an object"),
    "string for a number": (ratios('"0.5"'), "data_ratio is '0.5', not a number"),
    "boolean": (ratios("true"), "data_ratio is True, not a number"),
    "null data ratio": (ratios("null"), "data_ratio is None, not a number"),
    "null hole ratio": (ratios(hole="null"), "hole_ratio is None, not a number"),
    "list": (ratios(wait="[0.5]"), r"wait_ratio is \[0.5\], not a number"),
    "negative data": (ratios("-0.5"), "data_ratio -0.5 is negative"),
    "negative holes": (ratios(hole="-1"), "hole_ratio -1.* is negative"),
    "negative wait": (ratios(wait="-1e-9"), "wait_ratio -1e-09 is negative"),
    "all zeros": (ratios("0", "0", "0"), "all data ratios are zero"),
    "minus zero": (ratios("-0.0"), "all data ratios are zero"),
    "control character": ("\x00" + GOOD, r"U\+0000"),
    "escape sequence": ("\x1b[2J" + GOOD, r"U\+001B"),
    "control character in a string": ('{"si\x07zes": {}}', r"U\+0007"),
    "newline in a string": ('{"si\nzes": {}}', "not JSON: Invalid control character"),
    "lone surrogate": ("\ud83d" + GOOD, r"U\+D83D"),
    "single quotes": (GOOD.replace('"', "'"), "not JSON"),
    "trailing comma": (GOOD[:-1] + ",}", "not JSON"),
    "comment": (GOOD[:-1] + "// why\n}", "not JSON"),
    "10 MB of text": ("x" * 10_000_000, "too long: 10000000 characters"),
    "10 MB of braces": ("{" * 10_000_000, "too long: 10000000 characters"),
    "1 MB of braces": ("{" * 500_000 + "}" * 500_000, "JSON object is too long"),
    "1 MB of think": ("</think>" * 100_000, "empty"),
}

HOSTILE_COMPACT = {
    "empty": (" ", "empty"),
    "JSON": (GOOD, "does not close with 'end'"),
    "cut off": ("size3 p50 p10 p50", "does not close with 'end'"),
    "goes on": ("size3 p50 p10 p50 end size4 p50 p10 p50 end", "goes on after 'end'"),
    "nothing": ("end", "names no size"),
    "lacks ratios": ("size3 p50 end", "size3 lacks its hole_ratio"),
    "lacks the last ratio": ("size3 p50 p10 p50 size4 p50 p10 end", "size4 lacks its wait_ratio"),
    "unknown size": ("size7 p50 p10 p50 end", "word 1 is 'size7', not one of size3, size4"),
    "no size": ("p50 p10 p50 size3 end", "word 1 is 'p50'"),
    "size twice": ("size3 p50 p10 p50 size3 p50 p10 p50 end", "size3 is given twice"),
    "off the grid": ("size3 p50 p11 p50 end", "size3: hole_ratio is 'p11'"),
    "number": ("size3 0.5 p10 p50 end", "size3: data_ratio is '0.5'"),
    "any for data": ("size3 any p10 p50 end", "size3: data_ratio is 'any'"),
    "word of the boards": ("size3 p50 a0 p50 end", "size3: hole_ratio is 'a0'"),
    "all zeros": ("size3 p00 p10 p50 end", "all data ratios are zero"),
    "control character": ("size3 p50 p10 p50 end\x00", r"U\+0000"),
    "10 MB": ("size3 " * 2_000_000, "too long: 12000000 characters"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_reply_is_rejected_with_its_reason(name):
    text, reason = HOSTILE[name]
    proposal = read_reply(text, SIZES)
    assert proposal.config is None
    assert proposal.requested is None
    assert proposal.rejection is not None
    assert len(proposal.rejection) < 250
    assert re.search(reason, proposal.rejection or "")
    assert proposal.reply == (text or "")


@pytest.mark.parametrize("name", HOSTILE_COMPACT)
def test_a_hostile_compact_reply_is_rejected_with_its_reason(name):
    text, reason = HOSTILE_COMPACT[name]
    proposal = read_reply(text, SIZES, "compact")
    assert proposal.config is None
    assert re.search(reason, proposal.rejection or "")


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"Here it is: {GOOD}",
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}```\nI kept the rest.",
        f"<think>{{ unfinished [ \n {GOOD}</think>\n{GOOD}",
        f"so {{...}} it is</think>{GOOD}",
        GOOD.replace(" ", "\r\n\t"),
        GOOD.replace("sizes", r"siz\u0065s"),
    ],
)
def test_reasoning_and_prose_around_one_object_are_passed_over(text):
    proposal = read_reply(text, SIZES)
    assert proposal.rejection is None
    assert proposal.config == EnvConfig({3: SizeConfig(1.0, 0.1, 0.5)})


def test_what_was_asked_and_what_it_became_are_both_kept():
    proposal = read_reply(REPLY, (3, 4, 5, 6))
    assert proposal.requested == {
        3: {"data_ratio": 1.0, "hole_ratio": 0.7, "wait_ratio": 0.5},
        4: {"data_ratio": 3.0, "hole_ratio": 0.123456, "wait_ratio": None},
    }
    assert proposal.config == EnvConfig({3: SizeConfig(0.25, 0.5, 0.5), 4: SizeConfig(0.75, 0.123456, None)})
    assert proposal.reply == REPLY


def test_compact_words_in_any_order():
    proposal = read_reply(" size4 p50 p100 any\nsize3 p50 p00 p100 end ", SIZES, "compact")
    assert proposal.config == EnvConfig({3: SizeConfig(0.5, 0.0, 1.0), 4: SizeConfig(0.5, 0.5, None)})
    assert proposal.requested == {
        3: {"data_ratio": 0.5, "hole_ratio": 0.0, "wait_ratio": 1.0},
        4: {"data_ratio": 0.5, "hole_ratio": 1.0, "wait_ratio": None},
    }


def test_of_several_replies_the_first_that_is_not_rejected_counts():
    other = ratios(hole="0.2")
    assert read_replies(["no", GOOD, other], SIZES) == replace(read_reply(GOOD, SIZES), replies=("no", GOOD, other))
    assert read_replies(["no", ""], SIZES) == replace(read_reply("no", SIZES), replies=("no", ""))
    assert read_replies(["size3 p100 p00 any end"], SIZES, "compact", num_agents=3).config.num_agents == 3
    with pytest.raises(ValueError, match="there is no reply to read"):
        read_replies([], SIZES)


@pytest.mark.parametrize("prompt_format", ["json", "compact"])
@pytest.mark.parametrize("text", ["{" * 10_000_000, "size3 " * 2_000_000, "\ud800" * 5_000_000, "9" * 10_000_000])
def test_a_huge_reply_takes_no_memory_to_reject(text, prompt_format):
    tracemalloc.start()
    try:
        proposal = read_reply(text, SIZES, prompt_format)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert proposal.rejection.startswith("too long")
    assert peak < 100_000  # bytes; the text itself is not copied


@pytest.mark.parametrize("text", [GOOD, "no", REPLY])
def test_a_proposal_survives_json(text):
    proposal = read_reply(text, SIZES)
    assert Proposal.from_dict(json.loads(json.dumps(proposal.to_dict()))) == proposal


def test_wrong_calls_are_errors():
    with pytest.raises(ValueError, match="prompt_format: 'xml' is none of json, compact"):
        read_reply(GOOD, SIZES, "xml")
    with pytest.raises(ValueError, match="there are none to ask for"):
        read_reply(GOOD, [])
    with pytest.raises(ValueError, match=r"11 is not an integer in 3\.\.10"):
        read_reply(GOOD, [3, 11])
    with pytest.raises(ValueError, match="either a configuration or the reason"):
        Proposal("", None, None)


# JSON-like pieces, so that random texts come near the grammar.
PIECES = st.sampled_from(
    [
        *'{}[]:,"\\',
        *('"sizes"', '"3"', '"data_ratio"', '"hole_ratio"', '"wait_ratio"', "1", "-0.5", "1e999", "NaN", "null"),
        *("<think>", "</think>", "```json\n", " ", "\ud800", "\x00", "size3", "size4", ";"),
        *VOCABULARY,
    ]
)


@given(
    st.one_of(st.text(), st.lists(PIECES).map("".join), st.lists(PIECES).map(" ".join)),
    st.sampled_from(["json", "compact"]),
)
def test_no_text_raises(text, prompt_format):
    proposal = read_reply(text, SIZES, prompt_format)
    assert (proposal.config is None) != (proposal.rejection is None)


@given(st.data())
def test_no_change_of_a_good_reply_raises(data):
    text = list(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(PIECES)
    proposal = read_reply("".join(text), SIZES)
    if proposal.config is not None:
        assert read_reply(format_config(proposal.config), SIZES).config == proposal.config
