import re

import numpy as np
import pytest
from starts import SHAPE

from mapflake.repro import rng_for
from mapflake.trainer.checkpoint import CheckpointError, weights_sha256
from mapflake.trainer.openai_client import OpenAIPolicy
from mapflake.trainer.params import WarmStartParams
from mapflake.trainer.policy import from_scratch, load_policy
from mapflake.trainer.warmstart import _order, warm_start

WORDS = [f"w{i}" for i in range(12)]
PAIRS = [(f"w{i} w{j}", " ".join([f"w{j}"] * (1 + i % 3))) for i in range(12) for j in range(12)]
PARAMS = WarmStartParams(
    model=SHAPE, steps=60, batch_size=24, microbatch=12, learning_rate=1e-2, warmup_steps=5, save_every=20
)


def test_the_loss_falls_and_the_policy_says_what_it_was_shown(tmp_path):
    out = tmp_path / "policy"
    curve = warm_start(iter(PAIRS), WORDS, PARAMS, out, seed=np.int64(0))  # one by one, and a seed from numpy
    assert [p.name for p in out.parent.iterdir()] == ["policy"]  # nothing unfinished
    assert [row["step"] for row in curve] == [20, 40, 60]
    assert not any("time" in key or "second" in key for row in curve for key in row)
    assert curve[-1]["loss"] < 0.5 * curve[0]["loss"]
    answers = load_policy(out).complete([p for p, _ in PAIRS], temperature=0.0, max_new_tokens=5)
    assert sum(a == c for (a,), (_, c) in zip(answers, PAIRS, strict=True)) > 0.5 * len(PAIRS)


def test_every_step_is_a_fair_draw_and_its_microbatches_have_like_lengths():
    lengths = [1 + i % 17 for i in range(100)]
    params = WarmStartParams(steps=25, batch_size=12, microbatch=4)
    order = _order(lengths, params, rng_for(0, "order"))
    assert len(order) == 25 * 12
    assert sorted(order[:96]) != order[:96]
    assert all(order.count(i) == 3 for i in range(100))  # 300 draws, three whole epochs
    for step in range(25):
        batch = [lengths[i] for i in order[step * 12 : (step + 1) * 12]]
        assert batch == sorted(batch)


def test_wrong_input_is_named(tmp_path):
    with pytest.raises(ValueError, match="at least one"):
        warm_start([], WORDS, PARAMS, tmp_path / "x", seed=0)
    rows = [{"prompt": p, "completion": c} for p, c in PAIRS]
    for pairs in (rows, [("w1", None)], [("w1", "w2", "w3")], {"ab": "cd"}):
        with pytest.raises(ValueError, match=r"^pairs: .* is not \(prompt, completion\), two texts$"):
            warm_start(pairs, WORDS, PARAMS, tmp_path / "x", seed=0)
    with pytest.raises(ValueError, match="seed: must be an integer, not None"):
        warm_start(PAIRS, WORDS, PARAMS, tmp_path / "x", seed=None)
    with pytest.raises(ValueError, match="'banana' is not in the policy's vocabulary"):
        warm_start([("w1", "banana")], WORDS, PARAMS, tmp_path / "x", seed=0)


def test_nothing_but_an_older_checkpoint_is_replaced(tmp_path):
    params = PARAMS.model_copy(update={"steps": 2, "warmup_steps": 1})
    thesis = tmp_path / "project/thesis.txt"
    thesis.parent.mkdir()
    thesis.write_text("mine")
    (tmp_path / "empty").mkdir()
    start = tmp_path / "start"
    warm_start(PAIRS, WORDS, params, start, seed=0)
    for out in (thesis, thesis.parent):
        with pytest.raises(CheckpointError, match="is there and is no checkpoint; it would be lost"):
            warm_start(PAIRS, WORDS, params, out, seed=0)
    before = weights_sha256(start)
    for out in (start, start / "inner", tmp_path):
        with pytest.raises(CheckpointError, match=r"is where the training begins|is there and is no checkpoint"):
            warm_start(PAIRS, start, params, out, seed=0)
    assert (thesis.read_text(), weights_sha256(start)) == ("mine", before)
    assert not (tmp_path / "project.unfinished").exists()
    warm_start(PAIRS, start, params, tmp_path / "empty", seed=0)  # the controls
    warm_start(PAIRS, WORDS, params, start, seed=1)
    assert weights_sha256(start) != before


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"max_new_tokens": 0}, "max_new_tokens: must be at least 1, not 0"),
        ({"n": 0}, "n: must be at least 1, not 0"),
        ({"temperature": -1}, "temperature: -1 is not a finite number from 0 on"),
        ({"temperature": float("nan")}, "temperature: nan is not a finite number from 0 on"),
    ],
)
def test_what_cannot_be_sampled_is_refused(asked, said):
    for policy in (from_scratch(SHAPE, WORDS, seed=0), OpenAIPolicy("x", base_url="http://127.0.0.1:9/v1")):
        with pytest.raises(ValueError, match=re.escape(said)):
            policy.complete(["w1"], **asked)
    completions = from_scratch(SHAPE, WORDS, seed=0).complete(["w1"], n=np.int64(2), max_new_tokens=np.int64(3))
    assert [len(row) for row in completions] == [2]
