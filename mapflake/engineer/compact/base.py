"""The model before any RL, from which all seeds and arms branch: the warm start of a small policy, or a model by name.

The warm start stands for pretraining: solved boards, and the engineer's language (`demonstrations`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from mapflake import env, repro
from mapflake.engineer.compact.demonstrations import demonstrations
from mapflake.engineer.compact.words import VOCABULARY
from mapflake.engineer.prompt import known_variant
from mapflake.env import Task, format_plan, naive_plan_fails, render_prompt, transform_task
from mapflake.repro import Params, rng_for
from mapflake.trainer.params import WarmStartParams


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
    engineer_variants: list[Annotated[str, AfterValidator(known_variant)]] = Field(min_length=1)
    training: WarmStartParams


def base_pairs(params: BaseParams, boards: Path, n: int) -> list[tuple[str, str]]:
    """Returns n (prompt, completion) pairs for the warm start: solved boards first, then designs (`demonstrations`).

    A solved board is shown turned or mirrored, its agents renamed, at random.

    Args:
        params: The parameters of the mixture.
        boards: Notebook 01's folder, with the solved boards and the board sizes.
        n: Number of pairs.

    Raises:
        ValueError: There are no boards of a kind that is to be shown.
    """
    rng = rng_for(params.seed, "demonstrations")
    pools: dict[bool, list[Task]] = {True: [], False: []}
    for task in env.load_tasks(boards / "demonstrations.jsonl"):
        pools[naive_plan_fails(task.instance)].append(task)
    kinds = [bool(rng.random() < params.hard_share) for _ in range(round((1 - params.engineer_share) * n))]
    if missing := [hard for hard in kinds if not pools[hard]]:
        kind = "fails" if missing[0] else "solves"
        raise ValueError(f"there is no board that the naive plan {kind}, and hard_share is {params.hard_share:g}")
    shown = [pools[hard][rng.integers(len(pools[hard]))] for hard in kinds]
    turned = [
        transform_task(task, int(rng.integers(8)), rng.permutation(task.instance.num_agents).tolist()) for task in shown
    ]
    pairs = [
        (render_prompt(task.instance, "compact"), format_plan(task.instance, task.solution.plan, "compact"))
        for task in turned
    ]
    sizes = repro.read_json(boards / "settings.json")["sizes"]
    return pairs + demonstrations(n - len(pairs), sizes, seed=params.seed, variants=params.engineer_variants)


def base_model(params: BaseParams, boards: Path, folder: Path) -> str | Path:
    """Returns the model before any RL: `folder/checkpoint`, trained unless it is there already, or `params.base`."""
    from mapflake.trainer.warmstart import warm_start

    if params.base is not None:
        return params.base
    pairs = base_pairs(params, boards, params.training.steps * params.training.batch_size)
    words = [*env.VOCABULARY, *VOCABULARY]
    warm_start(pairs, words, params.training, folder / "checkpoint", seed=params.seed)
    return folder / "checkpoint"
