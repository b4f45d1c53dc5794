"""Paths for a group of agents that can meet, by given costs, for costs.py.

Depth-first search over the joint positions of all but the last agent; the last one is a set of cells, all that the
others leave to it. The pair tables rule out most of what fails.

The tie-breaking rule that pins the plan: at every step the agents but the last choose in their order; each prefers the
cells nearer to its goal, then waiting, then the others, and among equals up, down, left, right; a choice is good if all
can still arrive. The last agent then takes, by the same preference, what they leave to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mapflake.env.exact.pairs import Table

if TYPE_CHECKING:
    from mapflake.env.exact.costs import CostSearch

Joint = tuple[int, ...]


def group_paths(
    search: CostSearch, group: list[int], costs: Sequence[int], waits: bool, tables: dict[tuple[int, int], Table]
) -> list[list[int]] | None:
    """Returns the preferred paths of the agents in `group`, of one length, or None if there are none.

    Args:
        search: The board.
        group: Agents, ascending.
        costs: Time for each agent of the board.
        waits: False asks for agents that move at every step before they arrive.
        tables: The pair tables of those that can meet.

    Raises:
        BudgetExceeded: The budget is spent.
    """
    *others, last = group
    horizon = max(costs[agent] for agent in group)
    layers = {agent: search.layers(agent, costs[agent], waits) for agent in group}
    if not all(layer[0] for layer in layers.values()):
        return None
    width = search.width

    def near(cells: int) -> int:
        return cells << 1 | cells >> 1 | cells << width | cells >> width

    def ahead(agent: int, cells: int, time: int) -> int:
        """Where an agent can be next from any of the cells, others aside."""
        return (near(cells) | cells) & layers[agent][time + 1] if time < costs[agent] else cells

    def choices(time: int, cells: Joint, ways: int, chosen: Joint, left: int) -> Iterator[tuple[Joint, int]]:
        """The next cells of the others in their order, with the cells of the last agent that they leave."""
        k = len(chosen)
        if k == len(others):
            yield chosen, left
            return
        agent, cell = others[k], cells[k]
        layer = ahead(agent, 1 << cell, time)
        for to in search.preferred(agent, cell):
            if not layer >> to & 1:
                continue
            for m in range(k):
                table = tables.get((others[m], agent))
                if table is not None and (
                    (to == cells[m] and chosen[m] == cell)
                    or (time + 1 < len(table) and not table[time + 1].get(chosen[m], 0) >> to & 1)
                ):
                    break
            else:
                rest = left
                table = tables.get((agent, last))
                if table is not None:
                    if time + 1 < len(table):
                        rest &= table[time + 1].get(to, 0)
                    if rest >> cell & 1 and not ways & near(1 << cell) & ~(1 << to):
                        rest ^= 1 << cell  # the last agent could enter the cell that is left only by a swap
                if rest:
                    yield from choices(time, cells, ways, (*chosen, to), rest)

    trail: list[Joint] = [tuple(search.starts[agent] for agent in others)]
    sets = [1 << search.starts[last]]
    stack: list[Iterator[tuple[Joint, int]]] = []
    dead: dict[tuple[int, Joint], int] = {}  # cells of the last agent from where it has been tried
    while len(trail) <= horizon:
        time = len(trail) - 1
        if len(stack) < len(trail):
            stack.append(choices(time, trail[-1], sets[-1], (), ahead(last, sets[-1], time)))
            search.spend(1)
        for cells, left in stack[-1]:
            if left := left & ~dead.get((time + 1, cells), 0):
                trail.append(cells)
                sets.append(left)
                break
        else:
            stack.pop()
            key = time, trail.pop()
            dead[key] = dead.get(key, 0) | sets.pop()
            if not trail:
                return None
    paths = [[cells[k] for cells in trail] for k in range(len(others))]
    return [*paths, _last_path(search, last, sets, paths)]


def _last_path(search: CostSearch, last: int, sets: list[int], paths: list[list[int]]) -> list[int]:
    """The preferred path through the sets that swaps with none of the other paths."""

    def options(time: int, cell: int) -> list[int]:
        """The next cells within the sets, in the order of preference."""
        return [
            to
            for to in search.preferred(last, cell)
            if sets[time + 1] >> to & 1
            and not any(path[time] == to and path[time + 1] == cell and to != cell for path in paths)
        ]

    for time in range(len(sets) - 2, -1, -1):  # keep the cells from where it still arrives
        cells, sets[time] = sets[time], 0
        while cells:
            bit = cells & -cells
            if options(time, bit.bit_length() - 1):
                sets[time] |= bit
            cells ^= bit
    path = [search.starts[last]]
    for time in range(len(sets) - 1):
        path.append(options(time, path[-1])[0])
    return path
