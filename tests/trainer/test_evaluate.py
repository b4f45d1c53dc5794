import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapflake.engineer import diagnose
from mapflake.env import EnvConfig, format_plan, generate
from mapflake.trainer.evaluate import (
    Rollout,
    frame,
    iter_rollouts,
    judge,
    load_rollouts,
    mean_interval,
    paired_difference,
    rates,
    record,
    rollout,
    save_rollouts,
)

TASKS = generate(EnvConfig.uniform((3, 4), 0.2, 0.5), 12, seed=1, split="validation")


class Oracle:
    """Solves all boards but those of size 4, where it says nothing on odd samples."""

    prompt_format = "compact"

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


class Noise:
    """Says what the seed and its place in the call decide; counts what it was asked."""

    prompt_format = "compact"
    part = 4

    def __init__(self, identity="noise", dies_after=10**9):
        self.identity, self.left, self.asked = identity, dies_after, 0

    def complete(self, prompts, *, n=1, temperature=None, max_new_tokens=None, seed=0, progress=None):
        if not self.left:
            raise ConnectionError("gone")
        self.left -= 1
        self.asked += len(prompts)
        rng = np.random.default_rng(seed)
        return [[f"a{rng.integers(10**9)}" for _ in range(n)] for _ in prompts]


def test_a_recorded_evaluation_goes_on_where_it_was_interrupted(tmp_path):
    path = tmp_path / "r.jsonl"
    expected = rollout(Noise(), TASKS, samples=2, seed=5)
    assert len({r.completion for r in expected}) == 24  # parts have noise of their own
    first = Noise(dies_after=2)
    with pytest.raises(ConnectionError):
        record(first, TASKS, path, samples=2, seed=5)
    assert not path.exists()
    again = Noise()
    record(again, TASKS, path, samples=2, seed=5)
    assert load_rollouts(path) == expected
    assert (first.asked, again.asked) == (4, 8)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.jsonl", "r.jsonl.made_from"]


@pytest.mark.parametrize(
    "change",
    [{}, {"seed": 6}, {"samples": 1}, {"temperature": 0.5}, {"tasks": TASKS[:-1]}, {"policy": Noise("another")}],
    ids=["nothing", "seed", "samples", "temperature", "tasks", "policy"],
)
def test_what_is_recorded_counts_for_the_same_call_alone(tmp_path, change):
    path, call = tmp_path / "r.jsonl", {"policy": Noise(), "tasks": TASKS, "samples": 2, "seed": 5}
    record(path=path, **call)
    half = Noise(dies_after=2)
    half.identity = "a third one"
    with pytest.raises(ConnectionError):
        record(path=path, **call | {"policy": half})  # leaves parts behind
    call = call | {"policy": Noise()} | change
    call["policy"].asked = 0
    record(path=path, **call)
    assert call["policy"].asked == (len(call["tasks"]) if change else 0)
    assert load_rollouts(path) == rollout(**call)


def test_a_file_that_was_lost_is_recorded_again(tmp_path):
    path = tmp_path / "r.jsonl"
    record(Noise(), TASKS, path, seed=5)
    expected = path.read_bytes()
    path.unlink()
    record(Noise(), TASKS, path, seed=5)
    assert path.read_bytes() == expected


def test_memory_does_not_grow_with_the_number_of_rollouts(tmp_path):
    def peak(samples):
        path, policy = tmp_path / f"{samples}.jsonl", Noise()
        policy.part = 240
        tracemalloc.start()
        try:
            record(policy, TASKS, path, samples=samples, seed=5)
            report = diagnose(iter_rollouts(path))
            return tracemalloc.get_traced_memory()[1], sum(size.rollouts for size in report.sizes)
        finally:
            tracemalloc.stop()

    peak(1)  # caches
    (few, least), (many, most) = peak(20), peak(200)
    assert (least, most) == (240, 2400)
    assert many < 1.25 * few


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
