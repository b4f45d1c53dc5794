"""The search behind solver.py: can agent i be on its goal for good by time `costs[i]`, for all agents at once?

An increasing-cost-tree search (Sharon et al. 2013, "The increasing cost tree search for optimal multi-agent
pathfinding"), with sets of cells as integers: bit (row + 1) * (size + 1) + col is a cell, and the column to the right
of the board and the row above it are never free, so that moves are shifts. For one cost vector:

- layers: the cells where an agent can be at each time, reachable from its start and in time for its goal;
- pair tables, backwards in time: for each cell of one agent the cells of the other from which both still
  arrive without conflict. Two agents are decided by their table alone;
- three and more: depth-first search over joint states that all pair tables allow, separately for each group of
  agents that can meet at all.

The tie-breaking rule that pins the plan, whatever finds it: at every step the agents choose in their order, each
prefers the cells nearer to its goal, then up, down, left, right; a choice is good if all can still arrive.
Everything is integers, tuples and lists of them; nothing depends on time or chance. Not covered: which cost
vectors to ask for (solver.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Path = list[int]
Table = list[dict[int, int]]


class BudgetExceeded(Exception):
    """The node budget is spent: the instance is neither solved nor shown to be unsolvable."""


class CostSearch:
    """Workspace for one board.

    Attributes:
        width: Distance of two cells of one column.
        starts, goals: Cell of each agent.
        distance: Distance from start to goal of each agent, -1 if there is no way.
        nodes: Table rows and joint states visited so far.
        budget: Limit of `nodes`.
    """

    def __init__(self, width: int, free: int, starts: Sequence[int], goals: Sequence[int], budget: int) -> None:
        self.width = width
        self.free = free
        self.starts = tuple(starts)
        self.goals = tuple(goals)
        self.agents = range(len(self.starts))
        self.budget = budget
        self.nodes = 0
        self.balls = [_balls(width, free, 1 << goal, 1 << start) for start, goal in zip(starts, goals, strict=True)]
        self.distance = tuple(
            len(balls) - 1 if balls[-1] >> start & 1 else -1 for balls, start in zip(self.balls, starts, strict=True)
        )
        self._reach: list[list[int]] = [[1 << start] for start in starts]
        self._exact: list[tuple[list[int], list[int]]] = [
            ([1 << start], [1 << goal]) for start, goal in zip(starts, goals, strict=True)
        ]
        self._layers: dict[tuple[int, int, bool], list[int]] = {}
        self._pairs: dict[tuple[int, int, int, int, bool], Table | bool] = {}
        self._order: list[dict[int, tuple[int, ...]]] = [{} for _ in self.agents]

    def spend(self, nodes: int) -> None:
        """Counts nodes against the budget."""
        self.nodes += nodes
        if self.nodes > self.budget:
            raise BudgetExceeded(f"no answer within {self.budget} nodes")

    # ------------------------------------------------------------ single agents

    def shortest(self) -> list[Path]:
        """Returns for each agent its preferred shortest path, other agents aside."""
        width = self.width
        paths = []
        for start, balls, distance in zip(self.starts, self.balls, self.distance, strict=True):
            cell = start
            path = [cell]
            for k in range(distance - 1, -1, -1):
                ball = balls[k]
                if ball >> cell - width & 1:
                    cell -= width
                elif ball >> cell + width & 1:
                    cell += width
                elif ball >> cell - 1 & 1:
                    cell -= 1
                else:
                    cell += 1
                path.append(cell)
            paths.append(path)
        return paths

    def layers(self, agent: int, cost: int, waits: bool) -> list[int]:
        """Returns the cells where an agent can be at time 0..cost if it is on its goal at `cost`: `[cost + 1]` sets.

        Without `waits` it has to move at every step before: then no cell is in two layers in a row, the colours of the
        chess board alternate.
        """
        key = (agent, cost, waits)
        if key not in self._layers:
            ahead, back = (self._reach[agent], self.balls[agent]) if waits else self._exact[agent]
            _grow(ahead, cost, self.width, self.free, waits)
            _grow(back, cost, self.width, self.free, waits)
            self._layers[key] = [ahead[t] & back[cost - t] for t in range(cost + 1)]
        return self._layers[key]

    # ------------------------------------------------------------ pairs

    def pair(self, i: int, j: int, cost_i: int, cost_j: int, waits: bool) -> Table | bool:
        """Returns False if agents i and j cannot both arrive, True if they cannot meet, else their pair table.

        The table has for each time and each cell of i the set of cells of j from which both arrive.
        """
        key = (i, j, cost_i, cost_j, waits)
        if key not in self._pairs:
            self._pairs[key] = self._pair(i, j, cost_i, cost_j, waits)
        return self._pairs[key]

    def _pair(self, i: int, j: int, cost_i: int, cost_j: int, waits: bool) -> Table | bool:
        horizon = max(cost_i, cost_j)
        goal_i, goal_j = self.goals[i], self.goals[j]
        layers_i = self.layers(i, cost_i, waits) + [1 << goal_i] * (horizon - cost_i)
        layers_j = self.layers(j, cost_j, waits) + [1 << goal_j] * (horizon - cost_j)
        if not (layers_i[0] and layers_j[0]):
            return False
        if not _can_meet(layers_i, layers_j):
            return True
        width = self.width
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
            self.spend(len(after))
            if not before:
                return False
            after = before
            table.append(after)
        table.reverse()
        return table if after.get(self.starts[i], 0) >> self.starts[j] & 1 else False

    def pair_makespan(self, i: int, j: int) -> int | None:
        """Returns the least time in which agents i and j, alone on the board, both arrive; None if they never can."""
        width, free = self.width, self.free
        steps = (-width, width, -1, 1)
        goal_i, goal_j = self.goals[i], self.goals[j]
        reached = {self.starts[i]: 1 << self.starts[j]}
        frontier = dict(reached)
        time = 0
        while not reached.get(goal_i, 0) >> goal_j & 1:
            found: dict[int, int] = {}
            for cell, cells in frontier.items():
                spread = (cells | cells << 1 | cells >> 1 | cells << width | cells >> width) & free
                found[cell] = found.get(cell, 0) | spread & ~(1 << cell)
                bit = 1 << cell
                around = bit << 1 | bit >> 1 | bit << width | bit >> width
                for step in steps:
                    to = cell + step
                    if free >> to & 1:
                        others = spread & ~(1 << to)
                        if others & bit and not cells & around & ~(1 << to):
                            others ^= bit  # j could enter the cell that i leaves only from where i goes
                        found[to] = found.get(to, 0) | others
            self.spend(len(frontier))
            frontier = {}
            for cell, cells in found.items():
                if new := cells & ~reached.get(cell, 0):
                    frontier[cell] = new
                    reached[cell] = reached.get(cell, 0) | new
            if not frontier:
                return None
            time += 1
        return time

    # ------------------------------------------------------------ all agents

    def vectors(self, excess: int, cap: int | None = None, waits: bool = True) -> list[tuple[int, ...]]:
        """Returns the cost vectors `excess` above the distances that no pair rules out, smallest maximum first.

        Args:
            excess: Sum of the costs minus the sum of the distances.
            cap: No cost may be larger.
            waits: False asks for agents that move at every step before they arrive.
        """
        found: list[tuple[int, ...]] = []
        self._extend((), excess, cap, waits, found)
        return sorted(found, key=lambda costs: (max(costs), costs))

    def _extend(
        self, costs: tuple[int, ...], left: int, cap: int | None, waits: bool, found: list[tuple[int, ...]]
    ) -> None:
        agent = len(costs)
        if agent == len(self.starts):
            self.spend(1)
            found.append(costs)
            return
        last = agent + 1 == len(self.starts)
        for extra in range(left if last else 0, left + 1, 1 if waits else 2):
            cost = self.distance[agent] + extra
            if cap is not None and cost > cap:
                break
            if all(self.pair(other, agent, costs[other], cost, waits) is not False for other in range(agent)):
                self._extend((*costs, cost), left - extra, cap, waits, found)

    def paths(self, costs: Sequence[int], waits: bool = True) -> list[Path] | None:
        """Returns the preferred paths by which each agent is on its goal for good by its cost, or None.

        Args:
            costs: Time for each agent.
            waits: False asks for agents that move at every step before.

        Raises:
            BudgetExceeded: The budget is spent.
        """
        tables: dict[tuple[int, int], Table] = {}
        groups = [[agent] for agent in self.agents]
        for i in self.agents:
            for j in range(i + 1, len(self.starts)):
                table = self.pair(i, j, costs[i], costs[j], waits)
                if table is False:
                    return None
                if table is not True:
                    tables[i, j] = table  # type: ignore[assignment]
                    group_i = next(group for group in groups if i in group)
                    group_j = next(group for group in groups if j in group)
                    if group_i is not group_j:
                        groups.remove(group_j)
                        group_i += group_j
        paths: list[Path] = [[] for _ in self.agents]
        for group in groups:
            group.sort()
            found = self._group_paths(group, costs, waits, tables)
            if found is None:
                return None
            for agent, path in zip(group, found, strict=True):
                paths[agent] = path
        return paths

    def _group_paths(
        self,
        group: list[int],
        costs: Sequence[int],
        waits: bool,
        tables: dict[tuple[int, int], Table],
    ) -> list[Path] | None:
        horizon = max(costs[agent] for agent in group)
        layers = [self.layers(agent, costs[agent], waits) for agent in group]
        if not all(layer[0] for layer in layers):
            return None
        checks = [
            [(m, tables[other, agent]) for m, other in enumerate(group[:k]) if (other, agent) in tables]
            for k, agent in enumerate(group)
        ]

        def choices(time: int, cells: tuple[int, ...], chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
            k = len(chosen)
            if k == len(group):
                yield chosen
                return
            agent, cell = group[k], cells[k]
            if time >= costs[agent]:
                options: Sequence[int] = (cell,)
                layer = 1 << cell
            else:
                options = self._preferred(agent, cell)
                layer = layers[k][time + 1]
            for to in options:
                if not layer >> to & 1:
                    continue
                for m, table in checks[k]:
                    if to == cells[m] and chosen[m] == cell:
                        break
                    if time + 1 < len(table) and not table[time + 1].get(chosen[m], 0) >> to & 1:
                        break
                else:
                    yield from choices(time, cells, (*chosen, to))

        trail = [tuple(self.starts[agent] for agent in group)]
        stack: list[Iterator[tuple[int, ...]]] = []
        dead: set[tuple[int, tuple[int, ...]]] = set()
        while len(trail) <= horizon:
            time = len(trail) - 1
            if len(stack) < len(trail):
                stack.append(choices(time, trail[-1], ()))
                self.spend(1)
            for cells in stack[-1]:
                if (time + 1, cells) not in dead:
                    trail.append(cells)
                    break
            else:
                dead.add((time, trail.pop()))
                stack.pop()
                if not trail:
                    return None
        return [[cells[k] for cells in trail] for k in range(len(group))]

    def _preferred(self, agent: int, cell: int) -> tuple[int, ...]:
        """The cells an agent can be in next: nearer to its goal first, then waiting, then the others."""
        order = self._order[agent]
        if cell not in order:
            balls = self.balls[agent]
            distance = 0
            while not balls[distance] >> cell & 1:
                distance += 1
                _grow(balls, distance, self.width, self.free, True)
            nearer: list[int] = []
            farther: list[int] = []
            for step in (-self.width, self.width, -1, 1):
                if self.free >> cell + step & 1:
                    near = distance > 0 and balls[distance - 1] >> cell + step & 1
                    (nearer if near else farther).append(cell + step)
            order[cell] = (*nearer, cell, *farther)
        return order[cell]


def _balls(width: int, free: int, centre: int, until: int) -> list[int]:
    """Cells within distance 0, 1, 2, ... of `centre`, up to the first that has `until`, or to the last change."""
    balls = [centre]
    cells = centre
    while not cells & until:
        grown = (cells | cells << 1 | cells >> 1 | cells << width | cells >> width) & free
        if grown == cells:
            break
        balls.append(grown)
        cells = grown
    return balls


def _grow(sets: list[int], last: int, width: int, free: int, waits: bool) -> None:
    """Extends the list of sets of cells after 0, 1, ... moves up to `last` moves."""
    while len(sets) <= last:
        cells = sets[-1]
        grown = cells << 1 | cells >> 1 | cells << width | cells >> width
        sets.append((grown | cells if waits else grown) & free)


def _can_meet(first: list[int], second: list[int]) -> bool:
    """True if two agents with these layers can be in one cell at one time or swap cells."""
    for a, b in zip(first, second, strict=True):
        if a & b:
            return True
    return any(first[t] & second[t + 1] and first[t + 1] & second[t] for t in range(len(first) - 1))
