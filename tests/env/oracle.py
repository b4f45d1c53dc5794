"""An oracle that shares nothing with the solver: plain search over joint states, cells as tuples, no heuristics.

Slow and simple on purpose. States of the cost searches carry the agents that are done for good, chosen freely
once on their goals; each step costs one for every agent that is not done.
"""

from __future__ import annotations

import itertools
from collections import deque
from heapq import heappop, heappush

from mapflake.env import Instance

Cell = tuple[int, int]
Joint = tuple[Cell, ...]


def _options(instance: Instance, cell: Cell, waits: bool) -> list[Cell]:
    row, col = cell
    near = [(row + 1, col), (row, col + 1), (row - 1, col), (row, col - 1)]
    inside = [c for c in near if c not in instance.holes and min(c) >= 0 and max(c) < instance.size]
    return [*inside, cell] if waits else inside


def _successors(instance: Instance, cells: Joint, done: frozenset[int], waits: bool) -> list[Joint]:
    found = []
    for after in itertools.product(
        *([c] if k in done else _options(instance, c, waits) for k, c in enumerate(cells))
    ):
        if len(set(after)) < len(after):
            continue
        pairs = itertools.combinations(range(len(cells)), 2)
        if any(after[i] == cells[j] and after[j] == cells[i] for i, j in pairs):
            continue
        found.append(after)
    return found


def least_makespan(instance: Instance) -> int | None:
    """Breadth-first over joint states; None if unsolvable."""
    seen = {instance.starts}
    queue = deque([(instance.starts, 0)])
    while queue:
        cells, time = queue.popleft()
        if cells == instance.goals:
            return time
        for after in _successors(instance, cells, frozenset(), True):
            if after not in seen:
                seen.add(after)
                queue.append((after, time + 1))
    return None


def least_sum_of_costs(instance: Instance, *, waits: bool = True, most: int | None = None) -> int | None:
    """Uniform-cost search; None if unsolvable (or, with `most`, if all plans cost more than that).

    Without `waits`, agents move at every step until they are done.
    """
    everyone = frozenset(range(instance.num_agents))
    heap: list[tuple[int, int, Joint, frozenset[int]]] = [(0, 0, instance.starts, frozenset())]
    closed = set()
    order = itertools.count(1)
    while heap:
        cost, _, cells, done = heappop(heap)
        if done == everyone:
            return cost
        if (cells, done) in closed or (most is not None and cost > most):
            continue
        closed.add((cells, done))
        for agent in everyone - done:
            if cells[agent] == instance.goals[agent]:
                heappush(heap, (cost, next(order), cells, done | {agent}))
        for after in _successors(instance, cells, done, waits):
            if (after, done) not in closed:
                heappush(heap, (cost + len(everyone - done), next(order), after, done))
    return None


def must_wait(instance: Instance) -> bool:
    """True if no plan of least sum of costs is without a wait before an agent's last arrival."""
    best = least_sum_of_costs(instance)
    if best is None:
        raise ValueError("unsolvable")
    return least_sum_of_costs(instance, waits=False, most=best) is None
