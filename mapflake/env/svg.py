"""Boards as SVG: what an instance shows at the end of a notebook cell. Strings only, so that it costs no dependency.

Knows cells, agents and colours, no `Instance` (which uses it); `mapflake.plots` makes animations of the same pieces.
Nothing here has an id, as several pictures share a page, or a script, as a notebook need not be trusted. Agents have
colours that colour-blind readers can tell apart (Okabe and Ito) and their numbers besides, from 1 as in every text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise

Cell = tuple[int, int]
Point = tuple[float, float]

AGENTS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8A6D00", "#56B4E9", "#5A5A5A", "#7B3294", "#B2182B")
ICE, EDGE, HOLE, RIM, INK, ALARM = "#EAF3F9", "#C3D8E6", "#1F3347", "#8FB4CC", "#1A1A1A", "#B3001B"

CELL = 56
"""Units of length a cell; pixels on boards that are shown at full size."""

WIDEST = 640  # pixels; larger boards are scaled down
_DETAILED = 32  # rows up to which every cell is drawn; a map of 512 rows would else be 30 MB of text


def colour(agent: int) -> str:
    """Returns the colour of an agent; the tenth has that of the first."""
    return AGENTS[agent % len(AGENTS)]


def side_by_side(agent: int, num_agents: int) -> float:
    """Returns by what part of a cell the agent's path is moved from the middle: paths share cells."""
    return min(0.13, 0.6 / num_agents) * (agent - (num_agents - 1) / 2)


def middle(cell: tuple[float, float], shift: float = 0.0) -> Point:
    """Returns (x, y) of the middle of a cell, moved by `shift` cells right and down."""
    return CELL * (cell[1] + 0.5 + shift), CELL * (cell[0] + 0.5 + shift)


def picture(
    size: int, holes: Collection[Cell], starts: Sequence[Cell], goals: Sequence[Cell], paths: Sequence[Sequence[Cell]]
) -> str:
    """Returns the SVG of a board: starts as rings, goals as squares, and the agents' paths if there are any.

    Args:
        size: Rows and columns.
        holes: Cells.
        starts: A cell for each agent.
        goals: A cell for each agent.
        paths: Cells of each agent at time 0, 1, ...; empty for a board without a plan.
    """
    body = [ground(size, holes)]
    body += [path(agent, cells, len(paths), {*starts, *goals}) for agent, cells in enumerate(paths)]
    body += [goal(agent, cell, covered=cell in starts) for agent, cell in enumerate(goals)]
    body += [start(agent, cell, small=cell in goals) for agent, cell in enumerate(starts)]
    return document(size * CELL, size * CELL, body)


def document(width: float, height: float, body: Iterable[str]) -> str:
    """Returns a whole SVG of that many units, with the parts of `body` one upon the other."""
    scale = min(1.0, WIDEST / width)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width * scale:g}" '
            f'height="{height * scale:g}" font-family="DejaVu Sans, Arial, sans-serif" font-weight="bold">',
            f'<rect width="{width:g}" height="{height:g}" fill="white"/>',
            *body,
            "</svg>\n",
        ]
    )


def ground(size: int, holes: Collection[Cell]) -> str:
    """Returns ice and holes."""
    side = size * CELL
    if size > _DETAILED:
        runs = "".join(f"M{CELL * col} {CELL * row}h{CELL * n}v{CELL}h-{CELL * n}z" for row, col, n in _runs(holes))
        return f'<rect width="{side}" height="{side}" fill="{ICE}"/><path d="{runs}" fill="{HOLE}"/>'
    tiles = "".join(
        f"M{CELL * col + 7} {CELL * row + 2}h42q5 0 5 5v42q0 5 -5 5h-42q-5 0 -5 -5v-42q0 -5 5 -5z"
        for row in range(size)
        for col in range(size)
    )
    pits = "".join(
        f'<ellipse cx="{x:g}" cy="{y:g}" rx="21.5" ry="20"/>' for x, y in (middle(cell) for cell in sorted(holes))
    )
    return (
        f'<path d="{tiles}" fill="{ICE}" stroke="{EDGE}"/><g fill="{HOLE}" stroke="{RIM}" stroke-width="2.5">{pits}</g>'
    )


def goal(agent: int, cell: Cell, *, covered: bool = False) -> str:
    """Returns an agent's goal: a square with its number, which goes to the cell's corner if the middle is `covered`."""
    x, y = middle(cell)
    square = f'<rect x="{x - 17:g}" y="{y - 17:g}" width="34" height="34" rx="4" fill="{colour(agent)}"/>'
    if covered:
        return square + text(x + 21, y - 14, str(agent + 1), colour(agent), 12)
    return square + text(x, y + 5.5, str(agent + 1), "white", 16)


def start(agent: int, cell: Cell, *, small: bool = False) -> str:
    """Returns an agent's start: a ring with its number; `small` where a goal is to be seen around it."""
    x, y = middle(cell)
    ring = f'<circle cx="{x:g}" cy="{y:g}" r="{11 if small else 17}" fill="white" stroke="{colour(agent)}"'
    return f'{ring} stroke-width="{3 if small else 4}"/>' + text(x, y + 5, str(agent + 1), INK, 14)


def path(agent: int, cells: Sequence[Cell], num_agents: int, ends: Collection[Cell]) -> str:
    """Returns the way of an agent through the cells: an arrow for each move and a dot for each wait.

    In the cells of `ends` a ring or square will be on top: there the dot is in the corner.
    """
    points = [middle(cell, side_by_side(agent, num_agents)) for cell in cells]
    line = " ".join(f"{x:g},{y:g}" for x, y in points)
    last_move = max((t for t in range(1, len(cells)) if cells[t] != cells[t - 1]), default=0)
    heads, dots = [], []
    for cell, ((x0, y0), (x1, y1)) in zip(cells, pairwise(points[: last_move + 1]), strict=False):
        along, across = (x1 - x0) / CELL, (y1 - y0) / CELL
        if (x0, y0) == (x1, y1):
            x1, y1 = (x1, y1) if cell not in ends else middle(cell, -0.36)
            dots.append(f'<circle cx="{x1:g}" cy="{y1:g}" r="5.5" stroke="white" stroke-width="1.5"/>')
        else:
            tip = f"M{x0 + 0.66 * (x1 - x0):g} {y0 + 0.66 * (y1 - y0):g}"
            side = f"l{-11 * along + 5.5 * across:g} {-11 * across + 5.5 * along:g}"
            heads.append(f"{tip}{side}l{-11 * across:g} {-11 * along:g}z")
    return (
        f'<g fill="{colour(agent)}"><polyline points="{line}" fill="none" stroke="{colour(agent)}" stroke-width="4" '
        f'stroke-linejoin="round" stroke-linecap="round"/><path d="{"".join(heads)}"/>{"".join(dots)}</g>'
    )


def text(x: float, y: float, words: str, fill: str, size: int, anchor: str = "middle") -> str:
    """Returns a line of text whose base line is at y; `anchor` is start, middle or end."""
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{escape(words)}</text>'


def _runs(holes: Iterable[Cell]) -> Iterator[tuple[int, int, int]]:
    """Yields (row, first column, number) of the holes that lie side by side in a row."""
    first: Cell | None = None
    last: Cell = (-1, -1)
    for cell in sorted(holes):
        if first is not None and cell != (last[0], last[1] + 1):
            yield *first, last[1] - first[1] + 1
            first = None
        first = first or cell
        last = cell
    if first is not None:
        yield *first, last[1] - first[1] + 1
