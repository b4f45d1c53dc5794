"""Boards in the FrozenLake spirit: drawn (matplotlib) and animated (SVG that needs no script).

Agents have colours that colour-blind readers can tell apart (Okabe and Ito) and their numbers besides, so that a
figure can be read in grey. Agents count from 1 here, as in every text. Not covered: GIF export.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Circle, Ellipse, FancyBboxPatch

from mapflake.env import Instance, Plan, Violation, check, execute
from mapflake.repro import write_text

AGENTS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#56B4E9", "#5A5A5A", "#7B3294", "#B2182B")
ICE, EDGE, HOLE, RIM, INK, ALARM = "#EAF3F9", "#C3D8E6", "#1F3347", "#8FB4CC", "#1A1A1A", "#B3001B"

SAYS = {
    "agents": "not one move list for each agent",
    "move": "no legal move",
    "bounds": "leaves the board",
    "hole": "falls into a hole",
    "vertex": "two agents in one cell",
    "edge": "two agents swap cells",
    "goal": "does not end on the goal",
}


def draw(instance: Instance, plan: Plan | None = None, *, title: str | None = None, ax: Axes | None = None) -> Figure:
    """Returns a figure of the board: starts as rings, goals as squares, the plan's paths, violations as crosses.

    Args:
        instance: The board.
        plan: Drawn if given, also a wrong one; a dot on the path is a cell where the agent waits.
        title: Above the board.
        ax: Where to draw; a new figure by default.
    """
    if ax is None:
        side = 0.55 * max(instance.size, 4) + 0.4
        ax = Figure(figsize=(side, side + 0.25 * bool(title)), layout="constrained").add_subplot()
    _ground(ax, instance)
    if plan is not None and len(plan.moves) == instance.num_agents:
        for agent, path in enumerate(zip(*execute(instance, plan), strict=True)):
            _path(ax, instance, agent, list(path))
    _ends(ax, instance)
    for violation in check(instance, plan).violations if plan is not None else ():
        if violation.cell is not None:
            ax.plot(*_xy(violation.cell), marker="x", color="white", markersize=15, markeredgewidth=6, zorder=6)
            ax.plot(*_xy(violation.cell), marker="x", color=ALARM, markersize=13, markeredgewidth=3, zorder=6)
    if title:
        ax.set_title(title, fontsize=10)
    figure = ax.get_figure()
    if not isinstance(figure, Figure):
        raise ValueError("ax: draw on the axes of a figure, not of a subfigure")
    return figure


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
    """Returns one violation in words, agents counted from 1, e.g. `step 2: agents 1 and 2: two agents swap cells`."""
    parts = [f"step {violation.time}"] if violation.cell is not None else []
    if violation.agents:
        many = "agents" if len(violation.agents) > 1 else "agent"
        parts.append(f"{many} {' and '.join(str(agent + 1) for agent in violation.agents)}")
    return ": ".join([*parts, SAYS.get(violation.kind, "cannot be read")])


def _xy(cell: tuple[int, int]) -> tuple[float, float]:
    return cell[1] + 0.5, cell[0] + 0.5


def _ground(ax: Axes, instance: Instance) -> None:
    size = instance.size
    for row in range(size):
        for col in range(size):
            tile = FancyBboxPatch(
                (col + 0.03, row + 0.03), 0.94, 0.94, "round,pad=0,rounding_size=0.08", fc=ICE, ec=EDGE, lw=0.8
            )
            ax.add_patch(tile)
    for cell in sorted(instance.holes):
        ax.add_patch(Ellipse(_xy(cell), 0.78, 0.72, fc=HOLE, ec=RIM, lw=2))
    ax.set(xlim=(-0.08, size + 0.08), ylim=(size + 0.08, -0.08), aspect="equal", xticks=[], yticks=[])
    ax.set_frame_on(False)


def _offset(agent: int, agents: int) -> float:
    """Paths that share cells run side by side."""
    return 0.13 * (agent - (agents - 1) / 2) if agents > 1 else 0.0


def _path(ax: Axes, instance: Instance, agent: int, path: list[tuple[int, int]]) -> None:
    color, shift = AGENTS[agent % len(AGENTS)], _offset(agent, instance.num_agents)
    points = [(x + shift, y + shift) for x, y in map(_xy, path)]
    ax.plot(*zip(*points, strict=True), color=color, lw=2.4, solid_capstyle="round", zorder=3, alpha=0.9)
    last_move = max((t for t in range(1, len(path)) if path[t] != path[t - 1]), default=0)
    for time in range(1, last_move + 1):
        (x0, y0), (x1, y1) = points[time - 1], points[time]
        if (x0, y0) == (x1, y1):
            ax.plot(x1, y1, marker="o", color=color, markersize=8, markeredgecolor="white", zorder=4)
        else:
            x, y = x0 + 0.62 * (x1 - x0), y0 + 0.62 * (y1 - y0)
            ax.annotate(
                "",
                (x, y),
                (x - 0.01 * (x1 - x0), y - 0.01 * (y1 - y0)),
                arrowprops={"arrowstyle": "-|>", "color": color, "mutation_scale": 11, "lw": 1},
                zorder=4,
            )


def _ends(ax: Axes, instance: Instance) -> None:
    font: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 10, "fontweight": "bold", "zorder": 6}
    for agent, cell in enumerate(instance.goals):
        color, (x, y) = AGENTS[agent % len(AGENTS)], _xy(cell)
        ax.add_patch(
            FancyBboxPatch(
                (x - 0.25, y - 0.25), 0.5, 0.5, "round,pad=0,rounding_size=0.06", fc=color, ec="white", lw=1.2, zorder=5
            )
        )
        if cell not in instance.starts:
            ax.text(x, y, str(agent + 1), color="white", **font)
    for agent, cell in enumerate(instance.starts):
        color, (x, y) = AGENTS[agent % len(AGENTS)], _xy(cell)
        ax.add_patch(
            Circle((x, y), 0.3 if cell not in instance.goals else 0.19, fc="white", ec=color, lw=2.4, zorder=5)
        )
        ax.text(x, y, str(agent + 1), color=INK, **font)


# ---------------------------------------------------------------- animation

CELL = 56  # pixels
STEP = 0.6  # seconds a move
HOLD = 3  # steps that the end is shown


@dataclass(frozen=True)
class Animation:
    """An animated SVG; at the end of a notebook cell it plays."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Writes the SVG file; browsers play it."""
        write_text(path, self.svg)


