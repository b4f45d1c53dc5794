"""The order in which costs are asked for, in plain Python: what the compiled kernel does, for boards of any size.

Most boards are settled by the preferred shortest paths of the agents; the others by asking for cost vectors (costs.py)
in the order of their sum; dense boards where that is hopeless by A* over joint states (joint.py). Instances without a
plan are proven so (agents apart, pairs exhausted, joint states exhausted), or the budget is spent. csrc/ follows
these modules function by function, with the same plans and counts of nodes (tests/env/test_kernel.py): change both.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from mapflake.env.exact.costs import BudgetExceeded, CostSearch, Path
from mapflake.env.exact.joint import joint_search
from mapflake.env.exact.pairs import pair_makespan

SOLVED, APART, PAIR, NONE, BUDGET = range(5)
"""How a search ends: with paths; an agent cut off from its goal; two agents that can never both arrive; no plan for
all of them; the budget spent."""

MAKESPAN, SUM_OF_COSTS, ANALYSE, NEEDS_WAIT = range(4)
"""What can be asked: paths optimal in one of the two objectives; makespan-optimal paths, the best sum of costs and the
wait label; the wait label."""

_SMALL_EXCESS = 12  # tried before asking whether there is a plan at all
_SMALL_SPACE = 200_000  # joint states that may be worth exhausting
_TIE_BREAK = 10_000  # nodes to find the fewest moves among plans of one makespan


class Answer(NamedTuple):
    """What a search found.

    Attributes:
        status: How it ended; the rest counts only if SOLVED.
        agents: The agents concerned, if APART (one) or PAIR (two).
        moves: A string for each agent, without trailing waits; optimal in what was asked; empty if that is the label.
        best_sum: The optimal sum of costs; 0 if the makespan or the label was asked.
        needs_wait: The wait label, if it was asked.
        nodes: Table rows and joint states visited.
    """

    status: int
    agents: tuple[int, ...]
    moves: tuple[str, ...]
    best_sum: int
    needs_wait: bool
    nodes: int


class _NoPlan(Exception):
    """The status and the agents."""


def search(size: int, holes: int, starts: Sequence[int], goals: Sequence[int], what: int, budget: int) -> Answer:
    """Returns the answer to `what`; cells are numbered, and holes are a set of bits, as in costs.py."""
    space = CostSearch(size + 1, _full_board(size) & ~holes, starts, goals, budget)
    excess, waits = 0, False
    try:
        for agent, distance in enumerate(space.distance):
            if distance < 0:
                raise _NoPlan(APART, agent)
        paths = independent(space)
        if what == NEEDS_WAIT:
            waits = paths is None and wait_label(space)
            return Answer(SOLVED, (), ("",) * len(starts), 0, waits, space.nodes)
        if paths is None and what == SUM_OF_COSTS:
            paths = best_sum(space)
            excess = excess_of(space, paths)
        elif paths is None:
            paths, excess = best_makespan(space)
            if what == ANALYSE:
                if excess < excess_of(space, paths):
                    excess = excess_of(space, down_to(space, paths, excess))
                waits = excess > 0 and waits_needed(space, excess)
    except _NoPlan as found:
        status, *agents = found.args
        return Answer(status, tuple(agents), (), 0, False, space.nodes)
    except BudgetExceeded:
        return Answer(BUDGET, (), (), 0, False, space.nodes)
    best = sum(space.distance) + excess if what != MAKESPAN else 0
    return Answer(SOLVED, (), _moves(space, paths), best, waits, space.nodes)


@lru_cache(maxsize=64)
def _full_board(size: int) -> int:
    return sum(1 << (row + 1) * (size + 1) + col for row in range(size) for col in range(size))


def _moves(search: CostSearch, paths: Sequence[Path]) -> tuple[str, ...]:
    letters = {-search.width: "U", search.width: "D", -1: "L", 1: "R", 0: "W"}
    return tuple("".join([letters[path[t + 1] - path[t]] for t in range(len(path) - 1)]).rstrip("W") for path in paths)


def _arrival(path: Path) -> int:
    time = len(path) - 1
    while time > 0 and path[time - 1] == path[-1]:
        time -= 1
    return time


def excess_of(search: CostSearch, paths: Sequence[Path]) -> int:
    """Returns the sum of costs minus the sum of distances."""
    return sum(map(_arrival, paths)) - sum(search.distance)


def independent(search: CostSearch) -> list[Path] | None:
    """The preferred shortest paths, if they are free of conflicts: optimal in every respect."""
    paths = search.shortest()
    horizon = max(map(len, paths))
    for first, path in enumerate(paths):
        for other in paths[:first]:
            a, b = path[0], other[0]
            for t in range(1, horizon):
                c = path[t] if t < len(path) else a
                d = other[t] if t < len(other) else b
                if c == d or (c == b and d == a):
                    return None
                a, b = c, d
    return paths


def _first_paths(search: CostSearch, excess: int, cap: int | None = None) -> list[Path] | None:
    """Paths whose costs sum to the distances plus `excess`, with the least makespan that this sum allows."""
    for costs in search.vectors(excess, cap):
        paths = search.paths(costs)
        if paths is not None:
            return paths
    return None


def best_makespan(search: CostSearch) -> tuple[list[Path], int]:
    """Returns paths of optimal makespan, and a bound from below on the excess of any paths."""
    best, least = None, 0
    with _allowance(search):
        while best is None and least <= _SMALL_EXCESS:
            paths = _first_paths(search, least)
            if paths is None:
                least += 1
            else:
                best = _sooner(search, paths) or paths
    if best is None:
        best = _least_makespan(search)
    return _fewest_moves(search, best, least), least


def _sooner(search: CostSearch, paths: list[Path]) -> list[Path] | None:
    """Paths of optimal makespan, whatever their sum of costs, if that is less than the makespan of `paths`."""
    for makespan in range(max(search.distance), max(map(_arrival, paths))):
        found = search.paths((makespan,) * len(search.starts))
        if found is not None:
            return found
    return None


def _soon_best_sum(search: CostSearch) -> tuple[list[Path] | None, int]:
    """Returns paths of optimal sum of costs if they are soon found, and a bound from below on the excess."""
    paths, least = None, 0
    with _allowance(search):
        while paths is None and least <= _SMALL_EXCESS:
            paths = _first_paths(search, least)
            least += paths is None
    return paths, least


def best_sum(search: CostSearch) -> list[Path]:
    """Returns paths of optimal sum of costs."""
    paths, least = _soon_best_sum(search)
    return paths or down_to(search, _least_makespan(search), least)


def down_to(search: CostSearch, paths: list[Path], least: int) -> list[Path]:
    """Paths of optimal sum of costs, given some paths and a bound from below on the excess."""
    most = excess_of(search, paths)
    if len(search.starts) == 2:
        return _first_paths(search, _least_excess_of_two(search, most)) or paths
    with _allowance(search):
        for excess in range(least, most):
            found = _first_paths(search, excess)
            if found is not None:
                return found
        return paths
    return joint_search(search, makespan=False, below=most + sum(search.distance)) or paths


def _least_excess_of_two(search: CostSearch, most: int) -> int:
    """The least excess of two agents, `most` being possible: down the staircase of cost vectors that can be met."""
    first, second = most - 1, 0
    while first >= 0:
        if search.meets(0, 1, search.distance[0] + first, search.distance[1] + second):
            most = first + second
        else:
            second += 1
        first -= 1
    return most


def _least_makespan(search: CostSearch) -> list[Path]:
    """Paths of optimal makespan, whatever their sum of costs; raises _NoPlan if there are none."""
    count = len(search.starts)
    makespan = max(search.distance)
    for i in range(count):
        for j in range(i):
            alone = pair_makespan(search, j, i)
            if alone is None:
                raise _NoPlan(PAIR, j, i)
            makespan = max(makespan, alone)
    with _allowance(search):
        while True:
            paths = search.paths((makespan,) * count)
            if paths is not None:
                return paths
            makespan += 1
    joint = joint_search(search, makespan=True)
    if joint is None:
        raise _NoPlan(NONE)
    return joint


def _fewest_moves(search: CostSearch, paths: list[Path], excess: int) -> list[Path]:
    """Paths of the same makespan with the fewest moves, at least `excess` above the distances, if soon found."""
    makespan = max(map(_arrival, paths))
    with _allowance(search, _TIE_BREAK):
        for fewer in range(excess, excess_of(search, paths)):
            found = _first_paths(search, fewer, makespan)
            if found is not None:
                return found
    return paths


def wait_label(search: CostSearch) -> bool:
    """True if no paths of optimal sum of costs are without a wait before arrival; raises _NoPlan if there are none.

    On crowded boards there are often no paths at all without waits, and that is shown much sooner than the optimal sum.
    """
    paths, least = _soon_best_sum(search)
    if paths is None:
        paths = _least_makespan(search)
        if _joint_states(search) <= _SMALL_SPACE:
            below = sum(search.distance) + excess_of(search, paths) + 1
            restless = joint_search(search, makespan=False, waits=False, below=below)
            return (
                restless is None or joint_search(search, makespan=False, below=sum(map(_arrival, restless))) is not None
            )
        paths = down_to(search, paths, least)
    excess = excess_of(search, paths)
    return excess > 0 and waits_needed(search, excess)


def waits_needed(search: CostSearch, excess: int) -> bool:
    """True if no paths with the optimal `excess` are without a wait before arrival."""
    if excess % 2:
        return True
    with _allowance(search):
        return all(search.paths(costs, False) is None for costs in search.vectors(excess, None, False))
    below = sum(search.distance) + excess + 1
    return joint_search(search, makespan=False, waits=False, below=below) is None


def _joint_states(search: CostSearch) -> int:
    return math.perm(search.free.bit_count(), len(search.starts))


@contextmanager
def _allowance(search: CostSearch, most: int | None = None) -> Iterator[None]:
    """Ends the block early: after `most` nodes, by default an eighth of the joint states if there are few."""
    whole = search.budget
    if most is None:
        space = _joint_states(search)
        most = max(2_000, space // 8) if space <= _SMALL_SPACE else whole
    search.budget = min(whole, search.nodes + most)
    try:
        yield
    except BudgetExceeded:
        if search.nodes > whole:
            raise
    finally:
        search.budget = whole
