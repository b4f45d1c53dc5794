"""Decoding under a grammar, with real models: the small kind of policy, and one with a chat template."""

import pytest
from starts import byte_level_model
from transformers import Qwen3ForCausalLM

from mapflake.engineer import ENGINEER_WORDS, read_reply, reply_grammar
from mapflake.env import VOCABULARY
from mapflake.trainer.constrain import are_whole, grammar_mask
from mapflake.trainer.params import ModelParams
from mapflake.trainer.policy import Policy, from_scratch

SIZES = (3, 4, 5)
ZERO = "all data ratios are zero: no size would get an instance"


@pytest.fixture(scope="module")
def small() -> Policy:
    shape = ModelParams(hidden_size=32, layers=2, heads=2, intermediate_size=64)
    return from_scratch(shape, [*VOCABULARY, *ENGINEER_WORDS], seed=4)


@pytest.fixture(scope="module")
def chat_policy() -> Policy:
    """A random model with a byte-level BPE tokenizer, its vocabulary padded, as large models have it."""
    model, tokenizer = byte_level_model(Qwen3ForCausalLM, 16, padded=7, num_key_value_heads=1, head_dim=8)
    return Policy(model, tokenizer)


@pytest.mark.parametrize(
    ("name", "asked", "prompt_format", "n"),
    [("small", "engineer guide design", "compact", 60), ("chat_policy", "Design.", "json", 6)],
)
def test_untrained_policies_write_legal_designs_and_nothing_else(request, caplog, name, asked, prompt_format, n):
    policy, grammar = request.getfixturevalue(name), reply_grammar(SIZES, prompt_format)
    (texts,) = policy.complete([asked], n=n, max_new_tokens=3000, grammar=grammar, seed=2)
    assert {read_reply(text, SIZES, prompt_format).rejection for text in texts} <= {None, ZERO}
    assert len(set(texts)) > 5 * n / 6
    assert "not whole" not in caplog.text
    (plain,) = policy.complete([asked], n=n, max_new_tokens=20, seed=2)
    assert all(read_reply(text, SIZES, prompt_format).rejection for text in plain)
    policy.complete([asked], n=3, max_new_tokens=3, grammar=grammar, seed=1)
    assert "3 of 3 completions under the grammar were cut off and are not whole" in caplog.text


def test_the_mask_follows_the_words(small):
    mask = grammar_mask(small.tokenizer, reply_grammar(SIZES, "compact"), small.model.config.vocab_size)

    def allowed(text):
        ids = small.tokenizer(text, add_special_tokens=False)["input_ids"]
        return set(small.tokenizer.convert_ids_to_tokens(mask([ids])[0].nonzero()[:, 0].tolist()))

    with pytest.raises(ValueError, match="grammar: "):
        grammar_mask(small.tokenizer, "start: (", small.model.config.vocab_size)
    assert allowed("") == {"size3", "size4", "size5"}
    assert "any" not in allowed("size3 p10")
    assert "p55" not in allowed("size3 p10")  # holes
    assert allowed("size3 p10 p50") == allowed("size3") | {"any"}
    assert allowed("size4 p10 p50 any") == {"size5", "end"}
    assert allowed("size5 p10 p50 any end") == {"<eos>"}
    assert allowed("size5 p10 p50 any end <eos>") == {"<eos>"}  # a row that has ended, until it leaves the batch


def test_a_reply_that_was_cut_short_is_told_apart(small):
    grammar = reply_grammar(SIZES, "compact")
    whole = "size3 p10 p50 any end <eos>"
    cut = ["size3 p10 p50 any end", "size3 p10 p50 <eos>", "size3 p10 any <eos>", ""]  # by its length, by failures
    ids = small.tokenizer([whole, *cut, whole], add_special_tokens=False)["input_ids"]
    assert are_whole(small.tokenizer, grammar, ids) == [True, False, False, False, False, True]
    mask = grammar_mask(small.tokenizer, grammar, small.model.config.vocab_size)
    failed = mask([small.tokenizer("size3 p10 any", add_special_tokens=False)["input_ids"]])[0]
    assert failed.nonzero()[:, 0].tolist() == [small.tokenizer.eos_token_id]  # it looks like an end
    prefixes = small.tokenizer(["size3 p10 any", "size3 p10"], add_special_tokens=False)["input_ids"]
    batched, single = mask(prefixes)[1], mask(prefixes[1:])[0]
    assert batched.tolist() == single.tolist()
    assert batched.sum() > 1
