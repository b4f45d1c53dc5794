import pytest
from starts import SHAPE

from mapflake.repro import rng_for
from mapflake.trainer.params import WarmStartParams
from mapflake.trainer.policy import load_policy
from mapflake.trainer.warmstart import _order, warm_start

WORDS = [f"w{i}" for i in range(12)]
PAIRS = [(f"w{i} w{j}", " ".join([f"w{j}"] * (1 + i % 3))) for i in range(12) for j in range(12)]
PARAMS = WarmStartParams(
    model=SHAPE, steps=60, batch_size=24, microbatch=12, learning_rate=1e-2, warmup_steps=5, save_every=20
)


def test_the_loss_falls_and_the_policy_says_what_it_was_shown(tmp_path):
    out = tmp_path / "policy"
    curve = warm_start(PAIRS, WORDS, PARAMS, out, seed=0)
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
    with pytest.raises(ValueError, match="'banana' is not in the policy's vocabulary"):
        warm_start([("w1", "banana")], WORDS, PARAMS, tmp_path / "x", seed=0)
