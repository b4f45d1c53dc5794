"""Own maps: read them, solve them, and train and measure a policy on tasks from them.

Run it: `python docs/examples/own_maps.py`; ten seconds on one core, most of them for imports.
"""

import tempfile
from pathlib import Path

from mapflake.env import (
    VOCABULARY,
    GridMap,
    Plan,
    Task,
    Unsolvable,
    format_plan,
    read_board,
    read_map,
    read_scenario,
    render_prompt,
)
from mapflake.repro import rng_for
from mapflake.trainer import evaluate

MAPS = Path(__file__).parent / "maps"


def drawn_on(grid: GridMap, n: int, num_agents: int, *, seed: int) -> list[Task]:
    """Returns n different tasks on a map, starts and goals at random, those left out that have no plan."""
    free = [(r, c) for r in range(grid.height) for c in range(grid.width) if (r, c) not in grid.holes]
    rng, tasks = rng_for(seed, "own map"), {}
    while len(tasks) < n:
        starts, goals = ([free[i] for i in rng.choice(len(free), num_agents, replace=False)] for _ in range(2))
        board = grid.instance(starts, goals)
        try:
            tasks[board.key] = Task.of(board)
        except Unsolvable:
            continue
    return list(tasks.values())


def train(tasks: list[Task], folder: Path) -> None:
    """Shows a new, tiny policy a right and a wrong plan for each task, lets GRPO decide, and prints the valid rates."""
    from mapflake.trainer.grpo import Boards, train_round
    from mapflake.trainer.params import ModelParams, RLParams, WarmStartParams
    from mapflake.trainer.policy import load_policy
    from mapflake.trainer.warmstart import warm_start

    pairs = [
        (render_prompt(task.instance, "compact"), format_plan(task.instance, plan, "compact"))
        for task in tasks
        for plan in (task.solution.plan, Plan(("W",) * task.instance.num_agents))
    ]
    model = ModelParams(hidden_size=48, layers=1, heads=2, intermediate_size=48)
    recipe = WarmStartParams(model=model, steps=120, batch_size=16, learning_rate=1.0e-2, warmup_steps=5)
    warm_start(pairs, VOCABULARY, recipe, folder / "before", seed=0)
    rl = RLParams(
        instances=8, epochs=6, prompts=8, microbatch=64, max_new_tokens=64, learning_rate=1.0e-3, warmup_steps=0
    )
    train_round(folder / "before", Boards(tasks), rl, folder / "after", seed=0)
    for name in ("before", "after"):
        rollouts = evaluate.rollout(load_policy(folder / name), tasks, samples=8, seed=0)
        print(f"{name} GRPO: valid {evaluate.frame(rollouts)['valid'].mean():.2f}")


def main() -> None:
    ring = Task.of(read_board(MAPS / "ring.txt"))
    print(ring.solution)
    grid = read_map(MAPS / "doorway.map")
    doorway = Task.of(read_scenario(grid, MAPS / "doorway.map.scen", 3))
    print(doorway.instance.to_text(), doorway.solution, f"needs a wait: {doorway.needs_wait}", sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        train(drawn_on(grid, 8, 2, seed=0), Path(folder))


if __name__ == "__main__":
    main()
