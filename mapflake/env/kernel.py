"""The compiled solver and generator: csrc/, for boards up to 10x10 with up to 10 agents.

compiler.py builds the library at its first use, once for small and once for larger boards, in about a second each.
Where it cannot be built, one warning says so, and plain.py serves. Calls from several threads run at the same time, on
several processors: a search releases the GIL, and all that it writes to is a space of its own.
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from mapflake.env import compiler
from mapflake.env.instance import Instance
from mapflake.env.plain import APART, PAIR, SOLVED, Answer

logger = logging.getLogger(__name__)

KERNEL_SIZE, KERNEL_AGENTS = 10, 10  # limits of csrc/board.h
SMALL_SIZE = 7  # up to there a set of cells is one word, and the search takes two thirds of the time
MAX_BUDGET = (1 << 63) - 1  # nodes are counted in 64 bits; that many take thousands of years
NO_MEMORY = 5  # a status beside those of plain.py


class _Answer(ctypes.Structure):
    """The kernel's answer, see csrc/kernel.c."""

    _fields_ = (
        ("status", ctypes.c_int32),
        ("agent", ctypes.c_int32 * 2),
        ("best_sum", ctypes.c_int32),
        ("needs_wait", ctypes.c_int32),
        ("moves", ctypes.c_char_p),
    )


class _Space:
    """What one search at a time writes to: the kernel's memory, and its answer, which points into that memory."""

    def __init__(self, library: Any) -> None:
        self._free = library.mapflake_free
        self.memory = library.mapflake_space()
        if not self.memory:
            raise MemoryError("the solver found no memory")
        self.answer = _Answer()
        self.answer_at = ctypes.addressof(self.answer)

    def __del__(self) -> None:
        if getattr(self, "memory", None):
            self._free(self.memory)


class Kernel:
    """A loaded library, and its idle spaces: a call takes one, or makes one, and puts it back.

    As many are kept as the machine has processors. A space keeps up to 64 MB of a large search for the next one.
    """

    def __init__(self, library: Any) -> None:
        pointer, integer, word, text = ctypes.POINTER, ctypes.c_int, ctypes.c_uint64, ctypes.c_char_p
        space = answer = ctypes.c_void_p
        library.mapflake_space.argtypes, library.mapflake_space.restype = (), space
        library.mapflake_free.argtypes, library.mapflake_free.restype = (space,), None
        library.mapflake_solve.argtypes = (
            space, integer, word, word, integer, text, text, integer, ctypes.c_int64, answer,
        )  # fmt: skip
        library.mapflake_sample.argtypes = (
            space, pointer(word), integer, integer, integer, integer, integer, integer, ctypes.c_int64, text,
            pointer(integer), answer,
        )  # fmt: skip
        self.library, self.solve, self.sample = library, library.mapflake_solve, library.mapflake_sample
        self._idle: list[_Space] = []
        self._kept = os.cpu_count() or 1

    def take(self) -> _Space:
        """Returns a space that nobody else has."""
        try:
            return self._idle.pop()  # in one step, like append: no other thread gets the same one
        except IndexError:
            return _Space(self.library)

    def put_back(self, space: _Space) -> None:
        """Keeps a space for a later call."""
        if len(self._idle) < self._kept:
            self._idle.append(space)


@cache
def library(small: bool) -> Kernel | None:
    """Returns the compiled kernel for small or for all boards, or None, with one warning, if it cannot be had."""
    try:
        return Kernel(compiler.load(*(("-DSMALL",) if small else ())))
    except compiler.FAILURES as error:
        mine = object()
        if _warned.setdefault("warned", mine) is mine:  # in one step: of several threads, one warns
            why = compiler.reason(error)
            logger.warning("no compiled solver (%s): the plain one is exact too, but slow", why)
        return None


_warned: dict[str, object] = {}


def takes(size: int, agents: int) -> bool:
    """Returns True if the kernel can be built and takes boards of this size with so many agents."""
    return size <= KERNEL_SIZE and agents <= KERNEL_AGENTS and library(size <= SMALL_SIZE) is not None


def search(instance: Instance, what: int, budget: int) -> Answer:
    """Returns the answer to a question, as `plain.search` does; only where `takes` allows it."""
    size = instance.size
    width = size + 1
    holes = 0
    for row, col in instance.holes:
        holes |= 1 << (row + 1) * width + col
    starts = bytes([(row + 1) * width + col for row, col in instance.starts])
    goals = bytes([(row + 1) * width + col for row, col in instance.goals])
    low, high = holes & 0xFFFFFFFFFFFFFFFF, holes >> 64
    kernel = _kernel(size)
    space = kernel.take()
    try:
        kernel.solve(
            space.memory, size, low, high, len(starts), starts, goals, what, min(budget, MAX_BUDGET), space.answer_at
        )
        return _read(space.answer)
    finally:
        kernel.put_back(space)


class Sample(NamedTuple):
    """The result of sampling boards.

    Attributes:
        state: State of the random numbers after the last board.
        boards: Number of boards drawn.
        dropped: How many of them, of the split that was asked for, were over budget.
        found: The last board, if it can be solved and has the label and bucket asked for.
        answer: The answer for the last board, found or not.
    """

    state: int
    boards: int
    dropped: int
    found: Instance | None
    answer: Answer


def sample(
    state: int, size: int, holes: int, agents: int, waits: bool | None, buckets: int, attempts: int, budget: int
) -> Sample:
    """Returns the first of at most `attempts` random boards that can be solved, with the label `waits` (None: either).

    Its hash bucket (splits.py) is one of `buckets`, a set of bits. `state` is that of the random numbers, 64 bits, and
    `budget` the nodes of each search.
    """
    stream, dropped = ctypes.c_uint64(state), ctypes.c_int()
    board = ctypes.create_string_buffer(size * size + agents)
    wanted = -1 if waits is None else int(waits)
    kernel = _kernel(size)
    space = kernel.take()
    try:
        boards = kernel.sample(
            space.memory,
            stream,
            size,
            holes,
            agents,
            wanted,
            buckets,
            attempts,
            budget,
            board,
            dropped,
            space.answer_at,
        )
        answer = _read(space.answer)
    finally:
        kernel.put_back(space)
    found = board_of(size, holes, agents, board.raw[: holes + 2 * agents]) if boards > 0 else None
    return Sample(stream.value, abs(boards), dropped.value, found, answer)


def _kernel(size: int) -> Kernel:
    kernel = library(size <= SMALL_SIZE)
    if kernel is None:
        raise RuntimeError("no compiled solver: ask `takes` first")
    return kernel


def board_of(size: int, holes: int, agents: int, cells: Sequence[int]) -> Instance:
    """Returns the board with these holes, starts and goals, in this order, each as row * size + col."""
    places = [divmod(cell, size) for cell in cells]
    return Instance(size, frozenset(places[:holes]), tuple(places[holes:-agents]), tuple(places[-agents:]))


def _read(answer: _Answer) -> Answer:
    status = answer.status
    if status != SOLVED:
        if status == NO_MEMORY:
            raise MemoryError("the solver found no memory")
        return Answer(status, tuple(answer.agent[: {APART: 1, PAIR: 2}.get(status, 0)]))
    return Answer(SOLVED, (), tuple(answer.moves.decode().split(" ")), answer.best_sum, bool(answer.needs_wait))
