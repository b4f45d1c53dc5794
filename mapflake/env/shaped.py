"""Boards of a dimension of one's own: drawn as all others are, changed by its `shape`, then solved and selected.

A shape says what a board is like, this module that it stays a legal draw: as many holes and agents, no agent on its
goal, solvable within the budget, with the wait label that was asked for. Shapes act in the order of the table. Not
covered: speed. Every board passes through Python, where the paper's three dimensions stay in the compiled kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mapflake.env.config import own_dimensions
from mapflake.env.exact import tenths
from mapflake.env.exact.draw import ALL_TENTHS, Draw
from mapflake.env.exact.search import ANALYSE, BUDGET, SOLVED
from mapflake.env.instance import Instance
from mapflake.env.solver import answer


def draw_shaped(
    further: Sequence[tuple[str, float]],
    uniform: Callable[..., Draw],
    state: int,
    size: int,
    holes: int,
    agents: int,
    waits: bool | None,
    kept: int,
    attempts: int,
    budget: int,
) -> Draw:
    """Returns the first of at most `attempts` shaped boards that can be solved and has the wait label.

    Args:
        further: Dimensions and their ratios, as in `SizeConfig.further`.
        uniform: What draws the boards that are shaped: `exact.draw.draw`, or its compiled form.
        state: As in `exact.draw.draw`, as are the others.
        size: Rows of the board.
        holes: How many.
        agents: How many.
        waits: The wait label; None takes both.
        kept: As in `exact.draw.draw`.
        attempts: Boards to draw.
        budget: Nodes of each search.

    Raises:
        ValueError: A shape changed what is not its own; names the dimension.
    """
    dropped = 0
    for attempt in range(1, attempts + 1):
        drawn = uniform(state, size, holes, agents, None, ALL_TENTHS, 1, 0)  # unsolved: what counts is the shaped board
        state = drawn.state
        board = _shaped(_board(size, holes, agents, drawn.cells), further, np.random.default_rng(state))
        found = answer(board, ANALYSE, budget)
        dropped += found.status == BUDGET
        fits = found.status == SOLVED and waits in (None, found.needs_wait) and _in_tenths(kept, board)
        if fits or attempt == attempts:
            return Draw(state, attempt, dropped, fits, _cells(board), found)
    raise ValueError(f"attempts: {attempts!r} is not a positive integer")


def _shaped(board: Instance, further: Sequence[tuple[str, float]], rng: np.random.Generator) -> Instance:
    for name, level in further:
        shape = own_dimensions()[name].shape
        if shape is None:
            raise ValueError(f"{name}: its entry in DIMENSIONS has no shape")
        changed = shape(board, level, rng)
        was, now = ((b.size, len(b.holes), b.num_agents) for b in (board, changed))
        if was != now:
            raise ValueError(f"{name}: its shape made size, holes and agents {now} out of {was}; it may move them only")
        for agent, (start, goal) in enumerate(zip(changed.starts, changed.goals, strict=True)):
            if start == goal:
                raise ValueError(f"{name}: its shape puts agent {agent} on its goal {goal}")
        board = changed
    return board


def _in_tenths(kept: int, board: Instance) -> bool:
    return kept >> tenths.tenth(tenths.canonical(board.size, board.holes, board.starts, board.goals)) & 1 == 1


def _board(size: int, holes: int, agents: int, cells: bytes) -> Instance:
    places = [divmod(cell, size) for cell in cells]
    return Instance(size, frozenset(places[:holes]), tuple(places[holes:-agents]), tuple(places[-agents:]))


def _cells(board: Instance) -> bytes:
    return bytes(row * board.size + col for row, col in (*sorted(board.holes), *board.starts, *board.goals))
