"""Boards as SVG, which an instance shows at the end of a notebook cell; and the colours of all pictures and figures.

This module writes strings, so that it needs no dependency, and knows cells and agents but no `Instance`, which uses it.
`mapflake.plots` draws the same boards with matplotlib, for files and GIFs. No element has an id, because several
pictures share a page, and there is no script, because a notebook need not be trusted. Agents differ in colour, for
colour-blind readers too, and in their numbers, which count from 1 as in every text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby, pairwise

Cell = tuple[int, int]

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#7B3294", "#B2182B")
"""Colours of agents here and of lines in `mapflake.plots`. The first six are those of Okabe and Ito (2008)."""

LIGHT = ("#E69F00", "#56B4E9")  # a white number would not be seen on them
ICE, EDGE, HOLE, RIM, INK, ALARM = "#EAF3F9", "#C3D8E6", "#1F3347", "#8FB4CC", "#1A1A1A", "#B3001B"

CELL = 56
"""Width of a cell in the picture's units, which are pixels on boards that are shown at full size."""

WIDEST = 640  # pixels; larger boards are scaled down
DETAILED = 32  # rows; cells of larger boards are not drawn one by one: a map of 512 rows would be 30 MB of text


def colour(agent: int) -> str:
    """Returns the colour of an agent; the tenth agent has the colour of the first."""
    return PALETTE[agent % len(PALETTE)]


def ink(agent: int) -> str:
    """Returns the colour of a number that is written on the agent's colour."""
    return INK if colour(agent) in LIGHT else "white"


def path_offset(agent: int, num_agents: int) -> float:
    """Returns how far, in cells, the agent's path runs from the middle of a cell: paths shall not cover each other."""
    return min(0.13, 0.6 / num_agents) * (agent - (num_agents - 1) / 2)


def picture(
    size: int, holes: Collection[Cell], starts: Sequence[Cell], goals: Sequence[Cell], paths: Sequence[Sequence[Cell]]
) -> str:
    """Returns the SVG of a board: starts as rings, goals as squares, and the agents' paths if there are any.

    `paths` has the cells of each agent at time 0, 1, ...; it is empty for a board without a plan.
    """
    side = size * CELL
    width = min(side, WIDEST)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side} {side}" width="{width}" height="{width}" '
        'font-family="DejaVu Sans, Arial, sans-serif" font-weight="bold">',
        f'<rect width="{side}" height="{side}" fill="white"/>',
        _ground(size, holes),
    ]
    parts += [_path(agent, cells, len(paths), {*starts, *goals}) for agent, cells in enumerate(paths)]
    for agent, cell in enumerate(goals):
        x, y = _middle(cell)
        square = f'<rect x="{x - 17:g}" y="{y - 17:g}" width="34" height="34" rx="4" fill="{colour(agent)}"/>'
        number = _number(x, y + 5.5, agent, ink(agent), 16)
        if cell in starts:  # a ring will cover the middle
            number = _number(x + 21, y - 14, agent, colour(agent), 12)
        parts.append(square + number)
    for agent, cell in enumerate(starts):
        x, y = _middle(cell)
        radius, stroke = (11, 3) if cell in goals else (17, 4)
        ring = f'<circle cx="{x:g}" cy="{y:g}" r="{radius}" fill="white" stroke="{colour(agent)}"'
        parts.append(f'{ring} stroke-width="{stroke}"/>' + _number(x, y + 5, agent, INK, 14))
    return "\n".join([*parts, "</svg>\n"])


def _middle(cell: Cell, shift: float = 0.0) -> tuple[float, float]:
    """Returns (x, y) of the middle of a cell, moved by `shift` cells right and down."""
    return CELL * (cell[1] + 0.5 + shift), CELL * (cell[0] + 0.5 + shift)


def _ground(size: int, holes: Collection[Cell]) -> str:
    """Returns ice and holes."""
    side = size * CELL
    if size > DETAILED:  # one box for each run of holes side by side
        boxes = []
        for _, run in groupby(enumerate(sorted(holes)), key=lambda hole: (hole[1][0], hole[1][1] - hole[0])):
            (_, (row, col)), *others = run
            width = CELL * (1 + len(others))
            boxes.append(f"M{CELL * col} {CELL * row}h{width}v{CELL}h-{width}z")
        return f'<rect width="{side}" height="{side}" fill="{ICE}"/><path d="{"".join(boxes)}" fill="{HOLE}"/>'
    tiles = "".join(
        f"M{CELL * col + 7} {CELL * row + 2}h42q5 0 5 5v42q0 5 -5 5h-42q-5 0 -5 -5v-42q0 -5 5 -5z"
        for row in range(size)
        for col in range(size)
    )
    pits = "".join(
        f'<ellipse cx="{x:g}" cy="{y:g}" rx="21.5" ry="20"/>' for x, y in (_middle(cell) for cell in sorted(holes))
    )
    return (
        f'<path d="{tiles}" fill="{ICE}" stroke="{EDGE}"/><g fill="{HOLE}" stroke="{RIM}" stroke-width="2.5">{pits}</g>'
    )


def _path(agent: int, cells: Sequence[Cell], num_agents: int, ends: Collection[Cell]) -> str:
    """Returns an agent's path through the cells: an arrow for each move and a dot for each wait.

    A ring or square will cover the cells of `ends`; there the dot is in the corner.
    """
    points = [_middle(cell, path_offset(agent, num_agents)) for cell in cells]
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    last_move = max((t for t in range(1, len(cells)) if cells[t] != cells[t - 1]), default=0)
    heads, dots = [], []
    for cell, ((x0, y0), (x1, y1)) in zip(cells, pairwise(points[: last_move + 1]), strict=False):
        along, across = (x1 - x0) / CELL, (y1 - y0) / CELL
        if (x0, y0) == (x1, y1):
            x1, y1 = (x1, y1) if cell not in ends else _middle(cell, -0.36)
            dots.append(f'<circle cx="{x1:g}" cy="{y1:g}" r="5.5" stroke="white" stroke-width="1.5"/>')
        else:
            tip = f"M{x0 + 0.66 * (x1 - x0):g} {y0 + 0.66 * (y1 - y0):g}"
            side = f"l{-11 * along + 5.5 * across:g} {-11 * across + 5.5 * along:g}"
            heads.append(f"{tip}{side}l{-11 * across:g} {-11 * along:g}z")
    return (
        f'<g fill="{colour(agent)}"><polyline points="{line}" fill="none" stroke="{colour(agent)}" stroke-width="4" '
        f'stroke-linejoin="round" stroke-linecap="round"/><path d="{"".join(heads)}"/>{"".join(dots)}</g>'
    )


def _number(x: float, y: float, agent: int, fill: str, size: int) -> str:
    """Returns the agent's number, counted from 1; its base line is at y."""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="middle" fill="{fill}">{agent + 1}</text>'
