"""A* over joint states: slow for many agents, complete for all; the fallback of solver.py for small dense boards.

A state is one cell for each agent, and for the sum of costs also the set of agents that are parked: on their goals
for good. Everything here is integers, tuples and flat lists; no clock, no randomness, ties broken by order.
"""

from __future__ import annotations

from heapq import heappop, heappush


class BudgetExceeded(Exception):
    """The node budget is spent: the instance is neither solved nor shown to be unsolvable."""


def joint_search(
    neighbours: list[tuple[int, ...]],
    starts: tuple[int, ...],
    goals: tuple[int, ...],
    distances: list[list[int]],
    *,
    sum_of_costs: bool,
    waits: bool,
    bound: int | None,
    budget: int,
) -> tuple[list[tuple[int, ...]] | None, int]:
    """Returns an optimal joint path `[T + 1][num_agents]` or None if there is none, and the states expanded.

    Args:
        neighbours: For each cell the cells one move away, in the order of preference.
        starts: Cell of each agent.
        goals: Goal of each agent.
        distances: For each agent the distance of every cell to its goal, -1 where there is no way.
        sum_of_costs: Minimise the sum of costs instead of the makespan.
        waits: Agents may wait before they are parked; needs `sum_of_costs`, or the makespan with waits.
        bound: Paths that cost more do not count; needed if `waits` is False, else the search need not end.
        budget: Number of states that may be expanded.

    Raises:
        BudgetExceeded: `budget` states were expanded without an answer.
    """
    count = len(starts)
    agents = range(count)
    if any(distances[i][starts[i]] < 0 for i in agents):
        return None, 0
    full = (1 << count) - 1

    def estimate(cells: tuple[int, ...], parked: int) -> int:
        rest = [distances[i][cells[i]] for i in agents if not parked >> i & 1]
        return sum(rest) if sum_of_costs else max(rest, default=0)

    roots = _parkings(starts, goals, 0) if sum_of_costs else [0]
    best = {(starts, parked): 0 for parked in roots}
    parent: dict[tuple[tuple[int, ...], int], tuple[tuple[int, ...], int]] = {}
    heap: list[tuple[int, int, int, tuple[int, ...], int]] = []
    order = 0
    for parked in roots:
        heappush(heap, (estimate(starts, parked), 0, order, starts, parked))
        order += 1
    expanded = 0
    while heap:
        _, negative, _, cells, parked = heappop(heap)
        cost = -negative
        if cost > best[cells, parked]:
            continue
        if parked == full or (not sum_of_costs and cells == goals):
            return _path((cells, parked), parent), expanded
        if expanded >= budget:
            raise BudgetExceeded(f"no answer after {expanded} joint states")
        expanded += 1
        step = count - parked.bit_count() if sum_of_costs else 1
        for after in _moves(neighbours, cells, parked, waits):
            for now in _parkings(after, goals, parked) if sum_of_costs else [0]:
                total = cost + step
                guess = total + estimate(after, now)
                if (bound is not None and guess > bound) or best.get((after, now), guess + 1) <= total:
                    continue
                best[after, now] = total
                parent[after, now] = (cells, parked)
                heappush(heap, (guess, -total, order, after, now))
                order += 1
    return None, expanded


def _parkings(cells: tuple[int, ...], goals: tuple[int, ...], parked: int) -> list[int]:
    """All sets of parked agents that `parked` can become once the agents stand on `cells`, larger sets first."""
    sets = [parked]
    for agent, (cell, goal) in enumerate(zip(cells, goals, strict=True)):
        if cell == goal and not parked >> agent & 1:
            sets = [s | 1 << agent for s in sets] + sets
    return sets


def _moves(
    neighbours: list[tuple[int, ...]], cells: tuple[int, ...], parked: int, waits: bool
) -> list[tuple[int, ...]]:
    """All conflict-free joint moves: no vertex conflict, no swap; parked agents stay."""
    partial: list[tuple[int, ...]] = [()]
    for agent, cell in enumerate(cells):
        if parked >> agent & 1:
            options: tuple[int, ...] = (cell,)
        else:
            options = (*neighbours[cell], cell) if waits else neighbours[cell]
        grown = []
        for after in partial:
            for there in options:
                if there in after:
                    continue
                if any(there == cells[k] and after[k] == cell for k in range(agent)):
                    continue
                grown.append((*after, there))
        partial = grown
    return partial


def _path(
    state: tuple[tuple[int, ...], int], parent: dict[tuple[tuple[int, ...], int], tuple[tuple[int, ...], int]]
) -> list[tuple[int, ...]]:
    path = [state[0]]
    while state in parent:
        state = parent[state]
        path.append(state[0])
    return path[::-1]
