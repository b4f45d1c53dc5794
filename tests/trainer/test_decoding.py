import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from starts import UNIT

from mapflake.repro import rng_for
from mapflake.trainer import decoding
from mapflake.trainer.decoding import decode

PROMPTS = [[5, 9, 4], [7], [11, 12, 13, 14, 15, 16], [20, 8], [9, 9, 9, 30]]


def _decode(policy, prompts=PROMPTS, seed=0, **changed):
    settings = {"n": 1, "temperature": 1.0, "max_new_tokens": 24, "eos": 1} | changed
    return decode(policy.model, prompts, **settings, rng=rng_for(seed, "test"))


def test_greedy_tokens_are_those_of_generate(tiny):
    pad = tiny.tokenizer.pad_token_id
    prompts = [[int(t) for t in np.random.default_rng(i).integers(3, 43, size=1 + i % 9)] for i in range(40)]
    rows = [d.ids for d in _decode(tiny, prompts, temperature=0.0)]
    eos = max(range(3, 43), key=lambda t: sum(t in ids[3:] and t not in ids[:3] for ids in rows))  # ends many, not all
    ours = _decode(tiny, prompts, temperature=0.0, eos=eos)
    for prompt, decoded in zip(prompts, ours, strict=True):
        ids = torch.tensor([prompt])
        settings = {"do_sample": False, "max_new_tokens": 24, "eos_token_id": eos, "pad_token_id": pad}
        expected = tiny.model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
        assert [prompt + decoded.ids] == expected.tolist()
        with torch.no_grad():
            best, second = tiny.model(expected).logits[0, len(prompt) - 1 : -1].topk(2).values.T
        assert (best - second).min() > 0.1  # 10,000 times what rounding makes: it decides no token on any processor
    assert len({len(d.ids) for d in ours}) > 1, "some rows should end early, or shrinking the batch is not exercised"


def test_log_probabilities_are_those_of_a_plain_forward_pass(tiny):
    temperature = 0.7
    for prompt, decoded in zip(PROMPTS, _decode(tiny, temperature=temperature), strict=True):
        with torch.no_grad():
            logits = tiny.model(torch.tensor([prompt + decoded.ids])).logits[0, len(prompt) - 1 : -1]
        expected = torch.log_softmax(logits / temperature, -1).gather(-1, torch.tensor(decoded.ids)[:, None])[:, 0]
        largest = float(logits.abs().max()) / temperature  # sums of 32 products, in another order
        assert decoded.logps == pytest.approx(expected.tolist(), abs=20 * UNIT * largest)


def test_a_batch_is_as_large_as_its_cache_may_be(tiny, monkeypatch):
    warm = {"n": 2, "temperature": 3.0}  # at which samples differ
    expected, rows = _decode(tiny, **warm), []
    assert [d.ids for d in _decode(tiny, **warm, seed=1)] != [d.ids for d in expected]  # the control
    token = 2 * 2 * 2 * 16  # keys and values, layers, heads, width
    monkeypatch.setattr(decoding, "CACHE", token * (6 + 24) * 4)
    assert [d.ids for d in _decode(tiny, **warm, progress=rows.append)] == [d.ids for d in expected]
    assert rows == [4, 4, 2]


def test_samples_follow_the_distribution_of_the_model(tiny):
    prompt, n = [5, 9, 4], 4000
    decoded = _decode(tiny, [prompt], n=n, temperature=3.0, batch_size=n, max_new_tokens=1)
    first = np.bincount([d.ids[0] for d in decoded], minlength=43)
    with torch.no_grad():
        logits = tiny.model(torch.tensor([prompt])).logits[0, -1].double()
    expected, hotter = (n * torch.softmax(logits / temperature, -1).numpy() for temperature in (3.0, 3.3))
    assert expected.min() > 5  # else counts are not normal, as the test takes them
    assert chisquare(first, expected).pvalue > 1e-4
    assert chisquare(first, hotter).pvalue < 1e-9  # the control: the same samples under another temperature


def test_no_prompts_no_completions_and_training_mode_is_kept(tiny):
    assert _decode(tiny, []) == []
    tiny.model.train()
    _decode(tiny)
    assert tiny.model.training
    tiny.model.eval()


def test_the_output_head_reads_its_states_in_one_piece(tiny):
    """Else PyTorch multiplies prompt by prompt, each with a copy of the head's weights, if these are not trained."""
    read = []
    hook = tiny.model.get_output_embeddings().register_forward_hook(lambda _, states, __: read.append(states[0]))
    _decode(tiny)
    hook.remove()
    assert read[0].shape[:2] == (len(PROMPTS), 1)
    assert all(states.is_contiguous() for states in read)
