"""The documentation builds with every link checked, says what is committed, and has every public name."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from small_repo import ROOT, committed

from benchmarks.report import PAGE, block, markdown
from mapflake import engineer, env


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built in strict mode: a link, an image or an anchor that leads nowhere is an error."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Building documentation" in done.stderr  # where such lines are silenced, warnings are too, and do not count
    return folder


def test_pages_are_those_of_the_repository(site: Path) -> None:
    index = (site / "index.html").read_text()
    assert "writes its own training environment" in index
    for picture in re.findall(r'src="(reports/[^"]+)"', index):
        assert (site / picture).is_file(), picture
    assert "reports/leads.png" in index
    for notebook in (ROOT / "reports/notebooks").glob("*.ipynb"):
        assert (site / f"notebooks/{notebook.stem}.html").is_file(), notebook.name
    assert not (site / "hooks.py").exists()


def test_the_reference_has_every_public_name(site: Path) -> None:
    for module in (env, engineer):
        page = (site / f"api/{module.__name__.rpartition('.')[2]}.html").read_text()
        anchors = set(re.findall(r'id="mapflake\.([\w.]+)"', page))
        missing = [name for name in module.__all__ if not any(anchor.endswith(f".{name}") for anchor in anchors)]
        assert missing == [], module.__name__


def test_a_page_needs_no_network(site: Path) -> None:
    loaded = r'<(?:script|img|iframe|link)[^>]*\b(?:src|href)="(https?:[^"]*)"'
    for page in ("index.html", "api/env.html", "explore.html"):
        urls = re.findall(loaded, (site / page).read_text())
        assert [url for url in urls if "canonical" not in url] == [], page


def test_the_benchmark_tables_are_the_committed_ones() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    shown = json.loads(committed("reports/bench.json"))
    assert "env" in shown
    for name, entry in shown.items():
        assert block(name).search(page)[2].strip() == markdown(name, entry)