def animate(instance: Instance, plan: Plan) -> Animation:
    """Returns the plan played on the board, over and over; every violation is marked at its step and cell.

    Raises:
        ValueError: The plan has not one string of moves for each agent: there is nothing to play.
    """
    if len(plan.moves) != instance.num_agents:
        raise ValueError(f"{len(plan.moves)} move lists for {instance.num_agents} agents: nothing to play")
    positions = execute(instance, plan)
    verdict = check(instance, plan)
    steps = len(positions) - 1 + HOLD
    side = instance.size * CELL
    total = f"{STEP * steps:g}s"
    lines = max(1, len(verdict.violations))
    height = side + 30 + 20 * lines
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {max(side, 300)} {height}" '
        f'width="{max(side, 300)}" height="{height}" font-family="DejaVu Sans, Arial, sans-serif" font-size="13">',
        f'<rect width="100%" height="{height}" fill="white"/>',
    ]
    for row in range(instance.size):
        for col in range(instance.size):
            left, top = col * CELL, row * CELL
            parts.append(
                f'<rect x="{left + 2}" y="{top + 2}" width="{CELL - 4}" height="{CELL - 4}" rx="5" fill="{ICE}" '
                f'stroke="{EDGE}"/>'
            )
            if (row, col) in instance.holes:
                parts.append(
                    f'<ellipse cx="{left + CELL / 2:g}" cy="{top + CELL / 2:g}" rx="{0.39 * CELL:g}" '
                    f'ry="{0.36 * CELL:g}" fill="{HOLE}" stroke="{RIM}" stroke-width="2.5"/>'
                )
    for agent, cell in enumerate(instance.goals):
        x, y = (CELL * v for v in _xy(cell))
        parts.append(
            f'<rect x="{x - 19:g}" y="{y - 19:g}" width="38" height="38" rx="5" fill="none" '
            f'stroke="{AGENTS[agent % len(AGENTS)]}" stroke-width="3" stroke-dasharray="6 4"/>'
            + _text(x + 13, y - 8, str(agent + 1), AGENTS[agent % len(AGENTS)], 11)
        )
    for agent in range(instance.num_agents):
        parts.append(_moving(agent, [cells[agent] for cells in positions], steps, total))
    for i, violation in enumerate(verdict.violations):
        parts.append(_alarm(violation, i, side, steps, total))
    if verdict.valid:
        parts.append(_text(6, side + 45, f"valid, {verdict.makespan} steps", "#00664B", 13, "start"))
    for time in range(len(positions)):
        shown = _during(time, time + 1 if time < len(positions) - 1 else steps, steps, total)
        hidden = ' opacity="0"' if time else ""
        parts.append(f"<g{hidden}>{_text(6, side + 22, f'step {time}', INK, 13, 'start')}{shown}</g>")
    return Animation("\n".join([*parts, "</svg>"]) + "\n")


