"""The same bytes whatever the process is like; on another CPU, numbers within a tolerance that is stated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from outcome import assert_as_undisturbed

from mapflake.repro import read_jsonl

HERE = Path(__file__).parent
CODE = "import sys, toy; from pathlib import Path; [toy.run(Path.cwd(), s, Path('../log')) for s in sys.argv[1:]]"


def run_alone(folder: Path, *stages: str, **environment: str) -> None:
    folder.mkdir(parents=True)
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", CODE, *stages],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": path} | environment,
        check=False,
    )
    assert done.returncode == 0, (folder.parent / "log").read_text()[-2000:]


@pytest.mark.slow
def test_hash_seed_threads_and_language_change_nothing(undisturbed: Path, tmp_path: Path) -> None:
    import toy

    folder = tmp_path / "a folder, elsewhere"
    run_alone(folder, *toy.STAGES, PYTHONHASHSEED="12345", OMP_NUM_THREADS="2", LC_ALL="C", TZ="Asia/Tokyo")
    for stage in toy.STAGES:
        assert_as_undisturbed(folder, stage, undisturbed)


@pytest.mark.slow
def test_another_cpu_stays_within_the_stated_tolerance(undisturbed: Path, tmp_path: Path) -> None:
    """A CPU without AVX, as far as torch can be told to be one: losses of the warm start within 5%."""
    older = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ONEDNN_MAX_CPU_ISA": "SSE41"}
    run_alone(tmp_path / "toy", "warm_start", **older)
    here, there = (read_jsonl(folder / "warm_start/curve.jsonl") for folder in (undisturbed, tmp_path / "toy"))
    assert [row["loss"] for row in there] == pytest.approx([row["loss"] for row in here], rel=0.05)
    assert [row["learning_rate"] for row in there] == [row["learning_rate"] for row in here]
