"""The example for a Ray cluster, on a cluster of this machine; needs ray, which `make test-ray` installs."""

from __future__ import annotations

import os
import runpy
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mapflake.env import generate, load_tasks

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "docs/examples/cluster/boards_ray.py"


def test_files_of_ray_workers_together_are_one_call_of_generate(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: make test-ray")
    (tmp_path / "boards").mkdir()
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:  # paths of sockets must be short
        settings = {"RAY_TMPDIR": folder, "RAY_AUTH_TOKEN": secrets.token_hex(16), "RAY_USAGE_STATS_ENABLED": "0"}
        done = subprocess.run(
            [sys.executable, str(SCRIPT), str(tmp_path / "boards")],
            env={**os.environ, "PYTHONPATH": str(ROOT), **settings},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]

    script = runpy.run_path(str(SCRIPT), run_name="boards_ray")
    files = sorted((tmp_path / "boards").iterdir())
    assert len(files) == script["JOBS"]
    drawn = [task for file in files for task in load_tasks(file)]
    assert drawn == generate(script["CONFIG"], script["N"], seed=0)
    assert drawn != generate(script["CONFIG"], script["N"], seed=1)
