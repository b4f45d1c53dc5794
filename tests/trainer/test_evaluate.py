import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapflake.env import EnvConfig, format_plan, generate
from mapflake.trainer.evaluate import (
    Rollout,
    frame,
    judge,
    load_rollouts,
    mean_interval,
    paired_difference,
    rates,
    rollout,
    save_rollouts,
)

TASKS = generate(EnvConfig.uniform((3, 4), 0.2, 0.5), 12, seed=1, split="validation")


class Oracle:
    """Solves all boards but those of size 4, where it says nothing on odd samples."""

    dialect = "compact"

    def complete(self, prompts, *, n=1, temperature=None, max_new_tokens=None, seed=0, progress=None):
        texts = []
        for prompt, task in zip(prompts, TASKS, strict=True):
            right = format_plan(task.instance, task.solution.plan, "compact")
            assert prompt.startswith(f"size{task.instance.size} ")
            texts.append([right if task.instance.size == 3 or i % 2 == 0 else "" for i in range(n)])
        return texts


def test_rollouts_are_task_major_and_judged():
    rollouts = rollout(Oracle(), TASKS, samples=2, seed=0)
    assert [(r.task, r.sample) for r in rollouts] == [(t, s) for t in TASKS for s in (0, 1)]
    assert [r.verdict.valid for r in rollouts] == [r.task.instance.size == 3 or r.sample == 0 for r in rollouts]
    table = rates(frame(rollouts), by=("size",))
    assert table["valid"].tolist() == [1.0, 0.5]
    assert table["optimal"].tolist() == [1.0, 0.5]
    assert table["rollouts"].sum() == 24


def test_rollouts_survive_a_file(tmp_path):
    rollouts = rollout(Oracle(), TASKS, samples=2, seed=0)
    save_rollouts(tmp_path / "r.jsonl", rollouts, "compact")
    assert load_rollouts(tmp_path / "r.jsonl") == rollouts


def test_model_text_of_any_kind_survives_a_file(tmp_path):
    text = "\ud800 \x00 \u2028 \n é"
    wrong = Rollout(TASKS[0], 0, text, judge(TASKS[0], text, "compact"))
    save_rollouts(tmp_path / "r.jsonl", [wrong], "compact")
    assert load_rollouts(tmp_path / "r.jsonl") == [wrong]


def test_a_file_of_another_schema_is_refused(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"schema": 99}\n')
    with pytest.raises(ValueError, match=r"r\.jsonl, line 1: schema 99, this version reads 1"):
        load_rollouts(tmp_path / "r.jsonl")


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_an_interval_holds_its_mean(values):
    mean, low, high = mean_interval(values)
    assert mean == pytest.approx(np.mean(values))
    assert low <= mean + 1e-12
    assert mean <= high + 1e-12


def test_the_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        _, low, high = mean_interval((rng.random(80) < 0.4).astype(float))
        hits += low <= 0.4 <= high
    assert 180 <= hits <= 199  # 95% of 200, three standard errors either way


def _scores(values, metric="valid"):
    return pd.DataFrame({"board": [f"b{i:03}" for i in range(len(values))], metric: values})


def test_a_difference_is_paired_by_board():
    rng = np.random.default_rng(1)
    hard = rng.random(300)  # boards differ a lot, the policies by 0.02 on every one of them
    a, b = _scores(hard + 0.02), _scores(hard).sample(frac=1, random_state=0)
    mean, low, high = paired_difference(a, b, "valid")
    assert (mean, low, high) == pytest.approx((0.02, 0.02, 0.02))
    with pytest.raises(ValueError, match="not the same boards: 1 are in one only"):
        paired_difference(a, b[b.board != "b007"], "valid")
