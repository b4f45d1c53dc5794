"""The model before any RL, from which all seeds and arms branch: the warm start of a small policy, or a model by name.

The warm start stands for pretraining: solved boards, and the engineer's language (`demonstrations`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from mapflake import env, repro
from mapflake.engineer.compact.demonstrations import warm_start_pairs
from mapflake.engineer.compact.words import VOCABULARY
from mapflake.engineer.prompt import VARIANTS
from mapflake.repro import Params
from mapflake.trainer.warmstart import WarmStartParams


def _is_variant(name: str) -> str:
    if name not in VARIANTS:
        raise ValueError(f"legal variants: {', '.join(VARIANTS)}")
    return name


class BaseParams(Params):
    """The model before any RL.

    Attributes:
        seed: Seed of the warm start.
        base: A model on the Hugging Face hub, or a checkpoint's folder, in place of the warm start.
        hard_share: Share of the demonstrated boards that a naive plan does not solve.
        engineer_share: Share of the demonstrations that teach the engineer's language.
        engineer_variants: Contexts shown there; a small policy answers in no others.
        training: Model and optimizer.
    """

    seed: int = Field(ge=0)
    base: str | None = None
    hard_share: float = Field(ge=0, le=1)
    engineer_share: float = Field(ge=0, lt=1)
    engineer_variants: list[Annotated[str, AfterValidator(_is_variant)]] = Field(min_length=1)
    training: WarmStartParams


def base_pairs(params: BaseParams, boards: Path, n: int) -> list[tuple[str, str]]:
    """Returns n (prompt, completion) pairs: boards of notebook 01's folder `boards` first, then designs."""
    return warm_start_pairs(
        env.load_tasks(boards / "demonstrations.jsonl"),
        repro.read_json(boards / "settings.json")["sizes"],
        n,
        hard_share=params.hard_share,
        engineer_share=params.engineer_share,
        variants=params.engineer_variants,
        seed=params.seed,
    )


def base_model(params: BaseParams, boards: Path, folder: Path) -> str | Path:
    """Returns the model before any RL: `folder/checkpoint`, trained there unless it is there already, or `params.base`."""
    from mapflake.trainer.warmstart import warm_start

    if params.base is not None:
        return params.base
    pairs = base_pairs(params, boards, params.training.steps * params.training.batch_size)
    words = [*env.VOCABULARY, *VOCABULARY]
    warm_start(pairs, words, params.training, folder / "checkpoint", seed=params.seed)
    return folder / "checkpoint"
