"""Processes that have imported everything before they begin, so that many of them can be killed."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from toy_stages import STAGES, run_toy

PATHS = [str(Path(__file__).parents[i]) for i in (0, 1)]
LIMIT = 120  # seconds for one run of the toy, which takes two
ALONE = "import sys, toy; from pathlib import Path; [toy.run(Path.cwd(), s, Path('../log')) for s in sys.argv[1:]]"
UNLIKE = {"PYTHONHASHSEED": "12345", "OMP_NUM_THREADS": "2", "LC_ALL": "C", "TZ": "Asia/Tokyo"}

Run = Callable[..., tuple[int, str]]


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing happened to, in a process whose environment is unlike that of all others.

    So a run with the same bytes says also that folder, hash seed, threads, language and time zone change nothing.
    """
    folder = tmp_path_factory.mktemp("a folder, elsewhere") / "toy"
    folder.mkdir()
    path = os.pathsep.join([*PATHS, os.environ.get("PYTHONPATH", "")])
    environment = os.environ | UNLIKE | {"PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", ALONE, *STAGES], cwd=folder, env=environment, check=False)
    assert done.returncode == 0, (folder.parent / "log").read_text()[-2000:]
    return folder


@pytest.fixture(scope="session")
def run() -> Iterator[Run]:
    """Returns what runs the toy in a folder, in a process of its own, and gives its exit code and what it said."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["toy"])

    def run(folder: Path, stage: str, *faults: tuple) -> tuple[int, str]:
        log = folder.with_name(f"{folder.name}.log")
        process = context.Process(target=run_toy, args=(folder, stage, log, *faults))
        process.start()
        process.join(LIMIT)
        if process.exitcode is None:
            process.kill()
            pytest.fail(f"still running after {LIMIT} s: {log.read_text()[-2000:]}")
        return process.exitcode, log.read_text(errors="replace")

    with pytest.MonkeyPatch.context() as patch:  # the server of forks takes no other path
        patch.setenv("PYTHONPATH", os.pathsep.join(PATHS), prepend=os.pathsep)
        yield run


@pytest.fixture
def begun(undisturbed: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Returns what makes a folder in which everything before a stage is done."""

    def begin(stage: str) -> Path:
        folder = tmp_path / "toy"
        folder.mkdir()
        for done in STAGES[: STAGES.index(stage)]:
            shutil.copytree(undisturbed / done, folder / done)
        return folder

    return begin
