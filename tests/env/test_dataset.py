"""Tasks as a dataset, and back."""

import re

import pytest

from mapflake.env import EnvConfig, SizeConfig, Task, generate, render_prompt
from mapflake.env.dataset import tasks_of, to_dataset

CONFIG = EnvConfig({3: SizeConfig(0.5, 0.1, 0.5), 5: SizeConfig(0.5, 0.3)}, num_agents=3)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return generate(CONFIG, 25, seed=4)


@pytest.mark.parametrize("prompt_format", ["chat", "compact"])
def test_tasks_come_back(tasks, prompt_format):
    dataset = to_dataset(tasks, prompt_format)
    for row, task in zip(dataset, tasks, strict=True):
        prompt = render_prompt(task.instance, prompt_format)
        assert row["prompt"] == (prompt if prompt_format == "compact" else [{"role": "user", "content": prompt}])
        assert (row["size"], row["num_agents"]) == (task.instance.size, 3)
    assert tasks_of(dataset) == tasks
    chosen = dataset.filter(lambda row: row["needs_wait"]).map(lambda row: {"length": len(row["prompt"])})
    assert 0 < len(chosen) < len(tasks)
    assert tasks_of(chosen) == [task for task in tasks if task.needs_wait]
    assert to_dataset([], prompt_format).features == dataset.features
    assert tasks_of(to_dataset([], prompt_format)) == []


def test_rows_that_are_no_tasks(tasks):
    with pytest.raises(ValueError, match=re.escape("row 0: task: not JSON")):
        tasks_of(to_dataset(tasks).remove_columns("task"))
    rows, found = to_dataset(tasks).to_list(), tasks[3].solution.makespan
    rows[3]["task"] = rows[3]["task"].replace(f'"makespan": {found}', f'"makespan": {found + 1}')
    with pytest.raises(ValueError, match=re.escape(f"row 3: makespan: {found + 1} but the plan has {found}")):
        tasks_of(rows)
