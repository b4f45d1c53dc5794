"""What the verifiers example makes of its traces; tests/adapters/test_taskset.py runs it whole, with verifiers."""

import json
import runpy
from pathlib import Path

import pytest

MEAN = runpy.run_path(str(Path(__file__).parents[2] / "docs/examples/eval_verifiers.py"))["mean"]


def traces(path: Path, *scores: float | None) -> Path:
    """Writes traces as vf-eval does; None is an episode whose request failed."""
    rewards = [{} if score is None else {"reward": {"score": score, "weight": 1.0}} for score in scores]
    path.write_text("".join(json.dumps({"traces": [{"rewards": one}]}) + "\n" for one in rewards))
    return path


def test_failed_requests_are_told_and_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert MEAN(traces(tmp_path / "all", 1.0, 0.0, 0.5)) == 0.5
    assert capsys.readouterr().err == ""
    assert MEAN(traces(tmp_path / "some", 1.0, None, 0.5)) == 0.75
    assert capsys.readouterr().err == f"1 of 3 requests failed, see {tmp_path / 'some'}\n"
    with pytest.raises(SystemExit, match="no episode has a reward"):
        MEAN(traces(tmp_path / "none", None))
