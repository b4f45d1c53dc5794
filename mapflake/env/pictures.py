"""Boards drawn with matplotlib: the picture of an instance at the end of a notebook cell, and the colours of figures.

`mapflake.plots` draws plans, violations and animations on the same boards. `Instance` imports this module when it is
shown. Agents differ in colour, for colour-blind readers too, and in their numbers, which count from 1.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mapflake.extras import needs

with needs("lab"):
    from matplotlib.axes import Axes
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Circle, Ellipse, FancyBboxPatch

if TYPE_CHECKING:
    from mapflake.env.instance import Cell, Instance

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#7B3294", "#B2182B")
"""Colours of agents here and of lines in `mapflake.plots`. The first six are those of Okabe and Ito (2008)."""

LIGHT = ("#E69F00", "#56B4E9")  # a white number would not be seen on them
ICE, EDGE, HOLE, RIM, INK, ALARM = "#EAF3F9", "#C3D8E6", "#1F3347", "#8FB4CC", "#1A1A1A", "#B3001B"

CELL, WIDEST = 0.55, 6.4  # inches of a cell, and of a picture: cells of larger boards are smaller
DETAILED = 32  # rows; cells of larger boards are not drawn one by one


def colour(agent: int) -> str:
    """Returns the colour of an agent; the tenth agent has the colour of the first."""
    return PALETTE[agent % len(PALETTE)]


def ink(agent: int) -> str:
    """Returns the colour of a number that is written on the agent's colour."""
    return INK if colour(agent) in LIGHT else "white"


def path_offset(agent: int, num_agents: int) -> float:
    """Returns how far, in cells, the agent's path runs from the middle of a cell: paths shall not cover each other."""
    return min(0.13, 0.6 / num_agents) * (agent - (num_agents - 1) / 2)


def png(board: Instance, trajectory: Sequence[Sequence[Cell]] = ()) -> bytes:
    """Returns the picture of a board, the same bytes for the same board; with the agents' cells at time 0, 1, ..."""
    side = min(CELL * board.size, WIDEST)
    figure, buffer = Figure(figsize=(side, side), dpi=100), io.BytesIO()
    draw(figure.add_axes((0, 0, 1, 1)), board, trajectory)
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def draw(ax: Axes, board: Instance, trajectory: Sequence[Sequence[Cell]] = ()) -> None:
    """Draws a board: starts as rings, goals as squares, and the agents' paths: arrows are moves, dots are waits."""
    ground(ax, board)
    for agent, cells in enumerate(zip(*trajectory, strict=True)):
        _path(ax, board, agent, cells)
    goals(ax, board, covered=board.starts)
    factor = scale(ax, board)
    for agent, cell in enumerate(board.starts):
        radius = 0.19 if cell in board.goals else 0.3
        ax.add_patch(Circle(middle(cell), radius, fc="white", ec=colour(agent), lw=2.4 * factor, zorder=5))
        number(ax, middle(cell), agent, INK, 10 * factor, zorder=6)


def ground(ax: Axes, board: Instance) -> None:
    """Draws ice and holes, and sets the axes up: a cell is a unit, y runs down."""
    size = board.size
    if size > DETAILED:
        holes = np.zeros((size, size))
        holes[tuple(np.array(sorted(board.holes), dtype=int).reshape(-1, 2).T)] = 1
        ax.imshow(holes, cmap=ListedColormap([ICE, HOLE]), extent=(0, size, size, 0), interpolation="nearest")
    else:
        for cell in np.ndindex(size, size):
            _square(ax, cell, 0.47, 0.08, fc=ICE, ec=EDGE, lw=0.8)
        for cell in sorted(board.holes):
            ax.add_patch(Ellipse(middle(cell), 0.78, 0.72, fc=HOLE, ec=RIM, lw=2 * scale(ax, board)))
    ax.set(xlim=(-0.08, size + 0.08), ylim=(size + 0.08, -0.08), aspect="equal", xticks=[], yticks=[])
    ax.set_frame_on(False)


def goals(ax: Axes, board: Instance, covered: Sequence[Cell] = ()) -> None:
    """Draws the goals, as numbered squares; where a ring will cover one of `covered`, the number stands beside it."""
    factor = scale(ax, board)
    for agent, cell in enumerate(board.goals):
        _square(ax, cell, 0.27, 0.06, fc=colour(agent), ec="none", zorder=5)
        x, y = middle(cell)
        if cell in covered:
            number(ax, (x + 0.37, y - 0.33), agent, colour(agent), 7.5 * factor, zorder=6)
        else:
            number(ax, (x, y), agent, ink(agent), 10 * factor, zorder=6)


def _path(ax: Axes, board: Instance, agent: int, path: Sequence[Cell]) -> None:
    color, shift, factor = colour(agent), path_offset(agent, len(board.starts)), scale(ax, board)
    points = [(x + shift, y + shift) for x, y in map(middle, path)]
    ax.plot(*zip(*points, strict=True), color=color, lw=2.4 * factor, solid_capstyle="round", zorder=3, alpha=0.9)
    last_move = max((t for t in range(1, len(path)) if path[t] != path[t - 1]), default=0)
    for time in range(1, last_move + 1):
        (x0, y0), (x1, y1) = points[time - 1], points[time]
        x, y, wait = x0 + 0.6 * (x1 - x0), y0 + 0.6 * (y1 - y0), path[time] == path[time - 1]
        if wait and path[time] in (*board.starts, *board.goals):  # the ring or square would hide it
            x, y = path[time][1] + 0.14, path[time][0] + 0.14
        marker = "o" if wait else (3, 0, math.degrees(math.atan2(x0 - x1, y0 - y1)))
        ax.plot(x, y, marker=marker, color=color, markersize=8 * factor, markeredgecolor="white", zorder=4)


def _square(ax: Axes, cell: tuple[int, ...], half: float, corner: float, **look: Any) -> None:
    """Draws a square around the middle of a cell; `half` its side and the radius of its corners are in cells."""
    x, y = middle(cell)
    box = f"round,pad=0,rounding_size={corner}"
    ax.add_patch(FancyBboxPatch((x - half, y - half), 2 * half, 2 * half, box, **look))


def number(ax: Axes, place: tuple[float, float], agent: int, color: str, size: float, **more: Any) -> None:
    """Writes an agent's number."""
    ax.text(*place, str(agent + 1), color=color, fontsize=size, fontweight="bold", ha="center", va="center", **more)


def middle(cell: tuple[float, ...]) -> tuple[float, float]:
    """Returns (x, y) of the middle of a cell."""
    return cell[1] + 0.5, cell[0] + 0.5


def scale(ax: Axes, board: Instance) -> float:
    """Returns the factor by which lines and letters, measured in points, shrink where cells are small."""
    figure = ax.get_figure(root=True)
    width = ax.bbox.width / figure.dpi if figure else 0.0
    return min(1.0, 72 * width / board.size / 20)
