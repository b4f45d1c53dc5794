"""Boards in the FrozenLake spirit, drawn with matplotlib; `animation` makes them move.

They look like the pictures of `Instance.to_svg`, and take their colours. Agents count from 1 here, as in every text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Circle, Ellipse, FancyBboxPatch
from matplotlib.text import Text

from mapflake.env import Instance, Plan, Violation, check, execute
from mapflake.env.svg import ALARM, EDGE, HOLE, ICE, INK, RIM, colour, side_by_side

SAYS = {
    "agents": "not one move list for each agent",
    "move": "makes no legal move",
    "bounds": "leaves the board",
    "hole": "falls into a hole",
    "vertex": "meet in one cell",
    "edge": "swap cells",
    "goal": "does not end on its goal",
}

Trajectory = Sequence[tuple[tuple[int, int], ...]]
"""What `execute` returns: the agents' cells at time 0, 1, ..."""

_LINES = 4  # violations that are put in words below a board
_DETAILED = 32  # rows up to which every cell is drawn


def draw(instance: Instance, plan: Plan | None = None, *, title: str | None = None, ax: Axes | None = None) -> Figure:
    """Returns a figure of the board: starts as rings, goals as squares, the plan's paths, violations as crosses.

    Args:
        instance: The board.
        plan: Drawn if given, also a wrong one. A dot is a wait, in the corner of a cell with a ring or square; a cross
            is where a check fails, with its step, and below the board it says what happened.
        title: Above the board.
        ax: Where to draw; a new figure by default.
    """
    if ax is None:
        side = min(0.55 * max(instance.size, 4), 8) + 0.4
        ax = Figure(figsize=(side, side + 0.25 * bool(title)), layout="constrained").add_subplot()
    ground(ax, instance)
    if plan is not None:
        violations = check(instance, plan).violations
        if len(plan.moves) == instance.num_agents:
            trajectory = execute(instance, plan)
            for agent, path in enumerate(zip(*trajectory, strict=True)):
                _path(ax, instance, agent, list(path))
            for violation in violations:
                cross(ax, instance, violation, trajectory, label=True)
        ax.set_xlabel("\n".join(in_words(violations, _LINES)), color=ALARM, fontsize=8)
    ends(ax, instance)
    if title:
        ax.set_title(title, fontsize=10)
    figure = ax.get_figure()
    if not isinstance(figure, Figure):
        raise ValueError("ax: draw on the axes of a figure, not of a subfigure")
    return figure


def snapshot(instance: Instance, plan: Plan) -> np.ndarray:
    """Returns a picture `[H, W, 3]` (uint8) of the board after the plan's last move: a frame of a game that goes on.

    Agents are discs; a cross is where a move was wrong. All pictures of a board are of one size.

    Raises:
        ValueError: The plan has not one string for each agent.
    """
    trajectory = execute(instance, plan)
    side = min(0.55 * max(instance.size, 4), 8)
    figure = Figure(figsize=(side, side), dpi=100)
    canvas, ax = FigureCanvasAgg(figure), figure.add_axes((0, 0, 1, 1))
    ground(ax, instance)
    ends(ax, instance, starts=False)
    for agent, (row, col) in enumerate(trajectory[-1]):
        shift = 0.5 + side_by_side(agent, instance.num_agents) / 2
        body, number = disc(ax, agent)
        body.set_center((col + shift, row + shift))
        number.set_position((col + shift, row + shift))
    for violation in check(instance, plan).violations:
        if violation.kind != "goal":  # there is time yet
            cross(ax, instance, violation, trajectory)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def gallery(
    instances: Sequence[Instance],
    plans: Sequence[Plan | None] | None = None,
    titles: Sequence[str] | None = None,
    *,
    columns: int = 4,
) -> Figure:
    """Returns a figure of several boards side by side, each with its plan and title if given."""
    columns = min(columns, len(instances))
    rows = math.ceil(len(instances) / columns)
    space = ConstrainedLayoutEngine(h_pad=0.06)
    figure = Figure(figsize=(2.45 * columns, (2.4 + 0.25 * bool(titles)) * rows), layout=space)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for i, ax in enumerate(axes):
        if i < len(instances):
            draw(instances[i], plans[i] if plans else None, title=titles[i] if titles else None, ax=ax)
        else:
            ax.set_axis_off()
    return figure


def describe(violation: Violation) -> str:
    """Returns one violation in words, agents counted from 1, e.g. `step 2: agents 1 and 2 swap cells`."""
    step = f"step {violation.time}: " if violation.cell is not None else ""
    names = " and ".join(str(agent + 1) for agent in violation.agents)
    who = f"agent{'s' * (len(violation.agents) > 1)} {names} " if names else ""
    return step + who + SAYS.get(violation.kind, "cannot be read")


def in_words(violations: Sequence[Violation], most: int) -> list[str]:
    """Returns a line for each violation, at most that many; the last then says how many more there are."""
    lines = [describe(violation) for violation in violations]
    return lines if len(lines) <= most else [*lines[: most - 1], f"and {len(lines) - most + 1} more"]


def spot(violation: Violation, trajectory: Trajectory, size: int) -> tuple[float, float]:
    """Returns where a violation is marked, as (row, col): in its cell; a swap between two cells, a fall at the rim."""
    row, col = map(float, violation.cell or (0, 0))
    if violation.kind == "edge":
        before = trajectory[violation.time - 1][violation.agents[0]]
        row, col = (row + before[0]) / 2, (col + before[1]) / 2
    return min(max(row, -0.25), size - 0.75), min(max(col, -0.25), size - 0.75)


