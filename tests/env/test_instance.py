import io
import pickle
import re

import numpy as np
import PIL.Image
import pytest
from boards import boards
from hypothesis import given

from mapflake.env import Instance, Plan, execute, transform
from mapflake.repro import from_json, to_json

DRAWN = """\
S1   .    H    G2
.    .    .    .
H    .    S2G1 .
.    .    .    ."""


def test_the_text_format_both_ways():
    board = Instance.from_text(DRAWN)
    assert board == Instance(4, frozenset({(0, 2), (2, 0)}), ((0, 0), (2, 2)), ((2, 2), (0, 3)))
    assert board.to_text() == DRAWN
    assert Instance.from_text("\n\n" + DRAWN.replace(" ", "   ").replace("\n", "\n\n  ") + "\n") == board


@given(boards(agents=(1, 12)))
def test_round_trips(board):
    assert Instance.from_text(board.to_text()) == board
    assert from_json(Instance, to_json(board), "") == board
    assert pickle.loads(pickle.dumps(board)).key == board.key


INVALID = [
    ("S1 .\n. G1 .", "row 1: 3 cells on a board of 2 rows; boards are square"),
    ("S1 G1S2\n. G2", "row 0, column 1: 'G1S2' is none of . H S1 G1 S1G2"),
    ("S1 G1\n. G1", "row 1, column 1: agent 1 has a goal at (0, 1) too"),
    ("S1 S2\n. G2", "agent 1 has no goal"),
    ((0, set(), ((0, 0),), ((0, 0),)), "size: 0 is not a positive integer"),
    ((2, {(2, 0)}, ((0, 0),), ((0, 1),)), "hole: cell (2, 0) is not on the 2x2 board"),
    ((2, set(), ((0, 0.0),), ((0, 1),)), "start: (0, 0.0) is not a cell of two integers (row, col)"),
    ((2, {(0, 0)}, ((0, 0),), ((0, 1),)), "start of agent 0: cell (0, 0) is a hole"),
    ((2, set(), ((0, 0), (1, 0)), ((0, 1), (0, 1))), "goal of agent 1: cell (0, 1) is the goal of agent 0 too"),
    ((2, set(), ((0, 0), (1, 0)), ((0, 1),)), "2 starts but 1 goals: each agent needs one of each"),
    ((2, set(), (), ()), "starts: an instance needs at least one agent"),
]


def test_an_invalid_instance_cannot_be_built():
    for board, message in INVALID:
        with pytest.raises(ValueError, match=re.escape(message)):
            Instance.from_text(board) if isinstance(board, str) else Instance(*board)


def test_keys_tell_instances_apart_and_stay():
    board = Instance.from_text(DRAWN)
    assert board.key == Instance.from_text(DRAWN).key == "0fc6babcf362910f1e29a4a5771e3707"
    images = [transform(board, k) for k in range(8)]
    variants = (transform(board, agent_order=(1, 0)), Instance(4, frozenset(), board.starts, board.goals))
    assert images[0] == board
    assert len({variant.key for variant in (*images, *variants)}) == 10
    assert (images[4].starts[0], images[4].goals[1]) == ((0, 0), (3, 0))  # the transpose
    with pytest.raises(ValueError, match="k: 8 is not one of the 8 symmetries"):
        transform(board, 8)
    with pytest.raises(ValueError, match=r"agent_order: \(0, 0\) is not a permutation of 2 agents"):
        transform(board, 0, (0, 0))


def test_execution_is_literal():
    board = Instance.from_text("S1 G1\nH S2G2")
    trajectory = execute(board, Plan(("LxR", "D")))
    assert trajectory == [((0, 0), (1, 1)), ((0, -1), (2, 1)), ((0, -1), (2, 1)), ((0, 0), (2, 1))]
    with pytest.raises(ValueError, match="1 move lists for 2 agents"):
        execute(board, Plan(("R",)))


def test_a_plan_holds_strings():
    assert Plan(x for x in ("U", "D")).moves == ("U", "D")  # type: ignore[arg-type]
    for wrong in ("RRD", {"1": "RRD"}, {"plan": ["R"]}, {"R", "D"}, (1,), (x for x in ("U", 1)), 3, None):
        with pytest.raises(ValueError, match="not a sequence of strings, one for each agent"):
            Plan(wrong)  # type: ignore[arg-type]
    assert Plan(["R", ""]).moves == ("R", "")  # type: ignore[arg-type]


def test_a_board_at_the_end_of_a_cell_is_a_picture():
    board = Instance.from_text("S1 H G1\n. S2 G2\n. . .")
    with PIL.Image.open(io.BytesIO(board._repr_png_())) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    assert pixels.shape == (165, 165, 3)
    assert tuple(pixels[28, 82]) == (31, 51, 71), "the hole"
    assert tuple(pixels[40, 143]) == (0, 114, 178), "the goal of agent 1, in its colour"
    assert board._repr_png_() == board._repr_png_() != board.to_png(Plan(("W", "R")))
    large = Instance(300, frozenset((row, 7) for row in range(299)), ((0, 0),), ((298, 298),))
    assert len(large._repr_png_()) < 30_000
