"""The scripts in docs/examples run, print what docs/bring_your_own.md says, and are quoted there as they are.

`python tests/examples/test_examples.py` writes what they print into the page anew; look at the difference.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mapflake import repro
from mapflake.engineer import VARIANTS
from mapflake.engineer.designers import RULES
from mapflake.env.config import DIMENSIONS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "bring_your_own.md"
SCRIPTS = ("own_designer", "own_reward", "own_variant", "own_policy", "own_maps", "own_dimension")
PRINTS = r"(<!-- {} prints -->\n```text\n)(.*?)(```\n)"
QUOTE = r"<!-- ([\w/]+\.(?:py|slurm|sh)) -->\n```\w+\n(.*?)```\n"
LOCAL = ("before GRPO", "after GRPO", "round ")  # trained on this machine, or recorded by the last published run


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Takes back what a script adds to our tables."""
    monkeypatch.syspath_prepend(str(DOCS / "examples"))
    tables = (VARIANTS, RULES, DIMENSIONS)
    before = [dict(table) for table in tables]
    yield
    for table, was in zip(tables, before, strict=True):
        table.clear()
        table.update(was)


def printed(name: str) -> str:
    """Returns what a script prints, without spaces at the ends of lines."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(str(DOCS / "examples" / f"{name}.py"), run_name="__main__")
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_what_the_page_says(name: str) -> None:
    shown = re.search(PRINTS.format(name), PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    ours = printed(name)
    fixed = [[line for line in text.splitlines() if not line.startswith(LOCAL)] for text in (ours, shown[2])]
    assert fixed[0] == fixed[1], "if this is meant: python tests/examples/test_examples.py"
    if name == "own_maps":
        before, after = map(float, re.findall(r"valid (0\.\d+|1\.00)", ours))
        assert after > before + 0.1
    if name == "own_designer":  # a line for the recorded engineer and one for ours
        assert len(re.findall(r"^round 1, wait ratios, (?:engineer|    ours): 3x3 [01]\.\d\d", ours, re.M)) == 2


@pytest.mark.parametrize("page", ["bring_your_own.md", "scale.md"])
def test_a_page_quotes_the_scripts_as_they_are(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    quoted = re.findall(QUOTE, text, re.DOTALL)
    assert len(quoted) == len(re.findall(r"<!-- [\w/]+\.\w+ -->", text)) > 0
    for name, code in quoted:
        assert code in (DOCS / "examples" / name).read_text(encoding="utf-8"), f"{name}: {code[:60]}"


def write() -> None:
    """Writes what the scripts print into the page."""
    sys.path.insert(0, str(DOCS / "examples"))
    text = PAGE.read_text(encoding="utf-8")
    for name in SCRIPTS:  # the dimension last: it changes what others would print
        ours = printed(name)
        text = re.sub(PRINTS.format(name), lambda found, ours=ours: found[1] + ours + found[3], text, flags=re.DOTALL)
    repro.write_text(PAGE, text)


if __name__ == "__main__":
    write()
