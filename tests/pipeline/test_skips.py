"""A run of the tests says what it did not run, why, and the command that would run it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

FEW = """
import pytest

@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.skipif(True, reason="no compiler here: make compiler")
def test_skipped(n): pass

def test_not(): pass
"""


def closing(folder: Path, *options: str) -> list[str]:
    """Returns what a run of the tests in a folder prints after its dots."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "xdist", *options]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # other plugins take seconds a process
    done = subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.partition("[100%]")[2].strip().splitlines()


@pytest.mark.parametrize("processes", [[], ["-n", "2"]])
def test_a_line_for_each_group_that_was_skipped(tmp_path: Path, processes: list[str]) -> None:
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    (tmp_path / "test_one.py").write_text("def test_it(): pass")
    (last,) = closing(tmp_path, *processes)
    assert re.match(r"1 passed in ", last)
    for name in ("test_few.py", "test_more.py"):
        (tmp_path / name).write_text(FEW)
    (tmp_path / "test_whole.py").write_text(
        "import pytest\npytest.importorskip('nowhere', reason='no nowhere: make it')"
    )
    title, *lines, last = closing(tmp_path, *processes)
    assert title.strip("= ") == "not run"
    assert lines == [
        "4 in test_few.py, test_more.py: no compiler here: make compiler",
        "1 in test_whole.py: no nowhere: make it",
    ]
    assert re.match(r"3 passed, 5 skipped in ", last)


def reasons() -> Iterator[tuple[str, str]]:
    """Yields (place, reason) of each skip in the tests; "" where none is given."""
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                kind, given = node.func.attr, {word.arg: word.value for word in node.keywords}
                if kind in ("skipif", "importorskip") or (kind == "skip" and ast.unparse(node.func.value) == "pytest"):
                    reason = node.args[0] if kind == "skip" and node.args else given.get("reason")
                    yield f"{path.name}:{node.lineno}", str(getattr(reason, "value", ""))


@pytest.mark.parametrize(("place", "reason"), [pytest.param(*one, id=one[0]) for one in reasons()])
def test_a_reason_ends_with_the_command(place: str, reason: str) -> None:
    assert re.search(r"^[^:]+: (?:apt-get install [\w-]+ && )?make [a-z-]+( EXTRAS=[\w,]+)?$", reason), (
        f"{place}: {reason!r}"
    )
