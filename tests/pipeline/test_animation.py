"""Plans played as GIFs: the pictures show at every time where the agents are and what has gone wrong."""

from __future__ import annotations

import base64
from itertools import pairwise
from pathlib import Path

import numpy as np
import PIL.Image
import PIL.ImageSequence
import pytest
from matplotlib.figure import Figure

from mapflake import plots
from mapflake.env import Instance, Plan, check, execute, solve
from mapflake.plots import boards
from mapflake.plots.boards import FRAMES, HOLD, STEP, draw_frame

BOARD = Instance.from_text("S1 .  .  G2\n.  H  .  .\n.  .  H  .\nS2 .  .  G1")
WRONG = Plan(("RDRRDD", "RRRUUU"))  # into a hole at step 2, through each other at step 5


def frame(instance: Instance, plan: Plan, time: float, title: str = "") -> tuple[str, list[str], int]:
    """Returns title, lines below the board and the number of crosses of a frame."""
    ax = Figure().subplots()
    draw_frame(ax, instance, plan, time, title)
    return ax.get_title(), ax.get_xlabel().splitlines(), len(ax.lines) // 2  # a cross has a white rim


def test_frames_mark_violations_when_they_happen_and_success_at_the_end() -> None:
    hole, swap = map(plots.describe, check(BOARD, WRONG).violations)
    assert frame(BOARD, WRONG, 0, "wrong") == ("wrong\nstep 0 of 6", [], 0)
    assert frame(BOARD, WRONG, 1.6) == ("step 2 of 6", [], 0)
    assert frame(BOARD, WRONG, 1.8) == ("step 2 of 6", [hole], 1)
    assert frame(BOARD, WRONG, 4.2) == ("step 5 of 6", [hole], 1)
    assert frame(BOARD, WRONG, 4.4) == ("step 5 of 6", [hole, swap], 2)
    assert frame(BOARD, WRONG, 99) == ("step 6 of 6", [hole, swap], 2)
    plan = solve(BOARD).plan
    assert frame(BOARD, plan, 5.9)[1:] == ([], 0)
    assert frame(BOARD, plan, 6) == ("step 6 of 6", ["valid, 6 steps"], 0)
    missed = [f"step 0: agent {agent} does not end on its goal" for agent in (1, 2)]
    assert frame(BOARD, Plan(("", "")), 0) == ("step 0 of 0", missed, 2)


def test_a_gif_plays_every_step_and_holds_the_end(tmp_path: Path) -> None:
    path = tmp_path / "new" / "both.gif"
    small = Instance.from_text("S1 G2\nS2 G1")
    plans = {"wrong": Plan(("RD", "UR")), "short": Plan(("R", ""))}
    shown = plots.animate(small, plans, path)
    assert shown.data == plots.animate(small, plans).data  # the same bytes every time
    assert shown.data == f'<img src="data:image/gif;base64,{base64.b64encode(path.read_bytes()).decode()}"/>'
    with PIL.Image.open(path) as gif:
        times = [frame.info["duration"] / 1000 / STEP for frame in PIL.ImageSequence.Iterator(gif)]
        assert gif.info["loop"] == 0
    assert sum(times) == pytest.approx(2 + HOLD)
    frames = boards._frames(small, {"to and fro": Plan(("RLRL", "RLRL"))})
    pictures = [np.asarray(frames[step * FRAMES])[50:] for step in range(3)]  # without the number of the step
    assert np.array_equal(pictures[0], pictures[2])  # no agent leaves anything behind
    assert not np.array_equal(pictures[0], pictures[1])  # the control
    trajectory = execute(BOARD, WRONG)
    for time, (before, after) in enumerate(pairwise(trajectory)):
        for share, weight in ((0, 0), (0.35, 0.5), (0.8, 1)):  # of a step, in 70% of which agents move
            expected = np.add(before, weight * np.subtract(after, before))
            assert boards.positions(trajectory, time + share) == pytest.approx(expected)
    with pytest.raises(ValueError, match="1 move lists for 2 agents"):
        plots.animate(BOARD, {"wrong": WRONG, "short": Plan(("R",))})
