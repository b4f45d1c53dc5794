"""The benchmarks: the textbook solver is right, solvers are compared fairly, and each part has its own numbers."""

from __future__ import annotations

import json
import re
import sys
from types import SimpleNamespace

import pytest
from accelerate import Accelerator
from trl import GRPOTrainer

from benchmarks import PARTS, report, solvers, trainer
from benchmarks.textbook_cbs import NodeLimit, textbook_cbs
from mapflake.env import check, solve
from mapflake.trainer.round_trainer import RoundTrainer

# ---------------------------------------------------------------- the solvers


def test_the_textbook_finds_least_sums_of_costs():
    given_up = 0
    boards = solvers.connected_boards(2, 4, 0.3, 40) + solvers.connected_boards(3, 5, 0.2, 40)
    for board in boards:
        try:
            plan = textbook_cbs(board, node_limit=300)
        except NodeLimit:
            given_up += 1
            continue
        assert plan is not None
        assert check(board, plan).sum_of_costs == solve(board, "sum_of_costs").sum_of_costs
    assert given_up < 12


def test_solvers_that_disagree_end_it(monkeypatch):
    monkeypatch.setattr(solvers, "mapflake", lambda board: solvers.Call(1.0, 99, 1.0))
    with pytest.raises(solvers.DisagreementError, match=r"sum of costs \{'mapflake': 99, 'textbook': \d+"):
        solvers.compare([(2, 4, 0.2)], boards=1)


def test_methods_that_the_trainer_times_are_there():
    owners = {"ours": (RoundTrainer, Accelerator), "stock": (GRPOTrainer, Accelerator)}
    for methods in trainer.PARTS.values():
        for which, method in methods.items():
            assert any(hasattr(owner, method) for owner in owners[which])


# ---------------------------------------------------------------- the report


def test_a_run_replaces_its_own_part_and_leaves_the_others(tmp_path, monkeypatch):
    toy = SimpleNamespace(
        measure=lambda: {"seconds": 2}, markdown=lambda n: f"{n['seconds']} s", PACKAGES=("numpy", "?")
    )
    monkeypatch.setitem(sys.modules, "toy_part", toy)
    monkeypatch.setitem(PARTS, "toy", "toy_part")
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"toy": {"numbers": 1}, "env": {"numbers": 3}, "gone": {}}))
    entry = report.record("toy", path)
    assert json.loads(path.read_text()) == {"env": {"numbers": 3}, "toy": entry}
    assert entry["numbers"] == {"seconds": 2}
    assert list(entry["versions"]) == ["python", "numpy"]
    assert re.fullmatch(
        r"2 s\n\n.+, \d+ cores, one of them used; python 3\S+, numpy \S+\.", report.markdown("toy", entry)
    )

    readme = tmp_path / "README.md"
    readme.write_text("a\n<!-- bench toy: where -->\nold\nold\n<!-- /bench toy -->\nb\n")
    path.write_text(json.dumps({"toy": entry}))
    assert report.quote(path, readme) == ["toy"]
    assert readme.read_text().split("\n", 2)[:2] == ["a", "<!-- bench toy: where -->"]
    assert f"-->\n{report.markdown('toy', entry)}\n<!-- /bench toy -->\nb\n" in readme.read_text()
