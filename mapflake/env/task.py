"""Tasks: a board with its answer; judging a completion against it, its images, and files of tasks.

`needs_wait` and the best sum of costs belong to the board, the plan is one of optimal makespan (the paper's optimal
rate speaks of the makespan). Files are JSONL with the schema in the first line; plans are verified as they are
read, that they are optimal is believed. Not covered: `datasets` and Parquet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mapflake.env.config import only_keys
from mapflake.env.instance import Instance, Plan, transform
from mapflake.env.solver import Solution, analyse
from mapflake.env.text import PlanParseError, parse_completion
from mapflake.env.verifier import Verdict, Violation, check
from mapflake.repro import read_jsonl, shown, write_jsonl

SCHEMA = "mapflake.tasks/1"
MAX_PLAN = 1_000_000  # moves of all agents, waits included; far beyond any plan worth checking


@dataclass(frozen=True)
class Task:
    """One board with its answer.

    Attributes:
        instance: The board.
        solution: A plan of optimal makespan.
        needs_wait: No plan of optimal sum of costs does without a wait, see `needs_wait`.
        best_sum_of_costs: The optimal sum of costs; that of `solution` may be larger.
    """

    instance: Instance
    solution: Solution
    needs_wait: bool
    best_sum_of_costs: int

    @classmethod
    def of(cls, instance: Instance) -> Task:
        """Returns the task of an instance of your own; raises what `solve` raises."""
        found = analyse(instance)
        return cls(instance, found.solution, found.needs_wait, found.best_sum_of_costs)

    def _repr_svg_(self) -> str:
        return self.instance.to_svg(self.solution.plan)

    def to_dict(self) -> dict[str, Any]:
        """Returns the task as JSON values; `from_dict` reads them back."""
        return {
            "instance": self.instance.to_dict(),
            "plan": list(self.solution.plan.moves),
            "makespan": self.solution.makespan,
            "sum_of_costs": self.solution.sum_of_costs,
            "needs_wait": self.needs_wait,
            "best_sum_of_costs": self.best_sum_of_costs,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Task:
        """Returns the task that `to_dict` wrote.

        Raises:
            ValueError: Names the key; also if the plan is not valid or its costs are not those recorded.
        """
        keys = ("instance", "plan", "makespan", "sum_of_costs", "needs_wait", "best_sum_of_costs")
        only_keys(data, "task", keys, ())
        for key in ("makespan", "sum_of_costs", "best_sum_of_costs"):
            if type(data[key]) is not int or data[key] < 0:
                raise ValueError(f"{key}: {shown(data[key])} is not a count")
        if type(data["needs_wait"]) is not bool:
            raise ValueError(f"needs_wait: {shown(data['needs_wait'])} is not true or false")
        if not isinstance(data["plan"], list) or not all(isinstance(moves, str) for moves in data["plan"]):
            raise ValueError(f"plan: {shown(data['plan'])} is not a list of strings")
        if not isinstance(data["instance"], Mapping):
            raise ValueError(f"instance: {shown(data['instance'])} is not an object")
        try:
            instance = Instance.from_dict(data["instance"])
        except ValueError as error:
            raise ValueError(f"instance: {error}") from None
        plan = Plan(tuple(data["plan"]))
        if plan.horizon * instance.num_agents > MAX_PLAN:
            raise ValueError(f"plan: {plan.horizon} moves of {instance.num_agents} agents are more than {MAX_PLAN}")
        verdict = check(instance, plan)
        if not verdict.valid:
            raise ValueError(f"plan: {shown(data['plan'])} is not valid ({', '.join(verdict.kinds)})")
        for key in ("makespan", "sum_of_costs"):
            if data[key] != getattr(verdict, key):
                raise ValueError(f"{key}: {data[key]} but the plan has {getattr(verdict, key)}")
        solution = Solution(plan, data["makespan"], data["sum_of_costs"])
        return cls(instance, solution, data["needs_wait"], data["best_sum_of_costs"])


def transform_task(task: Task, k: int = 0, agent_order: Sequence[int] | None = None) -> Task:
    """Returns the image of a task under a symmetry of the square and a renaming of agents, see `transform`.

    Its plan is as optimal as before, and it belongs to the same split; use it to augment demonstrations.
    """
    instance, plan = transform(task.instance, task.solution.plan, k, agent_order)
    if plan is None:  # cannot be: a plan went in
        raise ValueError("the task has no plan")
    return replace(task, instance=instance, solution=replace(task.solution, plan=plan))


def judge(task: Task, completion: str, prompt_format: str = "chat") -> Verdict:
    """Returns the verdict on a model's answer, also of a wrong or hostile one: text never raises.

    Raises:
        ValueError: Unknown prompt_format, or the completion is no string.
    """
    return judge_completion(task, completion, prompt_format)[1]


def judge_completion(task: Task, completion: str, prompt_format: str = "chat") -> tuple[Plan | None, Verdict]:
    """Returns the plan that a model wrote, None if there is none, and the verdict on it; raises what `judge` raises."""
    if not isinstance(completion, str):
        raise ValueError(f"completion: {type(completion).__name__} is not a string")
    try:
        plan = parse_completion(completion, task.instance.num_agents, prompt_format)
    except PlanParseError:
        return None, Verdict((Violation("parse"),))
    return plan, judge_plan(task, plan)


def judge_plan(task: Task, plan: Plan) -> Verdict:
    """Returns the verdict of `check`, with the word of the task's answer on whether a valid plan is optimal."""
    verdict = check(task.instance, plan)
    if not verdict.valid:
        return verdict
    return replace(
        verdict,
        optimal=verdict.makespan == task.solution.makespan,
        soc_optimal=verdict.sum_of_costs == task.best_sum_of_costs,
    )


def naive_plan_fails(instance: Instance) -> bool:
    """Returns True if the plan of an agent that sees neither holes nor others is not valid.

    Each agent first goes up or down, then left or right, straight to its goal. About half of all natural boards
    are solved that way; a policy that learns from boards as they fall stays there.
    """
    moves = []
    for (row, col), (to_row, to_col) in zip(instance.starts, instance.goals, strict=True):
        down, right = to_row - row, to_col - col
        moves.append("D" * down + "U" * -down + "R" * right + "L" * -right)
    return not check(instance, Plan(tuple(moves))).valid


def save_tasks(path: str | Path, tasks: Iterable[Task]) -> None:
    """Writes tasks as JSONL, a first line with the schema and then one task a line; atomic."""
    write_jsonl(path, [{"schema": SCHEMA}, *(task.to_dict() for task in tasks)])


def load_tasks(path: str | Path) -> list[Task]:
    """Returns the tasks of a file that `save_tasks` wrote.

    Raises:
        ValueError: Names file, line and key.
    """
    rows = read_jsonl(path)
    if not rows or rows[0] != {"schema": SCHEMA}:
        found = rows[0].get("schema") if rows else "nothing"
        raise ValueError(f"{path}, line 1: expected schema {SCHEMA!r}, found {shown(found)}")
    tasks = []
    for number, row in enumerate(rows[1:], start=2):
        try:
            tasks.append(Task.from_dict(row))
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
    return tasks
