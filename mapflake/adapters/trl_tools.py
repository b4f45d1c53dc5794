"""Boards for `environment_factory` of TRL's GRPOTrainer: a model plays a board through a tool, and sees what is wrong.

    trainer = GRPOTrainer(model, args=args, train_dataset=to_dataset(tasks), environment_factory=FrozenLakeEnvironment)

TRL calls `reset` with the row of the training set, which is the same for all members of a group; so is the board, since
it is read from the row. Not covered: the prompt formats brief and compact, which take no tools.
"""

from __future__ import annotations

import json
from typing import Any

from mapflake.engineer.report import violation_text
from mapflake.env import Task, Verdict, judge, reward
from mapflake.env.dataset import task_of

__all__ = ["FrozenLakeEnvironment"]

TOLD = (
    "\nWrite no block: give these strings to the tool `submit` instead. It says what is wrong with the plan, and you "
    "may submit another one. The last plan counts."
)


class FrozenLakeEnvironment:
    """One board, played through the tool `submit`; its public methods are those that TRL looks for.

    Attributes:
        task: The board with its answer.
        verdict: The judgement of the last plan; None if there was none.
    """

    def __init__(self) -> None:
        self.task: Task | None = None
        self.verdict: Verdict | None = None

    def reset(self, task: str = "", **row: Any) -> str:
        """Returns what the prompt of a row of `to_dataset` is told in addition.

        Raises:
            ValueError: The row has no column `task`. A board that is drawn here instead would be another one for each
                member of a group, and their rewards could not be compared.
        """
        if not task:
            raise ValueError("task: missing; the rows of the training set are those of to_dataset")
        self.task, self.verdict = task_of(task, "a row of the training set"), None
        return TOLD

    def submit(self, plan: list[str]) -> str:
        """Submits a plan and says whether it is valid.

        Args:
            plan: One string of moves U, D, L, R or W for each agent, agent 1 first.

        Returns:
            What is wrong with the plan, or the number of its steps.
        """
        if self.task is None:
            raise ValueError("submit: there is no board before reset")
        plain = isinstance(plan, list) and all(isinstance(moves, str) and not {*moves} & {*"<{["} for moves in plan)
        self.verdict = verdict = judge(self.task, json.dumps({"plan": plan}) if plain else "")  # no plan within a text
        if verdict.valid:
            return f"Valid: all agents are on their goals after {verdict.makespan} steps."
        return f"Not valid: {violation_text(verdict)}."

    def get_reward(self) -> float:
        """Returns the reward of the last plan: 0, 0.5 or 1; 0 if there was none."""
        return reward(self.verdict) if self.verdict else 0.0
