"""A* over joint states: slow for many agents, complete for all; solver.py's fallback for small dense boards.

A state is one cell for each agent, and for the sum of costs also the set of agents that are parked: on their goals
for good, at no more cost. Integers and tuples only; no clock, no randomness, ties are broken by the order in
which states are found.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

from mapflake.env.exact.costs import CostSearch, Path

State = tuple[tuple[int, ...], int]


def joint_search(
    search: CostSearch, *, makespan: bool, waits: bool = True, below: int | None = None
) -> list[Path] | None:
    """Returns optimal paths, or None if there are none.

    Args:
        search: The board, each agent connected with its goal; its budget counts the states expanded here too.
        makespan: Minimise the makespan instead of the sum of costs.
        waits: False asks for agents that move at every step until they are parked; needs `below` to end.
        below: Only paths that cost less count.

    Raises:
        BudgetExceeded: The budget is spent.
    """
    starts, goals = search.starts, search.goals
    full = (1 << len(starts)) - 1
    far = [_distances(search, goal) for goal in goals]
    best: dict[State, int] = {}
    parent: dict[State, State | None] = {}
    heap: list[tuple[int, int, int, State]] = []
    order = count()

    def push(state: State, cost: int, origin: State | None) -> None:
        cells, parked = state
        left = [far[k][cell] for k, cell in enumerate(cells) if not parked >> k & 1]
        bound = cost + (max(left, default=0) if makespan else sum(left))
        if (below is None or bound < below) and best.get(state, cost + 1) > cost:
            best[state] = cost
            parent[state] = origin
            heappush(heap, (bound, -cost, next(order), state))

    for parked in [0] if makespan else _parkings(starts, goals, 0):
        push((starts, parked), 0, None)
    while heap:
        _, negative, _, state = heappop(heap)
        cells, parked = state
        if -negative > best[state]:
            continue
        if parked == full or (makespan and cells == goals):
            return _paths(state, parent)
        search.spend(1)
        cost = -negative + (1 if makespan else len(cells) - parked.bit_count())
        for after in _moves(search, cells, parked, waits):
            for now in [0] if makespan else _parkings(after, goals, parked):
                push((after, now), cost, state)
    return None


def _distances(search: CostSearch, goal: int) -> dict[int, int]:
    found = {goal: 0}
    for cell in (frontier := [goal]):
        for step in (-search.width, search.width, -1, 1):
            if search.free >> cell + step & 1 and cell + step not in found:
                found[cell + step] = found[cell] + 1
                frontier.append(cell + step)
    return found


def _parkings(cells: tuple[int, ...], goals: tuple[int, ...], parked: int) -> list[int]:
    """All sets of parked agents that `parked` can become once the agents stand on `cells`, larger sets first."""
    sets = [parked]
    for agent, (cell, goal) in enumerate(zip(cells, goals, strict=True)):
        if cell == goal and not parked >> agent & 1:
            sets = [s | 1 << agent for s in sets] + sets
    return sets


def _moves(search: CostSearch, cells: tuple[int, ...], parked: int, waits: bool) -> list[tuple[int, ...]]:
    """All joint moves without a conflict; parked agents stay."""
    width, free = search.width, search.free
    partial: list[tuple[int, ...]] = [()]
    for agent, cell in enumerate(cells):
        options = [cell] if waits or parked >> agent & 1 else []
        if not parked >> agent & 1:
            options += [to for to in (cell - width, cell + width, cell - 1, cell + 1) if free >> to & 1]
        partial = [
            (*after, to)
            for after in partial
            for to in options
            if to not in after and not any(to == cells[k] and after[k] == cell for k in range(agent))
        ]
    return partial


def _paths(state: State, parent: dict[State, State | None]) -> list[Path]:
    trail = []
    here: State | None = state
    while here is not None:
        trail.append(here[0])
        here = parent[here]
    return [list(path) for path in zip(*reversed(trail), strict=True)]
