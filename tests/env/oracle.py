"""An oracle that shares nothing with the solver: plain search over joint states, cells as tuples, no heuristics.

Slow and simple on purpose. A state of the cost search carries the agents that are done for good, chosen freely
once they are on their goals; each step costs one for every agent that is not done.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from heapq import heappop, heappush

from mapflake.env import Instance

Cell = tuple[int, int]
Joint = tuple[Cell, ...]
Options = dict[Cell, list[Cell]]


def _options(instance: Instance, waits: bool) -> Options:
    board = [(r, c) for r in range(instance.size) for c in range(instance.size) if (r, c) not in instance.holes]
    return {a: [b for b in board if abs(a[0] - b[0]) + abs(a[1] - b[1]) <= 1 and (waits or a != b)] for a in board}


def _successors(options: Options, cells: Joint, done: frozenset[int]) -> list[Joint]:
    joints: list[Joint] = [()]
    for agent, cell in enumerate(cells):
        joints = [
            (*after, target)
            for after in joints
            for target in ([cell] if agent in done else options[cell])
            if target not in after
            and not (target in cells[:agent] and after[cells.index(target)] == cell)  # would swap
        ]
    return joints


def layers(instance: Instance) -> Iterator[set[Joint]]:
    """The joint states first reached after 0, 1, 2, ... moves, until there are no more."""
    options = _options(instance, True)
    seen = layer = {instance.starts}
    while layer:
        yield layer
        layer = {after for cells in layer for after in _successors(options, cells, frozenset())} - seen
        seen = seen | layer


def least_makespan(instance: Instance) -> int | None:
    """Breadth-first over joint states; None if unsolvable."""
    return next((time for time, layer in enumerate(layers(instance)) if instance.goals in layer), None)


def least_sum_of_costs(instance: Instance, *, waits: bool = True, most: int | None = None) -> int | None:
    """Uniform-cost search; None if unsolvable (or, with `most`, if all plans cost more than that).

    Without `waits`, agents move at every step until they are done.
    """
    options = _options(instance, waits)
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
        for after in _successors(options, cells, done):
            if (after, done) not in closed:
                heappush(heap, (cost + len(everyone - done), next(order), after, done))
    return None


def must_wait(instance: Instance, best: int) -> bool:
    """True if no plan of sum of costs `best`, the least, is without a wait before an agent's last arrival."""
    return least_sum_of_costs(instance, waits=False, most=best) is None
