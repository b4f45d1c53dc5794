"""A board played step by step: PettingZoo's `ParallelEnv`, here by the solver's plan and by chance.

python docs/examples/play_pettingzoo.py
"""

import numpy as np

from mapflake.adapters.parallel_env import FrozenLake
from mapflake.env import MOVES, EnvConfig, generate


def by_the_plan(env):
    """Returns the reward of the solver's plan for board 0, printing every step."""
    env.reset(options={"task": 0})
    plan = env.task.solution.plan
    print(env.render())
    for time in range(plan.horizon):
        letters = [moves[time] if time < len(moves) else "W" for moves in plan.moves]
        actions = {agent: MOVES.index(letter) for agent, letter in zip(env.agents, letters, strict=True)}
        _, rewards, *_ = env.step(actions)
        print("\n" + " ".join(letters), env.render(), sep="\n")
    return rewards["agent_0"]


def by_chance(env, games=200):
    """Returns the mean reward of agents that take any move which stays on the ice."""
    rng, total = np.random.default_rng(0), 0.0
    for _ in range(games):
        _, infos = env.reset(seed=int(rng.integers(2**31)))
        while env.agents:
            actions = {agent: int(rng.choice(np.flatnonzero(infos[agent]["action_mask"]))) for agent in env.agents}
            _, rewards, _, _, infos = env.step(actions)
        total += rewards["agent_0"]
    return total / games


def main():
    """Returns both rewards."""
    tasks = generate(EnvConfig.uniform([3, 4], hole_ratio=0.15, wait_ratio=0.5, num_agents=2), n=50, seed=1)
    env = FrozenLake(tasks, render_mode="ansi")
    planned, chance = by_the_plan(env), by_chance(env)
    print(f"\nreward of the plan {planned}, of chance {chance:.3f} (verdict of its last game: {env.verdict.kinds})")
    return planned, chance


if __name__ == "__main__":
    main()
