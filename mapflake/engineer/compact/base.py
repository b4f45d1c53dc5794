"""The model before any RL, from which all seeds and arms branch: a small policy from scratch, or a pretrained one.

The warm start stands for the small policy's pretraining: solved boards, and the engineer's language (`demonstrations`).
A small pretrained model needs one too, since it solves nothing at first; a large one is taken as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from mapflake import env, repro
from mapflake.engineer.actions import reply_format
from mapflake.engineer.compact.demonstrations import demonstrations
from mapflake.engineer.compact.words import VOCABULARY
from mapflake.engineer.prompt import known_variant
from mapflake.env import Task, format_plan, naive_plan_fails, render_prompt, transform_task
from mapflake.repro import Params, rng_for, seed_for
from mapflake.trainer.params import WarmStartParams


class BaseParams(Params):
    """The model before any RL.

    Attributes:
        seed: Seed of the warm start.
        base: A pretrained model: a name on the Hugging Face hub, a folder with safetensors, a path that ends with
            .gguf, or `smollm2` (the extra of this name has its weights). None: a small policy from scratch.
        prompt_format: The format in which boards are put to it. `compact` gives a pretrained model the closed
            vocabulary in place of its own: a pretrained body, which reads no English.
        weights: `random` keeps the shape of `base` alone: the control of "pretrained".
        hard_share: Share of the demonstrated boards that a naive plan does not solve.
        engineer_share: Share of the demonstrations that teach the engineer's language.
        engineer_variants: Contexts shown there; a small policy answers in no others.
        training: Recipe of the warm start; None: none, `base` knows enough.
    """

    seed: int = Field(ge=0)
    base: str | None = None
    prompt_format: Literal["chat", "brief", "compact"] = "compact"
    weights: Literal["pretrained", "random"] = "pretrained"
    hard_share: float = Field(ge=0, le=1)
    engineer_share: float = Field(ge=0, lt=1)
    engineer_variants: list[Annotated[str, AfterValidator(known_variant)]] = Field(min_length=1)
    training: WarmStartParams | None

    @model_validator(mode="after")
    def _fits_together(self) -> BaseParams:
        if self.base is None and (self.training is None or self.prompt_format != "compact"):
            raise ValueError("a policy from scratch (base null) needs `training`, and prompt_format compact")
        return self

    @property
    def taken_as_it_is(self) -> str | None:
        """The name on the hub of a model that is used unchanged; None if a checkpoint of ours is written."""
        unchanged = (self.training, self.prompt_format, self.weights) == (None, "chat", "pretrained")
        on_the_hub = self.base is not None and "/" in self.base and not self.base.endswith(".gguf")
        return self.base if unchanged and on_the_hub and not Path(str(self.base)).exists() else None


def base_pairs(params: BaseParams, boards: Path, n: int) -> list[tuple[str, str]]:
    """Returns n (prompt, completion) pairs for the warm start: solved boards first, then designs (`demonstrations`).

    A solved board is shown turned or mirrored, its agents renamed, at random. All is in `params.prompt_format`.

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
    form = params.prompt_format
    pairs = [
        (render_prompt(task.instance, form), format_plan(task.instance, task.solution.plan, form)) for task in turned
    ]
    sizes = repro.read_json(boards / "settings.json")["sizes"]
    return pairs + demonstrations(
        n - len(pairs), sizes, seed=params.seed, variants=params.engineer_variants, prompt_format=reply_format(form)
    )


def base_model(params: BaseParams, boards: Path, folder: Path) -> str | Path:
    """Returns the model before any RL: `folder/checkpoint`, made unless it is there already, or a name on the hub.

    Raises:
        ValueError: `params.base` needs a package that is not installed, or cannot be asked in the prompt format.
        CheckpointError: It cannot be read.
    """
    from mapflake.trainer.pretrained import starting_point
    from mapflake.trainer.warmstart import warm_start

    if params.taken_as_it_is:
        return params.taken_as_it_is
    words, out = [*env.VOCABULARY, *VOCABULARY], folder / "checkpoint"
    start: list[str] | Path = words
    if params.base is not None:
        start = starting_point(
            params.base,
            folder / "start" if params.training else out,
            prompt_format=params.prompt_format,
            vocabulary=words if params.prompt_format == "compact" else (),
            random_weights=params.weights == "random",
            seed=params.seed,
        )
    if params.training:
        pairs = base_pairs(params, boards, params.training.steps * params.training.batch_size)
        warm_start(pairs, start, params.training, out, seed=params.seed)
    return out


LANGUAGE_SHARE = 0.8
"""Share of the pairs that teach the engineer's language while it is taught first, in `students`; our choice."""


def students(
    params: BaseParams, boards: Path, folder: Path, ages: Sequence[int], *, language_steps: int
) -> dict[int, Path]:
    """Returns policies of different strength, age -> checkpoint: one policy as it grows older; what is there stays.

    An age is a number of supervised steps of `params.training` on boards. Before the first of them all students are
    taught the engineer's language together, so that what they say as engineers does not depend on their age. Each age
    goes on from the one before, with pairs and a schedule of its own.

    Args:
        params: A policy from scratch; `training.steps` is not used.
        boards: As for `base_pairs`.
        folder: Gets a folder for each age.
        ages: Ascending, from 1.
        language_steps: Supervised steps that come first, most of them on the engineer's language.

    Raises:
        ValueError: Ages do not ascend from 1, or the policy is not one from scratch.
    """
    from mapflake.trainer.warmstart import warm_start

    if not ages or any(age <= before for before, age in zip((0, *ages), ages, strict=False)):
        raise ValueError(f"ages: {repro.shown(list(ages))} do not ascend from 1")
    if params.base is not None or params.training is None:
        raise ValueError("students are policies from scratch: base null, with `training`")
    start: list[str] | Path = [*env.VOCABULARY, *VOCABULARY]
    found, lessons = {}, [language_steps, *np.diff([0, *ages]).tolist()]
    for age, steps in zip((0, *ages), lessons, strict=True):
        seed, share = seed_for(params.seed, "age", age), params.engineer_share if age else LANGUAGE_SHARE
        pairs = base_pairs(
            params.model_copy(update={"seed": seed, "engineer_share": share}),
            boards,
            steps * params.training.batch_size,
        )
        found[age] = folder / f"age-{age}"
        warm_start(pairs, start, params.training.model_copy(update={"steps": steps}), found[age], seed=seed)
        start = found[age]
    return {age: found[age] for age in ages}
