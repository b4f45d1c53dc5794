"""csrc/, compiled at its first use: search.py and draw.py for boards up to 10x10 with up to 10 agents.

The C compiler of the machine makes the library, once for small and once for larger boards, in about a second each, and
keeps both in the user's cache folder under a hash of their source. Where there is no compiler that takes it, one
warning says so, and search.py does the same, for the same plans, many times more slowly.
Not covered: threads (one call at a time: the library is called with the interpreter's lock held).
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
from typing import Any

from mapflake.env.exact.draw import Draw
from mapflake.env.exact.search import APART, PAIR, SOLVED, Answer

logger = logging.getLogger(__name__)

SOURCE = Path(__file__).with_name("csrc")
FLAGS = ("-O2", "-shared", "-fPIC")
MAX_SIZE, MAX_AGENTS = 10, 10
SMALL_SIZE = 7  # up to there a set of cells is one word, and the search takes two thirds of the time
MEMORY = 5  # beside the ends of search.py


class _Answer(ctypes.Structure):
    """What the kernel answers, see csrc/kernel.c."""

    _fields_ = (
        ("nodes", ctypes.c_int64),
        ("status", ctypes.c_int32),
        ("agent", ctypes.c_int32 * 2),
        ("best_sum", ctypes.c_int32),
        ("needs_wait", ctypes.c_int32),
        ("lengths", ctypes.c_int32 * MAX_AGENTS),
        ("moves", ctypes.c_char_p),
    )


def cache_folder() -> Path:
    """Returns where the compiled library is kept: `$XDG_CACHE_HOME/mapflake`, `~/.cache/mapflake` by default."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mapflake"


@cache
def library(small: bool) -> Any:
    """Returns the compiled kernel for small or for all boards, or None, with one warning, if it cannot be had."""
    try:
        loaded = ctypes.PyDLL(str(_build(("-DSMALL",) if small else ())))
    except (OSError, subprocess.CalledProcessError) as error:
        why = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        _warn(why[0] if why else type(error).__name__)
        return None
    pointer, word = ctypes.POINTER, ctypes.c_uint64
    integer, text = ctypes.c_int, ctypes.c_char_p
    loaded.mapflake_solve.argtypes = (
        integer, word, word, integer, text, text, integer, ctypes.c_int64, pointer(_Answer),
    )  # fmt: skip
    loaded.mapflake_draw.argtypes = (
        pointer(word), integer, integer, integer, integer, integer, integer, ctypes.c_int64, text, pointer(integer),
        pointer(_Answer),
    )  # fmt: skip
    return loaded


@cache
def _warn(why: str) -> None:
    logger.warning("no compiled solver (%s): going on in Python, slowly", why)


def _build(options: tuple[str, ...]) -> Path:
    source = [(path.name, path.read_bytes()) for path in sorted(SOURCE.iterdir())]
    name = hashlib.blake2b(
        repr((source, FLAGS, options, sys.platform, platform.machine())).encode(), digest_size=8
    ).hexdigest()
    made = cache_folder() / f"kernel-{name}.so"
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
    """Returns True if the kernel is there and takes boards of this size with so many agents."""
    return size <= MAX_SIZE and agents <= MAX_AGENTS and library(size <= SMALL_SIZE) is not None


def search(size: int, holes: int, starts: Sequence[int], goals: Sequence[int], what: int, budget: int) -> Answer:
    """Returns what `mapflake.env.exact.search.search` returns; only where `takes` allows it."""
    kernel = library(size <= SMALL_SIZE)
    low, high = holes & 0xFFFFFFFFFFFFFFFF, holes >> 64
    kernel.mapflake_solve(size, low, high, len(starts), bytes(starts), bytes(goals), what, budget, _answer)
    return _read(len(starts))


def draw(
    state: int, size: int, holes: int, agents: int, waits: bool | None, kept: int, attempts: int, budget: int
) -> Draw:
    """Returns what `mapflake.env.exact.draw.draw` returns; only where `takes` allows it."""
    stream, dropped = ctypes.c_uint64(state), ctypes.c_int()
    board = ctypes.create_string_buffer(size * size + agents)
    wanted = -1 if waits is None else int(waits)
    kernel = library(size <= SMALL_SIZE)
    boards = kernel.mapflake_draw(stream, size, holes, agents, wanted, kept, attempts, budget, board, dropped, _answer)
    cells = board.raw[: holes + 2 * agents]
    return Draw(stream.value, abs(boards), dropped.value, boards > 0, cells, _read(agents))


def _read(agents: int) -> Answer:
    status = _answer.status
    if status != SOLVED:
        if status == MEMORY:
            raise MemoryError("the solver found no memory")
        return Answer(status, tuple(_answer.agent[: {APART: 1, PAIR: 2}.get(status, 0)]), (), 0, False, _answer.nodes)
    letters, at, moves = _answer.moves.decode(), 0, []
    for length in _answer.lengths[:agents]:
        moves.append(letters[at : at + length])
        at += length
    return Answer(SOLVED, (), tuple(moves), _answer.best_sum, bool(_answer.needs_wait), _answer.nodes)
