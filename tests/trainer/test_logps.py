import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from starts import UNIT, gradients

from mapflake.trainer import logps, packing


def _plain(model, ids, mask, length, temperature):
    """Returns the log-probabilities of a plain forward pass, one row at a time, without any padding."""
    values = torch.zeros(len(ids), length)
    for row, (tokens, real) in enumerate(zip(ids, mask.bool(), strict=True)):
        counts = int(real[-length:].sum())
        logp = torch.log_softmax(model(tokens[real][None]).logits[0] / temperature, -1)
        if counts:
            values[row, :counts] = logp[-counts - 1 : -1].gather(-1, tokens[real][-counts:, None])[:, 0]
    return values


@settings(max_examples=15)
@given(seed=st.integers(0, 2**20), rows=st.integers(1, 20), bucket=st.sampled_from([1, 3, 64, None]))
def test_values_and_gradient_are_those_of_a_plain_forward_pass(tiny, seed, rows, bucket):
    """In buckets of rows, or packed into one (None)."""
    rng = torch.Generator().manual_seed(seed)
    prompts = torch.randint(2, 43, (4, 6), generator=rng)
    before = torch.randint(1, 7, (4,), generator=rng)
    shared = torch.randint(0, 4, (rows,), generator=rng)
    after = torch.randint(0, 9, (rows,), generator=rng)  # some completions have nothing that counts
    ids = torch.cat([prompts[shared], torch.randint(2, 43, (rows, 8), generator=rng)], 1)
    mask = torch.cat([torch.arange(6) >= 6 - before[shared][:, None], torch.arange(8) < after[:, None]], 1).long()
    weights = torch.randn(rows, 8, generator=rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logps, "BUCKET", bucket)
        tiny.model.set_attn_implementation("sdpa" if bucket else packing.ATTENTION)
        ours = logps.completion_logps(tiny.model, ids, mask, 8, 0.7)
        tiny.model.set_attn_implementation("sdpa")
    plain = _plain(tiny.model, ids, mask, 8, 0.7)
    # Both are differences of logits, each a sum of 32 products after two layers of such sums, in another order: they
    # differ by some roundings of the largest logit.
    with torch.no_grad():
        largest = float(tiny.model(ids).logits.abs().max()) / 0.7
    torch.testing.assert_close(ours, plain, atol=20 * UNIT * largest, rtol=0)
    if mask[:, -8:].any():  # the control: a temperature that differs by a thousandth
        with pytest.raises(AssertionError):
            torch.testing.assert_close(ours, _plain(tiny.model, ids, mask, 8, 0.7007), atol=20 * UNIT * largest, rtol=0)
    actual, expected = (
        gradients(tiny.model, (x * weights).sum() + 0 * tiny.model(ids[:1]).logits.sum()) for x in (ours, plain)
    )
    largest = float(max(gradient.abs().max() for gradient in expected.values()))
    # Sums over up to 20 x 8 tokens on top, in another order.
    torch.testing.assert_close(actual, expected, atol=200 * UNIT * largest, rtol=0)
