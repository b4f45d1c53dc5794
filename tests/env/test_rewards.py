import re

import pytest

from mapflake.env import EnvConfig, Plan, format_plan, generate, judge, reward_functions, rewards, to_dataset

TASK = generate(EnvConfig.uniform((4,), 0.0, 0.0), 1, seed=2)[0]
BEST = format_plan(TASK.instance, TASK.solution.plan, "compact")
LATE = format_plan(TASK.instance, Plan(tuple("W" + moves for moves in TASK.solution.plan.moves)), "compact")


def test_a_completion_is_judged_once_for_all_functions(monkeypatch):
    judged = []
    monkeypatch.setattr(
        rewards, "judge", lambda task, text, prompt_format: judged.append(text) or judge(task, text, prompt_format)
    )
    columns = to_dataset([TASK] * 3, "compact")[:] | {"trainer_state": None}
    scores = [f(completions=[BEST, BEST, LATE], **columns) for f in reward_functions("compact")]
    assert scores == [[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]]
    assert judged == [BEST, LATE]


def test_wrong_calls_name_what_is_missing():
    with pytest.raises(ValueError, match=re.escape("prompt_format: 'json' is none of chat, brief, compact")):
        reward_functions("json")
    valid, _ = reward_functions("compact")
    with pytest.raises(ValueError, match="task: missing; the rows of the training set are those of to_dataset"):
        valid(completions=[BEST], prompts=["size4"])
