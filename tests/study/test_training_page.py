"""The page of a training says what the committed records hold."""

import shutil
from pathlib import Path

from benchmarks import training
from mapflake import repro

REPORTS = Path(__file__).parents[2] / "reports"


def test_the_page_is_that_of_the_committed_records(tmp_path):
    for profile in ("smollm2", "default"):  # the small policy stands beside it
        shutil.copytree(REPORTS / "cells" / profile, tmp_path / "reports/cells" / profile)
    page, record = tmp_path / "reports/smollm2.md", tmp_path / "reports/cells/smollm2/training/0.json"
    training.page(tmp_path, "smollm2")
    assert page.read_text() == (REPORTS / "smollm2.md").read_text(), "python -m benchmarks.training page smollm2"

    changed = repro.read_json(record)  # the control
    changed["warm start"]["tokens"] += 1
    repro.write_json(record, changed)
    training.page(tmp_path, "smollm2")
    assert page.read_text() != (REPORTS / "smollm2.md").read_text()
