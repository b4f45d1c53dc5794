"""The commands of docs/i_want_to.md do what its page says, and no door is left out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_repo import ROOT, repository

PAGE = (ROOT / "docs/i_want_to.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\| .+? \| `(.+?)` \| \[", PAGE, re.MULTILINE)

SAYS = {
    "python -m mapflake solve --wait": r"makespan \d+, sum of costs \d+; the board needs a wait",
    "python docs/examples/compare_designers.py": r"against +heuristic: [+-][\d.]+ points \(.* to .*\) p = 0\.\d",
    "python -m mapflake.nb dry qwen_1gpu": r"in all \d+\.\d h",
}
"""What a command prints."""

ELSEWHERE = {
    "python docs/examples/eval_inspect.py": "tests/adapters/test_inspect_task.py",
    "python docs/examples/own_reward.py": "tests/examples/test_examples.py",
    "python docs/examples/own_designer.py": "tests/examples/test_examples.py",
    "python docs/examples/own_dimension.py": "tests/examples/test_examples.py",
    "python docs/examples/engineer_trl.py": "tests/adapters/test_trl.py",
    "python docs/examples/engineer_trl.py fixed": "tests/adapters/test_trl.py",
    "bash docs/examples/cluster/study.sh": "tests/cluster/test_slurm.py",
}
"""Commands whose scripts other tests run, at a small scale if they take minutes."""


def test_every_command_is_run_by_a_test() -> None:
    assert {*COMMANDS} == {*SAYS, *ELSEWHERE}
    for command, file in ELSEWHERE.items():
        assert Path(command.split()[1]).stem in (ROOT / file).read_text(encoding="utf-8"), command


@pytest.mark.slow
@pytest.mark.parametrize("command", SAYS)
def test_a_command_does_what_the_page_says(command: str, tmp_path: Path) -> None:
    clone = repository(tmp_path / "clone", "params.yaml", "dvc.yaml", "pyproject.toml")
    for folder in ("docs", "reports", "notebooks"):
        (clone / folder).symlink_to(ROOT / folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command.split(), cwd=clone, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert re.search(SAYS[command], done.stdout), done.stdout


def test_every_door_has_a_line() -> None:
    for page in (ROOT / "docs/doors").glob("*.md"):
        assert f"](doors/{page.name})" in PAGE, page.name
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([\w-]+)", PAGE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
