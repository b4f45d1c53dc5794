"""Another generator dimension: `wall_ratio`, the share of a board's holes that stand in one straight wall with a gap.

Run it: `python docs/examples/own_dimension.py`. This file is all that the dimension takes; whoever imports it has it.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from mapflake.env import DIMENSIONS, Dimension, EnvConfig, Instance, generate


def walls(board: Instance, level: float, rng: np.random.Generator) -> Instance:
    """Returns the board with a share of its holes in a wall with one gap, and with new starts and goals."""
    line, gap, upright = rng.integers(1, board.size - 1), rng.integers(board.size), rng.integers(2)
    wall = [(i, int(line)) if upright else (int(line), i) for i in range(board.size) if i != gap]
    wall = wall[: round(level * len(board.holes))]
    loose = [hole for hole in sorted(board.holes) if hole not in wall]
    holes = {*wall, *(loose[i] for i in rng.permutation(len(loose))[: len(board.holes) - len(wall)])}
    free = [(r, c) for r in range(board.size) for c in range(board.size) if (r, c) not in holes]
    while True:
        starts, goals = ([free[i] for i in rng.choice(len(free), board.num_agents, replace=False)] for _ in range(2))
        if all(start != goal for start, goal in zip(starts, goals, strict=True)):
            return replace(board, holes=frozenset(holes), starts=tuple(starts), goals=tuple(goals))


DIMENSIONS["wall_ratio"] = Dimension(
    "share of a board's holes that stand in one straight wall, from 0 to 1.", transform=walls
)


def main() -> None:
    import toy_learner

    from mapflake.engineer import build_prompt, read_reply

    for level in (0.0, 0.5, 1.0):
        tasks = generate(EnvConfig.uniform([6], 0.15, num_agents=3, wall_ratio=level), 300, seed=0)
        waits = sum(task.needs_wait for task in tasks) / len(tasks)
        steps = sum(task.solution.makespan for task in tasks) / len(tasks)
        print(f"wall_ratio {level}: {waits:.0%} of the boards need a wait, {steps:.2f} steps at best")
    print(tasks[0].instance.to_text(), end="\n\n")

    with tempfile.TemporaryDirectory() as folder:  # a rule that draws all ratios at random, in a loop with a toy
        history = toy_learner.run("domain_randomisation", Path(folder), (5, 6), rounds=1)
    prompt = build_prompt(history[-1].report, history, [5, 6])
    shown = ("- wall_ratio", "| size | data_ratio", "| 5x5  | 0")
    print(*(line for line in prompt.split("\n") if line.startswith(shown)), sep="\n", end="\n\n")

    reply = '{"sizes": {"6": {"data_ratio": 1, "hole_ratio": 0.2, "wait_ratio": null, "wall_ratio": 1.5}}}'
    for text in (reply, reply.replace(', "wall_ratio": 1.5', "")):
        proposal = read_reply(text, [5, 6])
        print(proposal.rejection or proposal.config.sizes)


if __name__ == "__main__":
    main()
