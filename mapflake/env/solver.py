"""Optimal plans, exactly: `solve` for the makespan or the sum of costs, and `needs_wait`.

Never looks at a clock and draws no random numbers: the same instance gives the same plan on every machine.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from mapflake.env.instance import Cell, Instance, Plan
from mapflake.env.joint import BudgetExceeded, joint_search

__all__ = ["NODE_BUDGET", "OBJECTIVES", "BudgetExceeded", "Solution", "Unsolvable", "distances", "needs_wait", "solve"]

OBJECTIVES = ("makespan", "sum_of_costs")

NODE_BUDGET = 50_000
"""Default limit of search nodes."""


class Unsolvable(Exception):
    """The instance has no plan; this is proven."""


@dataclass(frozen=True)
class Solution:
    """A plan that is optimal for the objective asked, with both of its costs.

    Attributes:
        plan: One string of moves for each agent, without trailing waits.
        makespan: Joint moves until all agents are on their goals for good.
        sum_of_costs: Sum over agents of the time of their last arrival.
    """

    plan: Plan
    makespan: int
    sum_of_costs: int


def distances(instance: Instance, goal: Cell) -> dict[Cell, int]:
    """Returns the number of moves to `goal` from every cell that can reach it, other agents aside."""
    found = {goal: 0}
    frontier = [goal]
    for cell in frontier:
        for there in ((cell[0] - 1, cell[1]), (cell[0] + 1, cell[1]), (cell[0], cell[1] - 1), (cell[0], cell[1] + 1)):
            if there not in found and instance.is_free(there):
                found[there] = found[cell] + 1
                frontier.append(there)
    return found


def solve(instance: Instance, objective: str = "makespan", node_budget: int = NODE_BUDGET) -> Solution:
    """Returns an optimal plan.

    Args:
        instance: The board.
        objective: "makespan" or "sum_of_costs".
        node_budget: Search nodes that may be expanded.

    Raises:
        Unsolvable: There is no plan.
        BudgetExceeded: The budget is spent and nothing is known.
        ValueError: Unknown objective.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective: {objective!r} is none of {', '.join(OBJECTIVES)}")
    tables = _tables(instance)
    path, _ = joint_search(
        *tables, sum_of_costs=objective == "sum_of_costs", waits=True, bound=None, budget=node_budget
    )
    if path is None:
        raise Unsolvable("no plan brings all agents to their goals")
    return _solution(instance, path)


def needs_wait(instance: Instance, node_budget: int = NODE_BUDGET) -> bool:
    """Returns True if no plan of optimal sum of costs is without a wait before an agent's last arrival.

    Raises:
        Unsolvable: There is no plan at all.
        BudgetExceeded: The budget is spent and nothing is known.
    """
    tables = _tables(instance)
    best = solve(instance, "sum_of_costs", node_budget).sum_of_costs
    _, starts, _, far = tables
    excess = best - sum(table[start] for table, start in zip(far, starts, strict=True))
    if excess == 0:
        return False
    if excess % 2:
        return True
    path, _ = joint_search(*tables, sum_of_costs=True, waits=False, bound=best, budget=node_budget)
    return path is None


def _tables(
    instance: Instance,
) -> tuple[list[tuple[int, ...]], tuple[int, ...], tuple[int, ...], list[list[int]]]:
    size = instance.size
    neighbours: list[tuple[int, ...]] = []
    for row in range(size):
        for col in range(size):
            near = ((row - 1, col), (row + 1, col), (row, col - 1), (row, col + 1))
            neighbours.append(tuple(r * size + c for r, c in near if instance.is_free((r, c))))
    starts = tuple(r * size + c for r, c in instance.starts)
    goals = tuple(r * size + c for r, c in instance.goals)
    far = []
    for goal in instance.goals:
        table = [-1] * (size * size)
        for (row, col), distance in distances(instance, goal).items():
            table[row * size + col] = distance
        far.append(table)
    return neighbours, starts, goals, far


def _solution(instance: Instance, path: list[tuple[int, ...]]) -> Solution:
    size = instance.size
    letters = {-size: "U", size: "D", -1: "L", 1: "R", 0: "W"}
    moves = []
    for agent in range(instance.num_agents):
        track = [cells[agent] for cells in path]
        moves.append("".join(letters[b - a] for a, b in itertools.pairwise(track)).rstrip("W"))
    return Solution(Plan(tuple(moves)), max(map(len, moves)), sum(map(len, moves)))
