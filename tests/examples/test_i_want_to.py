"""The commands of docs/i_want_to.md are run by tests, most by those of another page, and no door is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from small_repo import ROOT

from mapflake.__main__ import main

PAGE = (ROOT / "docs/i_want_to.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\| .+? \| `(.+?)` \| \[", PAGE, re.MULTILINE)

TESTED = {
    "python -m mapflake solve --wait": "tests/examples/test_i_want_to.py",
    "python -m mapflake rounds": "tests/pipeline/test_base_install.py",
    "python docs/examples/compare_designers.py": "tests/examples/test_examples.py",
    "python docs/examples/own_loop.py": "tests/examples/test_examples.py",
    "python docs/examples/own_reward.py": "tests/examples/test_examples.py",
    "python docs/examples/own_designer.py": "tests/examples/test_examples.py",
    "python docs/examples/own_dimension.py": "tests/examples/test_examples.py",
    "python docs/examples/eval_inspect.py": "tests/adapters/test_inspect_task.py",
    "python docs/examples/engineer_trl.py": "tests/adapters/test_trl.py",
    "python docs/examples/engineer_trl.py fixed": "tests/adapters/test_trl.py",
    "python -m mapflake.nb dry qwen_1gpu": "tests/pipeline/test_dry.py",
    "bash docs/examples/cluster/study.sh": "tests/cluster/test_slurm.py",
}
"""Where a command, or its script, is run: at a small scale if it takes minutes."""


def test_every_command_is_run_by_a_test() -> None:
    assert {*COMMANDS} == {*TESTED}
    for command, file in TESTED.items():
        words = re.sub(r"^(bash|python( -m [\w.]+)?) ", "", command).split()
        text = (ROOT / file).read_text(encoding="utf-8")
        assert [word for word in words if Path(word).stem not in text] == [], command


def test_the_first_command_solves_a_board(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", "--wait"]) == 0
    assert re.search(r"makespan \d+, sum of costs \d+; the board needs a wait", capsys.readouterr().out)


def test_every_door_has_a_line() -> None:
    for page in (ROOT / "docs/doors").glob("*.md"):
        assert f"](doors/{page.name})" in PAGE, page.name
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([\w-]+)", PAGE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
