"""The runner with real kernels on small notebooks: what it injects, and every way in which a run can end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from mapflake.nb import notebooks, runner, sections
from mapflake.nb.__main__ import main
from mapflake.repro import ParamError, write_json

NAME = "05_analysis"
PARAMETERS = "arms = ['fixed']\nrun = 'runs/interactive'"


@pytest.fixture
def run(repo: Path, write_notebook, monkeypatch: pytest.MonkeyPatch):
    """Runs the given cells as the last stage, with one input, as `dvc repro` would."""
    monkeypatch.chdir(repo)
    pipeline = "stages: {analysis: {deps: [build/params/analysis.json, build/code/05_analysis.py, input.txt]}}"
    (repo / "dvc.yaml").write_text(pipeline)
    (repo / "input.txt").write_text("one")
    write_json(repo / "build/params/analysis.json", {"arms": ["fixed", "heuristic"]})

    def start(*sources: str) -> Path:
        path = write_notebook(repo / "notebooks" / f"{NAME}.ipynb", PARAMETERS, *sources)
        code = repo / "build/code" / f"{NAME}.py"
        code.parent.mkdir(exist_ok=True)
        code.write_text(notebooks.code_view(notebooks.read(path), NAME))
        runner.run(repo, NAME)
        return repo / "runs/pipeline/analysis"

    return start


def test_a_stage_that_ends_well(run, repo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = run(
        "import sys; from pathlib import Path; from mapflake import nb; out = nb.start(run, 'analysis')",
        "print('arms', arms, run)\nprint('a ' 'bar', file=sys.stderr)\nprint(nb.root())",
        "(out / 'result.txt').write_text('42')\nobject()",
    )
    assert (folder / "result.txt").read_text() == "42"
    assert sorted(p.name for p in folder.iterdir()) == ["notebook.ipynb", "result.txt"]
    out, err = capfd.readouterr()
    assert "arms ['fixed', 'heuristic'] runs/pipeline" in out
    assert "[analysis] done in" in out
    assert "a bar" in err
    text = (folder / "notebook.ipynb").read_text()
    assert str(repo) not in text
    assert "a bar" not in text
    assert "0x" not in text
    executed = nbformat.reads(text, as_version=4)
    assert executed.cells[1].source == "arms = ['fixed', 'heuristic']\nrun = 'runs/pipeline'"
    assert executed.cells[1].metadata.tags == ["injected-parameters"]
    assert executed.cells[3].outputs[0].text == "arms ['fixed', 'heuristic'] runs/pipeline\n.\n"
    assert not list((repo / "runs/work/partial").iterdir())


def test_a_memory_limit_is_told_and_the_work_kept(run, repo: Path) -> None:
    begin = "from mapflake import nb\nout = nb.start(run, 'analysis')"
    count = "with open(out / 'starts', 'a') as f:\n    n = f.write('x')"
    limit = "import os, resource\nfour = 4 << 30\nif os.path.exists('limit'):\n"
    limit += "    resource.setrlimit(resource.RLIMIT_AS, (four, four))"
    need = "import numpy\nblock = numpy.zeros(6 << 30, dtype=numpy.uint8)"
    (repo / "limit").touch()
    with pytest.raises(runner.StageError, match=r"cell 6 \(c4\): MemoryError: Unable to allocate 6\.00 GiB"):
        run(begin, count, limit, need)
    (repo / "limit").unlink()
    assert (run(begin, count, limit, need) / "starts").read_text() == "xx"


def test_a_failing_cell_is_shown_and_the_work_kept(run, repo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    begin = "from mapflake import nb\nout = nb.start(run, 'analysis')"
    count = "with open(out / 'starts', 'a') as f:\n    n = f.write('x')"
    fail = "import os\nx = 1\nassert os.path.exists('go'), 'no go'"
    with pytest.raises(runner.StageError) as caught:
        run(begin, count, fail)
    kept = "runs/work/partial/analysis.ipynb"
    assert str(caught.value) == (f"{NAME}, cell 5 (c3): AssertionError: no go; the notebook as far as it got: {kept}")
    err = capfd.readouterr().err
    assert "x = 1" in err
    assert "AssertionError" in err
    assert "\x1b" not in err
    assert (repo / kept).is_file()
    assert not (repo / "runs/pipeline/analysis").exists()

    (repo / "go").touch()
    folder = run(begin, count, fail)  # same inputs: goes on in the same folder
    assert (folder / "starts").read_text() == "xx"
    assert "[analysis] goes on from an interrupted run" in capfd.readouterr().out

    assert (run(begin, count, fail) / "starts").read_text() == "xx"  # finished, and DVC has recorded nothing since
    assert "[analysis] was finished already" in capfd.readouterr().out

    (repo / "input.txt").write_text("two")
    assert (run(begin, count, fail) / "starts").read_text() == "x"  # other inputs: begins anew


@pytest.mark.parametrize("stop", ["import sys; sys.exit(0)", "raise SystemExit(1)"])
def test_a_cell_that_exits_is_a_failure(run, stop: str) -> None:
    with pytest.raises(runner.StageError, match=rf"^{NAME}, cell \d \(c\d\): (did not run to its end|SystemExit: 1)"):
        run("x = 1", stop, "x = 2")


def test_a_dead_kernel_is_named(run, repo: Path) -> None:
    with pytest.raises(runner.StageError, match=rf"^{NAME}, cell 4 \(c2\): the kernel died \(killed, or out of memory"):
        run("x = 1", "import os; os.kill(os.getpid(), 9)", "x = 2")
    assert (repo / "runs/work/partial/analysis.ipynb").is_file()


def test_what_does_not_fit_runs_nothing(run, repo: Path, write_notebook) -> None:
    write_json(repo / "build/params/analysis.json", {"arms": ["fixed"], "sede": 1})
    with pytest.raises(notebooks.NotebookError, match=rf"^{NAME}: the parameters cell lacks sede; legal: arms, "):
        run("x = 1")
    write_json(repo / "build/params/analysis.json", {"arms": ["fixed"]})
    run("x = 1")
    write_notebook(repo / "notebooks" / f"{NAME}.ipynb", PARAMETERS, "x = 2")
    with pytest.raises(runner.StageError, match=rf"^{NAME}: its code changed since it was checked: run `dvc repro`$"):
        runner.run(repo, NAME)
    (repo / "input.txt").unlink()
    with pytest.raises(runner.StageError, match=r"^input\.txt is missing: run `dvc repro`, which makes it first$"):
        run("x = 1")
    with pytest.raises(ParamError, match=r"^06_more: no such notebook; one of 01_env_design, "):
        runner.run(repo, "06_more")


@pytest.mark.parametrize("path", ["input.txt", "build/params/analysis.json"])
def test_an_input_that_changes_meanwhile_is_a_failure(run, repo: Path, path: str) -> None:
    with pytest.raises(runner.StageError, match=rf"^{NAME}: its parameters or code changed while it ran; run it"):
        run(f"with open({path!r}, 'a') as f:\n    f.write(' ')")
    assert not (repo / "runs/pipeline/analysis").exists()


def test_one_writer_and_a_kill(run, repo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wait = "import os, time\nfrom pathlib import Path\nfrom mapflake import nb\nout = nb.start(run, 'analysis')"
    loop = "Path('pid').write_text(str(os.getpid()))\nwhile not Path('go').exists():\n    time.sleep(0.05)"
    code = repo / "build/code" / f"{NAME}.py"
    (repo / "go").touch()
    run(wait, loop)
    shutil.rmtree(repo / "runs/work")
    (repo / "go").unlink()
    (repo / "pid").unlink()
    first = subprocess.Popen([sys.executable, "-m", "mapflake.nb", "run", NAME], cwd=repo)
    try:
        limit = time.monotonic() + 60
        while not (repo / "pid").exists() and time.monotonic() < limit:
            time.sleep(0.05)
        kernel = int((repo / "pid").read_text())
        said = rf"another pipeline is writing in this clone: .*pipeline\.lock is held by process {first.pid}"
        with pytest.raises(runner.StageError, match=said):
            runner.run(repo, NAME)
        assert main(["prepare"]) == 1
        assert f"held by process {first.pid}" in capfd.readouterr().err
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    while _alive(kernel) and time.monotonic() < limit:  # a kernel ends when its runner is gone
        time.sleep(0.1)
    assert not _alive(kernel)
    assert code.is_file()
    (repo / "go").touch()
    runner.run(repo, NAME)
    assert "[analysis] goes on from an interrupted run" in capfd.readouterr().out


def test_a_stage_whose_dvc_was_killed_leaves_its_work_to_the_next(run, repo: Path, capfd) -> None:
    begin = "import os, time\nfrom pathlib import Path\nfrom mapflake import nb\nout = nb.start(run, 'analysis')"
    work = (
        "(out / 'done').open('a').write('x')\nPath('pid').touch()\nwhile not Path('go').exists():\n    time.sleep(0.05)"
    )
    (repo / "go").touch()
    run(begin, work)
    shutil.rmtree(repo / "runs/work")
    for name in ("go", "pid"):
        (repo / name).unlink()
    stage = [sys.executable, "-m", "mapflake.nb", "run", NAME]
    parent = subprocess.Popen([sys.executable, "-c", f"import subprocess; subprocess.run({stage!r})"], cwd=repo)
    limit = time.monotonic() + 60
    while not (repo / "pid").exists() and time.monotonic() < limit:
        time.sleep(0.05)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    orphan = int((repo / "runs/pipeline.lock").read_text())
    (repo / "go").touch()
    while _alive(orphan) and time.monotonic() < limit:
        time.sleep(0.05)
    assert "`dvc repro` is gone; the next one will take over what is in runs/work/analysis" in capfd.readouterr().err
    runner.run(repo, NAME)
    assert (repo / "runs/pipeline/analysis/done").read_text() == "x"  # finished already: nothing is run again


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_what_a_kernel_inherits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    with runner.kernel_environment(tmp_path, "offline"):
        assert os.environ["PYTHONPATH"] == f"{tmp_path}{os.pathsep}/elsewhere"
        assert os.environ["WANDB_MODE"] == "offline"
    assert os.environ["PYTHONPATH"] == "/elsewhere"
    assert "WANDB_MODE" not in os.environ


def test_wandb_is_no_part_of_the_stages_inputs() -> None:
    assert "wandb" not in sections.MADE_BY
