import numpy as np
import pytest
import torch
from starts import UNIT, gradients
from transformers import AutoConfig, AutoModelForCausalLM

from mapflake.trainer import packing, warmstart
from mapflake.trainer.decoding import decode
from mapflake.trainer.logps import completion_logps
from mapflake.trainer.packing import ATTENTION, pack
from mapflake.trainer.params import WarmStartParams
from mapflake.trainer.policy import encode_prompts, load_policy
from mapflake.trainer.warmstart import encode_pairs, warm_start

PAIRS = [("a", "b c d"), ("a longer prompt than that", "e"), ("f", "g " * 9)]


def _step(policy, batch, attention):
    """Returns the loss of a batch and the gradient of each weight."""
    policy.model.set_attn_implementation(attention)
    loss = policy.model(**batch).loss
    return loss.item(), gradients(policy.model, loss)


def test_packed_rows_have_the_loss_and_gradient_of_padded_ones(chat_start):
    policy = load_policy(chat_start)
    rows = encode_pairs(policy.tokenizer, PAIRS)
    loss, expected = _step(policy, warmstart._pad(rows, policy.tokenizer.pad_token_id), "sdpa")
    packed, actual = _step(policy, pack(rows), ATTENTION)
    # The mean of the same losses of tokens, each a sum of 64 products after another: they differ by some roundings.
    assert packed == pytest.approx(loss, rel=20 * UNIT)
    largest = float(max(gradient.abs().max() for gradient in expected.values()))
    torch.testing.assert_close(actual, expected, atol=200 * UNIT * largest, rtol=0)
    # The control: a row sees another.
    joined = pack([{key: [*rows[0][key], *rows[1][key]] for key in rows[0]}, rows[2]])
    assert _step(policy, joined, ATTENTION)[0] != pytest.approx(loss, rel=1e-3)


def test_a_language_model_is_trained_on_packed_rows_and_one_that_slides_on_padded_ones(
    chat_start, tmp_path, monkeypatch
):
    params = WarmStartParams(steps=2, batch_size=3, microbatch=3, warmup_steps=0)

    def curve(name):
        return warm_start(PAIRS, chat_start, params, tmp_path / name, seed=0)

    batch_sizes = []
    monkeypatch.setattr(packing, "pack", lambda rows: batch_sizes.append(len(rows)) or pack(rows))
    packed = curve("packed")
    with monkeypatch.context() as patch:
        patch.setattr(packing, "has_full_attention", lambda model: False)
        padded = curve("padded")
    assert batch_sizes == [3, 3]  # of the first
    assert padded[-1]["loss"] == pytest.approx(packed[-1]["loss"], rel=1e-4)
    policy = load_policy(chat_start)
    lengths = [len(row["input_ids"]) for row in encode_pairs(policy.tokenizer, PAIRS)]
    assert packed[-1]["num_input_tokens_seen"] == 2 * sum(lengths)
    configurations = [(tmp_path / name / "config.json").read_text() for name in ("packed", "padded")]
    assert configurations[0] == configurations[1]
    assert ATTENTION not in configurations[0]  # others could not load it
    assert packing.reads_packed(policy.model)
    policy.model.config.layer_types = ["sliding_attention"]
    assert not packing.reads_packed(policy.model)


def _attention_of(dtype, states, lengths, prefixes):
    """Returns the attention of packed rows in float32, and its gradients."""
    inputs = [state.to(dtype).requires_grad_() for state in states]
    output, _ = packing._attention(None, *inputs, None, scaling=0.3, lengths=lengths, prefixes=prefixes)
    gradients_of = torch.autograd.grad(output.float().sin().sum(), inputs)
    return [tensor.detach().float() for tensor in (output, *gradients_of)]


def test_attention_in_bfloat16_is_that_in_float32():
    lengths, heads, shared = [5, 70, 64, 3, 9, 8], 6, 2  # some have one shape when padded
    rng = torch.Generator().manual_seed(0)
    states = [torch.randn(1, n, sum(lengths), 16, generator=rng).bfloat16() for n in (heads, shared, shared)]
    prefixes = [None, None, 0, 1, None, 1]
    exact = _attention_of(torch.float32, states, lengths, prefixes)

    def largest_error(prefixes):
        halved = _attention_of(torch.bfloat16, states, lengths, prefixes)
        return [float((a - b).abs().max() / b.abs().max()) for a, b in zip(halved, exact, strict=True)]

    assert max(largest_error(prefixes)) < 0.02  # a few roundings to 8 bits
    assert min(largest_error([None, None, 1, 0, None, 0])) > 0.1  # the control: other prefixes


def _tiny(name, **settings):
    torch.manual_seed(0)
    small = {"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    small |= {"num_key_value_heads": 1, "intermediate_size": 32, "max_position_embeddings": 128}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = AutoConfig.for_model(name, **small, **special, **settings)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa").eval()


@pytest.mark.parametrize(
    ("name", "settings", "can"),
    [
        ("llama", {}, True),
        ("qwen3", {"head_dim": 16}, True),
        ("stablelm", {}, False),  # its attention is not told the rows
        ("mistral", {"sliding_window": 4}, False),
        ("mistral", {"sliding_window": None}, True),
        ("falcon", {}, False),
    ],
)
def test_a_model_reads_packed_rows_only_if_it_gives_them_the_same_logits(name, settings, can):
    model = _tiny(name, **settings)
    packing.read_packed(model)
    assert packing.reads_packed(model) == can
    ids = torch.randint(3, 60, (3, 12), generator=torch.Generator().manual_seed(0))
    ids[1, :6] = ids[0, :6]
    with torch.no_grad():
        plain = torch.log_softmax(model(ids).logits[:, 5:-1], -1).gather(-1, ids[:, 6:, None])[..., 0]
        ours = completion_logps(model, ids, torch.ones_like(ids), 6)
    torch.testing.assert_close(ours, plain, atol=1e-5, rtol=0)


def test_sampling_is_that_of_pytorchs_own_attention(chat_start):
    policy = load_policy(chat_start)
    assert policy.model.config.num_attention_heads == 2 * policy.model.config.num_key_value_heads
    prompts = encode_prompts(policy.tokenizer, ["a", "a longer prompt than that"])

    def sampled(attention):
        policy.model.set_attn_implementation(attention)
        settings = {"n": 3, "temperature": 1.0, "max_new_tokens": 12, "eos": policy.tokenizer.eos_token_id}
        return decode(policy.model, prompts, **settings, rng=np.random.default_rng(0))

    for ours, stock in zip(sampled(ATTENTION), sampled("sdpa"), strict=True):
        assert ours.ids == stock.ids
        assert ours.logps == pytest.approx(stock.logps, abs=1e-4)
