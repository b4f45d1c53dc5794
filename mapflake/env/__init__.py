"""MAPF-FrozenLake: boards, an exact solver, a verifier, two prompt formats, a generator. Imports no torch."""

from mapflake.env.benchmark import benchmark_sets
from mapflake.env.config import DIMENSIONS, Dimension, EnvConfig, SizeConfig, cells_needed, num_holes
from mapflake.env.dataset import save_shards, tasks_of, to_dataset
from mapflake.env.generator import SPLITS, Census, GenerationError, apportion, census, generate, split_of
from mapflake.env.instance import MOVES, Cell, Instance, Plan, execute, symmetries, transform
from mapflake.env.maps import GridMap, read_board, read_map, read_scenario
from mapflake.env.rewards import REWARD, reward, reward_functions
from mapflake.env.solver import Analysis, BudgetExceeded, Solution, Unsolvable, analyse, distances, needs_wait, solve
from mapflake.env.task import (
    Task,
    judge,
    judge_completion,
    judge_plan,
    load_tasks,
    naive_plan_fails,
    save_tasks,
    transform_task,
)
from mapflake.env.text import PROMPT_FORMATS, VOCABULARY, PlanParseError, format_plan, parse_completion, render_prompt
from mapflake.env.verifier import KINDS, Verdict, Violation, check

__all__ = [
    "DIMENSIONS",
    "KINDS",
    "MOVES",
    "PROMPT_FORMATS",
    "REWARD",
    "SPLITS",
    "VOCABULARY",
    "Analysis",
    "BudgetExceeded",
    "Cell",
    "Census",
    "Dimension",
    "EnvConfig",
    "GenerationError",
    "GridMap",
    "Instance",
    "Plan",
    "PlanParseError",
    "SizeConfig",
    "Solution",
    "Task",
    "Unsolvable",
    "Verdict",
    "Violation",
    "analyse",
    "apportion",
    "benchmark_sets",
    "cells_needed",
    "census",
    "check",
    "distances",
    "execute",
    "format_plan",
    "generate",
    "judge",
    "judge_completion",
    "judge_plan",
    "load_tasks",
    "naive_plan_fails",
    "needs_wait",
    "num_holes",
    "parse_completion",
    "read_board",
    "read_map",
    "read_scenario",
    "render_prompt",
    "reward",
    "reward_functions",
    "save_shards",
    "save_tasks",
    "solve",
    "split_of",
    "symmetries",
    "tasks_of",
    "to_dataset",
    "transform",
    "transform_task",
]

careless_fails = naive_plan_fails  # the old name, until its users are renamed
