"""Boards, maps and scenarios from files: what is read, and where a file that cannot be read is wrong."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapflake.env import Instance, read_board, read_map, read_scenario
from mapflake.env.maps import BLOCKED, WALKABLE, GridMap

MAP = "type octile\nheight 3\nwidth 5\nmap\n..@..\n.TGSW\n....O\n"
SCENARIO = (
    "version 1\n0\tmaps/small.map\t5\t3\t0\t0\t3\t0\t5.8284\n0\tmaps/small.map\t5\t3\t3\t2\t0\t2\t3\n"
    "7\tmaps/small.map\t5\t3\t2\t1\t3\t1\t1\n"
)


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_a_map_and_its_scenario(tmp_path: Path) -> None:
    grid = read_map(write(tmp_path / "small.map", MAP))
    assert grid == GridMap(3, 5, frozenset({(0, 2), (1, 1), (1, 4), (2, 4)}))
    board = read_scenario(grid, write(tmp_path / "small.scen", SCENARIO), 2)
    assert board == Instance.from_text("""
        S1 . H G1 .
        .  H . .  H
        G2 . . S2 H
        H  H H H  H
        H  H H H  H
    """)
    assert read_scenario(grid, tmp_path / "small.scen", 3).goals == ((0, 3), (2, 0), (1, 3))
    assert read_scenario(grid, SCENARIO.replace("maps/", "my maps/"), 1).starts == ((0, 0),)
    assert read_board(write(tmp_path / "board.txt", board.to_text())) == read_board("\n" + board.to_text()) == board


@given(st.integers(1, 7), st.integers(1, 7), st.data())
def test_maps_round_trip(height: int, width: int, data: st.DataObject) -> None:
    rows = data.draw(
        st.lists(st.text(WALKABLE + BLOCKED, min_size=width, max_size=width), min_size=height, max_size=height)
    )
    grid = read_map(f"type octile\nheight {height}\nwidth {width}\nmap\n" + "\n".join(rows) + "\n")
    assert (grid.height, grid.width) == (height, width)
    assert grid.holes == {(r, c) for r in range(height) for c in range(width) if rows[r][c] in BLOCKED}
    free = [(r, c) for r in range(height) for c in range(width) if (r, c) not in grid.holes]
    if free:
        board = grid.instance(free, free[::-1])
        assert [cell for r in range(board.size) for c in range(board.size) if board.is_free(cell := (r, c))] == free


LINE = "0\ta.map\t5\t3\t0\t0\t3\t0\t1.0\n"
GRID = read_map(MAP)


WRONG = [
    (read_map, "type octile\nheight 3", "map: does not begin with the lines `type octile`, `height <n>`, `wid"),
    (read_map, MAP.replace("height 3", "height 4"), "map: 3 rows, but its header says height 4"),
    (read_map, MAP.replace("width 5", "width 9999"), "map, row 0: 5 columns, but its header says width 9999"),
    (1, "version 2\n" + LINE, "scenario, line 1: expected `version 1`, found 'version 2'"),
    (4, SCENARIO, "scenario: 3 agents, not the 4 asked for"),
    (0, SCENARIO, "num_agents: must be at least 1, not 0"),
    (1, "version 1\n\n" + LINE, "scenario, line 2: not `bucket map width height x y x y length`"),
    (1, "version 1\n0\ta.map\t5\t3\n", "scenario, line 2: not `bucket map width height x y x y length`"),
    (1, "version 1\n" + LINE.replace("5\t3", "3\t5"), "scenario, line 2: made for a map of 5 rows, 3 columns"),
    (2, "version 1\n" + LINE + LINE, "scenario: start of agent 1: cell (0, 0) is the start of agent 0 too"),
]


def test_what_cannot_be_read() -> None:
    for read, text, message in WRONG:
        with pytest.raises(ValueError, match="^" + re.escape(message)):
            read_scenario(GRID, text, read) if isinstance(read, int) else read(text)


def test_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^bad\.map, row 1, column 2: '\?' is none of"):
        read_map(write(tmp_path / "bad.map", MAP.replace("G", "?")))
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    for read in (read_map, read_board):
        with pytest.raises(ValueError, match=r"^picture\.png: not a text file$"):
            read(tmp_path / "picture.png")
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "nothing")
