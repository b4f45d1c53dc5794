"""The commands of docs/i_want_to.md are run by tests, and no door is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_repo import ROOT

from mapflake.__main__ import main

PAGE = (ROOT / "docs/i_want_to.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\| .+? \| `(.+?)` \| \[", PAGE, re.MULTILINE)

TESTS = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]


def test_every_command_is_run_by_a_test() -> None:
    """One test file names the script and all its arguments: it runs them, at a small scale if that takes minutes."""
    assert len(COMMANDS) > 10
    for command in COMMANDS:
        words = re.sub(r"^(bash|python( -m [\w.]+)?) ", "", command).split()
        assert any(all(Path(word).stem in text for word in words) for text in TESTS), command


def test_the_first_command_solves_a_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "--wait"]) == 0
    assert re.search(r"makespan \d+, sum of costs \d+; the board needs a wait", capsys.readouterr().out)


def test_every_door_has_a_line() -> None:
    for page in (ROOT / "docs/doors").glob("*.md"):
        assert f"](doors/{page.name})" in PAGE, page.name
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([\w-]+)", PAGE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
