"""Two agents alone on the board, for costs.py: tables of joint positions, and which costs two agents can meet.

The joint positions of two agents are a set of cells of the second for each cell of the first, so that one shift moves
the second agent for all of them at once. Both agents cannot be in one cell nor swap cells; following is allowed.
Everything is integers and dicts of them, cells are numbered as in costs.py. Not covered: three and more agents.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mapflake.env.exact.costs import CostSearch

Table = list[dict[int, int]]


class Staircase(NamedTuple):
    """Which pairs of costs, each at most its distance plus `slack`, two agents can meet.

    Attributes:
        slack: How far above its distance each cost may be.
        free: They cannot meet on the way: every pair of costs is possible.
        then_i: Given a cost of j (its excess is the index), the least cost of i from there up.
        then_j: Likewise given a cost of i.
    """

    slack: int
    free: bool
    then_i: list[float]
    then_j: list[float]


def staircase(search: CostSearch, i: int, j: int, slack: int) -> Staircase:
    """Returns the staircase of agents i and j, i before j: one pass forwards over their joint positions.

    Whoever arrives first stays: the other goes on alone, around that goal. So the joint positions at the time of the
    first arrival, and the distances around a goal, decide all pairs of costs.
    """
    goal_i, goal_j = search.goals[i], search.goals[j]
    cost_i, cost_j = search.distance[i] + slack, search.distance[j] + slack
    horizon, last = max(cost_i, cost_j), min(cost_i, cost_j)
    layers_i = search.layers(i, cost_i, True) + [1 << goal_i] * (horizon - cost_i)
    layers_j = search.layers(j, cost_j, True) + [1 << goal_j] * (horizon - cost_j)
    if not can_meet(layers_i, layers_j):
        return Staircase(slack, True, [], [])
    around_j = balls(search.width, search.free & ~(1 << goal_j), 1 << goal_i, 0)
    around_i = balls(search.width, search.free & ~(1 << goal_i), 1 << goal_j, 0)
    then_i, then_j = [math.inf] * (slack + 1), [math.inf] * (slack + 1)
    now = {search.starts[i]: 1 << search.starts[j]}
    for t in range(last + 1):
        if t >= search.distance[i]:
            then_j[t - search.distance[i]] = t + _steps(around_i, now.get(goal_i, 0))
        if t >= search.distance[j]:
            cells = sum(1 << cell for cell, others in now.items() if others >> goal_j & 1)
            then_i[t - search.distance[j]] = t + _steps(around_j, cells)
        if t < last:
            search.spend(len(now))
            now = _step(search.width, now, layers_i[t + 1], layers_j[t + 1])
    return Staircase(slack, False, then_i, then_j)


def _steps(around: list[int], cells: int) -> float:
    return next((k for k, ball in enumerate(around) if ball & cells), math.inf)


def _step(width: int, now: dict[int, int], layer_i: int, layer_j: int) -> dict[int, int]:
    """The joint positions one move later, each agent within its layer."""
    then: dict[int, int] = {}
    for cell, cells in now.items():
        reach = (cells | cells << 1 | cells >> 1 | cells << width | cells >> width) & layer_j
        bit = 1 << cell
        if layer_i & bit and (others := reach & ~bit):
            then[cell] = then.get(cell, 0) | others
        around = bit << 1 | bit >> 1 | bit << width | bit >> width
        for step in (-width, width, -1, 1):
            to = cell + step
            if layer_i >> to & 1:
                others = reach & ~(1 << to)
                if others & bit and not cells & around & ~(1 << to):
                    others ^= bit  # j could enter the cell that i leaves only from where i goes
                if others:
                    then[to] = then.get(to, 0) | others
    return then


def pair_table(search: CostSearch, i: int, j: int, cost_i: int, cost_j: int, waits: bool) -> Table | bool:
    """Returns False if agents i and j cannot both arrive, True if they cannot meet, else their pair table.

    The table is made backwards in time; see `CostSearch.pair`.
    """
    horizon = max(cost_i, cost_j)
    goal_i, goal_j = search.goals[i], search.goals[j]
    layers_i = search.layers(i, cost_i, waits) + [1 << goal_i] * (horizon - cost_i)
    layers_j = search.layers(j, cost_j, waits) + [1 << goal_j] * (horizon - cost_j)
    if not (layers_i[0] and layers_j[0]):
        return False
    if not can_meet(layers_i, layers_j):
        return True
    width = search.width
    steps = (width, -width, 1, -1)
    after = {goal_i: 1 << goal_j}
    table = [after]
    for t in range(horizon - 1, -1, -1):
        here_i, here_j = layers_i[t], layers_j[t]
        before: dict[int, int] = {}
        for to, cells in after.items():
            reach = (cells | cells << 1 | cells >> 1 | cells << width | cells >> width) & here_j
            if not reach:
                continue
            if here_i >> to & 1 and (stayed := reach & ~(1 << to)):
                before[to] = before.get(to, 0) | stayed
            for step in steps:
                cell = to + step
                if here_i >> cell & 1:
                    others = reach & ~(1 << cell)
                    if others >> to & 1:
                        # j leaves the cell that i enters: somewhere else than to where i comes from.
                        bit = 1 << to
                        if not cells & (bit << 1 | bit >> 1 | bit << width | bit >> width) & ~(1 << cell):
                            others ^= bit
                    if others:
                        before[cell] = before.get(cell, 0) | others
        search.spend(len(after))
        if not before:
            return False
        after = before
        table.append(after)
    table.reverse()
    return table if after.get(search.starts[i], 0) >> search.starts[j] & 1 else False


def pair_makespan(search: CostSearch, i: int, j: int) -> int | None:
    """Returns the least time in which agents i and j, alone on the board, both arrive; None if they never can."""
    goal_i, goal_j = search.goals[i], search.goals[j]
    reached = {search.starts[i]: 1 << search.starts[j]}
    frontier = dict(reached)
    time = 0
    while not reached.get(goal_i, 0) >> goal_j & 1:
        search.spend(len(frontier))
        found = _step(search.width, frontier, search.free, search.free)
        frontier = {}
        for cell, cells in found.items():
            if new := cells & ~reached.get(cell, 0):
                frontier[cell] = new
                reached[cell] = reached.get(cell, 0) | new
        if not frontier:
            return None
        time += 1
    return time


def can_meet(first: list[int], second: list[int]) -> bool:
    """True if two agents with these layers can be in one cell at one time or swap cells."""
    for a, b in zip(first, second, strict=True):
        if a & b:
            return True
    return any(first[t] & second[t + 1] and first[t + 1] & second[t] for t in range(len(first) - 1))


def balls(width: int, free: int, centre: int, until: int) -> list[int]:
    """Cells within distance 0, 1, 2, ... of `centre`, up to the first that has `until`, or to the last change."""
    found = [centre]
    cells = centre
    while not cells & until:
        grown = (cells | cells << 1 | cells >> 1 | cells << width | cells >> width) & free
        if grown == cells:
            break
        found.append(grown)
        cells = grown
    return found


def grow(sets: list[int], last: int, width: int, free: int, waits: bool) -> None:
    """Extends the list of sets of cells after 0, 1, ... moves up to `last` moves."""
    while len(sets) <= last:
        cells = sets[-1]
        grown = cells << 1 | cells >> 1 | cells << width | cells >> width
        sets.append((grown | cells if waits else grown) & free)
