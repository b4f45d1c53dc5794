"""Another generator dimension: `wall_ratio`, the share of a board's holes that stand in one straight wall with a gap.

Run it: `python docs/examples/own_dimension.py`. This file is all that the dimension takes; whoever imports it has it.
"""

from dataclasses import replace

import numpy as np

from mapflake.engineer import Ledger, build_prompt, format_config, llm_engineer, random_config, read_reply
from mapflake.engineer.designers import EngineerParams
from mapflake.env import EnvConfig, Instance, generate
from mapflake.env.config import DIMENSIONS, Dimension
from mapflake.plots import tables
from mapflake.repro import rng_for


def walls(board: Instance, level: float, rng: np.random.Generator) -> Instance:
    """Returns the board with `level` of its holes moved into a wall: a row or column with a gap; agents drawn anew."""
    line, gap, upright = rng.integers(1, board.size - 1), rng.integers(board.size), rng.integers(2)
    wall = [(int(line), i)[:: -1 if upright else 1] for i in range(board.size) if i != gap]
    wall = wall[: round(level * len(board.holes))]
    loose = [hole for hole in sorted(board.holes) if hole not in wall]
    holes = {*wall, *(loose[i] for i in rng.permutation(len(loose))[: len(board.holes) - len(wall)])}
    free = [(r, c) for r in range(board.size) for c in range(board.size) if (r, c) not in holes]
    while True:
        starts, goals = ([free[i] for i in rng.choice(len(free), board.num_agents, replace=False)] for _ in range(2))
        if all(start != goal for start, goal in zip(starts, goals, strict=True)):
            return replace(board, holes=frozenset(holes), starts=tuple(starts), goals=tuple(goals))
