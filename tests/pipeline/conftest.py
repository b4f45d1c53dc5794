"""A copy of the repository's parameters, pipeline and notebooks, with this package."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from small_repo import ROOT, repository


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """The repository in a temporary folder."""
    root = repository(tmp_path / "repo", "params.yaml", "dvc.yaml")
    shutil.copytree(ROOT / "notebooks", root / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return root
