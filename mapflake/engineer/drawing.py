"""Training boards for a design, or for what of it can be drawn: rare waits and dense holes are met as near as possible.

A legal configuration may ask for boards that are too rare to be found or do not exist (say, boards without a wait where
five agents share nine cells). A round must not die of that, and its engineer has to know: what was relaxed is recorded
and told in the next prompt. Not covered: which configurations are legal (`space`), how boards are drawn (`env`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from mapflake.env import EnvConfig, GenerationError, SizeConfig, Task, generate

logger = logging.getLogger(__name__)

Relaxed = Mapping[int, Mapping[str, Mapping[str, float | None]]]
"""What could not be drawn, by size: `{6: {"asked": {"hole_ratio": ..., "wait_ratio": ...}, "got": {...}}}`."""

HOLE_STEP = 0.1


def draw(
    config: EnvConfig, n: int, *, seed: int, progress: Callable[[int], object] | None = None
) -> tuple[list[Task], Relaxed]:
    """Returns n training tasks, and by size what had to be relaxed for them.

    Where the generator gives up on a size, its quota of waits goes first (to "as it falls": the kind of board asked for
    is too rare to be found, so chance gives the nearest share), then dimensions of one's own (to 0), then holes, 0.1 at
    a time. Data ratios are always met.

    Raises:
        GenerationError: Not even boards without holes are found.
    """
    relaxed: dict[int, dict[str, dict[str, float | None]]] = {}
    while True:
        met = relax(config, relaxed)
        try:
            return generate(met, n, seed=seed, split="train", progress=progress), relaxed
        except GenerationError as error:
            easier = _easier(met.sizes[error.size])
            if easier is None:
                raise
            logger.warning("%s; going on with %s", error, easier)
            relaxed[error.size] = {"asked": _levels(config.sizes[error.size]), "got": _levels(easier)}


def relax(config: EnvConfig, relaxed: Relaxed) -> EnvConfig:
    """Returns `config` with the ratios that were got where others could not be drawn."""
    sizes = dict(config.sizes)
    for size, change in relaxed.items():
        sizes[size] = SizeConfig.of({**sizes[size].ratios, **change["got"]})
    return EnvConfig(sizes, config.num_agents)


def _easier(part: SizeConfig) -> SizeConfig | None:
    """Returns the nearest ratios that are easier to draw, None if there are none."""
    if part.wait_ratio is not None:
        return replace(part, wait_ratio=None)
    if part.further:
        return replace(part, further=())
    if part.hole_ratio > 0:
        return replace(part, hole_ratio=max(0.0, round(part.hole_ratio - HOLE_STEP, 9)))
    return None


def _levels(part: SizeConfig) -> dict[str, float | None]:
    return {name: value for name, value in part.ratios.items() if name != "data_ratio"}
