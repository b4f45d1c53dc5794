"""The environment for other frameworks: thin, optional, and each scores an answer as `judge` and `reward` do.

    parallel_env   PettingZoo: the same boards played step by step
    inspect_task   inspect-ai: `inspect eval mapflake/frozenlake`
    taskset        verifiers, interface v1: `vf-eval mapflake`

For TRL there is nothing to adapt: `to_dataset` makes the rows and `reward_functions` scores them, both of
`mapflake.env`. What a module here needs is imported with it alone, and said if it is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mapflake.env import EnvConfig, Task, generate, load_tasks


@contextmanager
def needs(install: str) -> Iterator[None]:
    """Turns an import that fails within into an ImportError that says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        raise ImportError(f"{package} is not installed: {install}") from error


def boards(
    tasks: str = "",
    *,
    n: int = 100,
    sizes: tuple[int, ...] = (3, 4, 5, 6),
    num_agents: int = 2,
    hole_ratio: float = 0.2,
    wait_ratio: float = 0.5,
    seed: int = 0,
    split: str = "benchmark",
) -> list[Task]:
    """Returns the tasks of the file `tasks` (`save_tasks`), or draws `n` if there is none.

    Raises:
        GenerationError: No board was found for a task.
        ValueError: Names what is out of range, or the line that cannot be read.
    """
    if tasks:
        return load_tasks(tasks)
    return generate(EnvConfig.uniform(sizes, hole_ratio, wait_ratio, num_agents), n, seed=seed, split=split)
