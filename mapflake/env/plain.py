"""The solver in plain Python: serves where there is no C compiler, and boards beyond the compiled kernel's limits.

Joint A* over groups of agents, with Standley's two ideas (*Finding Optimal Solutions to Cooperative Pathfinding
Problems*, AAAI 2010): independence detection (agents are planned alone, and those whose paths conflict are planned
together) and operator decomposition (agents choose their moves one after the other, so a state has at most ten
successors). Costs and wait labels are those of the kernel, with which it shares no code; plans of equal cost differ. An
exhausted search proves that there is no plan. Not covered: speed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import combinations, count, pairwise, product
from typing import NamedTuple

from mapflake.env.instance import DELTAS, Cell, Instance, distances

SOLVED, APART, PAIR, NONE, BUDGET = range(5)
"""Ends of a search: with a plan; an agent is cut off from its goal; two agents can never both arrive; no plan brings
all agents to their goals; the node budget is spent."""

MAKESPAN, SUM_OF_COSTS, ANALYSE, NEEDS_WAIT = range(4)
"""Questions: a plan that is optimal in one of the two objectives; a plan of optimal makespan, the optimal sum of costs
and the wait label; the wait label alone."""


class Answer(NamedTuple):
    """The result of a search."""

    status: int  # all but `agents` count only if SOLVED
    agents: tuple[int, ...] = ()  # those concerned, if APART (one) or PAIR (two)
    moves: tuple[str, ...] = ()  # a string for each agent, without trailing waits; empty if only the label was asked
    best_sum: int = 0  # the optimal sum of costs; 0 if only the makespan or the label was asked
    needs_wait: bool = False  # the wait label, if it was asked


Position = Cell | None  # None: parked, on the goal for good, at no more cost
Path = list[Cell]
_LETTERS = {step: letter for letter, step in DELTAS.items()}


class _NoPlan(Exception):
    """These agents have no plan together."""


class _Spent(Exception):
    """The node budget is spent."""


def search(instance: Instance, what: int, budget: int) -> Answer:
    """Returns the answer to the question `what` (MAKESPAN, ...), or the status that says why there is none."""
    space = _Space(instance, budget)
    paths: list[Path] = [[] for _ in instance.starts]
    best, waits = 0, False
    try:
        for agent, start in enumerate(instance.starts):
            if start not in space.to_goal[agent]:
                return Answer(APART, (agent,))
        if what != MAKESPAN:
            paths = _plan(space, soonest=False)
            best = sum(_arrivals(paths))
        if what in (ANALYSE, NEEDS_WAIT):
            waits = _needs_wait(space, best)
        if what in (MAKESPAN, ANALYSE):
            horizon = max(_arrivals(_plan(space, soonest=True)))
            if what == MAKESPAN or horizon < max(_arrivals(paths)):
                paths = _plan(space, soonest=False, horizon=horizon)
    except _NoPlan as error:
        group = error.args[0]
        return Answer(PAIR, group) if len(group) == 2 else Answer(NONE)
    except _Spent:
        return Answer(BUDGET)
    if what == NEEDS_WAIT:
        return Answer(SOLVED, (), ("",) * len(paths), 0, waits)
    moves = ["".join(_LETTERS[b[0] - a[0], b[1] - a[1]] for a, b in pairwise(path)) for path in paths]
    return Answer(SOLVED, (), tuple(letters.rstrip("W") for letters in moves), best, waits)


class _Space:
    """One board with the distances to all goals, and the nodes that are left to spend on it."""

    def __init__(self, instance: Instance, budget: int) -> None:
        self.starts, self.goals, self.nodes_left = instance.starts, instance.goals, budget
        self.to_goal = [distances(instance, goal) for goal in instance.goals]

    def options(self, agent: int, cell: Cell, waits: bool) -> Iterator[Position]:
        """Yields the positions that an agent on `cell` can take next, other agents aside."""
        for (down, right), letter in _LETTERS.items():
            to = (cell[0] + down, cell[1] + right)
            if to in self.to_goal[agent] and (waits or letter != "W"):
                yield to
                if to == self.goals[agent]:
                    yield None


def _needs_wait(space: _Space, best: int) -> bool:
    """Returns the wait label, given the optimal sum of costs."""
    lengths = [space.to_goal[agent][start] for agent, start in enumerate(space.starts)]
    if (best - sum(lengths)) % 2:  # agents that never wait cost their distance, or 2, 4, ... more
        return True
    try:
        return best > sum(lengths) and sum(_arrivals(_plan(space, soonest=False, waits=False, most=best))) > best
    except _NoPlan:
        return True


def _plan(
    space: _Space, *, soonest: bool, waits: bool = True, horizon: float = math.inf, most: float = math.inf
) -> list[Path]:
    """Returns optimal paths of all agents: independence detection. Raises _NoPlan, or _Spent.

    Each group's optimum is a bound from below for the whole, so paths without a conflict are optimal together. The
    makespan is minimised, if `soonest`, else the sum of costs; no agent may arrive after `horizon`, and no sum of costs
    may exceed `most`. Without `waits` agents move at every step until they are parked; that takes `most`.
    """

    def planned(group: tuple[int, ...]) -> list[Path]:
        rest_costs = sum(space.to_goal[k][space.starts[k]] for k in range(len(space.starts)) if k not in group)
        return _joint(space, group, soonest, waits, horizon, most - rest_costs)

    group_of: dict[int, tuple[int, ...]] = {agent: (agent,) for agent in range(len(space.starts))}
    paths = {agent: planned(group)[0] for agent, group in group_of.items()}
    while (clash := _conflict(paths)) is not None:
        group = tuple(sorted({*group_of[clash[0]], *group_of[clash[1]]}))
        group_of |= dict.fromkeys(group, group)
        paths |= zip(group, planned(group), strict=True)
    return list(paths.values())


def _joint(
    space: _Space, group: tuple[int, ...], soonest: bool, waits: bool, horizon: float, most: float
) -> list[Path]:
    """Returns optimal paths of a group: A* with operator decomposition; arguments and errors as in `_plan`.

    A state is the positions of the group at a time and, for the first few of its agents, the positions after the next
    move. Its bound is a pair, compared in the order of the objectives: the makespan and the sum of costs of any paths
    through it.
    """
    lengths = [space.to_goal[agent][space.starts[agent]] for agent in group]
    order = count()
    heap: list[tuple] = []
    closed = set()
    trail: list[tuple[tuple[Position, ...], int]] = []  # positions, and the index of those before

    def push(
        time: int, makespan: int, costs: int, positions: tuple[Position, ...], next_positions: tuple, origin: int
    ) -> None:
        if makespan > horizon or costs > most:
            return
        space.nodes_left -= 1
        if space.nodes_left < 0:
            raise _Spent
        bound = (makespan, costs) if soonest else (costs, makespan)
        heappush(
            heap, (bound, -time, -len(next_positions), next(order), makespan, costs, positions, next_positions, origin)
        )

    def cells_of(positions: tuple[Position, ...]) -> Path:
        return [space.goals[agent] if at is None else at for agent, at in zip(group, positions, strict=False)]

    starts = [[cell, None] if cell == space.goals[k] else [cell] for k in group for cell in [space.starts[k]]]
    for positions in product(*starts):
        push(0, max(lengths), sum(lengths), positions, (), -1)
    while heap:
        _, time, _, _, makespan, costs, positions, next_positions, origin = heappop(heap)
        time = -time
        state = (positions, next_positions, time if horizon < math.inf else None)
        if state in closed:
            continue
        closed.add(state)
        if not next_positions:
            trail.append((positions, origin))
            origin = len(trail) - 1
            if not any(positions):
                steps = []
                while origin >= 0:
                    positions, origin = trail[origin]
                    steps.append(cells_of(positions))
                return [list(path) for path in zip(*reversed(steps), strict=True)]
        k = len(next_positions)
        cells, taken_cells = cells_of(positions), cells_of(next_positions)
        agent, cell = group[k], cells[k]
        distance = space.to_goal[agent]
        for position in [None] if positions[k] is None else space.options(agent, cell, waits):
            to = space.goals[agent] if position is None else position
            if to in taken_cells or (cell in taken_cells and cells[taken_cells.index(cell)] == to):
                continue
            span, total = makespan, costs
            if positions[k] is not None:
                span, total = max(makespan, time + 1 + distance[to]), costs + 1 + distance[to] - distance[cell]
            if k + 1 < len(group):
                push(time, span, total, positions, (*next_positions, position), origin)
            else:
                push(time + 1, span, total, (*next_positions, position), (), origin)
    raise _NoPlan(group)


def _conflict(paths: dict[int, Path]) -> tuple[int, int] | None:
    """Returns two agents that are in one cell or swap cells, or None."""
    longest = max(map(len, paths.values()))
    steps = [pairwise(path + path[-1:] * (longest - len(path))) for path in paths.values()]
    for moves in zip(*steps, strict=True):
        for (i, move), (j, other) in combinations(zip(paths, moves, strict=True), 2):
            if move[1] == other[1] or move == other[::-1]:
                return i, j
    return None


def _arrivals(paths: Sequence[Path]) -> list[int]:
    """Returns the time of each agent's last move."""
    return [max((t for t in range(1, len(path)) if path[t] != path[t - 1]), default=0) for path in paths]
