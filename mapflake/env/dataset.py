"""Tasks as a Hugging Face `datasets.Dataset`, and sets too large for one process or one host.

A task depends on its index and not on the process that draws it. So a set is cut into shards of consecutive tasks, and
the files are the same for any number of processes. On several hosts every job writes its own slice with `generate` and
`save_tasks`, here as a Slurm array (`sbatch --array=0-63 ...`); docs/scale.md has the same as a Ray task.

    job, jobs = int(os.environ["SLURM_ARRAY_TASK_ID"]), 64
    mine = range(n * job // jobs, n * (job + 1) // jobs)
    save_tasks(f"boards/{job:05d}.jsonl", generate(config, n, seed=0, indices=mine))

Not covered: streaming; Parquet, which `to_dataset(load_tasks(path)).to_parquet` writes. `datasets` is imported when it
is needed: that takes longer than all of `mapflake.env`.
"""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from mapflake.env.config import EnvConfig
from mapflake.env.generator import generate
from mapflake.env.task import Task, save_tasks
from mapflake.env.text import check_prompt_format, render_prompt
from mapflake.repro import dumps, from_json, loads, to_json

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
    from datasets import Dataset, Features, Value

    tasks = list(tasks)
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
    return [task_of(row.get("task", ""), f"row {number}") for number, row in enumerate(dataset)]


def task_of(text: str, where: str) -> Task:
    """Returns the task in the column `task` of one row; ValueError begins with `where`."""
    try:
        task = loads(text)
    except ValueError as error:
        raise ValueError(f"{where}: task: {error}") from None
    return from_json(Task, task, where)


def save_shards(
    folder: str | Path,
    config: EnvConfig,
    n: int,
    *,
    seed: int,
    split: str = "train",
    shard_size: int = 1000,
    num_proc: int = 1,
) -> list[Path]:
    """Writes the tasks of `generate(config, n, seed=seed, split=split)` in `num_proc` processes and returns the files.

    They are `00000.jsonl`, `00001.jsonl`, ... in `folder`, which is made if missing, with `shard_size` tasks each; the
    last may have fewer.

    Raises:
        GenerationError: No board was found for a task.
        ValueError: Something is out of range, or the folder has shards.
    """
    for name, value in (("shard_size", shard_size), ("num_proc", num_proc)):
        if type(value) is not int or value < 1:
            raise ValueError(f"{name}: {value!r} is not an integer from 1")
    drawn = functools.partial(generate, config, n, seed=seed, split=split)
    drawn(indices=())  # raises if the call is not legal
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if there := sorted(path.name for path in folder.glob("*.jsonl")):
        raise ValueError(f"folder: {folder} has {there[0]} already: remove it, or write elsewhere")
    shards = [range(n)[first : first + shard_size] for first in range(0, n, shard_size)]
    paths = [folder / f"{number:05d}.jsonl" for number in range(len(shards))]
    # Forked processes know the custom dimensions of this one.
    with multiprocessing.get_context("fork").Pool(num_proc) as pool:
        done = pool.imap(functools.partial(_save_shard, drawn), zip(paths, shards, strict=True))
        return list(tqdm(done, desc="shards", total=len(shards)))


def _save_shard(drawn: Callable[..., list[Task]], shard: tuple[Path, range]) -> Path:
    path, indices = shard
    save_tasks(path, drawn(indices=indices))
    return path
