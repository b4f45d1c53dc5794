"""A learner in place of GRPO, to try a designer's whole loop in seconds: no model, no torch, nothing to conclude from.

It gets better at the kinds of boards (size, needs a wait) that it practises, the larger the slower.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from own_policy import answer

from mapflake import repro
from mapflake.engineer import History, RoundSettings, Start, run_arm, run_round
from mapflake.env import EnvConfig, Instance, Task, format_plan, generate


class ToyPolicy:
    """Solves a board with a chance that grows with practice; else it takes shortest paths."""

    prompt_format = "chat"

    def __init__(self, practised: dict[str, int]) -> None:
        self.practised = practised

    def complete(self, prompts: Sequence[str], *, n: int = 1, seed: int = 0, **_: Any) -> list[list[str]]:
        return [[self._one(p, repro.rng_for(seed, i, j).random()) for j in range(n)] for i, p in enumerate(prompts)]

    def _one(self, prompt: str, luck: float) -> str:
        board = Instance.from_text(prompt.split("\n\n")[1])
        task = Task.of(board)
        practised = self.practised.get(kind(board.size, task.needs_wait), 0)
        knows = luck > math.exp(-practised / (5 * board.size))
        return format_plan(board, task.solution.plan, "chat") if knows else answer(prompt)


def kind(size: int, waits: bool) -> str:
    return f"{size}x{size}{', waits' if waits else ''}"


class ToyLearner:
    """A `mapflake.engineer.TrainingBackend`: the five members that a round needs."""

    instances = 60

    def train(self, start: str | Path, tasks: Sequence[Task], out: Path, *, seed: int) -> list[dict[str, Any]]:
        practised = Counter(self._read(start))
        practised.update(kind(task.instance.size, task.needs_wait) for task in tasks)
        repro.write_json(out / "practised.json", practised)
        return []

    def load(self, checkpoint: str | Path) -> ToyPolicy:
        return ToyPolicy(self._read(checkpoint))

    def sha256(self, checkpoint: str | Path) -> str:
        return repro.json_sha256(self._read(checkpoint))

    def describe(self) -> dict[str, Any]:
        return {"algorithm": "practice", "epochs": 1}

    def _read(self, checkpoint: str | Path) -> dict[str, int]:
        path = Path(checkpoint) / "practised.json"
        return repro.read_json(path) if path.exists() else {}


def run(arm: str, folder: Path, sizes: Sequence[int] = (3, 4, 5), rounds: int = 2, seed: int = 0) -> History:
    """Returns round 0, on boards of three agents as they fall, and an arm's rounds; validation is half waits."""
    first = EnvConfig.uniform(sizes, 0.15, num_agents=3)
    validation = generate(EnvConfig.uniform(sizes, 0.15, 0.5, 3), 120, seed=0, split="validation")
    settings = RoundSettings(folder / "round_0", ToyLearner(), validation, seed=seed)
    history = (run_round(settings, (), start=Start("nothing learned yet", first)),)
    return run_arm(arm, replace(settings, folder=folder / arm), history, rounds=rounds, sizes=sizes)
