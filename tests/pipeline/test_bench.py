"""The benchmarks: the textbook solver is right, and a solver with another answer ends them."""

from __future__ import annotations

import pytest

from benchmarks import forms, solvers
from benchmarks.textbook_cbs import NodeLimit, textbook_cbs
from mapflake.env import check, format_plan, judge_completion, naive_plan_fails, solve


def test_the_textbook_finds_least_sums_of_costs_and_another_answer_ends_a_benchmark(monkeypatch):
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
    monkeypatch.setattr(solvers, "mapflake", lambda board: solvers.Call(1.0, 99, 1.0))
    with pytest.raises(solvers.DisagreementError, match=r"sum of costs \{'mapflake': 99, 'textbook': \d+"):
        solvers.compare([(2, 4, 0.2)], boards=1)


def test_every_form_of_the_worked_answer_is_read_as_the_solvers_plan():
    boards = forms.demonstrated(30)
    for board in boards:
        assert forms.answer(board, "letters") == format_plan(board.instance, board.solution.plan, "brief")
        for form in forms.FORMS:
            plan, verdict = judge_completion(board, forms.answer(board, form), "brief")
            assert plan == board.solution.plan
            assert verdict.optimal
    assert sum(naive_plan_fails(board.instance) for board in boards) == 18
