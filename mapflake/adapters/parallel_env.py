"""Boards played step by step, as a PettingZoo `ParallelEnv`: for multi-agent RL of policies that see the grid.

A game is one task. All agents move at once, by the rules of `check`, and the verdict on a game is that of `judge_plan`
on the moves played:

- terminated, for all agents at once: every agent stands on its goal, or a rule was broken (a hole, the rim, a cell
  shared, a swap), which ends the game as a fall ends FrozenLake;
- truncated: `max_steps` joint moves were played;
- rewards: 0 until the end, then `reward(verdict)` to every agent, so that a return is the score of the same plan
  written down: 0, 0.5 (valid) or 1 (optimal);
- infos: `action_mask` `[5]`, 1 for moves that stay on the ice, and `verdict` once the game is over.

An observation is an agent's own view: the planes `PLANES` `[5, S, S]` of 0 and 1, S the largest size of all tasks;
smaller boards lie top left. `plots.animate(env.task.instance, {"game": env.plan})` is a picture of a game. Not covered:
partial views, `state()` (the observations together are the state).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from mapflake.env import MOVES, Plan, Task, Verdict, check, execute, judge_plan, reward
from mapflake.env.instance import DELTAS, text_at
from mapflake.env.task import listed_tasks
from mapflake.extras import needs
from mapflake.repro import whole

with needs("pettingzoo"):
    from gymnasium.spaces import Box, Discrete
    from pettingzoo import ParallelEnv

PLANES = ("no ice", "self", "own goal", "others", "their goals")
"""Planes of an observation; `no ice` marks holes and the cells beyond the rim of a smaller board."""


class FrozenLake(ParallelEnv):
    """Several agents on a frozen lake; an action is the number of a move in "UDLRW"."""

    metadata: ClassVar[dict[str, Any]] = {
        "name": "mapflake_frozenlake_v0",
        "render_modes": ["ansi"],
        "is_parallelizable": True,
        "render_fps": 2,
    }

    def __init__(self, tasks: Iterable[Task], *, max_steps: int | None = None, render_mode: str | None = None) -> None:
        """Makes the environment of boards, whose numbers of agents and sizes may differ; a game takes one at random.

        `max_steps` joint moves end a game; None: three times the optimal makespan of its board, at least one.

        Raises:
            ValueError: There are no tasks, or an argument is out of range.
        """
        self.tasks, self.render_mode = tuple(listed_tasks(tasks)), render_mode
        self.max_steps = None if max_steps is None else whole(max_steps, "max_steps", 1)
        if not self.tasks:
            raise ValueError("tasks: nothing to play")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode: {render_mode!r} is neither ansi nor None")
        self.size = max(task.instance.size for task in self.tasks)
        self.possible_agents = [f"agent_{i}" for i in range(max(task.instance.num_agents for task in self.tasks))]
        self.agents: list[str] = []
        self._view = Box(0, 1, (len(PLANES), self.size, self.size), np.int8)
        self._moves = {agent: Discrete(len(MOVES)) for agent in self.possible_agents}
        self._rng = np.random.default_rng()
        self._start(self.tasks[0])

    def _start(self, task: Task) -> None:
        self.task = task
        self.cells = task.instance.starts  # where the agents are; after a fall possibly not on the board
        self.plan = Plan(("",) * task.instance.num_agents)  # the moves played so far
        self.verdict: Verdict | None = None

    def observation_space(self, agent: str) -> Box:
        """Returns the space of the planes, one for all agents."""
        return self._view

    def action_space(self, agent: str) -> Discrete:
        """Returns the agent's five moves."""
        return self._moves[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, dict[str, Any]]]:
        """Starts a game; returns observations and infos of its agents.

        `seed` is that of the choice of boards from now on; None goes on with the stream (at first: a random one).
        `options={"task": i}` plays `tasks[i]` in place of a random one.

        Raises:
            ValueError: There is no such task.
        """
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        index = (options or {}).get("task")  # other options are ignored: PettingZoo's own tests pass some
        index = int(self._rng.integers(len(self.tasks))) if index is None else whole(index, "task")
        if index not in range(len(self.tasks)):
            raise ValueError(f"task: {index!r} is not an index below {len(self.tasks)}")
        self._start(self.tasks[index])
        self.agents = self.possible_agents[: self.task.instance.num_agents]
        return self._observations(), self._infos()

    def step(
        self, actions: dict[str, int]
    ) -> tuple[dict[str, np.ndarray], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Makes one joint move; returns observations, rewards, terminations, truncations and infos.

        Raises:
            ValueError: The game is over or was never started, or not every agent has a legal action.
        """
        playing = self.agents
        if not playing:
            raise ValueError("step: no game is on; call reset first")
        if set(actions) != set(playing):
            raise ValueError(f"actions: of {', '.join(map(str, actions)) or 'nobody'}; to move: {', '.join(playing)}")
        for agent, action in actions.items():
            if not self._moves[agent].contains(action):
                raise ValueError(f"actions: {agent}: {action!r} is not an integer below {len(MOVES)}")
        # The game so far broke no rule, so its last move alone decides: a game is not played again at every step.
        instance = replace(self.task.instance, starts=self.cells)
        move = Plan(tuple(MOVES[actions[agent]] for agent in playing))
        self.plan = Plan(tuple(map("".join, zip(self.plan.moves, move.moves, strict=True))))
        kinds = check(instance, move).kinds
        self.cells = execute(instance, move)[-1]
        terminated = kinds != ("goal",)  # a rule is broken, or all are on their goals
        limit = self.max_steps or max(1, 3 * self.task.solution.makespan)
        truncated = not terminated and self.plan.horizon >= limit
        score = 0.0
        if terminated or truncated:
            self.verdict = judge_plan(self.task, self.plan)
            score = reward(self.verdict)
        result = (
            self._observations(),
            dict.fromkeys(playing, score),
            dict.fromkeys(playing, terminated),
            dict.fromkeys(playing, truncated),
            self._infos(),
        )
        if self.verdict:
            self.agents = []
        return result

    def render(self) -> str | None:
        """Returns the board as it is, agents as their numbers; None without `render_mode`."""
        return text_at(self.task.instance, self.cells) if self.render_mode else None

    def _observations(self) -> dict[str, np.ndarray]:
        instance, cells = self.task.instance, self.cells
        views = {}
        for i, agent in enumerate(self.agents):
            planes = np.zeros(self._view.shape, self._view.dtype)
            planes[0, instance.size :] = planes[0, :, instance.size :] = 1
            for hole in instance.holes:
                planes[0][hole] = 1
            for j, (cell, goal) in enumerate(zip(cells, instance.goals, strict=True)):
                if min(cell) >= 0 and max(cell) < instance.size:
                    planes[1 if i == j else 3][cell] = 1
                planes[2 if i == j else 4][goal] = 1
            views[agent] = planes
        return views

    def _infos(self) -> dict[str, dict[str, Any]]:
        instance = self.task.instance
        infos: dict[str, dict[str, Any]] = {}
        for agent, (row, col) in zip(self.agents, self.cells, strict=True):
            ahead = [(row + DELTAS[move][0], col + DELTAS[move][1]) for move in MOVES]
            mask = np.array([instance.is_free(cell) for cell in ahead], np.int8)
            infos[agent] = {"action_mask": mask} | ({"verdict": self.verdict} if self.verdict else {})
        return infos
