"""The search behind solver.py: can agent i be on its goal for good by time `costs[i]`, for all agents at once?

An increasing-cost-tree search (Sharon et al. 2013, "The increasing cost tree search for optimal multi-agent
pathfinding"), with sets of cells as integers: bit (row + 1) * (size + 1) + col is a cell, and the column to the right
of the board and the row above it are never free, so that moves are shifts. For one cost vector:

- layers: the cells where an agent can be at each time, reachable from its start and in time for its goal;
- pairs (pairs.py): which two costs two agents can meet at all, and, for costs that all pairs can meet, tables of the
  joint positions from which both still arrive;
- groups (groups.py): agents that can meet are searched together. What three of them cannot do, they cannot do for less.

Everything is integers, tuples and lists of them; nothing depends on time or chance. Not covered: which cost
vectors to ask for (search.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from mapflake.env.exact.groups import group_paths
from mapflake.env.exact.pairs import Staircase, Table, balls, grow, pair_table, staircase

Path = list[int]


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
        self.balls = [balls(width, free, 1 << goal, 1 << start) for start, goal in zip(starts, goals, strict=True)]
        self.distance = tuple(
            len(near) - 1 if near[-1] >> start & 1 else -1 for near, start in zip(self.balls, starts, strict=True)
        )
        self._reach: list[list[int]] = [[1 << start] for start in starts]
        self._exact: list[tuple[list[int], list[int]]] = [
            ([1 << start], [1 << goal]) for start, goal in zip(starts, goals, strict=True)
        ]
        self._layers: dict[tuple[int, int, bool], list[int]] = {}
        self._pairs: dict[tuple[int, int, int, int, bool], Table | bool] = {}
        self._nogoods: list[list[tuple[int, int]]] = []  # agents and costs that cannot all be met
        self._possible: set[tuple[tuple[int, int], ...]] = set()  # threes that can
        self._stairs: dict[tuple[int, int], Staircase] = {}
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
        for start, near, distance in zip(self.starts, self.balls, self.distance, strict=True):
            cell = start
            path = [cell]
            for k in range(distance - 1, -1, -1):
                ball = near[k]
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
            grow(ahead, cost, self.width, self.free, waits)
            grow(back, cost, self.width, self.free, waits)
            self._layers[key] = [ahead[t] & back[cost - t] for t in range(cost + 1)]
        return self._layers[key]

    # ------------------------------------------------------------ pairs

    def pair(self, i: int, j: int, cost_i: int, cost_j: int, waits: bool) -> Table | bool:
        """Returns False if agents i and j cannot both arrive, True if they cannot meet, else their pair table.

        The table has for each time and each cell of i the set of cells of j from which both arrive.
        """
        key = (i, j, cost_i, cost_j, waits)
        if key not in self._pairs:
            self._pairs[key] = pair_table(self, i, j, cost_i, cost_j, waits)
        return self._pairs[key]

    def meets(self, i: int, j: int, cost_i: int, cost_j: int) -> bool:
        """Returns True if agents i and j, alone on the board, can both be on their goals for good by these costs."""
        excess_i, excess_j = cost_i - self.distance[i], cost_j - self.distance[j]
        need = max(excess_i, excess_j)
        stairs = self._stairs.get((i, j))
        if stairs is None or stairs.slack < need:
            slack = max(need, 1 if stairs is None else 2 * stairs.slack + 1)
            stairs = self._stairs[i, j] = staircase(self, i, j, slack)
        if stairs.free:
            return True
        if cost_i <= cost_j:
            return stairs.then_j[excess_i] <= cost_j
        return stairs.then_i[excess_j] <= cost_i

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
            if all(
                self.meets(other, agent, costs[other], cost)
                if waits
                else self.pair(other, agent, costs[other], cost, False) is not False
                for other in range(agent)
            ):
                self._extend((*costs, cost), left - extra, cap, waits, found)

    def paths(self, costs: Sequence[int], waits: bool = True) -> list[Path] | None:
        """Returns the preferred paths by which each agent is on its goal for good by its cost, or None.

        Args:
            costs: Time for each agent.
            waits: False asks for agents that move at every step before.

        Raises:
            BudgetExceeded: The budget is spent.
        """
        if waits and any(all(costs[agent] <= most for agent, most in nogood) for nogood in self._nogoods):
            return None
        slack = [cost - distance for cost, distance in zip(costs, self.distance, strict=True)]
        tables: dict[tuple[int, int], Table] = {}
        for i, j in sorted(combinations(self.agents, 2), key=lambda pair: slack[pair[0]] + slack[pair[1]]):
            table = self.pair(i, j, costs[i], costs[j], waits)
            if table is False:
                return None
            if table is not True:
                tables[i, j] = table  # type: ignore[assignment]
        group_of = list(self.agents)
        for i, j in sorted(tables):
            group_of = [group_of[i] if group == group_of[j] else group for group in group_of]
        paths: list[Path] = [[] for _ in self.agents]
        for name in sorted(set(group_of)):
            group = [agent for agent in self.agents if group_of[agent] == name]
            found = group_paths(self, group, costs, waits, tables)
            if found is None:
                if waits and len(group) > 2:
                    self._nogoods.append([(agent, costs[agent]) for agent in self._culprits(group, costs, tables)])
                return None
            for agent, path in zip(group, found, strict=True):
                paths[agent] = path
        return paths

    def _culprits(
        self, group: list[int], costs: Sequence[int], tables: dict[tuple[int, int], Table]
    ) -> tuple[int, ...] | list[int]:
        """Three agents of a group that failed which fail alone, or the group: what they cannot, they cannot sooner."""
        for three in combinations(group, 3):
            key = tuple((agent, costs[agent]) for agent in three)
            if len(group) == 3 or key in self._possible or sum(p in tables for p in combinations(three, 2)) < 2:
                continue
            if group_paths(self, list(three), costs, True, tables) is None:
                return three
            self._possible.add(key)
        return group

    def preferred(self, agent: int, cell: int) -> tuple[int, ...]:
        """Returns the cells an agent can be in next: nearer to its goal first, then waiting, then the others."""
        order = self._order[agent]
        if cell not in order:
            near = self.balls[agent]
            distance = 0
            while not near[distance] >> cell & 1:
                distance += 1
                grow(near, distance, self.width, self.free, True)
            nearer: list[int] = []
            farther: list[int] = []
            for step in (-self.width, self.width, -1, 1):
                if self.free >> cell + step & 1:
                    is_nearer = distance > 0 and near[distance - 1] >> cell + step & 1
                    (nearer if is_nearer else farther).append(cell + step)
            order[cell] = (*nearer, cell, *farther)
        return order[cell]
