"""Stages with real kernels on small notebooks: what is injected, and every way in which a run can end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from mapflake.nb import notebooks, stages
from mapflake.nb.__main__ import main
from mapflake.repro import ParamError, write_json

NAME = "05_analysis"
PARAMETERS = "arms = ['fixed']\nrun = 'runs/interactive'"
BEGIN = "import os, sys, time\nfrom pathlib import Path\nfrom mapflake import nb\nout = nb.start(run, 'analysis')"
COUNT = "with open(out / 'starts', 'a') as f:\n    n = f.write('x')"


@pytest.fixture
def run(repo: Path, write_notebook, monkeypatch: pytest.MonkeyPatch):
    """Runs the given cells as the last stage, as `dvc repro` would; returns its folder."""
    monkeypatch.chdir(repo)
    write_json(repo / "build/params/analysis.json", {"arms": ["fixed", "heuristic"]})

    def start(*sources: str) -> Path:
        path = write_notebook(repo / "notebooks" / f"{NAME}.ipynb", PARAMETERS, *sources)
        code = repo / "build/code" / f"{NAME}.py"
        code.parent.mkdir(exist_ok=True)
        code.write_text(notebooks.code_view(notebooks.read(path), NAME))
        stages.run(repo, NAME, {})
        return repo / "runs/default/analysis"

    return start


def test_run_ends_well(run, repo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = run(
        BEGIN,
        "print('arms', arms, run)\nprint('a ' 'bar', file=sys.stderr)\nprint(nb.root())",
        "(out / 'result.txt').write_text('42')\nobject()",
    )
    assert sorted(p.name for p in folder.iterdir()) == ["notebook.ipynb", "result.txt"]
    out, err = capfd.readouterr()
    assert "arms ['fixed', 'heuristic'] runs/default" in out
    assert "[analysis] done in" in out
    assert "a bar" in err
    text = (folder / "notebook.ipynb").read_text()
    for trace in (str(repo), "a bar", "0x"):
        assert trace not in text
    executed = nbformat.reads(text, as_version=4)
    assert executed.cells[1].metadata.tags == ["injected-parameters"]
    assert 'arms = ["fixed", "heuristic"]\nrun = "runs/default"' in executed.cells[1].source
    assert executed.cells[3].outputs[0].text == "arms ['fixed', 'heuristic'] runs/default\n.\n"
    assert not list((repo / "runs/default/unfinished").iterdir())


def test_run_shows_the_failing_cell_and_keeps_the_work(run, repo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    fail = "x = 1\nassert os.path.exists('go'), 'no go'"
    with pytest.raises(stages.StageError) as caught:
        run(BEGIN, COUNT, fail)
    kept = "runs/default/unfinished/analysis.ipynb"
    assert str(caught.value) == f"{NAME}, cell 5 (c3): AssertionError: no go; the notebook as far as it got: {kept}"
    err = capfd.readouterr().err
    assert "x = 1" in err
    assert "AssertionError" in err
    assert "\x1b" not in err
    assert (repo / kept).is_file()
    (repo / "go").touch()
    assert (run(BEGIN, COUNT, fail) / "starts").read_text() == "xx"  # in the same folder


@pytest.mark.parametrize("stop", ["import sys; sys.exit(0)", "raise SystemExit(1)"])
def test_run_takes_a_cell_that_exits_for_a_failure(run, stop: str) -> None:
    with pytest.raises(stages.StageError, match=rf"^{NAME}, cell \d \(c\d\): (did not run to its end|SystemExit: 1)"):
        run("x = 1", stop, "x = 2")


def test_run_names_a_dead_kernel(run, repo: Path) -> None:
    with pytest.raises(stages.StageError, match=rf"^{NAME}, cell 4 \(c2\): the kernel died \(killed, or out of memory"):
        run("x = 1", "import os; os.kill(os.getpid(), 9)", "x = 2")
    assert (repo / "runs/default/unfinished/analysis.ipynb").is_file()


def test_run_refuses_what_does_not_fit(run, repo: Path, write_notebook) -> None:
    write_json(repo / "build/params/analysis.json", {"arms": ["fixed"], "sede": 1})
    with pytest.raises(notebooks.NotebookError, match=rf"^{NAME}: the parameters cell lacks sede; legal: arms, "):
        run("x = 1")
    write_json(repo / "build/params/analysis.json", {"arms": ["fixed"]})
    run("x = 1")
    write_notebook(repo / "notebooks" / f"{NAME}.ipynb", PARAMETERS, "x = 2")
    with pytest.raises(stages.StageError, match=rf"^{NAME}: its code changed since it was checked: run `dvc repro`$"):
        stages.run(repo, NAME, {})
    with pytest.raises(ParamError, match=r"^06_more: no such notebook; one of 01_env_design, "):
        stages.run(repo, "06_more", {})
    with pytest.raises(ParamError, match=r"^seed=0: analysis takes nothing more$"):
        stages.run(repo, NAME, {"seed": 0})
    legal = r"^arm=\.\./x seed=0: ablations takes arm=<one of .*> seed=<one of 0, "
    with pytest.raises(ParamError, match=legal):
        stages.run(repo, "04_ablations", {"arm": "../x", "seed": 0})


def test_run_fails_if_an_input_changes_meanwhile(run, repo: Path) -> None:
    with pytest.raises(stages.StageError, match=rf"^{NAME}: its parameters or code changed while it ran; run it"):
        run("open('build/params/analysis.json', 'w').write('{\"arms\": []}')")
    assert not (repo / "runs/default/analysis/notebook.ipynb").exists()


def test_run_is_alone_and_ends_with_its_runner(run, repo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wait = "Path('pid').write_text(str(os.getpid()))\nwhile not Path('go').exists():\n    time.sleep(0.05)"
    (repo / "go").touch()
    run(BEGIN, wait)
    for name in ("go", "pid"):
        (repo / name).unlink()
    first = subprocess.Popen([sys.executable, "-m", "mapflake.nb", "run", NAME], cwd=repo)
    try:
        while not (repo / "pid").exists() or not (repo / "pid").read_text():
            assert first.poll() is None
            time.sleep(0.05)
        kernel = int((repo / "pid").read_text())
        with pytest.raises(stages.StageError, match=rf"analysis is held by process {first.pid}: wait for it to end"):
            stages.run(repo, NAME, {})
        assert main(["run", NAME]) == 1
        assert "[analysis] another process runs this stage" in capfd.readouterr().err
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    while _alive(kernel):  # a kernel ends when its runner is gone
        time.sleep(0.1)
    (repo / "go").touch()
    stages.run(repo, NAME, {})


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def test_kernel_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("WANDB_MODE", raising=False)
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    with stages.kernel_environment(tmp_path, "offline"):
        assert os.environ["PYTHONPATH"] == f"{tmp_path}{os.pathsep}/elsewhere"
        assert os.environ["WANDB_MODE"] == "offline"
    assert os.environ["PYTHONPATH"] == "/elsewhere"
    assert "WANDB_MODE" not in os.environ
