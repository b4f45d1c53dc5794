"""Stages with real kernels on small notebooks; tests/faults/test_pipeline.py has those that are killed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import nbformat
import pytest
from small_repo import prepared_stage, write_notebook

from mapflake.nb import params, stages
from mapflake.nb.__main__ import main
from mapflake.nb.folders import STAGE_LOCK
from mapflake.repro import ParamError, read_jsonl, write_json

NAME = "06_analysis"
PARAMETERS = "arms = ['fixed']\nrun = 'runs/interactive'"
BEGIN = "import os, sys\nfrom mapflake import nb\nout = nb.start(run, 'analysis')"


@pytest.fixture
def run(repo: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the given cells as the last stage, as `dvc repro` would; returns its folder."""
    monkeypatch.chdir(repo)
    for name in ("PYTHONPATH", "WANDB_MODE", "TOKENIZERS_PARALLELISM", STAGE_LOCK):
        monkeypatch.setenv(name, "")  # a stage sets them: put back at the end

    def start(*sources: str) -> Path:
        values = {"arms": ["fixed", "heuristic"]}
        stages.run(repo, prepared_stage(repo, "analysis", values, PARAMETERS, *sources), {})
        return repo / "runs/default/analysis"

    return start


def test_run_ends_well(run, repo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = run(
        BEGIN,
        "print('arms', arms, run)\nprint('a ' 'bar', file=sys.stderr)\nprint(nb.root(), os.environ['WANDB_MODE'])",
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
    assert executed.cells[3].outputs[0].text == "arms ['fixed', 'heuristic'] runs/default\n. disabled\n"
    assert not list((repo / "runs/default/unfinished").iterdir())
    (row,) = read_jsonl(repo / "runs/default/times/analysis.jsonl")
    assert (row["stage"], row["done"]) == ("analysis", True)
    assert row["cpu_seconds"] > 0


def test_run_shows_the_failing_cell_and_keeps_the_work(run, repo: Path, capfd: pytest.CaptureFixture[str]) -> None:
    count = "with open(out / 'starts', 'a') as f:\n    n = f.write('x')"
    fail = "x = 1\nassert os.path.exists('go'), 'no go'"
    with pytest.raises(stages.StageError) as caught:
        run(BEGIN, count, fail)
    assert not read_jsonl(repo / "runs/default/times/analysis.jsonl")[-1]["done"]
    partial = "runs/default/unfinished/analysis.ipynb"
    assert str(caught.value) == f"{NAME}, cell 5: AssertionError: no go; the notebook as far as it got: {partial}"
    err = capfd.readouterr().err
    assert "x = 1" in err
    assert "AssertionError" in err
    assert "\x1b" not in err
    assert (repo / partial).is_file()
    (repo / "go").touch()
    assert (run(BEGIN, count, fail) / "starts").read_text() == "xx"  # in the same folder
    with pytest.raises(stages.StageError, match=rf"^{NAME}: did not run to its end \(a cell must not exit\); the note"):
        run("import sys; sys.exit(0)", "x = 2")


def test_a_cell_is_named_alike_in_whatever_order_its_items_come(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []

    def stop(root: Path, stage: str) -> None:
        named.append(stage)
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "_stage", stop)
    monkeypatch.setattr(stages.params, "prepared", lambda *_: {})
    for items in ({"arm": "engineer_trained", "seed": 0}, {"seed": 0, "arm": "engineer_trained"}):
        with pytest.raises(KeyboardInterrupt):
            stages.run(repo, "05_ablations", items)
    assert named == ["ablations/engineer_trained-0"] * 2


def test_run_refuses_what_does_not_fit(repo: Path) -> None:
    prepared_stage(repo, "analysis", {"arms": ["fixed"]}, PARAMETERS, "x = 1")
    write_notebook(repo / "notebooks" / f"{NAME}.ipynb", PARAMETERS, "x = 2")
    arms, ablations, trained = "engineer_trained, engineer_trained_another", "05_ablations", "engineer_trained"
    for name, items, message in (
        (NAME, {}, rf"{NAME}: its code changed since it was checked: run `dvc repro`$"),
        (NAME, {"seed": 0}, rf"{NAME}: takes nothing after its name, not seed$"),
        (ablations, {"arm": trained}, rf"{ablations}: takes arm=\.\.\. seed=\.\.\. after its name, not arm$"),
        (ablations, {"arm": "other", "seed": 0}, rf"arm other: the active run has {arms} \(`run` in params\.yaml\)$"),
        (ablations, {"arm": trained, "seed": 0}, rf"build/params/ablations/{trained}\.json is missing: `dvc repro pre"),
    ):
        with pytest.raises((stages.StageError, ParamError), match=f"^{message}"):
            stages.run(repo, name, items)
    with pytest.raises(stages.StageError, match=r"^bank 99: the active run has 0, 1 "):
        stages.bank(repo, 99)


@pytest.mark.usefixtures("run")
def test_a_stage_without_a_notebook_says_in_one_line_which_it_is(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    params.prepare(repo)
    write_json(repo / "runs/default/env_design/settings.json", {})
    capsys.readouterr()
    for error, message in (
        (ValueError("there is no board"), "there is no board"),
        (KeyboardInterrupt(), "interrupted; the same command again goes on from here"),
    ):
        monkeypatch.setattr("mapflake.engineer.compact.base.base_model", mock.Mock(side_effect=error))
        assert main(["warm_start"]) == 1
        assert capsys.readouterr().err == f"[warm_start] {message}\n"
    params.choose(repo, "smoke")  # as it may be done under a running `dvc repro`
    assert main(["warm_start"]) == 1
    assert capsys.readouterr().err.startswith("run: the line has changed since the parameters were prepared")
    assert not (repo / "runs/smoke").exists()


def test_a_key_that_is_given_twice_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "05_ablations", "seed=0", "arm=heuristic", "seed=1"])
    assert "a key is given twice" in capsys.readouterr().err


def test_notebooks_that_start_at_once_keep_to_their_own_kernels(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the path of the temporary folder is longer than that of a socket may be."""
    long = repo / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    monkeypatch.chdir(repo)  # papermill changes the process's folder, and two at once may leave it there

    def one(number: int) -> str:
        path = write_notebook(repo / "notebooks" / f"{NAME}_{number}.ipynb", "n = 0", "print('kernel of', n)")
        executed = stages.execute(path, {"n": number}, repo, repo / f"runs/{number}.ipynb")
        return executed.cells[-1].outputs[0].text

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(one, range(2))) == ["kernel of 0\n", "kernel of 1\n"]
    assert not list(repo.glob("kernel*"))
