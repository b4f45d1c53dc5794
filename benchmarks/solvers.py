"""The solver's speed against two others, on the same boards in one run; all must agree on every cost.

The others minimise only the sum of costs, so that is compared; the makespan is timed beside it. Each call is timed
alone, as the best of three where it takes less than 10 ms, since other work on a shared core disturbs short calls.
w9-pathfinding (CBS in C++) is optional: `pip install -e ".[bench]"` needs a compiler. It stops at a clock, the others
at a number of nodes, so unsolved boards are counted for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from statistics import mean, median
from typing import Any, NamedTuple

from tqdm import tqdm

from benchmarks.textbook_cbs import NodeLimit, textbook_cbs
from mapflake.env import BudgetExceeded, Instance, Unsolvable, check, distances, num_holes, solve
from mapflake.repro import rng_for

KINDS = ((2, 5, 0.2), (3, 8, 0.3), (5, 10, 0.2), (5, 10, 0.35), (5, 10, 0.5))
"""Agents, size, hole ratio."""

BOARDS = 100
"""Boards of each kind."""

TEXTBOOK_NODES = 1000
W9_SECONDS, W9_LENGTH = 2.0, 200
"""Where the others give up; a path of 200 moves is twice as long as any board has cells."""


class DisagreementError(RuntimeError):
    """Two exact solvers found different optima: one of them is wrong, and its times mean nothing."""


class Call(NamedTuple):
    """One call of a solver: seconds from the board to the plan, and after the library's own objects were made.

    `cost` is the least sum of costs, None if it found none; `unsolvable`: it says that there is no plan, and knows.
    """

    seconds: float
    cost: int | None
    search_seconds: float
    unsolvable: bool = False


Solver = Callable[[Instance], Call]


def compare(kinds: Sequence[tuple[int, int, float]] = KINDS, boards: int = BOARDS) -> list[dict[str, Any]]:
    """Returns, for each kind of board, the solvers' times, how many boards they solved, and the ratios.

    Raises:
        DisagreementError: The solvers do not agree on a cost.
    """
    solvers: dict[str, Solver] = {"mapflake": mapflake, "textbook": textbook}
    if find_spec("w9_pathfinding"):
        solvers["w9"] = w9
    rows = []
    for agents, size, hole_ratio in kinds:
        calls: dict[str, list[Call]] = {name: [] for name in (*solvers, "makespan")}
        drawn = connected_boards(agents, size, hole_ratio, boards)
        for board in tqdm(drawn, desc=f"{agents} agents, {size}x{size}, holes {hole_ratio:g}", disable=None):
            for name, solver in solvers.items():
                calls[name].append(_best(solver, board))
            costs = {name: calls[name][-1].cost for name in solvers}
            optima = {*costs.values()} - {None}
            if len(optima) > 1 or (optima and calls["mapflake"][-1].unsolvable):
                raise DisagreementError(f"sum of costs {costs} on the board\n{board.to_text()}")
            calls["makespan"].append(_best(lambda b: mapflake(b, "makespan"), board))
        row: dict[str, Any] = {"agents": agents, "size": size, "hole_ratio": hole_ratio, "boards": boards}
        row |= {name: _times(calls[name]) for name in calls}
        row |= {name: row[name] | _against(calls["mapflake"], calls[name]) for name in solvers if name != "mapflake"}
        rows.append(row)
    return rows


def connected_boards(agents: int, size: int, hole_ratio: float, count: int) -> list[Instance]:
    """Returns random boards on which every agent could reach its goal if it were alone, and none starts there."""
    holes = num_holes(size, hole_ratio)
    rng = rng_for(0, "bench", agents, size, holes)
    cells = [(row, col) for row in range(size) for col in range(size)]
    boards: list[Instance] = []
    while len(boards) < count:
        order = [cells[i] for i in rng.permutation(len(cells))]
        goals = [order[holes + i] for i in rng.permutation(len(cells) - holes)[:agents]]
        board = Instance(size, frozenset(order[:holes]), tuple(order[holes : holes + agents]), tuple(goals))
        pairs = zip(board.starts, board.goals, strict=True)
        if all(start != goal and start in distances(board, goal) for start, goal in pairs):
            boards.append(board)
    return boards


def mapflake(board: Instance, objective: str = "sum_of_costs") -> Call:
    """Returns the call of our solver."""
    cost, unsolvable = None, False
    begin = time.perf_counter()
    try:
        cost = solve(board, objective).sum_of_costs
    except Unsolvable:
        unsolvable = True
    except BudgetExceeded:
        pass
    seconds = time.perf_counter() - begin
    return Call(seconds, cost, seconds, unsolvable)


def textbook(board: Instance) -> Call:
    """Returns the call of the CBS in textbook_cbs.py."""
    begin = time.perf_counter()
    try:
        plan = textbook_cbs(board, TEXTBOOK_NODES)
    except NodeLimit:
        plan = None
    seconds = time.perf_counter() - begin
    return Call(seconds, None if plan is None else check(board, plan).sum_of_costs, seconds)


def w9(board: Instance) -> Call:
    """Returns the call of w9-pathfinding's CBS, its graph and its finder included; its cells are (x, y)."""
    from w9_pathfinding.envs import Grid
    from w9_pathfinding.mapf import CBS

    weights = [[-1.0 if (row, col) in board.holes else 1.0 for col in range(board.size)] for row in range(board.size)]
    starts, goals = ([(col, row) for row, col in cells] for cells in (board.starts, board.goals))
    begin = time.perf_counter()
    finder = CBS(Grid(weights, edge_collision=True))
    search_begin = time.perf_counter()
    try:
        paths = finder.mapf(starts, goals, max_length=W9_LENGTH, max_time=W9_SECONDS)
    except RuntimeError as error:
        if str(error) != "Timeout":
            raise
        paths = []
    end = time.perf_counter()
    arrivals = [max((t for t in range(1, len(path)) if path[t] != path[t - 1]), default=0) for path in paths]
    return Call(end - begin, sum(arrivals) if paths else None, end - search_begin)


def _best(solver: Solver, board: Instance) -> Call:
    """The best of three calls, or the only one if it is long; each on a copy, so that nobody can remember the board."""
    first = solver(replace(board))
    if first.seconds > 0.01:
        return first
    return min(first, solver(replace(board)), solver(replace(board)), key=lambda call: call.seconds)


def _times(calls: Sequence[Call]) -> dict[str, Any]:
    micros = [1e6 * call.seconds for call in calls]
    solved = sum(call.cost is not None for call in calls)
    return {"mean_us": mean(micros), "p50_us": median(micros), "max_us": max(micros), "solved": solved}


def _against(ours: Sequence[Call], theirs: Sequence[Call]) -> dict[str, Any]:
    """Ratios of mean times on boards that both solved, and on all of them, where giving up early flatters."""
    pairs = list(zip(ours, theirs, strict=True))
    both = [(a, b) for a, b in pairs if a.cost is not None and b.cost is not None]
    our_seconds = sum(a.seconds for a, _ in both)
    return {
        "ratio_both": sum(b.seconds for _, b in both) / our_seconds,
        "ratio_both_search": sum(b.search_seconds for _, b in both) / our_seconds,
        "ratio_all": sum(b.seconds for _, b in pairs) / sum(a.seconds for a, _ in pairs),
        "solved_by_it_alone": sum(a.cost is None and b.cost is not None for a, b in pairs),
    }
