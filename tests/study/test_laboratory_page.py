"""The page of the laboratory's study says what its cells say, and how many units there are."""

from __future__ import annotations

import shutil
from pathlib import Path

from simulated import simulate

from benchmarks import laboratory
from mapflake import study
from mapflake.study import comparisons

ROOT = Path(__file__).parents[2]


def test_the_study_so_far_has_its_questions_answered(tmp_path: Path) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    cells = tmp_path / "reports/cells/laboratory"
    assert laboratory.units(tmp_path) == ""
    arms = {"fixed": 0.0, "engineer_trained": 0.15, "evaluation_matched": 0.1}
    found = study.load(simulate(cells, arms, seeds=[0, 1, 2]))
    text = laboratory.units(tmp_path)
    assert f"3 of {laboratory.UNITS} units are there (training seeds 0, 1, 2)" in text
    for row in comparisons.against_each(
        found, "engineer_trained", ["fixed", "engineer_trained_another", "evaluation_matched"], agents=[2]
    ):
        assert comparisons.points(row.estimate, row.significant) in text
    assert "another's report" not in text.split("### The paper's claims")[0]  # no such cell is there
    assert {path.name for path in (tmp_path / "reports/laboratory").iterdir()} == {"arms.png", "doses.png"}
