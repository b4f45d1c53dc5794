"""Conflict-Based Search as in the textbook: Sharon, Stern, Felner and Sturtevant, Artificial Intelligence 219 (2015).

The reference for the solver's speed: it shares no code with the solver and has no optimisations.
High level: best-first over a binary tree of constraints, by sum of costs. A node holds one path for each agent; its
first conflict, of two agents in a cell or swapping cells at a time, is resolved in two children that forbid it to one
of the two. Low level: A* in space and time under the constraints of one agent, by distance to the goal. Agents stay
on their goals after arrival and are in the way there. Minimises the sum of costs.

Not covered: proofs that there is no plan (the tree is endless then), makespan, later improvements of CBS.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import combinations, count, pairwise

from mapflake.env import Cell, Instance, Plan, distances

Path = list[Cell]
Constraint = tuple[int, int, Cell, Cell]
"""Agent, time of arrival, from, to: a forbidden move of the agent; `from` is `to` where the whole cell is forbidden."""

_LETTERS = {(-1, 0): "U", (1, 0): "D", (0, -1): "L", (0, 1): "R", (0, 0): "W"}


class NodeLimit(Exception):
    """The tree has grown to the limit and nothing is known."""


def textbook_cbs(instance: Instance, node_limit: int = 1000) -> Plan | None:
    """Returns a plan of least sum of costs, or None if there is none and the search can tell.

    Raises:
        NodeLimit: More than `node_limit` nodes of the constraint tree were expanded.
    """
    to_goal = [distances(instance, goal) for goal in instance.goals]
    if any(start not in table for start, table in zip(instance.starts, to_goal, strict=True)):
        return None
    root = [_low_level(instance, agent, to_goal[agent], frozenset()) for agent in range(instance.num_agents)]
    order = count()  # of ties: first come, first served
    tree: list[tuple[int, int, list[Path], frozenset[Constraint]]] = []
    heappush(tree, (_cost(root), next(order), root, frozenset()))
    for _ in range(node_limit):
        if not tree:
            return None
        _, _, paths, constraints = heappop(tree)
        conflict = _first_conflict(paths)
        if conflict is None:
            return Plan(tuple(map(_moves, paths)))
        for constraint in conflict:
            agent, narrower = constraint[0], constraints | {constraint}
            child = list(paths)
            child[agent] = _low_level(instance, agent, to_goal[agent], narrower)
            if child[agent]:
                heappush(tree, (_cost(child), next(order), child, narrower))
    raise NodeLimit(f"{node_limit} nodes of the constraint tree are not enough")


def _low_level(instance: Instance, agent: int, to_goal: dict[Cell, int], constraints: frozenset[Constraint]) -> Path:
    """Space-time A*: the shortest path of one agent to where it can stay for good; empty if there is none."""
    banned = {constraint[1:] for constraint in constraints if constraint[0] == agent}
    start, goal = instance.starts[agent], instance.goals[agent]
    latest = max((time for time, _, _ in banned), default=0)  # after it, when a cell is entered makes no difference
    may_stay = max((time + 1 for time, a, b in banned if a == b == goal), default=0)
    heap = [(to_goal[start], 0, start)]  # by f, then the deeper; time is negative
    parent = {(start, 0): start}
    closed: set[tuple[Cell, int]] = set()
    while heap:
        _, time, cell = heappop(heap)
        time = -time
        if cell == goal and time >= may_stay:
            path = [cell]
            for t in range(time, 0, -1):
                path.append(parent[path[-1], t])
            return path[::-1]
        if (cell, min(time, latest + 1)) in closed:
            continue
        closed.add((cell, min(time, latest + 1)))
        time += 1
        for down, right in _LETTERS:
            target = (cell[0] + down, cell[1] + right)
            free = target in to_goal and (time, target, target) not in banned and (time, cell, target) not in banned
            if free and (target, time) not in parent:
                parent[target, time] = cell
                heappush(heap, (time + to_goal[target], -time, target))
    return []


def _first_conflict(paths: list[Path]) -> tuple[Constraint, Constraint] | None:
    """Returns the earliest conflict as two constraints, one for each of its agents, of which either avoids it."""
    at = [lambda time, path=path: path[min(time, len(path) - 1)] for path in paths]
    for time in range(1, max(map(len, paths))):
        for i, j in combinations(range(len(paths)), 2):
            a, b, c, d = at[i](time - 1), at[i](time), at[j](time - 1), at[j](time)
            if b == d:
                return (i, time, b, b), (j, time, b, b)
            if a == d and b == c:
                return (i, time, a, b), (j, time, b, a)
    return None


def _cost(paths: list[Path]) -> int:
    return sum(len(path) - 1 for path in paths)


def _moves(path: Path) -> str:
    return "".join(_LETTERS[b[0] - a[0], b[1] - a[1]] for a, b in pairwise(path))
