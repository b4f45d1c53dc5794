"""The compiled solver: the same answers, plans and counts of nodes as the Python, built once, and done without."""

import os
import random
import subprocess
import sys
from collections import Counter

import pytest
from boards import random_board

from mapflake.env import Instance, solve
from mapflake.env.exact import kernel
from mapflake.env.exact import search as search_module
from mapflake.env.exact.draw import ALL_TENTHS, draw
from mapflake.env.exact.joint import joint_search
from mapflake.env.exact.search import (
    ANALYSE,
    APART,
    BUDGET,
    MAKESPAN,
    NEEDS_WAIT,
    NONE,
    PAIR,
    SOLVED,
    SUM_OF_COSTS,
    search,
)

needs_compiler = pytest.mark.skipif(kernel.library(True) is None, reason="no C compiler here")


def question(board: Instance, what: int, budget: int) -> tuple[int, int, list[int], list[int], int, int]:
    holes, starts, goals = (
        [(row + 1) * (board.size + 1) + col for row, col in cells] for cells in (board.holes, board.starts, board.goals)
    )
    return board.size, sum(1 << hole for hole in holes), starts, goals, what, budget


@needs_compiler
@pytest.mark.parametrize("agents", range(1, 7))
def test_the_same_answers_plans_and_nodes(agents):
    rng = random.Random(agents)
    ends = Counter()
    for size in range(2, 11):
        for _ in range(60):
            holes = rng.randint(0, size * size // 2)
            if size * size - holes <= agents:
                continue
            board = random_board(rng, size, holes, agents)
            what = rng.choice([MAKESPAN, SUM_OF_COSTS, ANALYSE, NEEDS_WAIT])
            asked = question(board, what, rng.choice([100, 2_000]))
            answer = kernel.search(*asked)
            assert answer == search(*asked), board.to_text()
            ends[answer.status] += 1
    assert {SOLVED, APART} <= set(ends)
    assert agents == 1 or BUDGET in ends
    assert agents != 2 or PAIR in ends


@needs_compiler
def test_the_same_proof_that_three_agents_have_no_plan():
    board = Instance.from_text("S1G2 S2G3 S3G1\nH . H\nH H H")
    for what in (MAKESPAN, SUM_OF_COSTS, ANALYSE, NEEDS_WAIT):
        asked = question(board, what, 10_000)
        assert kernel.search(*asked) == search(*asked)
        assert kernel.search(*asked).status == NONE


@needs_compiler
def test_the_same_on_crowded_boards_that_take_the_joint_search(monkeypatch):
    reached = Counter()

    def counted(space, *, makespan, waits=True, below=None):
        reached[makespan, waits] += 1
        return joint_search(space, makespan=makespan, waits=waits, below=below)

    monkeypatch.setattr(search_module, "joint_search", counted)
    rng = random.Random(3)
    for _ in range(16):
        board = random_board(rng, 3, rng.choice([1, 2]), 5)
        for what in (MAKESPAN, SUM_OF_COSTS, ANALYSE, NEEDS_WAIT):
            asked = question(board, what, 20_000)
            assert kernel.search(*asked) == search(*asked), board.to_text()
    assert set(reached) == {(True, True), (False, True), (False, False)}


@needs_compiler
def test_the_same_boards_are_drawn():
    rng = random.Random(5)
    found = 0
    for _ in range(150):
        size, agents = rng.randint(2, 10), rng.randint(1, 5)
        holes = rng.randint(0, size * size // 2)
        if size * size - holes <= agents:
            continue
        waits, kept = rng.choice([None, True, False]), rng.choice([ALL_TENTHS, ALL_TENTHS, 0x0FF, 0x100])
        asked = rng.getrandbits(64), size, holes, agents, waits, kept, rng.choice([1, 8]), 2_000
        drawn = kernel.draw(*asked)
        assert drawn == draw(*asked)
        found += drawn.found
    assert found > 50


def test_boards_that_the_kernel_does_not_take_are_solved_too():
    large = Instance(12, frozenset(), ((0, 0), (11, 11)), ((11, 11), (0, 0)))
    twelve = tuple((row, col) for row in range(3) for col in range(4))
    crowd = Instance(4, frozenset(), twelve, twelve)
    assert not kernel.takes(12, 2)
    assert not kernel.takes(4, 12)
    assert solve(large).makespan == 22
    assert solve(crowd).makespan == 0


SOLVE = """
import logging; logging.basicConfig(format="%(message)s")
from mapflake.env import Instance, solve
print(*(solve(Instance.from_text(text)).plan.moves for text in ("S1 . .\\n. . .\\n. . G1", "S1 G1 .\\n. . .\\n. . .")))
"""


def run(cache, **changes):
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), **changes}
    return subprocess.run([sys.executable, "-c", SOLVE], capture_output=True, text=True, env=environment, check=False)


@needs_compiler
def test_it_is_compiled_once(tmp_path):
    first = run(tmp_path)
    assert (first.stdout, first.stderr) == ("('DDRR',) ('R',)\n", "")
    (library,) = (tmp_path / "mapflake").iterdir()
    made = library.stat().st_mtime_ns
    assert run(tmp_path).stdout == first.stdout
    assert [path.stat().st_mtime_ns for path in (tmp_path / "mapflake").iterdir()] == [made]


def test_without_a_compiler_it_goes_on_in_python_and_says_so_once(tmp_path):
    done = run(tmp_path, PATH=str(tmp_path))
    assert done.stdout == "('DDRR',) ('R',)\n"
    assert done.stderr == "no compiled solver (none of cc, gcc, clang is installed): going on in Python, slowly\n"


def test_a_compiler_that_fails_and_a_cache_that_cannot_be_written_are_survived(tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'what is this' >&2\nexit 1\n")
    compiler.chmod(0o755)
    done = run(tmp_path, PATH=str(tmp_path))
    assert done.stdout == "('DDRR',) ('R',)\n"
    assert done.stderr == "no compiled solver (what is this): going on in Python, slowly\n"
    done = run(compiler)  # a file where the folder should be
    assert done.stdout == "('DDRR',) ('R',)\n"
    assert "going on in Python" in done.stderr


@needs_compiler
def test_a_library_that_was_cut_off_is_not_used(tmp_path):
    run(tmp_path)
    (library,) = (tmp_path / "mapflake").iterdir()
    library.write_bytes(library.read_bytes()[:100])
    done = run(tmp_path)
    assert done.stdout == "('DDRR',) ('R',)\n"
    assert "going on in Python" in done.stderr
