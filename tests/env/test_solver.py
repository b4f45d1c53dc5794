"""The solver against an oracle that shares nothing with it, against laws, and on boards made by hand."""

import random

import pytest
from boards import boards, random_board
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import least_makespan, least_sum_of_costs, must_wait

from mapflake.env import BudgetExceeded, Instance, Task, Unsolvable, check, kernel, needs_wait, plain, solve
from mapflake.env.plain import ANALYSE, BUDGET, MAKESPAN, NEEDS_WAIT, SUM_OF_COSTS

GOLDEN = Instance.from_text("""
S2   H    G2   .
.    S1G1 .    .
.    .    .    H
H    H    H    H
""")

# (size, agents): number of boards for each number of holes. As many as the oracle has time for.
PLAN_OF_BOARDS = {
    (3, 1): {0: 5, 2: 5, 4: 5},
    (3, 2): {0: 20, 1: 30, 2: 40, 3: 40, 4: 40, 5: 30},
    (3, 3): {0: 15, 1: 30, 2: 40, 3: 50, 4: 50, 5: 25},
    (3, 4): {1: 3, 2: 10, 3: 30, 4: 40, 5: 10},
    (4, 1): {0: 5, 3: 5, 6: 5},
    (4, 2): {0: 30, 2: 40, 4: 50, 6: 50, 8: 20},
    (4, 3): {0: 1, 2: 4, 4: 12, 6: 25, 8: 30},
    (4, 4): {6: 4, 7: 8, 8: 12},
    (5, 1): {0: 5, 6: 5},
    (5, 2): {0: 15, 3: 30, 5: 40, 8: 40, 12: 20},
    (5, 3): {5: 2, 8: 6, 10: 12, 12: 20},
}


def answers(board: Instance) -> tuple[int, int, bool] | None:
    """Makespan, sum of costs and wait label by the public calls, with their plans verified; None if unsolvable."""
    try:
        task = Task.of(board)
    except Unsolvable:
        for call in (solve, needs_wait, lambda b: solve(b, "sum_of_costs")):
            with pytest.raises(Unsolvable):
                call(board)
        return None
    by_makespan, by_costs = solve(board), solve(board, "sum_of_costs")
    for solution in (by_makespan, by_costs):
        verdict = check(board, solution.plan)
        assert verdict.valid, verdict
        assert (verdict.makespan, verdict.sum_of_costs) == (solution.makespan, solution.sum_of_costs)
        assert not any(moves.endswith("W") for moves in solution.plan.moves)
    # Ties prefer the other objective.
    assert by_makespan.makespan < by_costs.makespan or by_makespan.sum_of_costs == by_costs.sum_of_costs
    assert by_costs.sum_of_costs < by_makespan.sum_of_costs or by_makespan.makespan == by_costs.makespan
    assert task == Task(board, by_makespan, needs_wait(board), by_costs.sum_of_costs)
    return by_makespan.makespan, by_costs.sum_of_costs, task.needs_wait


def truth(board: Instance) -> tuple[int, int, bool] | None:
    makespan, costs = least_makespan(board), least_sum_of_costs(board)
    assert (makespan is None) == (costs is None)
    return None if makespan is None or costs is None else (makespan, costs, must_wait(board, costs))


@pytest.mark.parametrize("shape", PLAN_OF_BOARDS, ids=lambda shape: f"{shape[0]}x{shape[0]}-{shape[1]}")
def test_against_the_oracle(shape):
    """Both solvers, the plain one on every third board: it takes longer."""
    rng = random.Random(shape[0] * 10 + shape[1])
    for holes, count in PLAN_OF_BOARDS[shape].items():
        for number in range(count):
            board = random_board(rng, shape[0], holes, shape[1])
            expected = truth(board)
            assert answers(board) == expected, board.to_text()
            if number % 3 == 0:
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(kernel, "takes", lambda size, agents: False)
                    assert answers(board) == expected, board.to_text()


@settings(max_examples=200)
@given(boards(sizes=(2, 7), agents=(1, 4)), st.sampled_from((MAKESPAN, SUM_OF_COSTS, ANALYSE, NEEDS_WAIT)))
def test_kernel_and_plain_solver_agree(board, what):
    """The same end, costs, label and culprits; plans may differ."""
    compiled, simple = kernel.search(board, what, 1_000_000), plain.search(board, what, 20_000)
    assume(BUDGET not in (compiled.status, simple.status))
    assert compiled[:2] == simple[:2]
    assert (compiled.best_sum, compiled.needs_wait) == (simple.best_sum, simple.needs_wait)
    costs = [(max(map(len, moves)), sum(map(len, moves))) for _, _, moves, *_ in (compiled, simple) if moves]
    assert len(set(costs)) <= 1


def test_the_oracle_itself_on_boards_solved_by_hand():
    assert truth(GOLDEN) == (4, 6, False)
    head_on = Instance.from_text("S1G2 S2G1 .\nH H .\nH H H")
    assert truth(head_on) is None
    assert truth(Instance.from_text("S1G2 S2G1\n. .")) == (3, 4, False)  # one goes around
    assert truth(Instance.from_text("S1 . G1\nH S2 H\nH G2 H")) == (2, 3, False)
    assert truth(Instance.from_text(". S1 .\nS2 . G2\n. G1 .")) == (3, 5, True)  # one waits at the crossing


def test_golden_board_where_the_objectives_disagree():
    makespan, costs = solve(GOLDEN), solve(GOLDEN, "sum_of_costs")
    assert (makespan.makespan, makespan.sum_of_costs) == (4, 7)
    assert (costs.makespan, costs.sum_of_costs) == (6, 6)
    assert costs.plan.moves == ("", "DDRRUU")
    assert not needs_wait(GOLDEN)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("S1 H G1\nH H .\n. . .", r"holes part agent 0 at \(0, 0\) from its goal \(0, 2\)"),
        ("S1G2 S2G1 .\nH H .\nH H H", "agents 0 and 1 can never both be on their goals"),
        ("S1G2 S2G3 S3G1\nH . H\nH H H", "no plan brings all agents to their goals"),
    ],
)
def test_unsolvable_boards_are_proven_so(text, why, in_both):
    board = Instance.from_text(text)
    for call in (solve, needs_wait, Task.of, lambda b: solve(b, "sum_of_costs")):
        with pytest.raises(Unsolvable, match=why):
            call(board)


def test_a_spent_budget_says_so_and_nothing_else(in_both):
    board = Instance.from_text("S1G2 S2G1 .\n. H .\n. . .")
    for call in (solve, needs_wait, lambda b, node_budget: solve(b, "sum_of_costs", node_budget)):
        with pytest.raises(BudgetExceeded, match="no answer within 3 nodes"):
            call(board, node_budget=3)
    for budget in (10_000, 2**63, 2**70):
        assert solve(board, node_budget=budget) == solve(board)
    for budget, message in ((-1, "must be at least 0, not -1"), (1.5, "must be an integer, not 1.5")):
        with pytest.raises(ValueError, match=f"node_budget: {message}"):
            solve(board, node_budget=budget)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="objective: 'time' is none of makespan, sum_of_costs"):
        solve(GOLDEN, "time")
