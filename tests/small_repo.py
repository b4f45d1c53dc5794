"""A small repository in a temporary folder: the real files that a test names, and notebooks that it writes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import nbformat

from mapflake.nb import notebooks
from mapflake.nb.folders import NOTEBOOKS
from mapflake.repro import write_json, write_text

ROOT = Path(__file__).resolve().parents[1]


def repository(root: Path, *names: str) -> Path:
    """Returns `root`, with this package and copies of the named files of the repository in it."""
    root.mkdir(exist_ok=True)
    (root / "mapflake").symlink_to(ROOT / "mapflake")
    for name in names:
        shutil.copy(ROOT / name, root / name)
    return root


def files(folder: Path) -> dict[str, bytes]:
    """Returns the content of each file below a folder."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def done(*command: str | Path, **options: Any) -> str:
    """Returns what a command prints; an error is a failure that shows it."""
    run = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert run.returncode == 0, f"{command}: {run.stdout[-4000:]}{run.stderr[-4000:]}"
    return run.stdout


def committed(path: str) -> str:
    """Returns a file as it is committed, not as a local run of another profile left it."""
    return done("git", "show", f"HEAD:{path}", cwd=ROOT)


def write_notebook(path: Path, *sources: str) -> Path:
    """Writes a notebook of code cells, the first of which is its parameters cell."""
    cells = [nbformat.v4.new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
    cells[0].metadata["tags"] = ["parameters"]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    return path


def prepared_stage(root: Path, section: str, values: dict[str, Any], *sources: str) -> str:
    """Writes a stage's notebook with its parameters and its code, as `prepare` does; returns the notebook's name."""
    name = NOTEBOOKS[section]
    path = write_notebook(root / "notebooks" / f"{name}.ipynb", *sources)
    write_text(root / "build/code" / f"{name}.py", notebooks.code_view(notebooks.read(path), name))
    write_json(root / "build/params" / f"{section}.json", values)
    return name
