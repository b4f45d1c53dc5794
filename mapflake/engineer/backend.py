"""The training behind a round: the interface (`TrainingBackend`), GRPO, and imitation of the solver.

Imports no torch until used. To train in another way, give `RoundSettings` an object with the same five members.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from mapflake.env import Task, format_plan, render_prompt
from mapflake.repro import shown
from mapflake.trainer.evaluate import Completer

if TYPE_CHECKING:
    from mapflake.trainer.params import RLParams, WarmStartParams

BEHAVIOUR = {  # a report's words for columns of the trainer's log
    "completion tokens": "completions/mean_length",
    "longest completion": "completions/max_length",
    "completions cut off": "completions/clipped_ratio",
    "entropy": "entropy",
    "groups without signal": "frac_reward_zero_std",
}


class TrainingBackend(Protocol):
    """The training, loading and hashing of checkpoints that a round needs."""

    @property
    def instances(self) -> int:
        """Training instances a round."""

    def train(self, start: str | Path, tasks: Sequence[Task], out: Path, *, seed: int) -> list[dict[str, Any]]:
        """Trains `start` on `tasks`, writes the checkpoint `out` and returns the curve, a row a step.

        `out` may not exist yet, so it makes the folder; or it may hold what a killed call left, which it overwrites or
        goes on with.
        """

    def load(self, checkpoint: str | Path) -> Completer:
        """Returns the policy in a checkpoint."""

    def sha256(self, checkpoint: str | Path) -> str:
        """Returns the hash of a checkpoint's weights."""

    def describe(self) -> dict[str, Any]:
        """Returns algorithm and hyperparameters as JSON values."""


@dataclass(frozen=True)
class Grpo:
    """The real one: GRPO through `mapflake.trainer.grpo`."""

    params: RLParams

    @property
    def instances(self) -> int:
        """Training instances a round."""
        return self.params.instances

    def train(self, start: str | Path, tasks: Sequence[Task], out: Path, *, seed: int) -> list[dict[str, Any]]:
        """Trains one round; does nothing if `out` was made from the same input, goes on if it was interrupted."""
        from mapflake.trainer.grpo import Boards, train_round

        return train_round(start, Boards(tasks), self.params, out, seed=seed)

    def load(self, checkpoint: str | Path) -> Completer:
        """Returns the policy in a checkpoint, set to sample as in its training (length, precision, threads, vLLM)."""
        import torch

        from mapflake.trainer.policy import load_policy

        torch.set_num_threads(self.params.threads)
        return load_policy(
            checkpoint,
            max_new_tokens=self.params.max_new_tokens,
            vllm=None if self.params.vllm == "off" else self.params.vllm_engine,
            precision=self.params.precision,
        )

    def sha256(self, checkpoint: str | Path) -> str:
        """Returns the hash of the weights; of a model on the hub, its name."""
        from mapflake.trainer.checkpoint import origin_of

        return origin_of(checkpoint)

    def describe(self) -> dict[str, Any]:
        """Returns algorithm and hyperparameters."""
        return {"algorithm": "GRPO", **self.params.model_dump(mode="json", exclude={"threads"})}


@dataclass(frozen=True)
class Supervised:
    """Training on the solver's plans in place of GRPO: in a minute a policy changes as it would in an hour of RL.

    For the bank, which wants policies that differ; no arm is trained so. `sampling` gives the policies, and each board
    is seen once.
    """

    sampling: TrainingBackend
    recipe: WarmStartParams

    @property
    def instances(self) -> int:
        """Training instances a round."""
        return self.recipe.steps * self.recipe.batch_size

    def train(self, start: str | Path, tasks: Sequence[Task], out: Path, *, seed: int) -> list[dict[str, Any]]:
        """Trains one round; does nothing if `out` was made from the same input, goes on if it was interrupted."""
        from mapflake.trainer.warmstart import warm_start

        form = self.load(start).prompt_format
        pairs = [(render_prompt(t.instance, form), format_plan(t.instance, t.solution.plan, form)) for t in tasks]
        return warm_start(pairs, start, self.recipe, out, seed=seed)

    def load(self, checkpoint: str | Path) -> Completer:
        """Returns the policy in a checkpoint."""
        return self.sampling.load(checkpoint)

    def sha256(self, checkpoint: str | Path) -> str:
        """Returns the hash of the weights."""
        return self.sampling.sha256(checkpoint)

    def describe(self) -> dict[str, Any]:
        """Returns algorithm and hyperparameters."""
        values = {"algorithm": "supervised", "epochs": 1, **self.recipe.model_dump(mode="json", exclude={"threads"})}
        return values | {"sampling": self.sampling.describe()}


def behaviour_of(curve: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns the means of the columns in `BEHAVIOUR` over the last quarter of the training's steps that have them."""
    columns = {name: column(curve, key) for name, key in BEHAVIOUR.items()}
    last = {name: values[-max(1, len(values) // 4) :] for name, values in columns.items()}
    return {name: sum(values) / len(values) for name, values in last.items() if values}


def column(curve: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    """Returns a column's numbers, as Python's; rows without one, or with NaN or None, are left out.

    Raises:
        TypeError: The column has what is no number; the message names it.
    """
    values = [row[key] for row in curve if row.get(key) is not None]
    if wrong := [value for value in values if not isinstance(value, Real)]:
        raise TypeError(f"trainer: its train returned {key} {shown(wrong[0])}: takes a number")
    return [float(value) for value in values if math.isfinite(value)]
