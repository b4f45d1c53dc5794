"""Boards as an inspect-ai task: `inspect eval mapflake/frozenlake --model openai/gpt-5 -T n=50`.

Every sample is one board in words, answered in one turn and scored by `judge`: `reward` (0, 0.5, 1), and as rates with
their standard errors `valid`, `optimal` and `soc_optimal`; the explanation names the checks that failed. Not covered:
tools, several turns, confidence intervals paired by board (`mapflake.trainer.evaluate` has these).
"""

from __future__ import annotations

from mapflake.env import EnvConfig, Task, format_plan, generate, judge, load_tasks, render_prompt, reward
from mapflake.extras import needs
from mapflake.repro import from_json, shown, to_json

with needs("inspect"):
    import inspect_ai
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
    from inspect_ai.solver import TaskState

FIELDS = ("valid", "optimal", "soc_optimal")


@inspect_ai.task
def frozenlake(
    tasks: str = "",
    prompt_format: str = "chat",
    n: int = 100,
    sizes: str | int | list[int] = "3,4,5,6",
    num_agents: int = 2,
    hole_ratio: float = 0.2,
    wait_ratio: float = 0.5,
    seed: int = 0,
) -> inspect_ai.Task:
    """Returns the task over the boards of a file that `save_tasks` wrote, or over `n` boards of the benchmark split.

    With a file only `prompt_format` is used of the other arguments. `sizes` (`-T sizes=4,5` on the command line) have
    equal shares; the ratios are those of `EnvConfig.uniform`.

    Raises:
        ValueError: An argument is out of range, or a line of the file cannot be read; names it.
    """
    # `-T sizes=4` comes as a number, `-T sizes=4,5` as a list or as text
    parts = sizes.split(",") if isinstance(sizes, str) else [*sizes] if isinstance(sizes, list | tuple) else [sizes]
    if tasks:
        chosen = load_tasks(tasks)
    else:
        try:
            chosen_sizes = [int(part) if isinstance(part, str) else part for part in parts]
        except ValueError:
            raise ValueError(f"sizes: {shown(sizes)} is not one or more sizes, as in 4,5") from None
        config = EnvConfig.uniform(chosen_sizes, hole_ratio, wait_ratio, num_agents)
        chosen = generate(config, n, seed=seed, split="benchmark")
    samples = [
        Sample(
            input=render_prompt(task.instance, prompt_format),
            target=format_plan(task.instance, task.solution.plan, prompt_format),
            metadata={"task": to_json(task), "prompt_format": prompt_format},
        )
        for task in chosen
    ]
    return inspect_ai.Task(
        dataset=MemoryDataset(samples, name="frozenlake"), solver=inspect_ai.solver.generate(), scorer=verdict()
    )


@scorer(metrics={"*": [mean(), stderr()]})
def verdict() -> Scorer:
    """Returns the scorer: `judge` on the completion; the task itself is in the sample's metadata."""

    async def score(state: TaskState, target: Target) -> Score:
        task = from_json(Task, state.metadata["task"], "task")
        result = judge(task, state.output.completion, state.metadata["prompt_format"])
        return Score(
            value={"reward": reward(result)} | {name: float(getattr(result, name)) for name in FIELDS},
            answer=state.output.completion,
            explanation=f"fails: {', '.join(result.kinds)}" if result.kinds else f"valid, makespan {result.makespan}",
        )

    return score
