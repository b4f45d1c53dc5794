"""Boards from files: our own text format, and the maps and scenarios of the Moving AI Lab.

Formats: https://movingai.com/benchmarks/formats.html (Sturtevant, *Benchmarks for Grid-Based Pathfinding*, 2012). A map
is a header of four lines and a grid. `.` and `G` (ground) and `S` (swamp) can be walked on; `@` and `O` (out of
bounds), `T` (trees) and `W` (water) cannot and are holes here: nobody who walks enters water. A scenario has nine
columns, parted by tabs; an instance of k agents is its first k lines (Stern et al., *Multi-Agent Pathfinding*, 2019).

A map that is not square gets holes at its right or at its bottom until it is: nobody can enter them, so every plan and
every cost stays the same. The optimal lengths in scenarios are for one agent that may move diagonally and are not
read. Not covered: scenarios that want their map scaled, writing these formats.

A source is a path or the text itself: a string with a line break in it is text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mapflake.env.instance import MAX_BOARD, Cell, Instance
from mapflake.repro import whole

WALKABLE, BLOCKED = ".GS", "@OTW"

_HEADER = re.compile(r"type\s+octile\s+height\s+([1-9][0-9]{0,4})\s+width\s+([1-9][0-9]{0,4})\s+map")
_VERSION = re.compile(r"version\s+1(\.0)?")
_NUMBER = re.compile(r"[0-9]{1,5}")


@dataclass(frozen=True)
class GridMap:
    """A map without agents, of any width and height; `holes` cannot be walked on."""

    height: int
    width: int
    holes: frozenset[Cell]

    def instance(self, starts: Sequence[Cell], goals: Sequence[Cell]) -> Instance:
        """Returns the board with these agents on it, padded with holes to a square.

        Raises:
            ValueError: Names the agent and the cell that is wrong.
        """
        size = max(self.height, self.width)
        if size > MAX_BOARD:  # before it is padded
            raise ValueError(f"size: {size} is more than {MAX_BOARD}")
        right_cells = {(row, col) for row in range(size) for col in range(self.width, size)}
        bottom_cells = {(row, col) for row in range(self.height, size) for col in range(size)}
        return Instance(size, frozenset(self.holes) | right_cells | bottom_cells, tuple(starts), tuple(goals))


def read_board(source: str | Path) -> Instance:
    """Returns the instance that a file or text holds in the format of `Instance.to_text`.

    Raises:
        ValueError: Names file, row and column, counted from 0, of the mark that cannot be read.
        OSError: There is no such file.
    """
    name, text = _read(source, "board")
    try:
        return Instance.from_text(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def read_map(source: str | Path) -> GridMap:
    """Returns the map that a Moving AI `.map` file or text holds.

    Raises:
        ValueError: Names the file, and row and column, from 0, of a cell that cannot be read.
        OSError: There is no such file.
    """
    name, text = _read(source, "map")
    lines = text.rstrip().split("\n")
    header = _HEADER.fullmatch("\n".join(lines[:4]).strip())
    if header is None:
        raise ValueError(f"{name}: does not begin with the lines `type octile`, `height <n>`, `width <n>`, `map`")
    height, width = map(int, header.groups())
    grid = [line.rstrip("\r") for line in lines[4:]]
    if len(grid) != height:
        raise ValueError(f"{name}: {len(grid)} rows, but its header says height {height}")
    holes = []
    for row, marks in enumerate(grid):
        if len(marks) != width:
            raise ValueError(f"{name}, row {row}: {len(marks)} columns, but its header says width {width}")
        for col, mark in enumerate(marks):
            if mark in BLOCKED:
                holes.append((row, col))
            elif mark not in WALKABLE:
                raise ValueError(f"{name}, row {row}, column {col}: {mark!r} is none of {' '.join(WALKABLE + BLOCKED)}")
    return GridMap(height, width, frozenset(holes))


def read_scenario(grid: GridMap, source: str | Path, num_agents: int) -> Instance:
    """Returns the instance of the first `num_agents` lines of a Moving AI `.scen` file or text made for the map `grid`.

    Raises:
        ValueError: Names file, line (from 1) and its error, or the number of agents in the scenario.
        OSError: There is no such file.
    """
    num_agents = whole(num_agents, "num_agents", 1)
    name, text = _read(source, "scenario")
    lines = text.rstrip().split("\n")
    if _VERSION.fullmatch(lines[0].strip()) is None:
        raise ValueError(f"{name}, line 1: expected `version 1`, found {lines[0].strip()[:40]!r}")
    if len(lines) - 1 < num_agents:
        raise ValueError(f"{name}: {len(lines) - 1} agents, not the {num_agents} asked for")
    starts, goals = [], []
    for number, line in enumerate(lines[1 : num_agents + 1], start=2):
        columns = line.rsplit(maxsplit=7)  # from the right: bucket and map come first, and a name may have blanks
        if len(columns) < 8 or len(columns[0].split()) < 2 or not all(map(_NUMBER.fullmatch, columns[1:7])):
            raise ValueError(f"{name}, line {number}: not `bucket map width height x y x y length`")
        width, height, *ends = map(int, columns[1:7])
        if (width, height) != (grid.width, grid.height):
            raise ValueError(f"{name}, line {number}: made for a map of {height} rows, {width} columns")
        starts.append((ends[1], ends[0]))
        goals.append((ends[3], ends[2]))
    try:
        return grid.instance(starts, goals)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _read(source: str | Path, kind: str) -> tuple[str, str]:
    """Returns the name of the source for messages, and its text."""
    if isinstance(source, str) and "\n" in source:
        return kind, source.removeprefix("\ufeff")
    try:
        return Path(source).name, Path(source).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{Path(source).name}: not a text file") from None
