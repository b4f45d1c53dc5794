"""The model before any RL: a warm start that all seeds share, and of each seed a student of some age.

The warm start stands for the small policy's pretraining: solved boards, and the engineer's language (`demonstrations`).
A large pretrained model is taken as it is. A student is the warm start taught for some more steps, its age.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from mapflake import env, provenance, repro
from mapflake.engineer.compact.demonstrations import demonstrations
from mapflake.engineer.reply import reply_format
from mapflake.engineer.variants import known_variant
from mapflake.engineer.words import ENGINEER_WORDS
from mapflake.env import Task, format_plan, naive_plan_fails, render_prompt, transform_task
from mapflake.repro import Params, rng_for, seed_for
from mapflake.trainer.params import WarmStartParams


class BaseParams(Params):
    """The model before any RL.

    Attributes:
        seed: Seed of the warm start.
        base: A pretrained model: a name on the Hugging Face hub, a folder with safetensors, a path that ends with
            .gguf, or `smollm2` (the extra of this name has its weights). None: a small policy from scratch.
        prompt_format: How boards are put to it; `compact`, a closed vocabulary, to a policy from scratch alone.
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
        if self.base is not None and self.prompt_format == "compact":
            raise ValueError("a pretrained model (base) needs prompt_format chat or brief")
        if self.base is None and self.weights == "random":
            raise ValueError("weights: a policy from scratch (base null) is random already; random is of a base")
        return self

    @property
    def taken_as_it_is(self) -> str | None:
        """The name on the hub of a model that is used unchanged; None if a checkpoint of ours is written."""
        unchanged = (self.training, self.prompt_format, self.weights) == (None, "chat", "pretrained")
        on_the_hub = self.base is not None and "/" in self.base and not self.base.endswith(".gguf")
        return self.base if unchanged and on_the_hub and not Path(str(self.base)).exists() else None


def base_pairs(params: BaseParams, boards: Path, n: int) -> list[tuple[str, str]]:
    """Returns n (prompt, completion) pairs for the warm start: solved boards first, then designs (`demonstrations`).

    A solved board is shown turned or mirrored, its agents renamed, at random. The folder `boards` is notebook 01's.

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
    tasks = [pools[hard][rng.integers(len(pools[hard]))] for hard in kinds]
    form = params.prompt_format
    pairs = []
    for task in tasks:
        turned = transform_task(task, int(rng.integers(8)), rng.permutation(task.instance.num_agents).tolist())
        pairs.append((render_prompt(turned.instance, form), format_plan(turned.instance, turned.solution.plan, form)))
    settings = repro.read_json(boards / "settings.json")
    options: dict[str, Any] = {"variants": params.engineer_variants, "prompt_format": reply_format(form)}
    options |= {"seed": params.seed, "reported": settings.get("validated")}
    return pairs + demonstrations(n - len(pairs), settings["sizes"], **options)


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
    out = folder / "checkpoint"
    start: list[str] | Path = [*env.VOCABULARY, *ENGINEER_WORDS]
    if params.base is not None:
        start = starting_point(
            params.base,
            folder / "start" if params.training else out,
            prompt_format=params.prompt_format,
            random_weights=params.weights == "random",
            seed=params.seed,
        )
    if params.training:
        pairs = base_pairs(params, boards, params.training.steps * params.training.batch_size)
        warm_start(pairs, start, params.training, out, seed=params.seed)
    return out


class StudentParams(Params):
    """The students: their ages in supervised steps, which the training seeds take in turn, and their lessons.

    `engineer_share` of the lessons are designs, and `training` is their recipe, whose steps are the ages (None: that of
    the warm start). All else is as in the warm start.
    """

    ages: list[Annotated[int, Field(ge=0)]] = Field(default=[0], min_length=1)
    engineer_share: float = Field(default=0.15, ge=0, lt=1)
    training: WarmStartParams | None = Field(default=None, exclude_if=lambda value: value is None)

    def age(self, seed: int) -> int:
        """Returns the age of the student of a training seed."""
        return self.ages[seed % len(self.ages)]


def student_of(
    base: BaseParams, students: StudentParams, start: str | Path, boards: Path, folder: Path, *, seed: int
) -> str | Path:
    """Returns the student of a training seed: `folder/checkpoint`, or the warm start `start` itself at age 0.

    `folder/student.json` says its age, and where it is. Raises what `student` raises.
    """
    from mapflake.trainer.checkpoint import origin_of

    age, checkpoint, path = students.age(seed), start, folder / "student.json"
    rel_path = os.path.relpath(folder / "checkpoint" if age else start, folder)
    about = {"age": age, "seed": seed, "checkpoint": str(start) if base.taken_as_it_is and not age else rel_path}
    if age:
        changes = {"engineer_share": students.engineer_share, "training": students.training or base.training}
        lessons = base.model_copy(update=changes)
        hashes = [repro.file_sha256(boards / name) for name in ("demonstrations.jsonl", "settings.json")]
        made_from = [lessons.model_dump(mode="json"), origin_of(start), hashes, provenance.code_sha256(__name__)]
        about["made_from"] = repro.json_sha256(made_from)
        checkpoint = folder / "checkpoint"
    if path.is_file() and repro.read_json(path) == about and (not age or (folder / "checkpoint").is_dir()):
        return checkpoint  # many cells ask at once: nothing is written, no lessons are made anew
    if age:
        path.unlink(missing_ok=True)  # after a kill, no file must describe other weights
        student(lessons, start, boards, folder / "checkpoint", age=age, seed=seed)
    repro.write_json(path, about)
    return checkpoint


def student(params: BaseParams, start: str | Path, boards: Path, out: Path, *, age: int, seed: int) -> Path:
    """Returns `out`, the checkpoint of a policy of some age: `start` taught for `age` more supervised steps.

    The lessons are those of `params`, whose `training.steps` is not used, and `seed` decides them and their order. What
    was made from the same input stays.

    Raises:
        ValueError: The age is not positive, or `params` have no training.
    """
    from mapflake.trainer.warmstart import warm_start

    if age < 1 or params.training is None:
        raise ValueError(f"a student of age {age}: takes at least one step of `training`")
    lessons = params.model_copy(update={"seed": seed_for(params.seed, "student", seed)})
    recipe = params.training.model_copy(update={"steps": age})
    warm_start(base_pairs(lessons, boards, age * recipe.batch_size), start, recipe, out, seed=lessons.seed)
    return out
