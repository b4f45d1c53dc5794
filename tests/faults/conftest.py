"""Processes that have imported everything before they begin, so that a hundred of them can be killed."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIMIT = 120  # seconds for one run of the toy, which takes two

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="session")
def run() -> Run:
    """Returns what runs the toy in a folder, in a process of its own, and gives its exit code and what it said."""
    import toy

    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE), before]))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["toy"])

    def run(folder: Path, stage: str, *faults: tuple) -> tuple[int, str]:
        log = folder.with_name(f"{folder.name}.log")
        process = context.Process(target=toy.run, args=(folder, stage, log, *faults))
        process.start()
        process.join(LIMIT)
        if process.exitcode is None:
            process.kill()
            pytest.fail(f"still running after {LIMIT} s: {log.read_text()[-2000:]}")
        return process.exitcode, log.read_text(errors="replace")

    yield run
    os.environ["PYTHONPATH"] = before or ""


@pytest.fixture(scope="session")
def undisturbed(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing happened to."""
    import toy

    folder = tmp_path_factory.mktemp("undisturbed") / "toy"
    folder.mkdir()
    for stage in toy.STAGES:
        code, said = run(folder, stage)
        assert code == 0, said
    return folder


@pytest.fixture
def begun(undisturbed: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Returns what makes a folder in which everything before a stage is done."""
    import toy

    def begin(stage: str) -> Path:
        folder = tmp_path / "toy"
        for done in toy.STAGES[: toy.STAGES.index(stage)]:
            shutil.copytree(undisturbed / done, folder / done)
        folder.mkdir(exist_ok=True)
        return folder

    return begin
