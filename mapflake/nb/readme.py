"""What README.md says of the results, and reports/controls.md: made from the records in reports/cells, by no stage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mapflake import repro, study
from mapflake.nb import params
from mapflake.nb.folders import REPORTS
from mapflake.plots import show
from mapflake.plots.study import leads
from mapflake.study.report import controls_markdown

CLAIMS = re.compile(r"(<!-- claims: .*? -->\n).*?(<!-- /claims -->)", re.DOTALL)
"""The place of the claims in README.md, between marks that stay as they are."""


def write(root: Path) -> None:
    """Writes README.md's claims and figure and reports/controls.md anew, from the records in reports/cells."""
    path, cells, file = root / "README.md", root / REPORTS / "cells", params.load(root)
    ages = len(params.effective(file, "study").students.ages)
    gate = repro.read_json(root / REPORTS / "laboratory/gate.json")
    repro.write_text(path, with_claims(path.read_text(encoding="utf-8"), cells, gate, ages))
    controls = study.load(cells / "controls")
    repro.write_text(root / REPORTS / "controls.md", controls_markdown(controls, ages))
    own = study.load(cells / "study", ["fixed", "engineer", *file.named("study").arms])  # as results.md has them
    show(leads({"the study's students": own, "fresh students": controls}), root / REPORTS / "leads.png")


def with_claims(text: str, cells: Path, gate: Mapping[str, Any], ages: int) -> str:
    """Returns `text` with the claims of the gate, `cells/study` and `cells/controls` between their marks.

    Raises ValueError if it has no marks, or a claim does not hold.
    """
    claims = study.claims_markdown(study.load(cells / "study"), study.load(cells / "controls"), gate, ages)
    text, found = CLAIMS.subn(lambda marks: f"{marks[1]}{claims}\n{marks[2]}", text)
    if not found:
        raise ValueError("README.md has no marks <!-- claims: ... --> and <!-- /claims -->")
    return text
