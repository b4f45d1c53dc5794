import json

import numpy as np
import pandas as pd
import pytest
from speaker import Speaker

from mapflake.env import EnvConfig, format_plan, generate, parse_completion, render_prompt
from mapflake.trainer import evaluate
from mapflake.trainer.evaluate import frame, load_rollouts, paired_difference, rates, rollout, save_rollouts

TASKS = generate(EnvConfig.uniform((3, 4), 0.2, 0.5), 12, seed=1, split="validation")


RIGHT = {render_prompt(t.instance, "compact"): format_plan(t.instance, t.solution.plan, "compact") for t in TASKS}
ORACLE = Speaker(lambda prompt, i: RIGHT[prompt] if prompt.startswith("size3 ") or i % 2 == 0 else "")


def test_rollouts_are_task_major_and_judged():
    rollouts = rollout(ORACLE, TASKS, samples=2, seed=0)
    assert [(r.task, r.sample) for r in rollouts] == [(t, s) for t in TASKS for s in (0, 1)]
    assert [r.verdict.valid for r in rollouts] == [r.task.instance.size == 3 or r.sample == 0 for r in rollouts]
    assert [r.plan for r in rollouts] == [parse_completion(r.completion, 2, "compact") for r in rollouts]
    table = rates(frame(rollouts), by=("size",))
    assert table["valid"].tolist() == [1.0, 0.5]
    assert table["optimal"].tolist() == [1.0, 0.5]
    assert table["rollouts"].sum() == 24


def test_rollouts_survive_a_file_and_are_not_judged_again(tmp_path, monkeypatch):
    right, wrong = (format_plan(t.instance, t.solution.plan, "compact") for t in TASKS[:2])
    texts = [right, wrong, "", "\x00 \u2028 \n é", "<> W a0 <> W a0 ;", "\ud800"]
    rollouts = rollout(Speaker(lambda prompt, i: texts[i]), TASKS[:1], samples=len(texts), seed=0)
    assert len({r.verdict.kinds for r in rollouts}) > 2
    assert {r.plan is None for r in rollouts} == {True, False}
    assert rollouts[-1].completion == "?"  # no file holds a lone surrogate
    save_rollouts(tmp_path / "r.jsonl", rollouts)
    monkeypatch.delattr(evaluate, "judge_completion")
    assert load_rollouts(tmp_path / "r.jsonl") == rollouts


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["RRD"] * 12, "takes a list of up to 2 texts for each prompt, not 'RRD'"),
        ([["", None, ""]] * 12, r"a list of up to 2 texts for each prompt, not \['', None, ''\]"),
        ([[""]] * 11, "11 lists of texts for 12 prompts"),
        ([[{"plan": []}]] * 12, r"\{'plan': \[\]\} is neither a text nor None"),
        (None, "a list of up to 2 texts for each prompt, not None"),
    ],
)
def test_a_policy_answers_with_a_list_for_each_prompt(monkeypatch, given, said):
    monkeypatch.setattr(ORACLE, "complete", lambda *_, **__: given)
    with pytest.raises(ValueError, match=f"^complete: .*{said}"):
        rollout(ORACLE, TASKS, samples=2, seed=0)


def test_boards_without_solutions_are_no_tasks():
    with pytest.raises(ValueError, match=r"^tasks: Instance.* is not a Task"):
        rollout(ORACLE, [task.instance for task in TASKS], seed=0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 99}, "schema: this version reads rollouts of schema 2"),
        ({"task": ...}, "rollout.task: missing"),
        ({"verdict": {"violations": [{"kind": 3}]}}, "rollout.verdict.violations.0.kind: 3 is not legal"),
    ],
)
def test_a_file_that_holds_no_rollout_is_refused_by_line_and_key(tmp_path, change, said):
    save_rollouts(tmp_path / "r.jsonl", rollout(ORACLE, TASKS, seed=0)[:2])
    first, second = (tmp_path / "r.jsonl").read_text().splitlines()
    row = {key: value for key, value in (json.loads(second) | change).items() if value is not ...}
    (tmp_path / "r.jsonl").write_text(f"{first}\n{json.dumps(row)}\n")
    with pytest.raises(ValueError, match=rf"r\.jsonl, line 2: {said}"):
        load_rollouts(tmp_path / "r.jsonl")


def _scores(values):
    return pd.DataFrame({"board": [f"b{i:03}" for i in range(len(values))], "valid": values})


def test_the_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        row = rates(_scores((rng.random(80) < 0.4).astype(float)), metrics=["valid"]).iloc[0]
        hits += row["valid_low"] <= 0.4 <= row["valid_high"]
    assert 180 <= hits <= 199  # 95% of 200, three standard errors either way


def test_rates_are_those_of_the_report_also_where_a_board_is_there_twice():
    rows = [(board, sample, valid) for board, valid in (("a", 1.0), ("a", 1.0), ("b", 0.0)) for sample in range(2)]
    rollouts = pd.DataFrame(rows, columns=["board", "sample", "valid"])
    row = rates(rollouts, metrics=["valid"]).iloc[0]
    assert (row["valid"], row["boards"], row["rollouts"]) == (pytest.approx(2 / 3), 2, 6)
    assert row["valid_low"] <= 2 / 3 <= row["valid_high"]
    assert paired_difference(rollouts, rollouts.assign(valid=0.0), "valid")[0] == pytest.approx(2 / 3)


def test_a_difference_is_paired_by_board():
    rng = np.random.default_rng(1)
    hard = rng.random(300)  # boards differ a lot, the policies by 0.02 on every one of them
    a, b = _scores(hard + 0.02), _scores(hard).sample(frac=1, random_state=0)
    mean, low, high = paired_difference(a, b, "valid")
    assert (mean, low, high) == pytest.approx((0.02, 0.02, 0.02))
    with pytest.raises(ValueError, match="not the same boards: 1 are in one only"):
        paired_difference(a, b[b.board != "b007"], "valid")
    with pytest.raises(ValueError, match="not as many rollouts: 1 boards have more in one of the two"):
        paired_difference(a, pd.concat([b, b[b.board == "b007"]]), "valid")  # a server lost one
