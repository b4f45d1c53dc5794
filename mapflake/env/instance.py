"""Boards and plans: `Instance`, `Plan`, ASCII boards both ways, execution, and the symmetries of the square.

Agents count from 0 in Python and from 1 in every text. The one text format of a board has a line for each row and cells
separated by blanks:

    S1 .  H  G2
    .  .  .  .
    H  .  S2 .
    G1 .  .  .

`.` is free, `H` a hole, `S1` the start of agent 1, `G1` its goal, `S1G2` the start of one and the goal of another
(or of the same) agent. `read_board` takes it from a file. An instance at the end of a notebook cell is a picture.
Not covered: boards that are not square, cells with a cost; for maps of other formats see maps.py.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from pydantic import ConfigDict, PlainSerializer

from mapflake.repro import plain, shown

Cell = tuple[int, int]
"""(row, column), from (0, 0) at the top left."""

MOVES = "UDLRW"
"""Legal moves: up, down, left, right, wait."""

DELTAS: Mapping[str, Cell] = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1), "W": (0, 0)}

MAX_BOARD = 2048  # rows of the largest board; the largest public maps have about 1500. Memory grows with its square.

_CELL = re.compile(r"[.H]|(?:S(?P<start>[1-9][0-9]{0,5}))?(?:G(?P<goal>[1-9][0-9]{0,5}))?")


@dataclass(frozen=True)
class Instance:
    """One board with its agents; an invalid one cannot be built.

    Attributes:
        size: Rows and columns of the square board.
        holes: Cells that must not be entered.
        starts: Start of each agent, all different.
        goals: Goal of each agent, all different; may be a start, its own or another agent's.

    Raises:
        ValueError: Names the offending cell.
    """

    size: int
    holes: Annotated[frozenset[Cell], PlainSerializer(sorted)]
    starts: tuple[Cell, ...]
    goals: tuple[Cell, ...]

    __pydantic_config__ = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", plain(self.size))
        if type(self.size) is not int or self.size < 1:
            raise ValueError(f"size: {shown(self.size)} is not a positive integer")
        if self.size > MAX_BOARD:
            raise ValueError(f"size: {shown(self.size)} is more than {MAX_BOARD}")
        object.__setattr__(self, "holes", frozenset(self._cells("hole", self.holes)))
        object.__setattr__(self, "starts", self._cells("start", self.starts))
        object.__setattr__(self, "goals", self._cells("goal", self.goals))
        if not self.starts:
            raise ValueError("starts: an instance needs at least one agent")
        if len(self.starts) != len(self.goals):
            raise ValueError(f"{len(self.starts)} starts but {len(self.goals)} goals: each agent needs one of each")
        for name, cells in (("start", self.starts), ("goal", self.goals)):
            agent_at: dict[Cell, int] = {}
            for agent, cell in enumerate(cells):
                if cell in self.holes:
                    raise ValueError(f"{name} of agent {agent}: cell {cell} is a hole")
                if agent_at.setdefault(cell, agent) != agent:
                    raise ValueError(
                        f"{name} of agent {agent}: cell {cell} is the {name} of agent {agent_at[cell]} too"
                    )

    def _cells(self, name: str, cells: Iterable[Cell]) -> tuple[Cell, ...]:
        checked = []
        for cell in cells:
            if isinstance(cell, np.ndarray):
                cell = cell.tolist()
            if not isinstance(cell, Sequence) or [type(plain(number)) for number in cell] != [int, int]:
                raise ValueError(f"{name}: {shown(cell)} is not a cell of two integers (row, col)")
            row, col = map(plain, cell)
            if not (0 <= row < self.size and 0 <= col < self.size):
                raise ValueError(f"{name}: cell {shown((row, col))} is not on the {self.size}x{self.size} board")
            checked.append((row, col))
        return tuple(checked)

    @property
    def num_agents(self) -> int:
        """Number of agents."""
        return len(self.starts)

    @cached_property
    def key(self) -> str:
        """Content hash (hex): equal for equal instances, on every machine."""
        content = (self.size, sorted(self.holes), self.starts, self.goals)
        return hashlib.blake2b(repr(content).encode(), digest_size=16).hexdigest()

    def is_free(self, cell: Cell) -> bool:
        """True if `cell` is on the board and not a hole."""
        return 0 <= cell[0] < self.size and 0 <= cell[1] < self.size and cell not in self.holes

    def to_text(self) -> str:
        """Returns the board as text, see the module docstring; `from_text` reads it back."""
        return text_at(self, self.starts, "S")

    def to_png(self, plan: Plan | None = None) -> bytes:
        """Returns the board as a picture (PNG): rings are starts, squares goals, arrows the plan, dots its waits.

        Raises:
            ValueError: The plan has not one string for each agent.
        """
        from mapflake.env import pictures

        return pictures.png(self, [] if plan is None else execute(self, plan))

    def _repr_png_(self, plan: Plan | None = None) -> bytes | None:
        try:
            return self.to_png(plan)
        except ImportError:  # without matplotlib a notebook shows the text
            return None

    @classmethod
    def from_text(cls, text: str) -> Instance:
        """Returns the instance drawn in `text` (see the module docstring); empty lines are skipped.

        Raises:
            ValueError: Names row and column, counted from 0, of the mark that cannot be read.
        """
        rows = [line.split() for line in text.splitlines() if line.strip()]
        if len(rows) > MAX_BOARD:
            raise ValueError(f"{len(rows)} rows are more than {MAX_BOARD}")
        holes: set[Cell] = set()
        ends: dict[str, dict[int, Cell]] = {"start": {}, "goal": {}}
        for row, marks in enumerate(rows):
            if len(marks) != len(rows):
                raise ValueError(f"row {row}: {len(marks)} cells on a board of {len(rows)} rows; boards are square")
            for col, mark in enumerate(marks):
                match = _CELL.fullmatch(mark)
                if match is None:
                    raise ValueError(f"row {row}, column {col}: {shown(mark)} is none of . H S1 G1 S1G2")
                if mark == "H":
                    holes.add((row, col))
                for name, agent in match.groupdict().items():
                    if agent and ends[name].setdefault(int(agent), (row, col)) != (row, col):
                        first_cell = ends[name][int(agent)]
                        raise ValueError(f"row {row}, column {col}: agent {agent} has a {name} at {first_cell} too")
        order = range(1, max([*ends["start"], *ends["goal"]], default=1) + 1)
        for name, cells in ends.items():
            for agent in order:
                if agent not in cells:
                    raise ValueError(f"agent {agent} has no {name}")
        starts, goals = (tuple(cells[agent] for agent in order) for cells in ends.values())
        return cls(len(rows), frozenset(holes), starts, goals)


def text_at(instance: Instance, cells: Sequence[Cell], prefix: str = "") -> str:
    """Returns the board with `1` (after the prefix) where agent 1 is and `G1` on its goal, as `1G2` where both are.

    An agent whose cell in `cells`, `[num_agents]`, is off the board is not shown.
    """
    marks = dict.fromkeys(instance.holes, "H")
    for letter, places in ((prefix, cells), ("G", instance.goals)):
        for agent, cell in enumerate(places, start=1):
            marks[cell] = marks.get(cell, "") + f"{letter}{agent}"
    size = instance.size
    rows = [[marks.get((row, col), ".") for col in range(size)] for row in range(size)]
    width = max(len(mark) for row in rows for mark in row)
    return "\n".join(" ".join(mark.ljust(width) for mark in row).rstrip() for row in rows)


@dataclass(frozen=True)
class Plan:
    """One string of moves for each agent; an agent whose string has ended waits.

    A plan may be wrong: it holds any number of strings with any letters, and `check` reports their violations.
    """

    moves: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        moves = tuple(self.moves) if isinstance(self.moves, Iterable) else (None,)
        if isinstance(self.moves, str | Mapping | Set) or not all(isinstance(m, str) for m in moves):
            raise ValueError(f"moves: {shown(self.moves)} is not a sequence of strings, one for each agent")
        object.__setattr__(self, "moves", moves)

    @property
    def horizon(self) -> int:
        """Number of joint moves written down, trailing waits included."""
        return max(map(len, self.moves), default=0)


def checked_plan(plan: Plan) -> Plan:
    """Returns a plan; ValueError if it is none, but a list of moves or text."""
    if not isinstance(plan, Plan):
        raise ValueError(
            f"plan: {shown(plan)} is not a Plan; a list of moves is one as Plan(moves), text goes to judge"
        )
    return plan


def execute(instance: Instance, plan: Plan) -> list[tuple[Cell, ...]]:
    """Returns the agents' cells at time 0, 1, ..., `plan.horizon`: a list of `[num_agents]` tuples.

    Every legal letter moves its agent, wherever that leads (into holes, off the board, through others); any other
    letter leaves it where it is. `check` reports the violations.

    Raises:
        ValueError: It is no `Plan`, or has not one string for each agent.
    """
    if len(checked_plan(plan).moves) != instance.num_agents:
        raise ValueError(f"{len(plan.moves)} move lists for {instance.num_agents} agents")
    horizon = plan.horizon
    paths = []
    for (row, col), moves in zip(instance.starts, plan.moves, strict=True):
        path = [(row, col)]
        for move in moves.ljust(horizon, "W"):
            down, right = DELTAS.get(move, (0, 0))
            row, col = row + down, col + right
            path.append((row, col))
        paths.append(path)
    return list(zip(*paths, strict=True))


def distances(instance: Instance, goal: Cell) -> dict[Cell, int]:
    """Returns the number of moves to `goal` from every cell that can reach it, other agents aside."""
    if not instance.is_free(goal):
        return {}
    steps = {goal: 0}
    frontier = [goal]
    for cell in frontier:
        for neighbour in (
            (cell[0] - 1, cell[1]),
            (cell[0] + 1, cell[1]),
            (cell[0], cell[1] - 1),
            (cell[0], cell[1] + 1),
        ):
            if neighbour not in steps and instance.is_free(neighbour):
                steps[neighbour] = steps[cell] + 1
                frontier.append(neighbour)
    return steps


def image(cell: Cell, size: int, k: int) -> Cell:
    """Returns the cell's place under symmetry `k` of a board of that size, see `transform`."""
    row, col = cell
    if k & 4:
        row, col = col, row
    return (size - 1 - row if k & 1 else row, size - 1 - col if k & 2 else col)


def transform(instance: Instance, k: int = 0, agent_order: Sequence[int] | None = None) -> Instance:
    """Returns the image of the board under a symmetry and a renaming of agents.

    Bit 2 of `k` transposes, then bit 0 turns the rows upside down and bit 1 mirrors the columns. New agent j is old
    agent `agent_order[j]`; None keeps the order.

    Raises:
        ValueError: `k` or `agent_order` is out of range.
    """
    if k not in range(8):
        raise ValueError(f"k: {k!r} is not one of the 8 symmetries 0..7")
    order = range(instance.num_agents) if agent_order is None else agent_order
    if sorted(order) != list(range(instance.num_agents)):
        raise ValueError(f"agent_order: {agent_order!r} is not a permutation of {instance.num_agents} agents")
    size = instance.size
    return Instance(
        size,
        frozenset(image(cell, size, k) for cell in instance.holes),
        tuple(image(instance.starts[agent], size, k) for agent in order),
        tuple(image(instance.goals[agent], size, k) for agent in order),
    )
