"""The model before any RL, from which all seeds and arms branch: the warm start of a small policy, or a model by name.

The warm start stands for pretraining: solved boards, and the engineer's language (`demonstrations`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from mapflake import env, repro
from mapflake.engineer.compact.demonstrations import demonstrations
from mapflake.engineer.compact.words import VOCABULARY
from mapflake.engineer.prompt import VARIANTS
from mapflake.env import Task, format_plan, naive_plan_fails, render_prompt, transform_task
from mapflake.repro import Params, rng_for
from mapflake.trainer.params import WarmStartParams


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


def warm_start_pairs(
    solved: Sequence[Task],
    sizes: Iterable[int],
    n: int,
    *,
    hard_share: float,
    engineer_share: float,
    variants: Sequence[str],
    seed: int,
) -> list[tuple[str, str]]:
    """Returns n (prompt, completion) pairs for the warm start: solved boards first, then the engineer's demonstrations.

    Args:
        solved: Boards with their answers; each is shown turned or mirrored, its agents renamed, at random.
        sizes: Board sizes of the engineer's demonstrations.
        n: Number of pairs.
        hard_share: Chance that a board is one that the naive plan does not solve (`naive_plan_fails`).
        engineer_share: Share of the pairs that are demonstrations of the engineer's language.
        variants: Variants of the engineer's prompt, each as often as the others.
        seed: Root of the random streams.

    Raises:
        ValueError: There are no boards of a kind that is to be shown, or as `demonstrations` raises.
    """
    rng = rng_for(seed, "demonstrations")
    hard = [task for task in solved if naive_plan_fails(task.instance)]
    easy = [task for task in solved if not naive_plan_fails(task.instance)]
    pools = [hard if rng.random() < hard_share else easy for _ in range(round((1 - engineer_share) * n))]
    if not all(pools):
        kind = "fails" if hard_share and not hard else "solves"
        raise ValueError(f"solved: there is no board that the naive plan {kind}, and hard_share is {hard_share:g}")
    shown = [pool[rng.integers(len(pool))] for pool in pools]
    turned = [
        transform_task(task, int(rng.integers(8)), rng.permutation(task.instance.num_agents).tolist()) for task in shown
    ]
    pairs = [
        (render_prompt(task.instance, "compact"), format_plan(task.instance, task.solution.plan, "compact"))
        for task in turned
    ]
    return pairs + demonstrations(n - len(pairs), sizes, seed=seed, variants=variants)


def base_model(params: BaseParams, boards: Path, folder: Path) -> str | Path:
    """Returns the model before any RL: `folder/checkpoint`, trained unless it is there already, or `params.base`."""
    from mapflake.trainer.warmstart import warm_start

    if params.base is not None:
        return params.base
    pairs = base_pairs(params, boards, params.training.steps * params.training.batch_size)
    words = [*env.VOCABULARY, *VOCABULARY]
    warm_start(pairs, words, params.training, folder / "checkpoint", seed=params.seed)
    return folder / "checkpoint"
