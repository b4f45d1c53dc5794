"""Random boards that can be solved, with their answers: what the compiled kernel does, for boards of any size.

Holes, starts and goals are uniform over all choices in which no agent starts on its goal. The random numbers are
SplitMix64 (Steele, Lea and Flood 2014), so that the kernel draws the same boards from the same state.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from mapflake.env.exact.search import ANALYSE, BUDGET, NEEDS_WAIT, SOLVED, Answer, search
from mapflake.env.exact.tenths import canonical, tenth

ALL_TENTHS = (1 << 10) - 1

_WORD = (1 << 64) - 1


class Draw(NamedTuple):
    """The board that was found, or the last one that was tried.

    Attributes:
        state: Where the stream of random numbers goes on.
        boards: How many were drawn.
        dropped: How many of them were over budget, among those of the tenths that were asked for.
        found: The last of them can be solved and is what was asked for.
        cells: Its holes, starts and goals, in this order, each as row * size + col.
        answer: Its answer.
    """

    state: int
    boards: int
    dropped: int
    found: bool
    cells: bytes
    answer: Answer


def draw(
    state: int, size: int, holes: int, agents: int, waits: bool | None, kept: int, attempts: int, budget: int
) -> Draw:
    """Returns the first of at most `attempts` boards that can be solved within the budget and is what was asked for.

    Args:
        state: Of the random numbers, 64 bits.
        size: Rows of the board.
        holes: How many.
        agents: How many.
        waits: The wait label; None takes both.
        kept: A set of bits: the tenths (tenths.py) that it may belong to.
        attempts: Boards to draw.
        budget: Nodes of each search.
    """
    width = size + 1
    place = [(row + 1) * width + col for row in range(size) for col in range(size)]
    dropped = 0
    for attempt in range(1, attempts + 1):
        board = list(range(size * size))
        state = _choose(state, board, holes + agents)
        starts = board[holes : holes + agents]
        goals = starts
        while any(start == goal for start, goal in zip(starts, goals, strict=True)):
            ice = board[holes:]
            state = _choose(state, ice, agents)
            goals = ice[:agents]
        mask = sum(1 << place[cell] for cell in board[:holes])
        ends = [[place[cell] for cell in cells] for cells in (starts, goals)]
        ask = partial(search, size, mask, ends[0], ends[1])
        answer = ask(NEEDS_WAIT, 0)  # what takes no search: most boards end here
        known = answer.status == SOLVED
        found = waits in (None, answer.needs_wait) if known else answer.status == BUDGET
        found = found and (kept == ALL_TENTHS or _in_tenths(kept, size, board[:holes], starts, goals))
        if found and not known and waits is not None:  # many have the other label: plans are for those that have not
            answer = ask(NEEDS_WAIT, budget)
            found = answer.status == SOLVED and answer.needs_wait == waits
            dropped += answer.status == BUDGET
        if found:
            answer = ask(ANALYSE, budget)
            found = answer.status == SOLVED
            dropped += answer.status == BUDGET
        if found or attempt == attempts:
            return Draw(state, attempt, dropped, found, bytes(board[:holes] + starts + goals), answer)
    raise ValueError(f"attempts: {attempts!r} is not a positive integer")


def _in_tenths(kept: int, size: int, *cells: list[int]) -> bool:
    return kept >> tenth(canonical(size, *([divmod(cell, size) for cell in part] for part in cells))) & 1 == 1


def _choose(state: int, cells: list[int], first: int) -> int:
    """Puts a random choice of the cells to the front of the list and returns the next state."""
    for i in range(first):
        state = state + 0x9E3779B97F4A7C15 & _WORD
        z = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        z = (z ^ z >> 27) * 0x94D049BB133111EB & _WORD
        j = i + ((z ^ z >> 31) * (len(cells) - i) >> 64)
        cells[i], cells[j] = cells[j], cells[i]
    return state
