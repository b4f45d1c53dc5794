"""The benchmarks: the textbook solver is right, solvers are compared fairly, and each part has its own numbers."""

from __future__ import annotations

import json
import random
import re
import sys
from types import SimpleNamespace

import pytest

from benchmarks import PARTS, environment, report, solvers
from benchmarks.textbook_cbs import NodeLimit, textbook_cbs
from mapflake.env import Instance, check, generate, judge, solve

CORRIDOR = Instance.from_text("S1G2 . . S2G1\nH . H H\nH H H H\nH H H H")


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


def test_the_textbook_on_a_board_solved_by_hand():
    plan = textbook_cbs(CORRIDOR)
    assert plan is not None
    assert check(CORRIDOR, plan).sum_of_costs == 8  # one of the two steps aside, in and out
    assert textbook_cbs(Instance.from_text("S1 H\nH G1")) is None
    with pytest.raises(NodeLimit, match="5 nodes of the constraint tree are not enough"):
        textbook_cbs(Instance.from_text("S1G2 S2G1\nH H"), node_limit=5)


def test_compare_counts_what_each_solver_solves():
    (row,) = solvers.compare([(2, 4, 0.2)], boards=3)
    assert row["mapflake"]["solved"] == row["textbook"]["solved"] == row["makespan"]["solved"] == 3
    assert row["unsolved"] == []


def test_solvers_that_disagree_end_it(monkeypatch):
    monkeypatch.setattr(solvers, "mapflake", lambda board: solvers.Call(1.0, 99, 1.0))
    with pytest.raises(solvers.DisagreementError, match=r"sum of costs \{'mapflake': 99, 'textbook': \d+"):
        solvers.compare([(2, 4, 0.2)], boards=1)


def test_what_is_given_up_is_counted_and_not_compared(monkeypatch):
    calls = iter([(1.0, 4), (2.0, None), (3.0, 6)])
    monkeypatch.setattr(solvers, "textbook", lambda board: solvers.Call(*(call := next(calls)), call[0]))
    costs = iter([4, None, None])
    monkeypatch.setattr(
        solvers,
        "mapflake",
        lambda board, objective="": solvers.Call(0.5, next(costs) if not objective else 1, 0.5),
    )
    monkeypatch.setattr(solvers, "find_spec", lambda name: None)
    (row,) = solvers.compare([(2, 4, 0.2)], boards=3)
    assert (row["mapflake"]["solved"], row["textbook"]["solved"]) == (1, 2)
    assert (row["textbook"]["ratio_both"], row["textbook"]["ratio_all"]) == (2.0, 4.0)
    assert row["textbook"]["solved_by_it_alone"] == 1
    assert [one["solved_by"] for one in row["unsolved"]] == [[], ["textbook"]]


def test_completions_are_half_right():
    tasks = generate(environment.MIXED[1], 40, seed=0)
    for prompt_format, reasoning in (("compact", 0), ("chat", 500)):
        texts = [
            environment.completion(task, prompt_format, reasoning, random.Random(i)) for i, task in enumerate(tasks)
        ]
        verdicts = [judge(task, text, prompt_format) for task, text in zip(tasks, texts, strict=True)]
        assert all("parse" not in verdict.kinds for verdict in verdicts)
        assert 10 <= sum(verdict.valid for verdict in verdicts) <= 35
        assert min(map(len, texts)) >= reasoning


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
