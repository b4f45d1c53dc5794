"""Plans played as GIFs: the pictures show at every time where the agents are and what has gone wrong."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from mapflake import plots
from mapflake.env import Instance, Plan, check, execute, solve
from mapflake.plots import boards
from mapflake.plots.boards import HOLD, STEP, draw_frame

BOARD = Instance.from_text("S1 .  .  G2\n.  H  .  .\n.  .  H  .\nS2 .  .  G1")
WRONG = Plan(("RDRRDD", "RRRUUU"))  # into a hole at step 2, through each other at step 5


def frame(instance: Instance, plan: Plan, time: float, title: str = "") -> tuple[str, list[str], int]:
    """Returns title, lines below the board and the number of crosses of a frame."""
    ax = Figure().subplots()
    draw_frame(ax, instance, plan, time, title)
    return ax.get_title(), ax.get_xlabel().splitlines(), len(ax.lines) // 2  # a cross has a white rim


@given(st.lists(st.text("UDLRWx", max_size=5), min_size=2, max_size=2))
def test_positions_are_where_the_plan_has_the_agents(moves: list[str]) -> None:
    trajectory = execute(BOARD, Plan(tuple(moves)))
    for time, cells in enumerate([*trajectory, trajectory[-1]]):
        assert boards.positions(trajectory, time) == [pytest.approx(cell) for cell in cells]
    for time in range(len(trajectory) - 1):
        half = boards.positions(trajectory, time + 0.35)  # half of the 70% of a step in which agents move
        for place, cell, after in zip(half, trajectory[time], trajectory[time + 1], strict=True):
            assert place == pytest.approx([(a + b) / 2 for a, b in zip(cell, after, strict=True)])
        assert boards.positions(trajectory, time + 0.8) == [pytest.approx(cell) for cell in trajectory[time + 1]]


def test_frames_mark_violations_when_they_happen() -> None:
    hole, swap = map(plots.describe, check(BOARD, WRONG).violations)
    assert frame(BOARD, WRONG, 0, "wrong") == ("wrong\nstep 0 of 6", [], 0)
    assert frame(BOARD, WRONG, 1.6) == ("step 2 of 6", [], 0)
    assert frame(BOARD, WRONG, 1.8) == ("step 2 of 6", [hole], 1)
    assert frame(BOARD, WRONG, 4.2) == ("step 5 of 6", [hole], 1)
    assert frame(BOARD, WRONG, 4.4) == ("step 5 of 6", [hole, swap], 2)
    assert frame(BOARD, WRONG, 99) == ("step 6 of 6", [hole, swap], 2)


def test_a_valid_plan_says_so_when_it_is_over() -> None:
    plan = solve(BOARD).plan
    assert frame(BOARD, plan, 5.9)[1:] == ([], 0)
    assert frame(BOARD, plan, 6) == ("step 6 of 6", ["valid, 6 steps"], 0)
    missed = [f"step 0: agent {agent} does not end on its goal" for agent in (1, 2)]
    assert frame(BOARD, Plan(("", "")), 0) == ("step 0 of 0", missed, 2)


def test_many_violations_are_counted() -> None:
    board, plan = Instance.from_text("S1 G1\n. ."), Plan(("UDUDUDUDUDUDUD",))
    _, lines, crosses = frame(board, plan, 15)
    assert crosses == len(check(board, plan).violations) == 8
    assert sum("leaves the board" in line for line in lines) == 5
    assert lines[-1] == "and 3 more"


def test_a_gif_plays_every_step_and_holds_the_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "both.gif"
    shown = plots.animate(BOARD, {"wrong": WRONG, "optimal": solve(BOARD).plan}, path)
    assert shown.data == f'<img src="data:image/gif;base64,{base64.b64encode(path.read_bytes()).decode()}"/>'
    with PIL.Image.open(path) as gif:
        times, reds = [0.0], []
        for i in range(gif.n_frames):
            gif.seek(i)
            times.append(times[-1] + gif.info["duration"] / 1000 / STEP)
            reds.append(int((np.asarray(gif.convert("RGB")) @ [1, -2, -2] > 60).sum()))
        assert gif.info["loop"] == 0
    assert times[-1] == pytest.approx(6 + HOLD)
    before, hole, both = (
        [red for time, red in zip(times, reds, strict=False) if begin < time + 0.01 < end]
        for begin, end in ((0, 1.7), (1.7, 4.35), (4.35, 99))  # into the hole, halfway through the swap
    )
    assert not any(before)
    assert 0 < min(hole) <= max(hole) < min(both)


def test_a_gif_is_the_same_bytes_every_time_and_shows_the_agents_numbers(tmp_path: Path) -> None:
    board = Instance.from_text("S1 . .\n. . .\nG1 . .")
    one, other = (plots.animate(board, Plan(("DD",))).data for _ in range(2))
    assert one == other
    with PIL.Image.open(io.BytesIO(base64.b64decode(one.split(",")[1].split('"')[0]))) as gif:
        picture = gif.convert("RGB")

    def near(x: int, y: int, color: tuple[int, int, int]) -> bool:
        return max(abs(a - b) for a, b in zip(picture.getpixel((x, y)), color, strict=True)) < 40

    blue = [(x, y) for x in range(picture.width) for y in range(picture.height // 2) if near(x, y, (0, 114, 178))]
    (left, right), (top, bottom) = ((min(line), max(line)) for line in zip(*blue, strict=True))
    middle = (left + right) // 2, (top + bottom) // 2
    around = [(middle[0] + x, middle[1] + y) for x in range(-3, 4) for y in range(-4, 5)]
    assert any(near(x, y, (255, 255, 255)) for x, y in around)


def test_animate_says_what_cannot_be_played(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^1 move lists for 2 agents: nothing to play$"):
        plots.animate(BOARD, Plan(("R",)))
    with pytest.raises(ValueError, match=r"^b: 0 move lists for 2 agents: nothing to play$"):
        plots.animate(BOARD, {"a": WRONG, "b": Plan(())})
    with pytest.raises(ValueError, match=r"^plans: nothing to play$"):
        plots.animate(BOARD, {})
    with pytest.raises(ValueError, match=r"^film\.mp4: an animation is saved as \.gif$"):
        plots.animate(BOARD, WRONG, tmp_path / "film.mp4")
