"""Optimal plans, exactly: `solve` for the makespan or the sum of costs, `needs_wait`, and `analyse` for all of it.

Never looks at a clock and draws no random numbers: the same instance gives the same plan on every machine. The search,
in exact/, is an increasing-cost-tree search with pair tables (search.py, costs.py), with A* over joint states for small
crowded boards (joint.py); boards up to 10x10 with up to 10 agents take its compiled form (kernel.py), all others the
Python. An instance without a plan is proven so, or BudgetExceeded is raised.

Among plans of optimal makespan one with the least sum of costs is returned, and the other way round, unless that
search grew out of proportion (`_fewest_moves` in search.py). Which of these plans it is, groups.py pins down. The paper
takes its ground truth from Conflict-Based Search; any exact solver has the same costs. Not covered: bounded-suboptimal
search.
"""

from __future__ import annotations

from dataclasses import dataclass

from mapflake.env.exact import kernel
from mapflake.env.exact.costs import BudgetExceeded
from mapflake.env.exact.search import (
    ANALYSE,
    APART,
    BUDGET,
    MAKESPAN,
    NEEDS_WAIT,
    PAIR,
    SOLVED,
    SUM_OF_COSTS,
    Answer,
    search,
)
from mapflake.env.instance import Cell, Instance, Plan

__all__ = [
    "NODE_BUDGET",
    "OBJECTIVES",
    "Analysis",
    "BudgetExceeded",
    "Solution",
    "Unsolvable",
    "analyse",
    "distances",
    "needs_wait",
    "solve",
]

OBJECTIVES = {"makespan": MAKESPAN, "sum_of_costs": SUM_OF_COSTS}

NODE_BUDGET = 1_000_000
"""Default limit of search nodes (table rows of pairs, joint states). Compiled, a million took 0.1 to 0.6 s on average
over crowded boards, at worst 2.6 s (a shared core of an AMD EPYC)."""


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


@dataclass(frozen=True)
class Analysis:
    """All that is known of an instance after solving it.

    Attributes:
        solution: Of optimal makespan, as `solve(instance)` returns it.
        best_sum_of_costs: As of `solve(instance, "sum_of_costs")`.
        needs_wait: As `needs_wait(instance)` returns it.
    """

    solution: Solution
    best_sum_of_costs: int
    needs_wait: bool


def solve(instance: Instance, objective: str = "makespan", node_budget: int = NODE_BUDGET) -> Solution:
    """Returns an optimal plan.

    Args:
        instance: The board.
        objective: "makespan" or "sum_of_costs".
        node_budget: Search nodes that may be visited; decides alone how long this can take.

    Raises:
        Unsolvable: There is no plan.
        BudgetExceeded: The budget is spent and nothing is known.
        ValueError: Unknown objective.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective: {objective!r} is none of {', '.join(OBJECTIVES)}")
    return solution_of(_ask(instance, OBJECTIVES[objective], node_budget))


def needs_wait(instance: Instance, node_budget: int = NODE_BUDGET) -> bool:
    """Returns True if no plan of optimal sum of costs is without a wait before an agent's last arrival.

    By parity: an agent that never waits takes as many moves as its distance, or 2, 4, ... more. So an optimum equal
    to the sum of distances needs no wait, one that is odd above it does, and only an even one above it takes a
    search.

    Raises:
        Unsolvable: There is no plan at all.
        BudgetExceeded: The budget is spent and nothing is known.
    """
    return _ask(instance, NEEDS_WAIT, node_budget).needs_wait


def analyse(instance: Instance, node_budget: int = NODE_BUDGET) -> Analysis:
    """Returns the makespan-optimal solution, the optimal sum of costs and the wait label, from one search.

    Raises:
        Unsolvable: There is no plan.
        BudgetExceeded: The budget is spent and nothing is known.
    """
    found = _ask(instance, ANALYSE, node_budget)
    return Analysis(solution_of(found), found.best_sum, found.needs_wait)


def distances(instance: Instance, goal: Cell) -> dict[Cell, int]:
    """Returns the number of moves to `goal` from every cell that can reach it, other agents aside."""
    if not instance.is_free(goal):
        return {}
    found = {goal: 0}
    frontier = [goal]
    for cell in frontier:
        for there in ((cell[0] - 1, cell[1]), (cell[0] + 1, cell[1]), (cell[0], cell[1] - 1), (cell[0], cell[1] + 1)):
            if there not in found and instance.is_free(there):
                found[there] = found[cell] + 1
                frontier.append(there)
    return found


def answer(instance: Instance, what: int, budget: int) -> Answer:
    """Returns what the search found, whatever its status: for those who count what cannot be solved."""
    width = instance.size + 1
    holes = 0
    for row, col in instance.holes:
        holes |= 1 << (row + 1) * width + col
    starts = [(row + 1) * width + col for row, col in instance.starts]
    goals = [(row + 1) * width + col for row, col in instance.goals]
    find = kernel.search if kernel.takes(instance.size, len(starts)) else search
    return find(instance.size, holes, starts, goals, what, budget)


def _ask(instance: Instance, what: int, budget: int) -> Answer:
    found = answer(instance, what, budget)
    if found.status == SOLVED:
        return found
    if found.status == BUDGET:
        raise BudgetExceeded(f"no answer within {budget} nodes")
    if found.status == APART:
        agent = found.agents[0]
        raise Unsolvable(
            f"no plan: holes part agent {agent} at {instance.starts[agent]} from its goal {instance.goals[agent]}"
        )
    if found.status == PAIR:
        raise Unsolvable("no plan: agents {} and {} can never both be on their goals".format(*found.agents))
    raise Unsolvable("no plan brings all agents to their goals")


def solution_of(answer: Answer) -> Solution:
    """Returns the solution in the answer of a search."""
    costs = [len(moves) for moves in answer.moves]
    return Solution(Plan(answer.moves), max(costs), sum(costs))
