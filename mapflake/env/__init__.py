"""MAPF-FrozenLake: boards, an exact solver, a verifier, three prompt formats, a generator. Imports no torch."""

from mapflake.env.benchmark import benchmark_sets
from mapflake.env.config import DIMENSIONS, Dimension, EnvConfig, SizeConfig, cells_needed, num_holes
from mapflake.env.dataset import tasks_of, to_dataset
from mapflake.env.generator import BoardStatistics, GenerationError, board_statistics, generate
from mapflake.env.instance import MOVES, Cell, Instance, Plan, distances, execute, transform
from mapflake.env.maps import GridMap, read_board, read_map, read_scenario
from mapflake.env.rewards import REWARD, reward, reward_functions
from mapflake.env.shares import apportion
from mapflake.env.solver import BudgetExceeded, Solution, Unsolvable, needs_wait, solve
from mapflake.env.splits import SPLITS, split_of
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
    "BoardStatistics",
    "BudgetExceeded",
    "Cell",
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
    "apportion",
    "benchmark_sets",
    "board_statistics",
    "cells_needed",
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
    "save_tasks",
    "solve",
    "split_of",
    "tasks_of",
    "to_dataset",
    "transform",
    "transform_task",
]
