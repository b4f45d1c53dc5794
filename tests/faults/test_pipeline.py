"""`dvc repro` for real, on a pipeline of one small notebook, struck in all its processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from small_repo import ROOT, files, prepared_stage, repository

NAME = "06_analysis"
LIMIT = 120

# Three steps that are done once each, whatever happens between; each says where it is and waits while there is `hold`.
CELLS = [
    "arms = None\nrun = 'runs/interactive'",
    "import os, time\nfrom mapflake import nb\nout, base = nb.start(run, 'analysis'), nb.root()",
    """for step in ("a", "b", "c"):
    (base / "at").write_text(f"{step} {os.getpid()} {os.getppid()}")
    while (base / f"hold-{step}").exists():
        time.sleep(0.02)
    if not (out / step).exists():
        (out / step).write_text(f"{step} of {arms}")
        (base / "work.log").open("a").write(step)""",
    "print('done', arms)",
]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with the one stage."""
    root = repository(tmp_path / "clone", "params.yaml", "Makefile", ".gitignore")
    shutil.copytree(ROOT / ".dvc", root / ".dvc", ignore=shutil.ignore_patterns("tmp", "cache"))
    prepared_stage(root, "analysis", {"arms": ["fixed", "heuristic"]}, *CELLS)
    stage = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["analysis"]
    stage["deps"] = ["build/params/analysis.json", f"build/code/{NAME}.py"]
    (root / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"analysis": stage}}))
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    return root


def start(root: Path, *command: str) -> subprocess.Popen:
    """Starts a command, `dvc repro` if none is given, in a process group of its own, as a shell does."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    # DVC runs commands in $SHELL, or in sh without it; not every sh makes way for the last command, as bash does.
    environment = os.environ | {"PATH": path, "SHELL": "/bin/sh", "DVC_NO_ANALYTICS": "1", "PYTHONPATH": str(root)}
    return subprocess.Popen(
        command or ("dvc", "repro"), cwd=root, env=environment, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_hears_ctrl_c,
    )  # fmt: skip


def _hears_ctrl_c() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a test run in the background inherits that it is ignored


def ended(process: subprocess.Popen, fails: bool = False) -> str:
    """Waits for the end of a command, which is to be one or the other, and returns what it said."""
    output, _ = process.communicate(timeout=LIMIT)
    assert bool(process.returncode) == fails, output
    return output


def until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < limit, f"waited for {LIMIT} s"
        time.sleep(0.02)


def reached(root: Path, step: str) -> tuple[int, int]:
    """Waits until the notebook is at a step; returns the process ids of the kernel and of the runner."""
    at = root / "at"
    until(lambda: at.exists() and at.read_text().startswith(f"{step} ") and at.read_text().count(" ") == 2)
    _, kernel, runner = at.read_text().split()
    return int(kernel), int(runner)


def gone(pid: int) -> None:
    """Waits until a process that is not ours is gone."""

    def is_gone() -> bool:
        try:
            return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return True

    until(is_gone)


def outcome(root: Path) -> dict[str, bytes]:
    """Returns the stage's results and what DVC recorded."""
    return files(root / "runs/default/analysis") | {"dvc.lock": (root / "dvc.lock").read_bytes()}


STRIKES = [  # (step, what is struck, what the pipeline says)
    ("a", lambda dvc, runner, kernel: os.kill(kernel, signal.SIGKILL), "the kernel died (killed, or out of memory?)"),
    ("b", lambda dvc, runner, kernel: os.kill(runner, signal.SIGTERM), "interrupted; the notebook as far as it got"),
    ("b", lambda dvc, runner, kernel: os.killpg(dvc, signal.SIGINT), "interrupted"),  # Ctrl-C
    ("b", lambda dvc, runner, kernel: os.kill(runner, signal.SIGKILL), f"exec python -m mapflake.nb run {NAME}"),
]


def test_whatever_is_struck_the_next_dvc_repro_ends_as_if_nothing_had_been(clone: Path) -> None:
    ended(start(clone))
    undisturbed = outcome(clone)
    assert (clone / "work.log").read_text() == "abc"
    for name in ("runs", ".dvc/cache", ".dvc/tmp"):
        shutil.rmtree(clone / name)
    for name in ("dvc.lock", "work.log"):
        (clone / name).unlink()

    for step, strike, text in STRIKES:
        (clone / f"hold-{step}").touch()
        (clone / "at").unlink(missing_ok=True)
        process = start(clone)
        kernel, runner = reached(clone, step)
        strike(process.pid, runner, kernel)
        assert text in ended(process, fails=True)
        gone(runner)
        gone(kernel)
        (clone / f"hold-{step}").unlink()

    (clone / "hold-c").touch()
    process = start(clone)
    _, runner = reached(clone, "c")
    os.kill(process.pid, signal.SIGKILL)
    process.wait(LIMIT)
    output = ended(start(clone), fails=True)  # the stage has outlived its DVC
    assert f"[analysis] another process runs this stage: {clone}/runs/default/locks/analysis is held by" in output
    (clone / "hold-c").unlink()
    ended(process, fails=True)
    gone(runner)

    ended(start(clone))
    assert outcome(clone) == undisturbed
    assert (clone / "work.log").read_text() == "abc"  # nothing that was finished was done again


def test_two_at_once_edits_meanwhile_a_lost_cache_a_torn_lock(clone: Path) -> None:
    (clone / "hold-b").touch()
    first = start(clone)
    reached(clone, "b")
    assert "is busy, it is being blocked by" in ended(start(clone), fails=True)
    params = (clone / "params.yaml").read_text()
    (clone / "params.yaml").write_text(params + "  half: [a l")  # an edit that is not finished
    (clone / "hold-b").unlink()
    ended(first)
    result = outcome(clone)
    (clone / "params.yaml").write_text(params)

    shutil.rmtree(clone / ".dvc/cache")
    ended(start(clone, "dvc", "commit", "--force"))  # puts what is in the folders back
    assert "up to date" in ended(start(clone))
    assert outcome(clone) == result

    shutil.rmtree(clone / ".dvc/cache")
    shutil.rmtree(clone / "runs")
    (clone / ".dvc/tmp/rwlock").write_text('{"write": {')
    output = ended(start(clone), fails=True)
    assert "Unable to read RWLock-file '.dvc/tmp/rwlock'. JSON structure is corrupted" in output

    # `make repro` knows what to do. Its environment is there, its results too, as far as it can see.
    locks = ("requirements/core.lock", "requirements/dev.lock")
    for name in ("pyproject.toml", *locks, ".venv/.installed-dev", "reports/results.md"):
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).touch()
    output = ended(start(clone, "make", "repro"), fails=True)
    assert "Unable to read RWLock-file" not in output
    assert "Stage 'warm_start' not found" in output  # in this pipeline of one stage
    ended(start(clone))
    assert outcome(clone) == result
