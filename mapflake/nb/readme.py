"""The results in README.md and docs/claims.md, and reports/controls.md: made from the records, by no stage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mapflake import repro, study
from mapflake.engineer import History
from mapflake.nb import params
from mapflake.nb.folders import REPORTS
from mapflake.plots import show
from mapflake.plots.loop import loop
from mapflake.plots.study import leads
from mapflake.study import Study
from mapflake.study.cells import span, together
from mapflake.study.controls import SETS, controls_markdown

PAGES = {"README.md": "findings", "docs/claims.md": "claims"}
"""The pages with results -> what they show, between marks that stay as they are."""
MARKS = re.compile(r"(<!-- (?:claims|findings): .*? -->\n).*?(<!-- /(?:claims|findings) -->)", re.DOTALL)
CLAIMED, SEARCHED = ("study", "controls", "without_reports"), ("search", "search_again", "search_by_age")
"""Sets of cells that claims are about: those of `study.claims.CLAIMS`, and those in which the search was run."""


def write(root: Path) -> None:
    """Writes the findings of README.md, the claims of docs/claims.md, the README's figures and reports/controls.md.

    All of it comes from the records in reports/cells, and for the trials from reports/laboratory/gate.json.

    Raises:
        ValueError: A page has no marks, or a claim does not hold.
    """
    folder, file = root / REPORTS / "cells", params.load(root)
    ages = len(params.effective(file, "study").students.ages)
    gate = repro.read_json(root / REPORTS / "laboratory/gate.json")
    sets = {name: study.load(folder / name) for name in SETS}
    claims = all_claims(sets, gate, ages)
    shown = {"claims": claims.replace("](reports/", "](../reports/"), "findings": study.findings_markdown(claims)}
    for name, kind in PAGES.items():
        text, found = MARKS.subn(rf"\1{shown[kind]}\n\2", (root / name).read_text(encoding="utf-8"))
        if not found:
            raise ValueError(f"{name} has no marks <!-- {kind}: ... --> and <!-- /{kind} -->")
        repro.write_text(root / name, text)
    repro.write_text(root / REPORTS / "controls.md", controls_markdown(sets, ages, folder))
    listed = study.load(folder / "study", ["fixed", "engineer", *file.named("study").arms])  # as results.md has them
    show(loop(examples(listed)), root / REPORTS / "loop.png")
    searched, last = together(*(sets[name] for name in SEARCHED)), sets["search_matched"]
    panels = titled(sets | {"study": listed}, CLAIMED)
    panels |= {f"fresh students {span(searched)}": searched}
    panels |= {f"fresh students {span(sets['lessons'])},\nengineer with lessons": sets["lessons"]}
    panels |= {f"fresh students {span(last)}": last}
    show(leads(panels), root / REPORTS / "leads.png")


def titled(sets: Mapping[str, Study], names: Iterable[str]) -> dict[str, Study]:
    """Returns the named ones of `SETS` by the titles of their columns."""
    return {
        "the study's students" if name == "study" else f"fresh students {span(sets[name])}": sets[name]
        for name in names
    }


def examples(cells: Study) -> dict[str, History]:
    """Returns the rounds of the trained engineer, by a title, for the weakest and the strongest student at round 0."""
    histories = [cells.history("engineer_trained", seed) for seed in cells.seeds("engineer_trained")]
    order = sorted(histories, key=lambda history: history[0].report.valid_rate)
    extremes = {"weakest": order[0], "strongest": order[-1]}
    return {
        f"The {word} student after round 0: {history[0].report.valid_rate:.0%} of its plans are valid": history
        for word, history in extremes.items()
    }


def all_claims(sets: Mapping[str, Study], gate: Mapping[str, Any], ages: int) -> str:
    """Returns the tables of claims, from the cells of `SETS`; the rest is as for `study.claims_markdown`.

    Raises:
        ValueError: A claim does not hold.
    """
    *earlier, by_age = (sets[name] for name in SEARCHED)
    both, every = together(*earlier), together(*earlier, by_age)
    within = f"fresh students {span(by_age)}, within ages"
    searched = {f"fresh students {span(both)}": both, within: by_age, f"{span(every)}, after the fact": every}
    title, same = f"fresh students {span(sets['lessons'])}", "the same, within ages"
    lessons = {title: sets["lessons"], same: sets["lessons"]}
    last = sets["search_matched"]
    every = together(*earlier, by_age, sets["lessons"], last)
    matched = {title: sets["lessons"], f"fresh students {span(last)}": last, f"{span(every)}, after the fact": every}
    return study.claims_markdown(titled(sets, CLAIMED), searched, lessons, matched, gate, ages, within=[within, same])
