"""Plans and violations on boards (`env.pictures`): stills, and GIFs of several plans side by side, by one clock.

In a GIF a move takes the first part of its step, then all stand still; a violation gets a cross when and
where it happens, and a line below the board.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mapflake.extras import needs

with needs("lab"):
    import matplotlib
    import numpy as np
    import PIL.Image
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patches import Circle

from mapflake.env import Cell, Instance, Plan, Violation, check, execute, pictures
from mapflake.env.pictures import ALARM, colour, ink, path_offset

if TYPE_CHECKING:
    from IPython.display import HTML

WORDS = {
    "agents": "not one move list for each agent",
    "move": "makes no legal move",
    "bounds": "leaves the board",
    "hole": "falls into a hole",
    "vertex": "meet in one cell",
    "edge": "swap cells",
    "goal": "does not end on its goal",
}
"""Kind of violation -> what the agents do."""

STEP = 0.6  # seconds of an animation
HOLD = 3  # steps for which its end is shown
FRAMES = 4  # a step
GOOD = "#00664B"
LINES = 4  # violations that are put in words below a board
MOVING = 0.7  # of a step, in which agents move; then they stand still

Trajectory = Sequence[tuple[Cell, ...]]  # the agents' cells at time 0, 1, ..., from `execute`


def gallery(
    instances: Sequence[Instance], plans: Sequence[Plan | None] | None = None, titles: Sequence[str] | None = None
) -> Figure:
    """Returns a figure of boards side by side: starts as rings, goals as squares, `titles` above.

    The plans, valid or not, are drawn as paths. A dot is a wait, in the corner of a cell with a ring or square. A cross
    marks a violation, with its step; the lines below the board describe it.
    """
    if not instances:
        raise ValueError("instances: no boards to draw")
    columns = min(4, len(instances))
    rows = math.ceil(len(instances) / columns)
    side = max(2.4, min(0.55 * max(board.size for board in instances), 9.6 / columns))
    space = ConstrainedLayoutEngine(h_pad=0.06)
    paths, labels = plans or [None] * len(instances), titles or [""] * len(instances)
    failures = [check(board, plan).violations if plan else () for board, plan in zip(instances, paths, strict=True)]
    height = side + 0.35 * bool(titles) + 0.2 + 0.16 * max(len(describe_all(violations)) for violations in failures)
    figure = Figure(figsize=(side * columns, height * rows), layout=space)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for ax, (board, plan, title) in zip(axes, zip(instances, paths, labels, strict=True), strict=False):
        draw_plan(ax, board, plan)
        ax.set_title(title, fontsize=10)
    for ax in axes[len(instances) :]:
        ax.set_axis_off()
    return figure


def draw_plan(ax: Axes, board: Instance, plan: Plan | None, *, whole: bool = True) -> None:
    """Draws a board and the paths of a plan, valid or not, as in `gallery`; if not `whole`, to the first violation."""
    trajectory = execute(board, plan) if plan and len(plan.moves) == board.num_agents else []
    violations = check(board, plan).violations if plan else ()
    if not whole and violations:
        violations = violations[:1]  # they are in the order of time
        trajectory = trajectory[: violations[0].time + 1]
    pictures.draw(ax, board, trajectory)
    for violation in violations:
        _cross(ax, board, violation, trajectory, label=True)
    ax.set_xlabel("\n".join(describe_all(violations)), color=ALARM, fontsize=8)


def animate(instance: Instance, plans: Mapping[str, Plan], path: str | Path | None = None) -> HTML:
    """Returns plans played on a board, for the end of a notebook cell; every violation is marked at its step and cell.

    Args:
        instance: The board.
        plans: Plans, valid or not, by their titles: `{"wrong": ..., "optimal": ...}`.
        path: GIF to write the animation to as well: the same bytes for the same plans.

    Raises:
        ValueError: There is no plan, or one has not one string of moves for each agent.
    """
    from IPython.display import HTML

    if not plans:
        raise ValueError("plans: none to play")

    images = _frames(instance, plans)
    # Whatever has a colour is still there in the last picture; MAXCOVERAGE keeps white white.
    palette = images[-1].quantize(128, method=PIL.Image.Quantize.MAXCOVERAGE)
    frames = [image.quantize(palette=palette, dither=PIL.Image.Dither.NONE) for image in images]
    milliseconds = [round(1000 * STEP / FRAMES)] * (len(frames) - 1) + [round(1000 * STEP * HOLD)]
    buffer = io.BytesIO()
    frames[0].save(buffer, "gif", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(buffer.getvalue())
    return HTML(f'<img src="data:image/gif;base64,{base64.b64encode(buffer.getvalue()).decode()}"/>')


def _frames(instance: Instance, plans: Mapping[str, Plan]) -> list[PIL.Image.Image]:
    """Returns the pictures of a GIF, from time 0 to the last move of all."""
    side = min(0.55 * instance.size, 6)
    lines = max(len(describe_all(check(instance, plan).violations)) for plan in plans.values())
    below, above = 0.1 + 0.17 * max(1, lines), 0.48  # inches
    height = side + below + above
    images = []
    with matplotlib.rc_context({"font.family": ["DejaVu Sans"]}):  # comes with matplotlib
        figure = Figure(figsize=(max(side, 2.6) * len(plans), height), dpi=100)
        canvas = FigureCanvasAgg(figure)
        axes = figure.subplots(1, len(plans), squeeze=False)[0]
        figure.subplots_adjust(0.01, below / height, 0.99, 1 - above / height)
        for ax in axes:
            pictures.ground(ax, instance)
            pictures.goals(ax, instance)
        still = {artist for ax in axes for artist in ax.get_children()}
        for frame in range(FRAMES * max(plan.horizon for plan in plans.values()) + 1):
            for ax, (title, plan) in zip(axes, plans.items(), strict=True):
                for artist in {*ax.get_children()} - still:
                    artist.remove()
                _draw_moving(ax, instance, plan, frame / FRAMES, title)
            canvas.draw()
            images.append(PIL.Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    return images


def draw_frame(ax: Axes, instance: Instance, plan: Plan, time: float, title: str = "") -> None:
    """Draws the board while a plan is played: agents as discs, crosses where violations have happened.

    `time` is in steps since the start; between two integers agents are under way. After the last move nothing
    changes. The title and the step stand above the board, the violations so far or the success below it.

    Raises:
        ValueError: The plan has not one string of moves for each agent.
    """
    pictures.ground(ax, instance)
    pictures.goals(ax, instance)
    _draw_moving(ax, instance, plan, time, title)


def _draw_moving(ax: Axes, instance: Instance, plan: Plan, time: float, title: str) -> None:
    """Draws what differs from frame to frame."""
    trajectory, verdict = execute(instance, plan), check(instance, plan)
    for agent, (row, col) in enumerate(positions(trajectory, time)):
        shift, layer = 0.5 + path_offset(agent, instance.num_agents) / 2, 6 + 0.1 * agent
        place, face = (col + shift, row + shift), colour(agent)
        ax.add_patch(Circle(place, 0.235, fc=face, ec="white", lw=1.5, zorder=layer))
        pictures.number(ax, place, agent, ink(agent), 10, zorder=layer + 0.05, clip_on=True)
    violations = [violation for violation in verdict.violations if _seen_from(violation) <= time]
    for violation in violations:
        _cross(ax, instance, violation, trajectory)
    ax.set_title(f"{title}\nstep {min(math.ceil(time), plan.horizon)} of {plan.horizon}".strip(), fontsize=9)
    ax.set_xlabel("\n".join(describe_all(violations)), color=ALARM, fontsize=8)
    if verdict.valid and time >= plan.horizon:
        ax.set_xlabel(f"valid, {verdict.makespan} steps", color=GOOD)


def describe(violation: Violation) -> str:
    """Returns one violation in words, agents counted from 1, e.g. `step 2: agents 1 and 2 swap cells`."""
    step = f"step {violation.time}: " if violation.cell is not None else ""
    names = " and ".join(str(agent + 1) for agent in violation.agents)
    who = f"agent{'s' * (len(violation.agents) > 1)} {names} " if names else ""
    return step + who + WORDS.get(violation.kind, "cannot be read")


def describe_all(violations: Sequence[Violation]) -> list[str]:
    """Returns a line for each violation, at most `LINES`; the last one counts those left out."""
    lines = [describe(violation) for violation in violations]
    return lines if len(lines) <= LINES else [*lines[: LINES - 1], f"and {len(lines) - LINES + 1} more"]


def _seen_from(violation: Violation) -> float:
    """Returns when a violation shows: in the middle of a swap, at the end of any other move, at the end of the plan."""
    if violation.kind == "goal":
        return violation.time
    return max(0.0, violation.time - 1 + (MOVING / 2 if violation.kind == "edge" else MOVING))


def positions(trajectory: Trajectory, time: float) -> list[tuple[float, float]]:
    """Returns (row, col) of each agent at any time, between two cells while it moves."""
    last = len(trajectory) - 1
    step = min(int(time), last)
    part = min(1.0, (time - step) / MOVING)
    moves = zip(trajectory[step], trajectory[min(step + 1, last)], strict=True)
    return [(row + part * (to_row - row), col + part * (to_col - col)) for (row, col), (to_row, to_col) in moves]


def cross_at(violation: Violation, trajectory: Trajectory, size: int) -> tuple[float, float]:
    """Returns (row, col) of a violation's cross: its cell, for a swap between two cells, for a fall on the rim."""
    row, col = map(float, violation.cell or (0, 0))
    if violation.kind == "edge":
        before = trajectory[violation.time - 1][violation.agents[0]]
        row, col = (row + before[0]) / 2, (col + before[1]) / 2
    return min(max(row, -0.25), size - 0.75), min(max(col, -0.25), size - 0.75)


def _cross(ax: Axes, instance: Instance, violation: Violation, trajectory: Trajectory, *, label: bool = False) -> None:
    """Draws a cross where a violation happened, with its step if asked."""
    if violation.cell is None:
        return
    place, scale = pictures.middle(cross_at(violation, trajectory, instance.size)), pictures.scale(ax, instance)
    for color, length, width in (("white", 15, 6), (ALARM, 13, 3)):
        ax.plot(*place, marker="x", color=color, ms=length * scale, markeredgewidth=width * scale, zorder=7)
    if label:
        box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85}
        ax.annotate(
            str(violation.time), place, (8.5 * scale, 7 * scale), textcoords="offset points", color=ALARM,
            fontsize=8 * scale, fontweight="bold", ha="left", va="center", bbox=box, zorder=8,
        )  # fmt: skip
