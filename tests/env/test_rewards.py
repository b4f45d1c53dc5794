import re

import pytest

from mapflake.env import (
    REWARD,
    EnvConfig,
    Plan,
    format_plan,
    generate,
    judge,
    reward,
    reward_functions,
    rewards,
    to_dataset,
)

TASK = generate(EnvConfig.uniform((4,), 0.0, 0.0), 1, seed=2)[0]
BEST = format_plan(TASK.instance, TASK.solution.plan, "compact")
LATE = format_plan(TASK.instance, Plan(tuple("W" + moves for moves in TASK.solution.plan.moves)), "compact")
WRONG = format_plan(TASK.instance, Plan(("W", "W")), "compact")


def _scores(completions, **more):
    columns = to_dataset([TASK] * len(completions), "compact")[:] | more
    scores = {f.__name__: f(completions=completions, **columns) for f in reward_functions("compact")}
    assert list(scores) == list(REWARD)
    return scores


def test_half_for_a_valid_plan_and_half_for_an_optimal_one():
    scores = _scores([BEST, LATE, WRONG, "a1 a1", ""], trainer_state=None)
    assert scores == {"valid": [1.0, 1.0, 0.0, 0.0, 0.0], "optimal": [1.0, 0.0, 0.0, 0.0, 0.0]}
    totals = [sum(REWARD[name] * values[i] for name, values in scores.items()) for i in range(5)]
    assert totals == [1.0, 0.5, 0.0, 0.0, 0.0]
    assert _scores([[{"role": "assistant", "content": BEST}]])["optimal"] == [1.0]
    assert [reward(judge(TASK, text, "compact")) for text in (BEST, LATE, WRONG)] == [1.0, 0.5, 0.0]


def test_a_completion_is_judged_once_for_all_functions(monkeypatch):
    judged = []
    monkeypatch.setattr(
        rewards, "judge", lambda task, text, prompt_format: judged.append(text) or judge(task, text, prompt_format)
    )
    _scores([BEST, BEST, LATE])
    assert judged == [BEST, LATE]


def test_wrong_calls_name_what_is_missing():
    with pytest.raises(ValueError, match=re.escape("prompt_format: 'json' is none of chat, compact")):
        reward_functions("json")
    valid, _ = reward_functions("compact")
    with pytest.raises(ValueError, match="instance: missing; the rows of the training set are those of to_dataset"):
        valid(completions=[BEST], prompts=["size4"])
