"""Grammars: what they allow is accepted, what is written for a legal design is allowed."""

import llguidance
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapflake.engineer import read_reply, reply_grammar

SIZES = (3, 4, 10)


class Bytes:
    """A tokenizer whose tokens are the 256 bytes, and the end of the text."""

    eos_token_id = 256
    bos_token_id = None
    tokens = [*(bytes([i]) for i in range(256)), b"<eos>"]  # noqa: RUF012
    special_token_ids = [256]  # noqa: RUF012

    def __call__(self, text):
        return list(text if isinstance(text, bytes) else text.encode())


TOKENIZER = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))


def accepted(text, sizes=SIZES):
    matcher = llguidance.LLMatcher(TOKENIZER, reply_grammar(sizes))
    assert not matcher.is_error(), matcher.get_error()
    return matcher.validate_tokens(list(text.encode())) == len(text.encode()) and (
        matcher.consume_tokens(list(text.encode())) and matcher.is_accepting()
    )


@pytest.mark.parametrize(
    "text",
    [
        '{"sizes": {"3": {"data_ratio": 1, "hole_ratio": 0.5, "wait_ratio": null}}}',
        'First 4x4.\nThen:\n{"sizes": {"4": {"data_ratio": 0.25, "hole_ratio": 0, "wait_ratio": 1.0}, '
        '"10": {"data_ratio": 0.75, "hole_ratio": 0.4999, "wait_ratio": 0.1}}}',
    ],
)
def test_a_legal_design_may_be_written(text):
    assert accepted(text)
    assert read_reply(text, SIZES).rejection is None


@pytest.mark.parametrize(
    "text",
    [
        "prose",
        '{"sizes": {}}',
        '{"sizes": {"7": {"data_ratio": 1, "hole_ratio": 0, "wait_ratio": 0}}}',
        '{"sizes": {"3": {"data_ratio": 2, "hole_ratio": 0, "wait_ratio": 0}}}',
        '{"sizes": {"3": {"data_ratio": 1, "hole_ratio": 0.6, "wait_ratio": 0}}}',
        '{"sizes": {"3": {"data_ratio": NaN, "hole_ratio": 0, "wait_ratio": 0}}}',
        '{"sizes": {"3": {"data_ratio": 1, "hole_ratio": 0, "wait_ratio": -1}}}',
        '{"sizes": {"3": {"data_ratio": 0.55555, "hole_ratio": 0, "wait_ratio": 0}}}',
        '{} {"sizes": {"3": {"data_ratio": 1, "hole_ratio": 0, "wait_ratio": 0}}}',
        '<think>{"sizes": {"3": {"data_ratio": 1, "hole_ratio": 0, "wait_ratio": 0}}}',
    ],
)
def test_what_is_illegal_or_ambiguous_cannot_be_written(text):
    assert not accepted(text)


ratio = st.sampled_from(["0", "0.05", "0.3", "0.5"])


@given(st.dictionaries(st.sampled_from(SIZES), st.tuples(ratio, ratio, ratio | st.just("null")), min_size=1), st.text())
def test_all_that_the_grammar_allows_is_read(design, prose):
    listed = ", ".join(
        f'"{s}": {{"data_ratio": {d}, "hole_ratio": {h}, "wait_ratio": {w}}}' for s, (d, h, w) in sorted(design.items())
    )
    text = f'{prose}{{"sizes": {{{listed}}}}}'
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    if accepted(text):
        assert (read_reply(text, SIZES).rejection or "all data ratios are zero").startswith("all data ratios are zero")


def test_wrong_calls_are_errors():
    with pytest.raises(ValueError, match="prompt_format: 'chat' is none of json, compact"):
        reply_grammar(SIZES, "chat")
    with pytest.raises(ValueError, match="there are none to ask for"):
        reply_grammar([])
