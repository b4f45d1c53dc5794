"""Boards as a reasoning-gym dataset: `import mapflake.adapters.reasoning` registers it, its curriculum and its scorer.

    reasoning_gym.create_dataset("mapflake", seed=0, size=100)
    reasoning_gym.factory.create_curriculum("mapflake")

An entry is decided by the configuration, the seed and its index; its boards are of the split `train`, so that none is
in the validation set or the benchmark. Unlike reasoning-gym's own datasets, two seeds that differ by 1 share no entries
by construction. The scorer gives `reward`: 0, 0.5 for a valid plan, 1 for an optimal one. Levels of the curriculum are
those of the generator's dimensions: board size, agents, holes, and the share of boards on which an agent has to wait.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

from mapflake.adapters.drawing import draw
from mapflake.env import EnvConfig, Task, format_plan, judge, render_prompt, reward
from mapflake.env.text import AGENTS, check_prompt_format
from mapflake.extras import needs
from mapflake.repro import from_json, rng_for, seed_for, to_json

with needs(install="pip install -e . reasoning-gym  (it pins tabulate: see requirements/reasoning-gym.txt)"):
    from reasoning_gym.coaching import BaseCurriculum, RangeAttributeDefinition, ScalarAttributeDefinition
    from reasoning_gym.factory import ProceduralDataset, register_dataset

NAME = "mapflake"


@dataclass
class MapflakeConfig:
    """The choice of boards: sizes, agents and holes are drawn uniformly between two bounds, both included.

    Sizes are in 3..10, agents in 1..9, hole ratios in [0, 0.5]. `wait_ratio` is the share of the boards that need a
    wait (None: left to chance), `size` the number of entries; `seed=None` draws a seed.
    """

    min_size: int = 4
    max_size: int = 6
    min_agents: int = 2
    max_agents: int = 2
    min_hole_ratio: float = 0.1
    max_hole_ratio: float = 0.2
    wait_ratio: float | None = 0.5
    prompt_format: str = "chat"
    seed: int | None = None
    size: int = 500

    def validate(self) -> None:
        """Raises ValueError, which names the key, if a board of the configuration cannot be."""
        for name in ("size", "agents", "hole_ratio"):
            low, high = getattr(self, f"min_{name}"), getattr(self, f"max_{name}")
            if low > high:
                raise ValueError(f"min_{name}: {low} is larger than max_{name}, {high}")
        for size in (self.min_size, self.max_size):  # a board between these has more room than the first
            for agents in (self.min_agents, self.max_agents):
                for holes in (self.min_hole_ratio, self.max_hole_ratio):
                    EnvConfig.uniform([size], holes, self.wait_ratio, agents)
        if self.min_agents == 1 and self.wait_ratio:
            raise ValueError(f"wait_ratio: {self.wait_ratio:g} is not 0, and one agent (min_agents) waits for nobody")
        if check_prompt_format(self.prompt_format) != "chat" and self.max_agents > AGENTS[-1]:
            raise ValueError(f"max_agents: {self.max_agents}, but {self.prompt_format} has words for {AGENTS[-1]}")


class MapflakeDataset(ProceduralDataset):
    """Boards with a question, the best plan as the answer, and the scorer."""

    def __init__(self, config: MapflakeConfig) -> None:
        super().__init__(config=config, seed=config.seed, size=config.size)

    @property
    def category(self) -> str:
        """The kind of dataset, by which reasoning-gym groups its own."""
        return "games"

    def __getitem__(self, idx: int) -> dict[str, Any]:
        """Returns entry `idx`: question, answer, and metadata with the task; IndexError from `size` on."""
        idx = operator.index(idx)
        if not 0 <= idx < self.size:
            raise IndexError(f"{idx} is not in 0..{self.size - 1}")
        c = self.config
        rng = rng_for(self.seed, NAME, idx)
        size = int(rng.integers(c.min_size, c.max_size, endpoint=True))
        agents = int(rng.integers(c.min_agents, c.max_agents, endpoint=True))
        holes = float(rng.uniform(c.min_hole_ratio, c.max_hole_ratio))
        task = draw(EnvConfig.uniform([size], holes, c.wait_ratio, agents), seed_for(self.seed, NAME, idx))
        return {
            "question": render_prompt(task.instance, c.prompt_format),
            "answer": format_plan(task.instance, task.solution.plan, c.prompt_format),
            "metadata": {
                "source_dataset": NAME,
                "source_index": idx,
                "task": to_json(task),
                "prompt_format": c.prompt_format,
                "needs_wait": task.needs_wait,
                "difficulty": {
                    "size": (c.min_size, c.max_size),
                    "agents": (c.min_agents, c.max_agents),
                    "hole_ratio": (c.min_hole_ratio, c.max_hole_ratio),
                    "wait_ratio": c.wait_ratio,
                },
            },
        }

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        """Returns the reward of an answer: 0, 0.5 (valid) or 1 (optimal).

        In chat and brief the plan may stand between answer tags; in compact the answer is the plan alone.
        """
        if not isinstance(answer, str):
            return 0.0
        metadata = entry["metadata"]
        return reward(judge(from_json(Task, metadata["task"], "task"), answer, metadata["prompt_format"]))


class MapflakeCurriculum(BaseCurriculum):
    """Four levels of each of the generator's dimensions."""

    def __init__(self) -> None:
        super().__init__(MapflakeCurriculum.__name__, MapflakeConfig)
        ranges = {
            "size": ([4, 6, 8, 10], "Cells of a board's side"),
            "agents": ([2, 3, 4, 5], "Agents on a board"),
            "hole_ratio": ([0.1, 0.2, 0.3, 0.4], "Share of the cells that are holes"),
        }
        self._define_attributes(
            *(
                RangeAttributeDefinition(
                    name=name,
                    levels=levels,
                    description=description,
                    lower_field_name=f"min_{name}",
                    upper_field_name=f"max_{name}",
                )
                for name, (levels, description) in ranges.items()
            ),
            ScalarAttributeDefinition(
                name="wait_ratio",
                levels=[0.0, 0.25, 0.5, 0.75],
                description="Share of the boards on which an agent has to wait",
                field_name="wait_ratio",
            ),
        )


register_dataset(NAME, MapflakeDataset, MapflakeConfig, MapflakeCurriculum)