def ground(ax: Axes, instance: Instance) -> None:
    """Draws ice and holes, and sets the axes up: a cell is a unit, y runs down."""
    size = instance.size
    if size > _DETAILED:
        holes = np.zeros((size, size))
        holes[tuple(np.array(sorted(instance.holes), dtype=int).reshape(-1, 2).T)] = 1
        ax.imshow(holes, cmap=ListedColormap([ICE, HOLE]), extent=(0, size, size, 0), interpolation="nearest")
    else:
        box = "round,pad=0,rounding_size=0.08"
        for row in range(size):
            for col in range(size):
                ax.add_patch(FancyBboxPatch((col + 0.03, row + 0.03), 0.94, 0.94, box, fc=ICE, ec=EDGE, lw=0.8))
        for cell in sorted(instance.holes):
            ax.add_patch(Ellipse(_xy(cell), 0.78, 0.72, fc=HOLE, ec=RIM, lw=2 * _scale(ax, instance)))
    ax.set(xlim=(-0.08, size + 0.08), ylim=(size + 0.08, -0.08), aspect="equal", xticks=[], yticks=[])
    ax.set_frame_on(False)


def ends(ax: Axes, instance: Instance, *, starts: bool = True) -> None:
    """Draws goals and, unless the agents themselves stand there, starts."""
    scale = _scale(ax, instance)
    font: dict[str, Any] = {"ha": "center", "va": "center", "fontweight": "bold", "zorder": 6}
    for agent, cell in enumerate(instance.goals):
        x, y = _xy(cell)
        box = "round,pad=0,rounding_size=0.06"
        ax.add_patch(FancyBboxPatch((x - 0.27, y - 0.27), 0.54, 0.54, box, fc=colour(agent), ec="none", zorder=5))
        if starts and cell in instance.starts:
            ax.text(x + 0.37, y - 0.33, str(agent + 1), color=colour(agent), fontsize=7.5 * scale, **font)
        else:
            ax.text(x, y, str(agent + 1), color="white", fontsize=10 * scale, **font)
    for agent, cell in enumerate(instance.starts if starts else ()):
        radius = 0.19 if cell in instance.goals else 0.3
        ax.add_patch(Circle(_xy(cell), radius, fc="white", ec=colour(agent), lw=2.4 * scale, zorder=5))
        ax.text(*_xy(cell), str(agent + 1), color=INK, fontsize=10 * scale, **font)


def disc(ax: Axes, agent: int) -> tuple[Circle, Text]:
    """Draws an agent under way, at first in no cell; returns disc and number, for the caller to put in their place."""
    body = Circle((0, 0), 0.235, fc=colour(agent), ec="white", lw=1.5, zorder=6 + 0.1 * agent)
    font: dict[str, Any] = {"ha": "center", "va": "center", "fontweight": "bold"}
    number = ax.text(0, 0, str(agent + 1), color="white", zorder=6.05 + 0.1 * agent, clip_on=True, **font)
    ax.add_patch(body)
    return body, number


def cross(
    ax: Axes, instance: Instance, violation: Violation, trajectory: Trajectory, *, label: bool = False
) -> list[Artist]:
    """Draws a cross where a violation happens, with its step if asked; returns what was drawn."""
    if violation.cell is None:
        return []
    (x, y), scale = _xy(spot(violation, trajectory, instance.size)), _scale(ax, instance)
    drawn: list[Artist] = []
    for color, length, width in (("white", 15, 6), (ALARM, 13, 3)):
        drawn += ax.plot(
            x, y, marker="x", color=color, markersize=length * scale, markeredgewidth=width * scale, zorder=7
        )
    if label:
        box = {"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.85}
        number = ax.annotate(
            str(violation.time), (x, y), (8.5 * scale, 7 * scale), textcoords="offset points", color=ALARM,
            fontsize=8 * scale, fontweight="bold", ha="left", va="center", bbox=box, zorder=8,
        )  # fmt: skip
        drawn.append(number)
    return drawn


def _xy(cell: tuple[float, float]) -> tuple[float, float]:
    return cell[1] + 0.5, cell[0] + 0.5


def _scale(ax: Axes, instance: Instance) -> float:
    """Returns by what lines and letters, measured in points, shrink where cells are small."""
    figure = ax.get_figure(root=True)
    width = figure.get_figwidth() * ax.get_position().width if figure else 0.0
    return min(1.0, 72 * width / instance.size / 20)


def _path(ax: Axes, instance: Instance, agent: int, path: list[tuple[int, int]]) -> None:
    color, shift, scale = colour(agent), side_by_side(agent, instance.num_agents), _scale(ax, instance)
    points = [(x + shift, y + shift) for x, y in map(_xy, path)]
    ax.plot(*zip(*points, strict=True), color=color, lw=2.4 * scale, solid_capstyle="round", zorder=3, alpha=0.9)
    last_move = max((t for t in range(1, len(path)) if path[t] != path[t - 1]), default=0)
    for time in range(1, last_move + 1):
        (x0, y0), (x1, y1) = points[time - 1], points[time]
        if (x0, y0) == (x1, y1):
            if path[time] in (*instance.starts, *instance.goals):  # the ring or square would hide it
                x1, y1 = path[time][1] + 0.14, path[time][0] + 0.14
            ax.plot(x1, y1, marker="o", color=color, markersize=8 * scale, markeredgecolor="white", zorder=4)
        else:
            x, y = x0 + 0.62 * (x1 - x0), y0 + 0.62 * (y1 - y0)
            ax.annotate(
                "",
                (x, y),
                (x - 0.01 * (x1 - x0), y - 0.01 * (y1 - y0)),
                arrowprops={"arrowstyle": "-|>", "color": color, "mutation_scale": 11 * scale, "lw": 1},
                zorder=4,
            )
