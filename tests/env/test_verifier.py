"""Each check fails alone on a board made for it, and is reported with time, agents and cell."""

from itertools import combinations, pairwise

import pytest
from boards import boards
from hypothesis import given
from hypothesis import strategies as st

from mapflake.env import KINDS, Instance, Plan, Verdict, Violation, check

ROOM = Instance.from_text("S1 . G1\n. H .\nS2 . G2")
HEAD_ON = Instance.from_text("S1G2 S2G1 .\n. . .\n. . .")

# board, moves, the one violation
ALONE = {
    "agents": (ROOM, ("RR",), Violation("agents")),
    "move": (ROOM, ("RxR", "RR"), Violation("move", 2, (0,), (0, 1))),
    "bounds": (ROOM, ("UDRR", "RR"), Violation("bounds", 1, (0,), (-1, 0))),
    "hole": (ROOM, ("RDUR", "RR"), Violation("hole", 2, (0,), (1, 1))),
    "vertex": (ROOM, ("DURR", "UDRR"), Violation("vertex", 1, (0, 1), (1, 0))),
    "edge": (HEAD_ON, ("R", "L"), Violation("edge", 1, (0, 1), (0, 1))),
    "goal": (ROOM, ("RR", "R"), Violation("goal", 2, (1,), (2, 1))),
}


@pytest.mark.parametrize("kind", ALONE)
def test_each_check_fails_alone(kind):
    board, moves, violation = ALONE[kind]
    verdict = check(board, Plan(moves))
    assert verdict == Verdict((violation,))
    assert (verdict.valid, verdict.kinds) == (False, (kind,))


def test_following_is_allowed_also_in_a_circle():
    line = Instance.from_text("S1 S2G1 G2\n. . .\n. . .")
    assert check(line, Plan(("R", "R"))) == Verdict((), makespan=1, sum_of_costs=2)
    circle = Instance.from_text("S1G4 S2G1\nS4G3 S3G2")
    assert check(circle, Plan(("R", "D", "L", "U"))) == Verdict((), makespan=1, sum_of_costs=4)
    assert check(circle, Plan(("R", "D", "L"))).kinds == ("agents",)


def test_an_agent_may_leave_its_goal_again_and_pays_for_it():
    board = Instance.from_text("S2 S1G1 G2\n. . .\n. . .")
    verdict = check(board, Plan(("DWU", "RR")))
    assert (verdict.makespan, verdict.sum_of_costs) == (3, 5)
    assert check(board, Plan(("", "RR"))).violations == (Violation("vertex", 1, (0, 1), (0, 1)),)


def test_a_violation_is_reported_once_while_it_lasts():
    verdict = check(ROOM, Plan(("RDWWW", "RRWWW")))
    assert verdict.violations == (Violation("hole", 2, (0,), (1, 1)), Violation("goal", 5, (0,), (1, 1)))
    verdict = check(ROOM, Plan(("DWWW", "UWWW")))
    assert [v.kind for v in verdict.violations] == ["vertex", "goal", "goal"]
    three = Instance.from_text(". S1G1 .\nS2G2 . S3G3\n. . .")
    assert check(three, Plan(("DU", "RL", "LR"))).violations == (Violation("vertex", 1, (0, 1, 2), (1, 1)),)


@given(boards(sizes=(3, 4), agents=(1, 4)), st.data())
def test_against_the_rules_written_down_plainly(board, data):
    plan = Plan(tuple(data.draw(st.text("UDLRWx", max_size=5)) for _ in board.starts))
    horizon = max(map(len, plan.moves))
    steps = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
    paths = []
    for cell, moves in zip(board.starts, plan.moves, strict=True):
        path = [cell]
        for move in moves.ljust(horizon, "W"):
            down, right = steps.get(move, (0, 0))
            path.append((path[-1][0] + down, path[-1][1] + right))
        paths.append(path)
    on_board = {(row, col) for row in range(board.size) for col in range(board.size)}
    two = list(combinations(paths, 2))
    broken = {
        "move": any("x" in moves for moves in plan.moves),
        "bounds": any(cell not in on_board for path in paths for cell in path),
        "hole": any(cell in board.holes for path in paths for cell in path),
        "vertex": any(a == b for p, q in two for a, b in zip(p, q, strict=True)),
        "edge": any(
            a != b and (a, b) == (d, c) for p, q in two for (a, b), (c, d) in zip(pairwise(p), pairwise(q), strict=True)
        ),
        "goal": any(path[-1] != goal for path, goal in zip(paths, board.goals, strict=True)),
    }
    verdict = check(board, plan)
    assert [(v.time, KINDS.index(v.kind)) for v in verdict.violations] == sorted(
        (v.time, KINDS.index(v.kind)) for v in verdict.violations
    )
    assert set(verdict.kinds) == {kind for kind in KINDS if broken.get(kind)}
    if verdict.valid:
        arrivals = [max((t for t in range(1, len(p)) if p[t] != p[t - 1]), default=0) for p in paths]
        assert (verdict.makespan, verdict.sum_of_costs) == (max(arrivals), sum(arrivals))
