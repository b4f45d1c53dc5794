"""Tasks as a dataset, and shards that do not depend on who made them."""

import re

import pytest

from mapflake.env import EnvConfig, SizeConfig, Task, generate, load_tasks, render_prompt
from mapflake.env.dataset import save_shards, tasks_of, to_dataset

CONFIG = EnvConfig({3: SizeConfig(0.5, 0.1, 0.5), 5: SizeConfig(0.5, 0.3)}, num_agents=3)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return generate(CONFIG, 25, seed=4)


def test_rows_have_the_prompt_and_the_answer(tasks):
    chat, compact = to_dataset(tasks), to_dataset(tasks, "compact")
    assert chat.column_names == compact.column_names
    for row, short, task in zip(chat, compact, tasks, strict=True):
        assert row["prompt"] == [{"role": "user", "content": render_prompt(task.instance, "chat")}]
        assert short["prompt"] == render_prompt(task.instance, "compact")
        assert (row["size"], row["num_agents"]) == (task.instance.size, 3)


@pytest.mark.parametrize("prompt_format", ["chat", "compact"])
def test_tasks_come_back(tasks, prompt_format):
    dataset = to_dataset(tasks, prompt_format)
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


def test_shards_are_the_same_for_any_number_of_processes(tasks, tmp_path):
    files = []
    for processes in (1, 3):
        paths = save_shards(tmp_path / str(processes), CONFIG, 25, seed=4, shard_size=4, num_proc=processes)
        assert [path.name for path in paths] == [f"{shard:05d}.jsonl" for shard in range(7)]
        assert sorted(paths[0].parent.iterdir()) == paths
        assert [task for path in paths for task in load_tasks(path)] == tasks
        files.append([path.read_bytes() for path in paths])
    assert files[0] == files[1]
    assert save_shards(tmp_path / "none", CONFIG, 0, seed=4) == []


def test_wrong_calls_of_shards(tmp_path):
    with pytest.raises(ValueError, match="num_proc: 0 is not an integer from 1"):
        save_shards(tmp_path, CONFIG, 5, seed=0, num_proc=0)
    with pytest.raises(ValueError, match="split: 'test' is none of train, validation, benchmark"):
        save_shards(tmp_path, CONFIG, 5, seed=0, split="test")
    assert list(tmp_path.iterdir()) == []
    save_shards(tmp_path, CONFIG, 3, seed=0)
    with pytest.raises(ValueError, match=re.escape(f"folder: {tmp_path} has 00000.jsonl already")):
        save_shards(tmp_path, CONFIG, 3, seed=1)
