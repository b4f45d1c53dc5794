"""`make install` by make, with a program that does nothing in place of pip."""

import subprocess
import sys
from pathlib import Path

from small_repo import repository

from mapflake import repro


def install(root: Path, **changed: str) -> int:
    """Runs `make install` where there is no uv, with variables of the Makefile changed; returns its exit status."""
    repro.write_text(root / "python", f'#!/bin/sh\nexec {sys.executable} "$@" --without-pip\n')  # which takes seconds
    (root / "python").chmod(0o755)
    command = ["make", "install", "PYTHON=./python", *(f"{name}={value}" for name, value in changed.items())]
    return subprocess.run(command, cwd=root, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False).returncode


def test_what_was_cut_short_is_installed_from_nothing(tmp_path: Path) -> None:
    root = repository(tmp_path / "clone", "Makefile", "pyproject.toml")
    (root / "requirements").mkdir()
    for name in ("core", "dev"):
        (root / f"requirements/{name}.lock").touch()
    mine = root / ".venv/mine"
    assert install(root, PIP="false") != 0
    mine.touch()
    (root / ".venv/pyvenv.cfg").unlink()  # as if killed while it removes the environment
    assert install(root, PIP="true") == 0
    assert not mine.exists()
    mine.touch()
    (root / "requirements/dev.lock").write_text("changed")
    assert install(root, PIP="false") != 0
    assert install(root, PIP="true") == 0
    assert mine.exists()  # an environment that was whole, or was made by hand, is never removed
