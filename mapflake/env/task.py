"""Tasks: a board with its answer; judging a completion against it, its images, and files of tasks.

`needs_wait` and the best sum of costs belong to the board, the plan is one of optimal makespan (the paper's optimal
rate is about the makespan). Files are JSONL with the schema in the first line and then one task a line, as
`repro.to_json` writes it (docs/environment.md). Plans are verified as they are read; that they are optimal is believed.
Not covered: `datasets` and Parquet (dataset.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from pydantic import ConfigDict, model_validator

from mapflake.env.instance import DELTAS, MOVES, Instance, Plan, image, transform
from mapflake.env.plain import ANALYSE
from mapflake.env.solver import Solution, ask, solution_of
from mapflake.env.text import PlanParseError, parse_completion
from mapflake.env.verifier import Verdict, Violation, check
from mapflake.repro import from_json, read_jsonl, shown, to_json, write_jsonl

SCHEMA = "mapflake.tasks/2"
MAX_PLAN = 1_000_000  # moves of all agents, waits included; far beyond any plan worth checking


@dataclass(frozen=True)
class Task:
    """One board with its answer.

    Attributes:
        instance: The board.
        solution: A plan of optimal makespan.
        needs_wait: Whether every plan of optimal sum of costs has a wait, see `needs_wait`.
        best_sum_of_costs: The optimal sum of costs; that of `solution` may be larger.
    """

    instance: Instance
    solution: Solution
    needs_wait: bool
    best_sum_of_costs: int

    __pydantic_config__ = ConfigDict(extra="forbid")

    @classmethod
    def of(cls, instance: Instance) -> Task:
        """Returns the task of an instance of your own; with the errors of `solve`."""
        answer = ask(instance, ANALYSE)
        return cls(instance, solution_of(answer), answer.needs_wait, answer.best_sum)

    def _repr_png_(self) -> bytes | None:
        return self.instance._repr_png_(self.solution.plan)

    @model_validator(mode="after")
    def _verified(self) -> Self:
        """Returns the task that was read; ValueError if its plan is not valid or its costs are not the plan's."""
        plan, agents = self.solution.plan, self.instance.num_agents
        if plan.horizon * agents > MAX_PLAN:
            raise ValueError(f"plan: {plan.horizon} moves of {agents} agents are more than {MAX_PLAN}")
        verdict = check(self.instance, plan)
        if not verdict.valid:
            raise ValueError(f"plan: {shown(plan.moves)} is not valid ({', '.join(verdict.kinds)})")
        for key in ("makespan", "sum_of_costs"):
            if getattr(self.solution, key) != getattr(verdict, key):
                raise ValueError(f"{key}: {getattr(self.solution, key)} but the plan has {getattr(verdict, key)}")
        if not 0 <= self.best_sum_of_costs <= self.solution.sum_of_costs:
            raise ValueError(f"best_sum_of_costs: {shown(self.best_sum_of_costs)} is not in 0..{verdict.sum_of_costs}")
        return self


def listed_tasks(tasks: Iterable[Task]) -> list[Task]:
    """Returns tasks as a list; ValueError, which shows it, if one is none."""
    tasks = list(tasks)
    if wrong := [task for task in tasks if not isinstance(task, Task)]:
        raise ValueError(f"tasks: {shown(wrong[0])} is not a Task (Task.of makes one of a board)")
    return tasks


def transform_task(task: Task, k: int = 0, agent_order: Sequence[int] | None = None) -> Task:
    """Returns the image of a task under a symmetry of the square and a renaming of agents, see `transform`.

    Its plan is as optimal as before, and it belongs to the same split.
    """
    instance, moves = transform(task.instance, k, agent_order), task.solution.plan.moves
    order = range(len(moves)) if agent_order is None else agent_order
    translation = str.maketrans({m: next(n for n in MOVES if DELTAS[n] == image(d, 1, k)) for m, d in DELTAS.items()})
    plan = Plan(tuple(moves[agent].translate(translation) for agent in order))
    return replace(task, instance=instance, solution=replace(task.solution, plan=plan))


def judge(task: Task, completion: str, prompt_format: str = "chat") -> Verdict:
    """Returns the verdict on a model's answer, also of a wrong or hostile one: text never raises.

    Raises:
        ValueError: Unknown prompt_format, or the completion is no string.
    """
    return judge_completion(task, completion, prompt_format)[1]


def judge_completion(task: Task, completion: str, prompt_format: str = "chat") -> tuple[Plan | None, Verdict]:
    """Returns the plan in a model's answer, None where none can be parsed, and the verdict on it; see `judge`."""
    if not isinstance(completion, str):
        raise ValueError(f"completion: {type(completion).__name__} is not a string")
    try:
        plan = parse_completion(completion, task.instance.num_agents, prompt_format)
    except PlanParseError:
        return None, Verdict((Violation("parse"),))
    return plan, judge_plan(task, plan)


def judge_plan(task: Task, plan: Plan) -> Verdict:
    """Returns the verdict of `check`, completed by whether a valid plan is optimal for the task."""
    verdict = check(task.instance, plan)
    if not verdict.valid:
        return verdict
    return replace(
        verdict,
        optimal=verdict.makespan == task.solution.makespan,
        soc_optimal=verdict.sum_of_costs == task.best_sum_of_costs,
    )


def naive_plan_fails(instance: Instance) -> bool:
    """Returns True if a plan that sees neither holes nor other agents is not valid: up or down, then left or right.

    That plan solves about half of all unconstrained boards, and a policy that learns from those does not learn more.
    """
    moves = []
    for (row, col), (to_row, to_col) in zip(instance.starts, instance.goals, strict=True):
        down, right = to_row - row, to_col - col
        moves.append("D" * down + "U" * -down + "R" * right + "L" * -right)
    return not check(instance, Plan(tuple(moves))).valid


def save_tasks(path: str | Path, tasks: Iterable[Task]) -> None:
    """Writes tasks as JSONL, a first line with the schema and then one task a line; atomic.

    Raises:
        ValueError: One is no task; nothing is written.
    """
    write_jsonl(path, [{"schema": SCHEMA}, *map(to_json, listed_tasks(tasks))])


def load_tasks(path: str | Path) -> list[Task]:
    """Returns the tasks of a file that `save_tasks` wrote.

    Raises:
        ValueError: Names file, line and key.
    """
    rows = read_jsonl(path, whole=True)
    if not rows or rows[0] != {"schema": SCHEMA}:
        schema = rows[0].get("schema") if rows else "nothing"
        raise ValueError(f"{path}, line 1: expected schema {SCHEMA!r}, found {shown(schema)}")
    return [from_json(Task, row, f"{path}, line {number}") for number, row in enumerate(rows[1:], start=2)]
