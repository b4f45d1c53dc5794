"""The compiled solver and generator: csrc/, built at its first use, for boards up to 10x10 with up to 10 agents.

The machine's C compiler makes the library, once for small and once for larger boards, in about a second each; both
stay in `$XDG_CACHE_HOME/mapflake` (`~/.cache/mapflake`) under a hash of their source. Where no compiler can build it,
one warning says so, and plain.py serves. Not covered: threads (one call at a time: it holds the interpreter's lock).
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mapflake.env.instance import Instance
from mapflake.env.plain import APART, PAIR, SOLVED, Answer

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("csrc")
FLAGS = ("-O2", "-shared", "-fPIC")
KERNEL_SIZE, KERNEL_AGENTS = 10, 10  # limits of csrc/board.h
SMALL_SIZE = 7  # up to there a set of cells is one word, and the search takes two thirds of the time
NO_MEMORY = 5  # a status beside those of plain.py


class _Answer(ctypes.Structure):
    """The kernel's answer, see csrc/kernel.c."""

    _fields_ = (
        ("status", ctypes.c_int32),
        ("agent", ctypes.c_int32 * 2),
        ("best_sum", ctypes.c_int32),
        ("needs_wait", ctypes.c_int32),
        ("lengths", ctypes.c_int32 * KERNEL_AGENTS),
        ("moves", ctypes.c_char_p),
    )


@cache
def library(small: bool) -> Any:
    """Returns the compiled kernel for small or for all boards, or None, with one warning, if it cannot be had."""
    try:
        loaded = ctypes.PyDLL(str(_build(("-DSMALL",) if small else ())))
    except (OSError, subprocess.CalledProcessError) as error:
        why = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        _warn(why[0] if why else type(error).__name__)
        return None
    pointer, integer, word, text = ctypes.POINTER, ctypes.c_int, ctypes.c_uint64, ctypes.c_char_p
    loaded.mapflake_solve.argtypes = (
        integer, word, word, integer, text, text, integer, ctypes.c_int64, pointer(_Answer),
    )  # fmt: skip
    loaded.mapflake_sample.argtypes = (
        pointer(word), integer, integer, integer, integer, integer, integer, ctypes.c_int64, text, pointer(integer),
        pointer(_Answer),
    )  # fmt: skip
    return loaded


@cache
def _warn(why: str) -> None:
    logger.warning("no compiled solver (%s): the plain one is exact too, but slow", why)


def _build(options: tuple[str, ...]) -> Path:
    source = [(path.name, path.read_bytes()) for path in sorted(SOURCE.iterdir())]
    name = hashlib.blake2b(
        repr((source, FLAGS, options, sys.platform, platform.machine())).encode(), digest_size=8
    ).hexdigest()
    cache_folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mapflake"
    made = cache_folder / f"kernel-{name}.so"
    if not made.exists():
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if compiler is None:
            raise OSError("none of cc, gcc, clang is installed")
        made.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=made.parent) as folder:
            new = Path(folder) / made.name
            command = [compiler, *FLAGS, *options, "-o", str(new), str(SOURCE / "kernel.c")]
            subprocess.run(command, check=True, capture_output=True, text=True)
            new.replace(made)  # at once: somebody else may be doing the same
    return made


_answer = _Answer()


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
    library(size <= SMALL_SIZE).mapflake_solve(size, low, high, len(starts), starts, goals, what, budget, _answer)
    return _read(len(starts))


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
    kernel = library(size <= SMALL_SIZE)
    boards = kernel.mapflake_sample(
        stream, size, holes, agents, wanted, buckets, attempts, budget, board, dropped, _answer
    )
    found = board_of(size, holes, agents, board.raw[: holes + 2 * agents]) if boards > 0 else None
    return Sample(stream.value, abs(boards), dropped.value, found, _read(agents))


def board_of(size: int, holes: int, agents: int, cells: Sequence[int]) -> Instance:
    """Returns the board with these holes, starts and goals, in this order, each as row * size + col."""
    places = [divmod(cell, size) for cell in cells]
    return Instance(size, frozenset(places[:holes]), tuple(places[holes:-agents]), tuple(places[-agents:]))


def _read(agents: int) -> Answer:
    status = _answer.status
    if status != SOLVED:
        if status == NO_MEMORY:
            raise MemoryError("the solver found no memory")
        return Answer(status, tuple(_answer.agent[: {APART: 1, PAIR: 2}.get(status, 0)]))
    letters, at, moves = _answer.moves.decode(), 0, []
    for length in _answer.lengths[:agents]:
        moves.append(letters[at : at + length])
        at += length
    return Answer(SOLVED, (), tuple(moves), _answer.best_sum, bool(_answer.needs_wait))
