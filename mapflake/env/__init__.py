"""MAPF-FrozenLake: boards, an exact solver, a verifier, two text dialects, a generator. Imports no torch."""

from mapflake.env.generator import (
    SPLITS,
    EnvConfig,
    GenerationError,
    SizeConfig,
    Task,
    careless_fails,
    generate,
    judge,
    load_tasks,
    save_tasks,
    split_of,
    transform_task,
)
from mapflake.env.instance import MOVES, Cell, Instance, Plan, execute, symmetries, transform
from mapflake.env.solver import BudgetExceeded, Solution, Unsolvable, distances, needs_wait, solve
from mapflake.env.text import DIALECTS, VOCABULARY, PlanParseError, format_plan, parse_completion, render_prompt
from mapflake.env.verifier import KINDS, Verdict, Violation, check

__all__ = [
    "DIALECTS",
    "KINDS",
    "MOVES",
    "SPLITS",
    "VOCABULARY",
    "BudgetExceeded",
    "Cell",
    "EnvConfig",
    "GenerationError",
    "Instance",
    "Plan",
    "PlanParseError",
    "SizeConfig",
    "Solution",
    "Task",
    "Unsolvable",
    "Verdict",
    "Violation",
    "careless_fails",
    "check",
    "distances",
    "execute",
    "format_plan",
    "generate",
    "judge",
    "load_tasks",
    "needs_wait",
    "parse_completion",
    "render_prompt",
    "save_tasks",
    "solve",
    "split_of",
    "symmetries",
    "transform",
    "transform_task",
]
