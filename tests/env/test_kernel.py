"""The compiled solver: built once, done without where it cannot be built, and clean under the sanitizers."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small_repo import done

from mapflake.env import Instance, kernel, solve
from mapflake.env import compiler as compiler_module


def test_boards_that_the_kernel_does_not_take_are_solved_too():
    twelve = tuple((row, col) for row in range(3) for col in range(4))
    assert not kernel.takes(12, 2)
    assert not kernel.takes(4, 12)
    assert solve(Instance(4, frozenset(), twelve, twelve)).makespan == 0
    starts = tuple((0, col) for col in range(11))  # all go down, and the first two change columns
    goals = tuple((11, col) for col in (1, 0, *range(2, 11)))
    assert solve(Instance(12, frozenset(), starts, goals), "sum_of_costs").sum_of_costs == 9 * 11 + 2 * 12


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here: apt-get install gcc && make test")
def test_kernel_is_clean_under_the_sanitizers():
    assert "no error" in done(sys.executable, Path(__file__).with_name("sanitize.py"))


SOLVE = """
import logging; logging.basicConfig(format="%(message)s")
from mapflake.env import Instance, compiler, solve
compiler.FLAGS = (*compiler.FLAGS, "-O0")  # a fifth of the time of -O2 to compile
print(*(solve(Instance.from_text(text)).plan.moves for text in ("S1 H .\\n. H .\\n. . G1", "S1 G1 .\\n. . .\\n. . .")))
print(solve(Instance(9, frozenset(), ((0, 0),), ((8, 0),))).makespan)
"""
PLANS = "('DDRR',) ('R',)\n8\n"
WARNING = "no compiled solver (%s): the plain one is exact too, but slow\n"


def run(cache, **changes):
    """Solves boards of both libraries in a process with this cache and these variables changed."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache)} | changes
    return subprocess.run([sys.executable, "-B", "-c", SOLVE], capture_output=True, text=True, env=environment)


FAILS = {  # what a compiler does, and what is said of it
    None: "none of cc, gcc, clang is installed",
    b"echo 'In file a.c:1:' >&2; echo 'a.h: fatal error: no b.h' >&2; exit 1\n": "a.h: fatal error: no b.h",
    b"printf 'a.c: error: \\253no\\n' >&2; exit 1\n": "a.c: error: \ufffdno",  # not UTF-8
    b"while [ $1 != -o ]; do shift; done; echo no >$2\n": "",  # no library
}


@pytest.mark.parametrize(("script", "why"), FAILS.items())
def test_where_nothing_is_compiled_the_plain_solver_serves_and_says_so_once(tmp_path, script, why):
    if script is not None:
        (tmp_path / "cc").write_bytes(b"#!/bin/sh\n" + script)
        (tmp_path / "cc").chmod(0o755)
    result = run(tmp_path / "cache", PATH=str(tmp_path) if script is None else f"{tmp_path}:/usr/bin:/bin")
    assert result.stdout == PLANS
    assert result.stderr == WARNING % why if why else result.stderr.startswith("no compiled solver (")
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("compiled")
def test_libraries_are_built_once_and_broken_ones_again(tmp_path):
    """One that was cut off at the end of a page used to end the interpreter, and no broken one was built again."""
    folder = tmp_path / "mapflake"

    def libraries():
        """The libraries after boards were solved, and when they were built."""
        result = run(tmp_path)
        assert (result.returncode, result.stdout, result.stderr) == (0, PLANS, "")
        return {path: path.stat().st_mtime_ns for path in folder.iterdir()}

    foreign = b"not an ELF file"
    first = libraries()
    assert len(first) == 2
    for path in first:
        whole, name = path.read_bytes(), path.stem.rpartition("-")[0]
        path.write_bytes(whole[:4_096])
        (folder / f"{name}-changed.so").write_bytes(whole[:5_000] + b"?" + whole[5_001:])
        (folder / f"{name}-{compiler_module._hash(foreign)}.so").write_bytes(foreign)  # whole, of another machine
    again = libraries()
    assert len(again) == 4
    assert sum(path.read_bytes() == foreign for path in again) == 2
    assert libraries() == again


@pytest.mark.usefixtures("compiled")
def test_with_a_cache_that_cannot_be_written_it_is_built_elsewhere(tmp_path):
    (tmp_path / "temporary").mkdir()
    (tmp_path / "file").write_text("where the folder should be")
    result = run(tmp_path / "file", TMPDIR=str(tmp_path / "temporary"))
    assert (result.stdout, result.stderr) == (PLANS, "")
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.usefixtures("compiled")
def test_a_user_without_a_home(tmp_path, monkeypatch):
    def home():
        raise RuntimeError("could not determine home directory")

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    assert compiler_module.load("-DSMALL", "-O0").mapflake_space
    assert not list(tmp_path.iterdir())
