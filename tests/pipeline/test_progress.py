"""What is left of a run, from the times of its stages and the records that there are."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_repo import repository

from mapflake import repro
from mapflake.nb import params, progress
from mapflake.nb.__main__ import main


def timed(root: Path, stage: str, *rows: tuple[bool, int]) -> None:
    path = root / "runs/default/times" / f"{stage.replace('/', '_')}.jsonl"
    for done, seconds in rows:
        repro.append_jsonl(path, {"stage": stage, "done": done, "seconds": seconds, "cpu_seconds": 1, "peak_gib": 1.0})


@pytest.mark.parametrize("jobs", ["0", "1025", "two"])
def test_jobs_are_a_number_that_is_named(jobs: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["left", jobs])
    assert f"argument jobs: takes a number from 1 to 1024, not '{jobs}'" in capsys.readouterr().err


def test_a_missing_cell_takes_as_long_as_the_finished_ones_of_its_stage(tmp_path: Path) -> None:
    params.choose(repository(tmp_path, "params.yaml"), "default")  # two seeds, two arms, two runs of the bank
    stages = [stage for stage, _ in progress.cells(params.load(tmp_path).run)]
    assert len(stages) == 14
    assert progress.left(tmp_path, 2) == "0 of 14 cells are done"  # of nothing it knows no time
    timed(tmp_path, "bank/0", (False, 1000), (True, 120))  # the interrupted execution does not count
    assert progress.left(tmp_path, 2) == "1 of 14 cells are done; more than 1 minutes are left, 2 at once"
    timed(tmp_path, "baseline_rl/0", (True, 600))
    assert progress.left(tmp_path, 1) == "2 of 14 cells are done; more than 12 minutes are left, 1 at once"
    repro.write_json(tmp_path / "reports/cells/default/fixed-1.json", {})  # published, not trained here
    assert progress.left(tmp_path, 1) == "2 of 14 cells are done; more than 12 minutes are left, 1 at once"
    text = "3 of 14 cells are done; more than 2 minutes are left, 1 at once"
    assert progress.left(tmp_path, 1, published=True) == text
    for stage in stages:
        if stage != "bank/1":
            timed(tmp_path, stage, (True, 1))
    assert progress.left(tmp_path, 1) == "13 of 14 cells are done; about 2 minutes are left, 1 at once"
    timed(tmp_path, "bank/1", (True, 1))
    assert progress.left(tmp_path, 1) == "14 of 14 cells are done"
    row = {"stage": "student/0", "done": True, "seconds": 60, "params": "of before"}
    repro.write_jsonl(tmp_path / "runs/default/times/student_0.jsonl", [row])
    repro.write_json(tmp_path / "build/params/student.json", {})
    assert progress.left(tmp_path, 1).startswith("13 of 14 cells are done; ")
    row["params"] = params.stage_sha256(tmp_path, "student/0")
    repro.append_jsonl(tmp_path / "runs/default/times/student_0.jsonl", row)
    assert progress.left(tmp_path, 1) == "14 of 14 cells are done"
