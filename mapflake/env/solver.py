"""Optimal plans, exactly: `solve` for the makespan or the sum of costs, `needs_wait`, and `analyse` for all of it.

Never looks at a clock and draws no random numbers: the same instance gives the same plan on every machine. Most boards
are settled by the preferred shortest paths of the agents; the others by asking for cost vectors (costs.py) in
the order of their sum; dense boards where that is hopeless by A* over joint states (joint.py). Instances without a
plan are proven so (agents apart, pairs exhausted, joint states exhausted), or BudgetExceeded is raised.

Among plans of optimal makespan one with the least sum of costs is returned, and the other way round, unless that
search grew out of proportion (`_allowance`). Which of these plans it is, costs.py pins down. The paper takes its ground
truth from Conflict-Based Search; any exact solver has the same costs. Not covered: bounded-suboptimal search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from mapflake.env.costs import BudgetExceeded, CostSearch, Path
from mapflake.env.instance import Cell, Instance, Plan
from mapflake.env.joint import joint_search

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

OBJECTIVES = ("makespan", "sum_of_costs")

NODE_BUDGET = 200_000
"""Default limit of search nodes: table rows of pairs and joint states."""

_SMALL_EXCESS = 2  # tried before asking whether there is a plan at all
_PATIENCE = 4  # nodes of the search for costs that take as long as one joint state
_SMALL_SPACE = 200_000  # joint states that may be worth exhausting


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
    search = _search(instance, node_budget)
    paths = _independent(search)
    if paths is None:
        paths = _best_makespan(search)[0] if objective == "makespan" else _best_sum(search)
    return _solution(search, paths)


def needs_wait(instance: Instance, node_budget: int = NODE_BUDGET) -> bool:
    """Returns True if no plan of optimal sum of costs is without a wait before an agent's last arrival.

    By parity: an agent that never waits takes as many moves as its distance, or 2, 4, ... more. So an optimum equal
    to the sum of distances needs no wait, one that is odd above it does, and only an even one above it takes a
    search.

    Raises:
        Unsolvable: There is no plan at all.
        BudgetExceeded: The budget is spent and nothing is known.
    """
    search = _search(instance, node_budget)
    if _independent(search) is not None:
        return False
    return _waits(search, _excess(search, _best_sum(search)))


def analyse(instance: Instance, node_budget: int = NODE_BUDGET) -> Analysis:
    """Returns the makespan-optimal solution, the optimal sum of costs and the wait label, from one search.

    Raises:
        Unsolvable: There is no plan.
        BudgetExceeded: The budget is spent and nothing is known.
    """
    search = _search(instance, node_budget)
    paths = _independent(search)
    if paths is not None:
        solution = _solution(search, paths)
        return Analysis(solution, solution.sum_of_costs, False)
    paths, least = _best_makespan(search)
    if least < _excess(search, paths):
        least = _excess(search, _down_to(search, paths, least))
    return Analysis(_solution(search, paths), sum(search.distance) + least, _waits(search, least))


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


# ---------------------------------------------------------------- boards as integers


@lru_cache(maxsize=64)
def _full_board(size: int) -> int:
    return sum(1 << (row + 1) * (size + 1) + col for row in range(size) for col in range(size))


def _search(instance: Instance, budget: int) -> CostSearch:
    """A workspace for the instance; raises Unsolvable if an agent cannot reach its goal."""
    width = instance.size + 1
    free = _full_board(instance.size)
    for row, col in instance.holes:
        free ^= 1 << (row + 1) * width + col
    starts = [(row + 1) * width + col for row, col in instance.starts]
    goals = [(row + 1) * width + col for row, col in instance.goals]
    search = CostSearch(width, free, starts, goals, budget)
    for agent, distance in enumerate(search.distance):
        if distance < 0:
            raise Unsolvable(
                f"no plan: holes part agent {agent} at {instance.starts[agent]} from its goal {instance.goals[agent]}"
            )
    return search


def _solution(search: CostSearch, paths: Sequence[Path]) -> Solution:
    letters = {-search.width: "U", search.width: "D", -1: "L", 1: "R", 0: "W"}
    moves = tuple("".join([letters[path[t + 1] - path[t]] for t in range(len(path) - 1)]).rstrip("W") for path in paths)
    costs = [len(m) for m in moves]
    return Solution(Plan(moves), max(costs), sum(costs))


def _arrival(path: Path) -> int:
    time = len(path) - 1
    while time > 0 and path[time - 1] == path[-1]:
        time -= 1
    return time


def _excess(search: CostSearch, paths: Sequence[Path]) -> int:
    """The sum of costs minus the sum of distances."""
    return sum(map(_arrival, paths)) - sum(search.distance)


# ---------------------------------------------------------------- the order in which costs are asked for


def _independent(search: CostSearch) -> list[Path] | None:
    """The preferred shortest paths, if they are free of conflicts: optimal in every respect."""
    paths = search.shortest()
    horizon = max(map(len, paths))
    for first, path in enumerate(paths):
        for other in paths[:first]:
            a, b = path[0], other[0]
            for t in range(1, horizon):
                c = path[t] if t < len(path) else a
                d = other[t] if t < len(other) else b
                if c == d or (c == b and d == a):
                    return None
                a, b = c, d
    return paths


def _first_paths(search: CostSearch, excess: int, cap: int | None = None) -> list[Path] | None:
    """Paths whose costs sum to the distances plus `excess`, with the least makespan that this sum allows."""
    for costs in search.vectors(excess, cap):
        paths = search.paths(costs)
        if paths is not None:
            return paths
    return None


def _best_makespan(search: CostSearch) -> tuple[list[Path], int]:
    """Paths of optimal makespan, and a bound from below on the excess of any paths."""
    makespan, count = max(search.distance), len(search.starts)
    with _allowance(search) as ended:
        for excess in range(_SMALL_EXCESS + 1):
            paths = _first_paths(search, excess)
            if paths is not None:
                longest = max(map(_arrival, paths))
                if longest > makespan and search.paths((longest - 1,) * count) is not None:
                    paths = _fewest_moves(search, _least_makespan(search), excess + 1)
                return paths, excess
    least = 0 if ended else _SMALL_EXCESS + 1
    return _fewest_moves(search, _least_makespan(search), least), least


def _best_sum(search: CostSearch) -> list[Path]:
    """Paths of optimal sum of costs."""
    with _allowance(search) as ended:
        for excess in range(_SMALL_EXCESS + 1):
            paths = _first_paths(search, excess)
            if paths is not None:
                return paths
    return _down_to(search, _least_makespan(search), 0 if ended else _SMALL_EXCESS + 1)


def _down_to(search: CostSearch, paths: list[Path], least: int) -> list[Path]:
    """Paths of optimal sum of costs, given some paths and a bound from below on the excess."""
    most = _excess(search, paths)
    if len(search.starts) == 2:
        return _first_paths(search, _least_excess_of_two(search, most)) or paths
    with _allowance(search):
        for excess in range(least, most):
            found = _first_paths(search, excess)
            if found is not None:
                return found
        return paths
    return joint_search(search, makespan=False, below=most + sum(search.distance)) or paths


def _least_excess_of_two(search: CostSearch, most: int) -> int:
    """The least excess of two agents, `most` being possible: down the staircase of cost vectors that can be met."""
    first, second = most - 1, 0
    while first >= 0:
        if search.pair(0, 1, search.distance[0] + first, search.distance[1] + second, True) is False:
            second += 1
        else:
            most = first + second
        first -= 1
    return most


def _least_makespan(search: CostSearch) -> list[Path]:
    """Paths of optimal makespan, whatever their sum of costs; raises Unsolvable if there are none."""
    count = len(search.starts)
    makespan = max(search.distance)
    for i in range(count):
        for j in range(i):
            alone = search.pair_makespan(j, i)
            if alone is None:
                raise Unsolvable(f"no plan: agents {j} and {i} can never both be on their goals")
            makespan = max(makespan, alone)
    with _allowance(search):
        while True:
            paths = search.paths((makespan,) * count)
            if paths is not None:
                return paths
            makespan += 1
    joint = joint_search(search, makespan=True)
    if joint is None:
        raise Unsolvable("no plan brings all agents to their goals")
    return joint


def _fewest_moves(search: CostSearch, paths: list[Path], excess: int) -> list[Path]:
    """Paths of the same makespan with the least sum of costs, which is at least `excess` above the distances."""
    makespan = max(map(_arrival, paths))
    with _allowance(search):
        for fewer in range(excess, _excess(search, paths)):
            found = _first_paths(search, fewer, makespan)
            if found is not None:
                return found
    return paths


def _waits(search: CostSearch, excess: int) -> bool:
    """True if no paths with the optimal `excess` are without a wait before arrival."""
    if excess % 2:
        return True
    with _allowance(search):
        return all(search.paths(costs, False) is None for costs in search.vectors(excess, None, False))
    below = sum(search.distance) + excess + 1
    return joint_search(search, makespan=False, waits=False, below=below) is None


@contextmanager
def _allowance(search: CostSearch) -> Iterator[list[bool]]:
    """Ends the block early, after as many nodes as exhausting the joint states would take, if these are few.

    The list that the block gets is no longer empty afterwards if it was ended.
    """
    ended: list[bool] = []
    space = math.perm(search.free.bit_count(), len(search.starts))
    whole = search.budget
    if space <= _SMALL_SPACE:
        search.budget = min(whole, search.nodes + _PATIENCE * space)
    try:
        yield ended
    except BudgetExceeded:
        if search.nodes > whole:
            raise
        ended.append(True)
    finally:
        search.budget = whole
