"""The solver against w9-pathfinding, a CBS in C++ that shares nothing with it. Opt-in: `pip install -e ".[bench]"`."""

import random

import pytest
from boards import random_board

from benchmarks.solvers import w9
from mapflake.env import Unsolvable, solve

pytest.importorskip("w9_pathfinding", reason="w9-pathfinding is not installed (the extra `bench`)")

# size, holes, agents: from open boards to those where agents block each other
SHAPES = [(3, 1, 2), (4, 3, 3), (5, 5, 3), (6, 7, 4), (8, 19, 3), (10, 20, 5)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_costs_agree(shape):
    rng = random.Random(repr(shape))
    decided = 0
    for _ in range(60):
        board = random_board(rng, *shape)
        try:
            cost = solve(board, "sum_of_costs").sum_of_costs
        except Unsolvable:  # there is nothing that w9 could prove: it searches until its time is up
            assert w9(board, seconds=0.02).cost is None
            continue
        found = w9(board, seconds=1.0).cost
        assert found in (cost, None), board.to_text()
        decided += found is not None
    assert decided >= 30  # agreement is not for want of answers
