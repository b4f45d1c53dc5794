"""The README's numbers are those of the committed reports, and what it shows and names is there."""

import copy
import json
import re
import subprocess
from pathlib import Path

import pytest

from mapflake.nb.publish import compare

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("table", ["results", "study"])
def test_its_tables_are_the_committed_ones(table):
    found = re.search(rf"<!-- {table}: .*? -->\n(.*?)<!-- /{table} -->", README, re.DOTALL)
    # As committed, not as a local run of another profile left it.
    shown = subprocess.run(
        ["git", "show", f"HEAD:reports/{table}.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert found is not None
    assert found[1].strip() == shown.strip()


def test_the_speed_that_it_claims_is_the_committed_one():
    shown = subprocess.run(
        ["git", "show", "HEAD:reports/bench.json"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    numbers = {name: entry["numbers"] for name, entry in json.loads(shown).items()}
    ratio = numbers["trainer"]["stock"]["step_s"] / numbers["trainer"]["ours"]["step_s"]
    assert f"takes {ratio:.1f} times less" in README
    drawn = [row for row in numbers["env"]["draw"] if row["round"].startswith("2 agents")]
    assert [(row["tasks"], row["seconds"] < 0.55) for row in drawn] == [(4000, True)]
    assert "4000 tasks are drawn in half a second" in README


def test_links_and_pictures_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    local = [t for t in targets if not t.startswith("http")]
    assert any(t.endswith(".png") for t in local)
    assert [t for t in local if not (ROOT / t).exists()] == []


def test_the_tree_names_what_is_there():
    tree = re.search(r"## The house\n\n```\n(.*?)```", README, re.DOTALL)[1]
    named = [word for line in tree.splitlines() for word in line.split("  ")[0].split()] + [
        f"mapflake/{word}" for word in re.findall(r"^  (\S+)", tree, re.MULTILINE)
    ]
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_its_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = set(re.findall(r"make ([a-z]+)", README)) - {"sure"}
    assert {"repro", "test", "lab"} <= commands
    assert [c for c in commands if not re.search(rf"^{c}:", makefile, re.MULTILINE)] == []


def test_metrics_of_two_machines_are_compared_by_their_intervals():
    mine = json.loads((ROOT / "reports/metrics.json").read_text())
    theirs = copy.deepcopy(mine)
    assert compare(mine, theirs) == []
    near = theirs["benchmark"]["fixed"]["all"]["valid"]
    near |= {"mean": near["high"], "low": near["high"], "high": near["high"] + 0.1}
    assert compare(mine, theirs) == []
    near |= {"mean": 0.9, "low": 0.8, "high": 1.0}
    theirs["benchmark"]["fixed"]["all"]["boards"] += 1
    del theirs["benchmark"]["round_0"]["by_agents"]["2"]
    found = compare(mine, theirs)
    assert [line.split(":")[0] for line in found] == [
        "metrics.benchmark.round_0.by_agents.2",
        "metrics.benchmark.fixed.all.boards",
        "metrics.benchmark.fixed.all.valid",
    ]
    assert found[2].endswith(" here, 0.9 (0.8 to 1.0) there")
