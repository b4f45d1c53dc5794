"""A small repository in a temporary folder: the real params.yaml and dvc.yaml, notebooks that a test writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[2]

Write = Callable[..., Path]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A copy of the repository's parameters, pipeline and notebooks, with this package."""
    root = tmp_path / "repo"
    root.mkdir()
    (root / "mapflake").symlink_to(ROOT / "mapflake")
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / "notebooks", root / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return root


@pytest.fixture
def write_notebook() -> Write:
    """Writes a notebook of code cells; the first is its parameters cell."""

    def write(path: Path, *sources: str) -> Path:
        cells = [nbformat.v4.new_code_cell(source, id=f"c{i}") for i, source in enumerate(sources)]
        cells[0].metadata["tags"] = ["parameters"]
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
        return path

    return write
