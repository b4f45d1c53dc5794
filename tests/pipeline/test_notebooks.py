"""The notebooks as they are kept, and executed ones made comparable."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from small_repo import ROOT

from mapflake.engineer import students
from mapflake.env import save_tasks
from mapflake.nb import folders, notebooks
from mapflake.nb.folders import single_writer
from mapflake.repro import write_json

STAGES = list(folders.NOTEBOOKS.values())
NAMES = [*STAGES, "explore"]  # no stage: nothing comes from it


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_thin_and_told(name: str) -> None:
    assert sorted(p.stem for p in (ROOT / "notebooks").glob("*.ipynb")) == NAMES
    notebook = notebooks.read(ROOT / "notebooks" / f"{name}.ipynb")
    nbformat.validate(notebook)
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        assert not cell.outputs, cell.id
        assert cell.execution_count is None, cell.id
        assert cell.metadata.get("tags") == ["parameters"] or len(cell.source.splitlines()) <= 15, cell.id
        defined = [n for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
        assert not defined, f"{cell.id}: notebooks call, the package defines"
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert texts[0].startswith(f"# {int(name[:2])} · " if name in STAGES else "# Explore")
    assert texts[-1].startswith("## ")
    assert "limits" in texts[-1].lower()


def test_an_arm_reads_the_ledgers_of_the_students_whose_reports_it_is_told_and_no_others() -> None:
    """The other students of its group may have been trained elsewhere: their records alone are here."""
    notebook = notebooks.read(ROOT / "notebooks" / "05_ablations.ipynb")
    (cell,) = [c.source for c in notebook.cells if "students.told(" in c.source]
    read: list[str] = []
    names = {
        "students": students, "arm_params": SimpleNamespace(report="another", told_others=True), "seed": 7,
        "ages": [1] * 4,
        "common": {}, "run": "runs/study", "nb": SimpleNamespace(require=lambda run, path: read.append(path) or path),
        "Ledger": lambda path: SimpleNamespace(rounds=[SimpleNamespace(report=path)]),
    }  # fmt: skip
    exec(cell, names)
    assert read == ["baseline_rl/5/rounds.jsonl"]
    assert names["common"]["told"] == ("baseline_rl/5/rounds.jsonl",)


def executed(folder: str, moment: str, *streams: tuple[str, str]) -> nbformat.NotebookNode:
    """A notebook as papermill leaves it, run in a folder at a moment; how its streams were cut is by chance."""
    cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell("x"), nbformat.v4.new_code_cell("y")]
    cells[1].execution_count, cells[2].execution_count = 1, 2
    cells[1].outputs = [nbformat.v4.new_output("stream", name=name, text=text) for name, text in streams]
    axes = {"text/plain": f"<Axes at 0x7f{moment[-2:]}>", "image/png": "aGVsbG8="}
    result = nbformat.v4.new_output("execute_result", axes, execution_count=2, metadata={"image/png": {"width": 100}})
    shown = [f"<progress value='250'></progress> {moment}", f"<p>{folder}</p>"]
    cells[2].outputs = [result, *(nbformat.v4.new_output("display_data", {"text/html": html}) for html in shown)]
    for cell in cells:
        cell.metadata["papermill"] = {"start_time": moment, "duration": 1.5, "status": "completed"}
    metadata = {"papermill": {"output_path": folder}, "language_info": {"name": "python", "version": "3"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def test_normalised_notebooks_are_equal_for_equal_results() -> None:
    streams = [
        ("stdout", "one "),
        ("stderr", "50%|#"),
        ("stdout", "line\n 10%\r 20%\nat /home/me/x\n"),
        ("stderr", "!"),
    ]
    text = notebooks.normalise(executed("/home/me", "2026-11-01T00:00:00", *streams), "/home/me")
    for trace in ("2026", "papermill", "0x7f", "/home/me", "version", "50%", "20%", "!", "progress"):
        assert trace not in text, trace
    clean = nbformat.reads(text, as_version=4)
    assert [cell.source for cell in clean.cells] == ["# Title", "x", "y"]
    assert clean.cells[1].outputs[0].text == "one line\nat ./x\n"
    assert clean.cells[2].outputs[0].data["text/plain"] == "<Axes>"
    assert clean.cells[2].outputs[0].metadata == {"image/png": {"width": 100}}
    assert clean.cells[2].outputs[1].data["text/html"] == "<p>.</p>"

    other_streams = [("stderr", "1%"), ("stdout", "one li"), ("stdout", "ne\n 90%\r100%\nat /srv/x\n")]
    assert notebooks.normalise(executed("/srv", "2027-01-01T00:00:11", *other_streams), "/srv") == text
    assert notebooks.normalise(clean, "/home/me") == text
    other_streams[1] = ("stdout", "two li")  # the control
    assert notebooks.normalise(executed("/srv", "2027-01-01T00:00:11", *other_streams), "/srv") != text


def test_start_gives_an_empty_folder_keeps_what_was_there_and_guards_others(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(repo / "notebooks")
    assert folders.root() == repo
    out = folders.start("runs/interactive", "env_design")
    assert out == repo / "runs/interactive/env_design"
    (out / "old.txt").touch()
    assert list(folders.start("runs/interactive", "env_design").iterdir()) == []
    assert list(folders.start("runs/interactive", "env_design").iterdir()) == []  # started twice: nothing new to keep
    assert [path.name for path in (repo / "runs/interactive/env_design.old").iterdir()] == ["old.txt"]
    for run in ("results", "..", "/tmp"):
        with pytest.raises(ValueError, match=rf"^run: '{run}' is not legal: a run is a folder inside .*runs"):
            folders.start(run, "env_design")

    (repo / "runs").rename(repo.parent / "large disk")
    (repo / "runs").symlink_to(repo.parent / "large disk")
    assert folders.start("runs/interactive", "env_design").is_dir()
    with pytest.raises(ValueError, match=r"^run: 'results' is not legal"):
        folders.start("results", "env_design")

    lock = folders.stage_lock(repo, "runs/default", "env_design")
    with single_writer(lock):
        with monkeypatch.context() as stage:  # the notebook that it runs: its folder as it was left
            stage.setenv(folders.STAGE_LOCK, str(lock))
            ledger = folders.start("runs/default", "env_design") / "rounds.jsonl"
            ledger.touch()
            (ledger.parent / "figures").mkdir()
            assert folders.start("runs/default", "env_design") == ledger.parent
        for name in ("env_design", "baseline_rl/0"):  # another notebook, while the stage runs
            with pytest.raises(ValueError, match=r"^runs/default is written by `dvc repro`; by hand, use another run"):
                folders.start("runs/default", name)
    with pytest.raises(ValueError, match=r"^runs/default is written by `dvc repro`; by hand, use another run such as"):
        folders.start("runs/default", "env_design")
    assert ledger.exists()
    assert not (ledger.parent / "figures").exists()  # drawn anew
    pulled = repo / "runs/pulled/env_design/notebook.ipynb"  # as `dvc pull` brings it, without locks
    pulled.parent.mkdir(parents=True)
    pulled.touch()
    with pytest.raises(ValueError, match=r"^runs/pulled is written by `dvc repro`"):
        folders.start("runs/pulled", "env_design")
    assert pulled.exists()
    assert folders.cells("runs/default") == repo / "reports/cells/default"
    assert folders.cells("runs/interactive") == repo / "runs/interactive/cells"
    monkeypatch.chdir(repo.parent)
    with pytest.raises(FileNotFoundError, match=r"is not inside the mapflake repository"):
        folders.root()


def test_require_says_what_makes_it_in_this_run(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo / "notebooks")
    folders.stage_lock(repo, "runs/smoke", "env_design").parent.mkdir(parents=True)
    for path, notebook, stage in (
        ("warm_start/checkpoint", "02_baseline_rl.ipynb", "warm_start"),
        ("baseline_rl/3/settings.json", "02_baseline_rl.ipynb with seed = 3", "baseline_rl@3"),
        ("trained_engineer/0/cost.json", "04_trained_engineer.ipynb with seed = 0", "trained_engineer@0"),
    ):
        by_hand, by_dvc = f"run notebooks/{notebook} to its end first", f"make it by `dvc repro {stage}`"
        for run, how in (("runs/interactive", by_hand), ("runs/smoke", by_dvc)):
            with pytest.raises(FileNotFoundError, match="^" + re.escape(f"{run}/{path} is missing: {how}") + "$"):
                folders.require(run, path)
        (repo / "runs/smoke" / path).mkdir(parents=True)
        assert folders.require("runs/smoke", path) == repo / "runs/smoke" / path


@pytest.mark.parametrize("name", STAGES[1:])
def test_a_notebook_of_an_empty_run_says_in_one_line_what_to_run_first(
    repo: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Also after notebook 01, and after a notebook 02 that was stopped: 03 and 05 do not end in its missing files."""
    monkeypatch.chdir(repo)
    notebook = notebooks.read(repo / "notebooks" / f"{name}.ipynb")
    source = "\n".join(cell.source for _, cell in notebooks.code_cells(notebook))

    def said() -> str:
        with pytest.raises((FileNotFoundError, ValueError)) as caught:
            exec(source, {})
        return str(caught.value)

    first = "run notebooks/01_env_design.ipynb to its end first"
    if name == "06_analysis":  # which reads records, in whatever folder they are
        first = "no boards.json: notebook 01 makes it; in the pipeline, `dvc repro env_design`"
    run_folder = repo / "runs/interactive"
    assert said().endswith(first)
    (run_folder / "env_design").mkdir(parents=True)
    assert said().endswith(first)
    if name[:2] in ("03", "04", "05"):
        write_json(run_folder / "env_design/settings.json", {"sizes": [3], "validated": [3], "subsets": []})
        save_tasks(run_folder / "env_design/validation.jsonl", [])
        (run_folder / "baseline_rl/0").mkdir(parents=True)
        assert re.search(r"is missing: run notebooks/02_baseline_rl\.ipynb( with seed = 0)? to its end first$", said())
