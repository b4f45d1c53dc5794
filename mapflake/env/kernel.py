"""The compiled solver and generator: csrc/, for boards up to 10x10 with up to 10 agents.

compiler.py builds the library at its first use, once for small and once for larger boards, in about a second each.
Where it cannot be built, one warning says so, and plain.py serves. Calls from several threads run at the same time, on
several processors: a search releases the GIL, and all that it writes to is a space of its own.
"""

from __future__ import annotations

import contextlib
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
NO_MEMORY = 5  # a status in addition to those of plain.py


class _Answer(ctypes.Structure):  # see csrc/kernel.c
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

    def __del__(self) -> None:
        if self.memory:
            self._free(self.memory)


class Kernel:
    """A loaded library, and its idle spaces, at most one for each processor, each of up to 64 MB."""

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
        self.library = library
        self._idle: list[_Space] = []

    def call(self, function: str, *arguments: Any) -> tuple[int, Answer]:
        """Returns what a function of the library returns, and its answer, in a space that no other thread has."""
        try:
            space = self._idle.pop()  # in one step, like append: no other thread gets the same one
        except IndexError:
            space = _Space(self.library)
        try:
            answer = space.answer
            result = getattr(self.library, function)(space.memory, *arguments, ctypes.addressof(answer))
            if answer.status == NO_MEMORY:
                raise MemoryError("the solver found no memory")
            if answer.status == SOLVED:
                moves = tuple(answer.moves.decode().split(" "))
                return result, Answer(SOLVED, (), moves, answer.best_sum, bool(answer.needs_wait))
            num_agents = {APART: 1, PAIR: 2}.get(answer.status, 0)
            return result, Answer(answer.status, tuple(answer.agent[:num_agents]))
        finally:
            if len(self._idle) < (os.cpu_count() or 1):
                self._idle.append(space)


_warning = ["no compiled solver (%s): the plain one is exact too, but slow"]  # popped by the one that logs it


@cache
def library(small: bool) -> Kernel | None:
    """Returns the compiled kernel for small or for all boards, or None, with one warning, if it cannot be had."""
    try:
        return Kernel(compiler.load(*(("-DSMALL",) if small else ())))
    except compiler.FAILURES as error:
        reason = compiler.reason(error)
        with contextlib.suppress(IndexError):
            logger.warning(_warning.pop(), reason)
        return None


def _kernel(size: int) -> Any:
    return library(size <= SMALL_SIZE)


def takes(size: int, agents: int) -> bool:
    """Returns True if the kernel can be built and takes boards of this size with so many agents."""
    return size <= KERNEL_SIZE and agents <= KERNEL_AGENTS and _kernel(size) is not None


def search(instance: Instance, what: int, budget: int) -> Answer:
    """Returns the answer to a question, as `plain.search` does; only where `takes` allows it."""
    size = instance.size
    width = size + 1
    holes = 0
    for row, col in instance.holes:
        holes |= 1 << (row + 1) * width + col
    starts = bytes([(row + 1) * width + col for row, col in instance.starts])
    goals = bytes([(row + 1) * width + col for row, col in instance.goals])
    board = (size, holes & 0xFFFFFFFFFFFFFFFF, holes >> 64, len(starts), starts, goals)
    return _kernel(size).call("mapflake_solve", *board, what, min(budget, MAX_BUDGET))[1]


class Sample(NamedTuple):
    """The result of sampling boards."""

    state: int  # of the random numbers after the last board
    boards: int  # how many were drawn
    dropped: int  # how many of them, of the split that was asked for, were over budget
    found: Instance | None  # the last board, if it can be solved and has the label and bucket asked for
    answer: Answer  # for the last board, found or not


def sample(
    state: int, size: int, holes: int, agents: int, waits: bool | None, buckets: int, attempts: int, budget: int
) -> Sample:
    """Returns the first of at most `attempts` random boards that can be solved, with the label `waits` (None: either).

    Its hash bucket (splits.py) is one of `buckets`, a set of bits. `state` is that of the random numbers, 64 bits, and
    `budget` the nodes of each search.
    """
    stream, dropped = ctypes.c_uint64(state), ctypes.c_int()
    board = ctypes.create_string_buffer(size * size + agents)
    label = -1 if waits is None else int(waits)
    arguments = (stream, size, holes, agents, label, buckets, attempts, budget, board, dropped)
    boards, answer = _kernel(size).call("mapflake_sample", *arguments)
    instance = board_of(size, holes, agents, board.raw[: holes + 2 * agents]) if boards > 0 else None
    return Sample(stream.value, abs(boards), dropped.value, instance, answer)


def board_of(size: int, holes: int, agents: int, cells: Sequence[int]) -> Instance:
    """Returns the board with these holes, starts and goals, in this order, each as row * size + col."""
    places = [divmod(cell, size) for cell in cells]
    return Instance(size, frozenset(places[:holes]), tuple(places[holes:-agents]), tuple(places[-agents:]))
