"""The compiled solver: built once, done without where it cannot be built, and clean under the sanitizers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mapflake.env import Instance, kernel, solve

needs_compiler = pytest.mark.skipif(kernel.library(True) is None, reason="no C compiler here")


def test_boards_that_the_kernel_does_not_take_are_solved_too():
    large = Instance(12, frozenset(), ((0, 0), (11, 11)), ((11, 11), (0, 0)))
    twelve = tuple((row, col) for row in range(3) for col in range(4))
    assert not kernel.takes(12, 2)
    assert not kernel.takes(4, 12)
    assert solve(large).makespan == 22
    assert solve(Instance(4, frozenset(), twelve, twelve)).makespan == 0
    starts = tuple((0, col) for col in range(11))  # all go down, and the first two change columns
    goals = tuple((11, col) for col in (1, 0, *range(2, 11)))
    assert solve(Instance(12, frozenset(), starts, goals), "sum_of_costs").sum_of_costs == 9 * 11 + 2 * 12


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here")
def test_kernel_is_clean_under_the_sanitizers():
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("sanitize.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "no error" in done.stdout


SOLVE = """
import logging; logging.basicConfig(format="%(message)s")
from mapflake.env import Instance, solve
print(*(solve(Instance.from_text(text)).plan.moves for text in ("S1 H .\\n. H .\\n. . G1", "S1 G1 .\\n. . .\\n. . .")))
"""
PLANS = "('DDRR',) ('R',)\n"


def run(cache, **changes):
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), **changes}
    return subprocess.run([sys.executable, "-c", SOLVE], capture_output=True, text=True, env=environment, check=False)


@needs_compiler
def test_it_is_compiled_once(tmp_path):
    first = run(tmp_path)
    assert (first.stdout, first.stderr) == (PLANS, "")
    (library,) = (tmp_path / "mapflake").iterdir()
    made = library.stat().st_mtime_ns
    assert run(tmp_path).stdout == first.stdout
    assert [path.stat().st_mtime_ns for path in (tmp_path / "mapflake").iterdir()] == [made]


def test_without_a_compiler_the_plain_solver_serves_and_says_so_once(tmp_path):
    done = run(tmp_path, PATH=str(tmp_path))
    assert done.stdout == PLANS
    assert (
        done.stderr
        == "no compiled solver (none of cc, gcc, clang is installed): the plain one is exact too, but slow\n"
    )


@needs_compiler
def test_what_cannot_be_built_or_loaded_is_survived(tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'what is this' >&2\nexit 1\n")
    compiler.chmod(0o755)
    run(tmp_path / "cut")
    (library,) = (tmp_path / "cut" / "mapflake").iterdir()
    library.write_bytes(library.read_bytes()[:100])
    for cache, changes, why in (
        (tmp_path, {"PATH": str(tmp_path)}, "(what is this)"),
        (compiler, {}, "no compiled solver"),  # a file where the folder should be
        (tmp_path / "cut", {}, "no compiled solver"),  # a library that was cut off
    ):
        done = run(cache, **changes)
        assert done.stdout == PLANS
        assert why in done.stderr
