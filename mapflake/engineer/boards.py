"""Boards of a design: drawn as asked, or as near to it as boards can be found."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from mapflake.env import EnvConfig, GenerationError, SizeConfig, Task, generate
from mapflake.env.config import PAPER
from mapflake.env.splits import split_of

logger = logging.getLogger(__name__)

Fallback = Mapping[int, Mapping[str, Mapping[str, float | None]]]
"""The ratios that could not be drawn, by size: `{6: {"asked": {"hole_ratio": ..., "wait_ratio": ...}, "got": {...}}}`.

A legal configuration may ask for boards that are too rare or do not exist. The fallback is recorded, and told in the
next prompt."""


def sample_boards(
    config: EnvConfig, n: int, *, seed: int, progress: Callable[[int], object] | None = None
) -> tuple[list[Task], Fallback]:
    """Returns n training tasks, and by size the easier ratios that were drawn where others could not be.

    Where the generator gives up on a size, its quota of waits goes first (to None, the share that chance gives), then
    custom dimensions (to 0), then holes, 0.1 at a time. Data ratios are always met.

    Raises:
        GenerationError: Not even boards without holes are found.
    """
    fallback: dict[int, dict[str, dict[str, float | None]]] = {}
    while True:
        attempt = apply_fallback(config, fallback)
        try:
            return generate(attempt, n, seed=seed, split="train", progress=progress), fallback
        except GenerationError as error:
            easier = _easier(_levels(attempt.sizes[error.size]))
            if easier is None:
                raise
            logger.warning("%s; going on with %s", error, easier)
            fallback[error.size] = {"asked": _levels(config.sizes[error.size]), "got": easier}


def warn_of_training_boards(validation: Sequence[Task]) -> None:
    """Logs a warning if some validation boards are of the split from which `sample_boards` draws."""
    if shared := sum(split_of(task.instance) == "train" for task in validation):
        logger.warning(
            "validation: %d of %d boards are of the train split, so a round may train on them; "
            'generate(..., split="validation") draws others',
            shared,
            len(validation),
        )


def apply_fallback(config: EnvConfig, fallback: Fallback) -> EnvConfig:
    """Returns `config` with the ratios that were got where others could not be drawn."""
    sizes = dict(config.sizes)
    for size, change in fallback.items():
        sizes[size] = SizeConfig.from_ratios({**sizes[size].ratios, **change["got"]})
    return EnvConfig(sizes, config.num_agents)


def _easier(levels: Mapping[str, float | None]) -> dict[str, float | None] | None:
    """Returns the next ratios that are easier to draw, None if there are none."""
    if levels["wait_ratio"] is not None:
        return {**levels, "wait_ratio": None}
    if custom := {name: 0.0 for name, level in levels.items() if name not in PAPER and level}:
        return {**levels, **custom}
    if hole := levels["hole_ratio"]:
        return {**levels, "hole_ratio": max(0.0, round(hole - 0.1, 9))}
    return None


def _levels(part: SizeConfig) -> dict[str, float | None]:
    return {name: value for name, value in part.ratios.items() if name != "data_ratio"}
