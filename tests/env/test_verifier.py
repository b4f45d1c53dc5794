"""Each check fails alone on a board made for it, and is reported with time, agents and cell."""

import pytest

from mapflake.env import KINDS, Instance, Plan, Task, Verdict, Violation, check, format_plan, judge

ROOM = Instance.from_text("""
S1 .  G1
.  H  .
S2 .  G2
""")
LINE = Instance.from_text("""
S1   S2G1 G2
.    .    .
.    .    .
""")
HEAD_ON = Instance.from_text("""
S1G2 S2G1 .
.    .    .
.    .    .
""")

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
    assert not verdict.valid
    assert verdict.kinds == (kind,)


@pytest.mark.parametrize("dialect", ["chat", "compact"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_check_fails_alone_in_a_completion(kind, dialect):
    words = {
        "agents": "<DR> R a1 ; <LR> R a2 ;",
        "move": "<DR> R a1 <UR> R c1 ; <LR> to a1 <LR> R c2 ; <LR> R a2 <UL> W c2 ;",
        "bounds": "<DR> U a0 <UR> R c1 ; <DR> D a0 <LR> R c2 ; <DR> R a1 <UL> W c2 ; <LR> R a2 <UL> W c2 ;",
        "parse": "<DR> R a1 <UR> R c1 ; <LR> R a2 <LR> R",
    }
    if kind == "parse":
        board, completion = ROOM, words[kind] if dialect == "compact" else '{"plan": ["RR", "RR"'
    elif dialect == "chat":
        board, moves, _ = ALONE[kind]
        completion = f'Let me see.\n```json\n{{"plan": {str(list(moves)).replace(chr(39), chr(34))}}}\n```'
    else:
        board, moves, _ = ALONE[kind]
        completion = words.get(kind) or format_plan(board, Plan(moves), "compact")
    verdict = judge(Task.of(board), completion, dialect)
    assert verdict.kinds == (kind,)
    assert not verdict.optimal
    assert not verdict.soc_optimal


def test_kinds_are_the_eight_in_order():
    assert KINDS == ("parse", "agents", "move", "bounds", "hole", "vertex", "edge", "goal")


def test_following_is_allowed_also_in_a_circle():
    assert check(LINE, Plan(("R", "R"))) == Verdict((), makespan=1, sum_of_costs=2)
    circle = Instance.from_text("S1G4 S2G1\nS4G3 S3G2")
    assert check(circle, Plan(("R", "D", "L", "U"))) == Verdict((), makespan=1, sum_of_costs=4)
    assert check(circle, Plan(("R", "D", "L"))).kinds == ("agents",)


def test_an_agent_may_leave_its_goal_again_and_pays_for_it():
    board = Instance.from_text("S2 S1G1 G2\n. . .\n. . .")
    verdict = check(board, Plan(("DWU", "RR")))
    assert (verdict.makespan, verdict.sum_of_costs) == (3, 5)
    assert check(board, Plan(("", "RR"))).violations == (Violation("vertex", 1, (0, 1), (0, 1)),)


def test_trailing_waits_cost_nothing_and_shorter_strings_wait():
    assert check(ROOM, Plan(("RRWWW", "WRR"))) == Verdict((), makespan=3, sum_of_costs=5)
    still = Instance.from_text("S1G1 .\n. .")
    assert check(still, Plan(("",))) == check(still, Plan(("WW",))) == Verdict((), makespan=0, sum_of_costs=0)


def test_a_violation_is_reported_once_while_it_lasts():
    verdict = check(ROOM, Plan(("RDWWW", "RRWWW")))
    assert verdict.violations == (Violation("hole", 2, (0,), (1, 1)), Violation("goal", 5, (0,), (1, 1)))
    verdict = check(ROOM, Plan(("DWWW", "UWWW")))
    assert [v.kind for v in verdict.violations] == ["vertex", "goal", "goal"]


def test_violations_come_in_order_of_time_then_kind():
    verdict = check(ROOM, Plan(("xULL", "DUUU")))
    assert [(v.time, v.kind, v.agents) for v in verdict.violations] == [
        (1, "move", (0,)),
        (1, "bounds", (1,)),
        (2, "bounds", (0,)),
        (3, "bounds", (0,)),
        (4, "bounds", (0,)),
        (4, "goal", (0,)),
        (4, "goal", (1,)),
    ]


def test_three_agents_in_one_cell_are_one_conflict():
    board = Instance.from_text(". S1G1 .\nS2G2 . S3G3\n. . .")
    verdict = check(board, Plan(("DU", "RL", "LR")))
    assert verdict.violations == (Violation("vertex", 1, (0, 1, 2), (1, 1)),)


def test_a_verdict_of_check_alone_claims_no_optimum():
    verdict = check(ROOM, Plan(("RR", "RR")))
    assert verdict.valid
    assert not verdict.optimal
    assert not verdict.soc_optimal
