"""Tasks as a Hugging Face `datasets.Dataset`, and back; `datasets`, which is slow to import, is imported when needed.

Not covered: streaming; Parquet, which `to_dataset(load_tasks(path)).to_parquet` writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from mapflake.env.task import Task, listed_tasks
from mapflake.env.text import check_prompt_format, render_prompt
from mapflake.extras import needs
from mapflake.repro import dumps, from_json, loads, shown, to_json

if TYPE_CHECKING:
    from datasets import Dataset


def to_dataset(tasks: Iterable[Task], prompt_format: str = "chat") -> Dataset:
    """Returns one row for each task.

    Its columns: `prompt`, the question in `prompt_format`, as TRL wants it (for compact a string, else a list of one
    message); `task`, the task as JSON, as a line of `save_tasks` has it; `size`, `num_agents` and `needs_wait`, to
    filter by.

    Raises:
        ValueError: Unknown prompt_format, or a board that it has no words for.
    """
    with needs("train"):
        from datasets import Dataset, Features, Value

    tasks = listed_tasks(tasks)
    prompts: list[Any] = [render_prompt(task.instance, prompt_format) for task in tasks]
    text, count = Value("string"), Value("int64")
    prompt: Any = text
    if check_prompt_format(prompt_format) != "compact":
        prompts = [[{"role": "user", "content": question}] for question in prompts]
        prompt = [{"role": text, "content": text}]
    columns = {
        "prompt": prompts,
        "task": [dumps(to_json(task)) for task in tasks],
        "size": [task.instance.size for task in tasks],
        "num_agents": [task.instance.num_agents for task in tasks],
        "needs_wait": [task.needs_wait for task in tasks],
    }
    kinds = {"prompt": prompt, "task": text, "size": count, "num_agents": count, "needs_wait": Value("bool")}
    return Dataset.from_dict(columns, features=Features(kinds))


def tasks_of(dataset: Iterable[Mapping[str, Any]]) -> list[Task]:
    """Returns the tasks of a dataset that `to_dataset` made, possibly filtered, shuffled, or with more columns.

    Raises:
        ValueError: Names the row and the key; also if a plan is not valid on its board.
    """
    return [task_of(row.get("task"), f"row {number}") for number, row in enumerate(dataset)]


def task_of(text: Any, where: str) -> Task:
    """Returns the task in the column `task` of one row; ValueError begins with `where`."""
    if not isinstance(text, str):
        raise ValueError(f"{where}: task: {shown(text)} is not the JSON text that to_dataset writes")
    try:
        task = loads(text)
    except ValueError as error:
        raise ValueError(f"{where}: task: {error}") from None
    return from_json(Task, task, where)
