"""The notebooks as they are kept, and executed ones made comparable."""

from __future__ import annotations

import copy
from pathlib import Path

import nbformat
import pytest

from mapflake.nb import folders, notebooks
from mapflake.repro import single_writer

ROOT = Path(__file__).resolve().parents[2]
STAGES = list(folders.NOTEBOOKS.values())
NAMES = [*STAGES, "explore"]  # no stage: nothing comes from it


def test_there_are_no_others() -> None:
    assert sorted(p.stem for p in (ROOT / "notebooks").glob("*.ipynb")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_thin_and_told(name: str) -> None:
    notebook = notebooks.read(ROOT / "notebooks" / f"{name}.ipynb")
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell in code:
        assert not cell.outputs, cell.id
        assert cell.execution_count is None, cell.id
        tags = cell.metadata.get("tags", [])
        assert tags == ["parameters"] or len(cell.source.splitlines()) <= 15, cell.id
        assert "%" not in [line[:1] for line in cell.source.splitlines()], cell.id
    told = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert told[0].startswith(f"# {int(name[:2])} · " if name in STAGES else "# Explore")
    assert told[-1].startswith("## ")
    assert "limits" in told[-1].lower()


def executed() -> nbformat.NotebookNode:
    """A notebook as papermill leaves it."""
    cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell("x"), nbformat.v4.new_code_cell("y")]
    cells[1].execution_count, cells[2].execution_count = 1, 2
    cells[1].outputs = [
        nbformat.v4.new_output("stream", name="stdout", text="one "),
        nbformat.v4.new_output("stream", name="stderr", text="50%|#"),
        nbformat.v4.new_output("stream", name="stdout", text="line\n 10%\r 20%\nat /home/me/repo/x\n"),
        nbformat.v4.new_output("stream", name="stderr", text="warning"),
    ]
    cells[2].outputs = [
        nbformat.v4.new_output(
            "execute_result",
            execution_count=2,
            data={"text/plain": "<Axes at 0x7f00deadbeef>", "image/png": "aGVsbG8="},
            metadata={"image/png": {"width": 100}},
        ),
        nbformat.v4.new_output("display_data", data={"text/html": "<progress value='250'></progress> 00:22"}),
        nbformat.v4.new_output("display_data", data={"text/html": "<p>/home/me/repo</p>"}),
    ]
    for cell in cells:
        cell.metadata["papermill"] = {"start_time": "2026-11-01T00:00:00", "duration": 1.5, "status": "completed"}
        cell.metadata["execution"] = {"iopub.status.busy": "2026-11-01T00:00:00"}
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata["papermill"] = {"end_time": "2026-11-01T00:00:00", "output_path": "/home/me/repo/out.ipynb"}
    notebook.metadata["language_info"] = {"name": "python", "version": "3.11.7"}
    return notebook


def test_normalised_notebooks_are_equal_for_equal_results() -> None:
    one = executed()
    text = notebooks.normalise(one, {"/home/me/repo": "."})
    for trace in ("2026", "papermill", "0x7f", "/home/me", "3.11.7", "50%", "20%", "warning", "00:22"):
        assert trace not in text, trace
    kept = nbformat.reads(text, as_version=4)
    assert kept.cells[1].outputs[0].text == "one line\nat ./x\n"
    assert kept.cells[2].outputs[0].data["text/plain"] == "<Axes>"
    assert kept.cells[2].outputs[0].metadata == {"image/png": {"width": 100}}
    assert kept.cells[2].outputs[1].data["text/html"] == "<p>.</p>"
    assert [cell.source for cell in kept.cells] == ["# Title", "x", "y"]

    other = copy.deepcopy(one)  # the same results, elsewhere, at another time, cut into other pieces
    for cell in other.cells:
        cell.id = f"z{cell.id}"[:60]
        cell.metadata["papermill"]["duration"] = 99
    stream = other.cells[1].outputs
    stream[0].text, stream[2].text = "one li", "ne\n 90%\r100%\nat /srv/x\n"
    del stream[3]
    other.cells[2].outputs[0].data["text/plain"] = "<Axes at 0x123>"
    other.cells[2].outputs[2].data["text/html"] = "<p>/srv</p>"
    assert notebooks.normalise(other, {"/srv": "."}) == text
    assert notebooks.normalise(kept, {}) == text


def test_start_gives_an_empty_folder_and_guards_others(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repo / "notebooks")
    assert folders.root() == repo
    out = folders.start("runs/interactive", "env_design")
    assert out == repo / "runs/interactive/env_design"
    (out / "old.txt").touch()
    assert [p.name for p in folders.start("runs/interactive", "env_design").iterdir()] == [".mapflake"]

    for run in ("results", "..", "runs", "/tmp"):
        with pytest.raises(ValueError, match=rf"^run: '{run}' is not legal: a run is a folder inside .*runs"):
            folders.start(run, "env_design" if run != "runs" else "")
    lock = folders.stage_lock(repo, "runs/default", "env_design")
    with single_writer(lock):  # a stage of the pipeline runs: it finds its folder as it was left
        kept = folders.start("runs/default", "env_design") / "rounds.jsonl"
        kept.touch()
        assert folders.start("runs/default", "env_design") == kept.parent
    with pytest.raises(ValueError, match=r"^runs/default is written by `dvc repro`; by hand, use another run such as"):
        folders.start("runs/default", "env_design")
    assert kept.exists()
    assert folders.cells("runs/default") == repo / "reports/cells/default"
    assert folders.cells("runs/interactive") == repo / "runs/interactive/cells"
    mine = repo / "runs/mine/env_design"
    mine.mkdir(parents=True)
    (mine / "thesis.txt").touch()
    with pytest.raises(ValueError, match=r"holds files that no notebook of ours wrote: move them"):
        folders.start("runs/mine", "env_design")
    assert (mine / "thesis.txt").exists()


def test_require_says_what_to_run_first(repo: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(repo / "notebooks")
    said = r"^runs/interactive/env_design/validation\.jsonl is missing: run 01_env_design first"
    with pytest.raises(FileNotFoundError, match=said):
        folders.require("runs/interactive", "env_design/validation.jsonl")
    (repo / "runs/interactive/env_design").mkdir(parents=True)
    assert folders.require("runs/interactive", "env_design") == repo / "runs/interactive/env_design"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"is not inside the mapflake repository"):
        folders.root()