def _text(x: float, y: float, text: str, color: str, size: int, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{color}" '
        f'font-weight="bold">{escape(text)}</text>'
    )


def _moving(agent: int, path: list[tuple[int, int]], steps: int, total: str) -> str:
    """Returns the agent's disc. A move takes the first 70% of its step; agents in one cell stay visible."""
    times, places = [0.0], [path[0]]
    for time in range(1, len(path)):
        times += [time - 1, time - 0.3]
        places += [path[time - 1], path[time]]
    times.append(steps)
    places.append(path[-1])
    shift = 4 * (agent % 2 * 2 - 1)
    values = ";".join(f"{CELL * x + shift:g} {CELL * y + shift:g}" for x, y in map(_xy, places))
    keys = ";".join(f"{t / steps:.4f}".rstrip("0").rstrip(".") for t in times)
    x, y = _xy(path[0])
    return (
        f'<g transform="translate({CELL * x + shift:g} {CELL * y + shift:g})">'
        f'<circle r="15" fill="{AGENTS[agent % len(AGENTS)]}" stroke="white" stroke-width="2"/>'
        f"{_text(0, 5, str(agent + 1), 'white', 14)}"
        f'<animateTransform attributeName="transform" type="translate" values="{values}" keyTimes="{keys}" '
        f'dur="{total}" repeatCount="indefinite"/></g>'
    )


def _alarm(violation: Violation, row: int, side: int, steps: int, total: str) -> str:
    """Returns a cross at the violation's cell and a line of text below the board, from its step to the end."""
    cross = ""
    if violation.cell is not None:
        x, y = (min(max(CELL * v, 10), side - 10) for v in _xy(violation.cell))
        cross = (
            f'<path d="M{x - 16:g} {y - 16:g}l32 32m0 -32l-32 32" stroke="{ALARM}" stroke-width="5" '
            'stroke-linecap="round" fill="none"/>'
        )
    begin = max(violation.time - 0.4, 0.0)
    text = _text(6, side + 45 + 20 * row, describe(violation), ALARM, 13, "start")
    return f'<g opacity="0">{cross}{text}{_during(begin, steps, steps, total)}</g>'


def _during(begin: float, end: float, steps: int, total: str) -> str:
    """Returns an animation that shows its parent from step `begin` to step `end`."""
    values, keys = ["1"], ["0"]
    if begin > 0:
        values, keys = ["0", "1"], ["0", f"{begin / steps:.4f}"]
    if end < steps:
        values.append("0")
        keys.append(f"{end / steps:.4f}")
    shown, at = ";".join(values), ";".join(keys)
    return (
        f'<animate attributeName="opacity" calcMode="discrete" values="{shown}" keyTimes="{at}" '
        f'dur="{total}" repeatCount="indefinite"/>'
    )
