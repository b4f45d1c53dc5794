"""RL on designs: GRPO whose prompts are situations, and whose reward is what a design teaches.

The trainer is that of boards (`trainer.grpo`); several processes and LoRA were tried with boards alone. A rejected
reply gets 0. Two more numbers are logged that reward nothing: the share of accepted replies, and the share of distinct
designs in a group, which falls if the engineer collapses to one answer. Configurations have two agents. Source: our
choice; proposers of single problems are trained so by SOAR (arXiv 2601.18778) and Absolute Zero (arXiv 2505.03335).
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from mapflake.extras import needs

with needs("train"):
    from datasets import Dataset
    from tqdm import trange

from mapflake import repro
from mapflake.engineer.compact.base import BaseParams, base_pairs
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.engineer.designers.search import candidates
from mapflake.engineer.prompt import build_prompt
from mapflake.engineer.reply import format_config, read_reply, reply_format, rounded
from mapflake.engineer.situations import (
    DesignRLParams,
    LessonParams,
    Reward,
    Situation,
    best,
    checked,
    expected_gain,
    kinds,
)
from mapflake.engineer.variants import DEFAULT_VARIANT, Variant
from mapflake.env import EnvConfig, generate
from mapflake.env.rewards import answer_of
from mapflake.provenance import code_sha256, identity
from mapflake.trainer.grpo import Boards, Mixture, Problem
from mapflake.trainer.warmstart import warm_start

BOARDS_HOLES = 0.15  # hole ratio of the boards that are mixed with the situations; our choice


@dataclass(frozen=True)
class Designs:
    """The problem of design RL for `grpo.train_round`: a prompt for each situation, and rewards of replies.

    `sizes` may be asked for, `variant` has the prompt's sections, and `reward` is what a design is worth in its
    situation.
    """

    situations: Sequence[Situation]
    sizes: tuple[int, ...]
    variant: str | Variant = DEFAULT_VARIANT
    reward: Reward = expected_gain

    def __len__(self) -> int:
        return len(self.situations)

    def prompts(self, prompt_format: str) -> list[str]:
        """Returns the prompts for a policy of this format (`env.PROMPT_FORMATS`)."""
        options: dict[str, Any] = {"variant": self.variant, "prompt_format": reply_format(prompt_format)}
        return [build_prompt(s.report, s.history, self.sizes, **options) for s in self.situations]

    def identity(self) -> Any:
        """Returns everything that decides the problem, as JSON values."""
        # A reward may read what the prompt of a variant leaves out.
        contents = [(s.report, *(r.config for r in s.history), s.success, s.learnability) for s in self.situations]
        tables = [[repro.to_json(part) for part in row] for row in contents]
        reward = identity(self.reward)
        return [code_sha256("mapflake.engineer.design_rl"), reward, self.sizes, self.prompts("chat"), tables]

    def rows(self, prompt_format: str) -> Dataset:
        """Returns the training rows: prompt, and the number of its situation."""
        texts = self.prompts(prompt_format)
        prompts = [[{"role": "user", "content": t}] for t in texts] if prompt_format != "compact" else texts
        return Dataset.from_dict({"prompt": prompts, "situation": list(range(len(texts)))})

    def rewards(self, prompt_format: str) -> dict[Callable[..., list[float]], float]:
        """Returns the reward functions for TRL, with their weights."""

        @functools.lru_cache(maxsize=1 << 11)  # the three functions are called one after the other on a batch
        def read(number: int, text: str) -> tuple[str | None, float]:
            proposal = read_reply(text, self.sizes, reply_format(prompt_format))
            if proposal.config is None:
                return None, 0.0
            return format_config(proposal.config), checked(self.reward, self.situations[number], proposal.config)

        def each(completions: Sequence[Any], situation: Sequence[int]) -> list[tuple[str | None, float]]:
            texts = [answer_of(completion) for completion in completions]
            return [read(number, text) for number, text in zip(situation, texts, strict=True)]

        def design(completions: Sequence[Any], situation: Sequence[int], **columns: Any) -> list[float]:
            return [value for config, value in each(completions, situation)]

        def accepted(completions: Sequence[Any], situation: Sequence[int], **columns: Any) -> list[float]:
            return [float(config is not None) for config, _ in each(completions, situation)]

        def distinct(completions: Sequence[Any], situation: Sequence[int], **columns: Any) -> list[float]:
            configs = [config for config, _ in each(completions, situation)]
            designs = [*zip(situation, configs, strict=True)]
            counts = Counter(designs)
            return [1 / counts[pair] for pair in designs]  # its mean is distinct designs / samples

        return {design: 1.0, accepted: 0.0, distinct: 0.0}


def beside_boards(designs: Designs, params: DesignRLParams, *, seed: int) -> Problem:
    """Returns the problem of a training: the designs, and the number of boards in `params`, of all sizes equally."""
    if not params.boards:
        return designs
    config, board_seed = EnvConfig.uniform(designs.sizes, BOARDS_HOLES), repro.seed_for(seed, "boards")
    return Mixture([designs, Boards(generate(config, params.boards, seed=board_seed, split="train"))])


def mixed(
    real: Sequence[Situation],
    sizes: Sequence[int],
    params: DesignRLParams,
    *,
    seed: int,
    reported: Sequence[int] | None = None,
) -> list[Situation]:
    """Returns the situations of a training: real and made-up ones (of sizes `reported`), in the share of `params`."""
    options: dict[str, Any] = {"seed": repro.seed_for(seed, "made up"), "reported": reported}
    rng = repro.rng_for(seed, "situations")
    chosen = rng.random(params.rl.instances - params.boards) < (params.real_share if real else 0.0)
    return [
        real[int(rng.integers(len(real)))] if is_real else made_up(i, sizes, **options)
        for i, is_real in enumerate(chosen)
    ]


def taught(
    params: LessonParams,
    base: BaseParams,
    start: str | Path,
    boards: Path,
    out: Path,
    sizes: Sequence[int],
    *,
    variant: str | Variant = DEFAULT_VARIANT,
    reward: Reward = expected_gain,
    reported: Sequence[int] | None = None,
    seed: int,
) -> Path:
    """Returns `out`, the checkpoint `start` after supervised lessons in designing; what was made before stays.

    A lesson is a made-up situation and, of the designs that the search compares (`designers.search.candidates`), the
    one that is worth most there. Solved boards as of the warm start `base`, of notebook 01's folder `boards`, are shown
    beside them. `sizes`, `variant` and `reward` are as in `Designs`, `reported` as in `mixed`.

    Raises:
        ValueError, CheckpointError: As for `warm_start` and `base_pairs`.
    """
    lesson_seed, form, designs = repro.seed_for(seed, "lessons"), reply_format(base.prompt_format), candidates(sizes)
    options: dict[str, Any] = {"variant": variant, "prompt_format": form}
    examples = []
    for i in trange(params.situations, desc="lessons: situations", unit="situation"):
        situation = made_up(i, sizes, seed=lesson_seed, reported=reported)
        answer = format_config(rounded(best(situation, designs, reward)), form)
        examples.append((build_prompt(situation.report, situation.history, sizes, **options), answer))
    lessons = base.model_copy(update={"engineer_share": 0.0, "seed": lesson_seed})
    pairs = base_pairs(lessons, boards, params.boards) + list(islice(cycle(examples), params.rows - params.boards))
    warm_start(pairs, start, params.training, out, seed=lesson_seed)
    return out


def cost(
    params: DesignRLParams, sizes: Sequence[int], *, tables: int = 1, each: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Returns what design RL and its lessons take, where `tables` policies were measured, each trained for `each`."""
    boards = len(kinds(sizes)) * params.tables.boards
    samples = params.rl.epochs * params.rl.generations  # of each prompt
    tables = tables if params.real_share else 0
    counts = {name: tables * n for name, n in (each or {}).items()}
    if lessons := params.lessons:
        counts["demonstrations"] = counts.get("demonstrations", 0) + lessons.boards
    counts["rollouts"] = counts.get("rollouts", 0) + tables * boards * params.tables.samples + params.boards * samples
    return counts | {"replies": (params.rl.instances - params.boards) * samples}
