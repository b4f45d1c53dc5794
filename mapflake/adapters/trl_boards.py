"""The training set of `mapflake.adapters.trl`: boards of the current design, in the rows of a `datasets.Dataset`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mapflake.engineer.boards import Fallback, sample_boards
from mapflake.env import EnvConfig, Task, to_dataset
from mapflake.extras import needs
from mapflake.repro import seed_for, whole

with needs("train"):
    from datasets import Dataset

    from mapflake.trainer.grpo import order_of_rows


class DesignedBoards:
    """A training set whose boards are those of the current design: `dataset` goes into the trainer.

    The boards of a round, and their order, are those of `run_round` for the same seed, configuration and number.

    Attributes:
        start: The configuration of round 0.
        instances: Boards of a round, through which it goes `passes` times.
        seed: Root of the random streams, as in `RoundSettings`.
        dataset: The rows of one round, `[instances * passes]`, with the columns of `to_dataset`.
        tasks: The boards of the current round, in the order in which they were drawn.
    """

    def __init__(
        self, start: EnvConfig, instances: int, *, seed: int, passes: int = 1, prompt_format: str = "chat"
    ) -> None:
        self.start, self.seed, self.prompt_format = start, whole(seed, "seed", 0), prompt_format
        self.instances, self.passes = whole(instances, "instances", 1), whole(passes, "passes", 1)
        self.tasks: list[Task] = []
        self._rows = to_dataset([], prompt_format)
        self.dataset = Dataset.from_dict({"row": range(self.instances * self.passes)}).with_transform(self._at)
        self.draw(start, 0)

    def draw(self, config: EnvConfig, index: int) -> Fallback:
        """Draws the boards of round `index` and puts them into the dataset; returns the fallback of `sample_boards`.

        Raises:
            GenerationError: No boards can be drawn, even without holes.
        """
        self.tasks, fallback = sample_boards(config, self.instances, seed=seed_for(self.seed, "train", index))
        order = order_of_rows(self.instances, self.passes, seed_for(self.seed, "grpo", index))
        self._rows = to_dataset([self.tasks[i] for i in order], self.prompt_format)
        return fallback

    def _at(self, batch: Mapping[str, list[int]]) -> dict[str, list[Any]]:
        return dict(self._rows[batch["row"]])
