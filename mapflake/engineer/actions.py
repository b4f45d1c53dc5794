"""The engineer's action space: the legal configuration nearest to what was asked for.

What is projected is our choice, the paper does not say. How a reply says a configuration is in `reply`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from mapflake.env import EnvConfig, SizeConfig
from mapflake.env.config import DIMENSIONS, MAX_AGENTS, MAX_SIZE, MIN_SIZE, PAPER, cells_needed, num_holes
from mapflake.repro import plain, shown

Requested = Mapping[int, Mapping[str, float | None]]
"""The ratios asked for, by size: `{3: {"data_ratio": 0.2, "hole_ratio": 0.1, "wait_ratio": 0.5}}`."""


def legal_sizes(sizes: Iterable[int]) -> tuple[int, ...]:
    """Returns the sizes in ascending order; ValueError if there are none, or one is not a board size."""
    chosen = tuple(sorted({*map(plain, sizes)})) if isinstance(sizes, Iterable) else ()
    if not chosen or any(type(size) is not int or not MIN_SIZE <= size <= MAX_SIZE for size in chosen):
        raise ValueError(f"sizes: {shown(chosen or sizes)} is not one or more integers in {MIN_SIZE}..{MAX_SIZE}")
    return chosen


def ratios(config: EnvConfig) -> Requested:
    """Returns a configuration as a request."""
    return {size: c.ratios for size, c in config.sizes.items()}


def checked_request(asked: Any) -> dict[int, dict[str, Any]]:
    """Returns ratios by size with numbers of Python; ValueError if `asked` does not map sizes to ratios by name."""
    if not (isinstance(asked, Mapping) and all(isinstance(part, Mapping) for part in asked.values())):
        example = "{4: {'data_ratio': 1, 'hole_ratio': 0.2, 'wait_ratio': 0.5}}"
        raise ValueError(f"asked: ratios by size, as in {example}, not {shown(asked)}")
    request = {plain(size): {key: plain(value) for key, value in part.items()} for size, part in asked.items()}
    if wrong := [size for size in request if type(size) is not int]:
        raise ValueError(f"asked: sizes are integers, not {shown(wrong[0])}")
    return request


def project(requested: EnvConfig | Requested, sizes: Iterable[int], num_agents: int | None = None) -> EnvConfig:
    """Returns the legal configuration nearest to `requested`; a legal one over `sizes` comes back equal.

    Ratios are clipped to [0, 1], hole ratios to [0, 0.5] and to what leaves room for the agents; sizes outside
    `sizes` are dropped; data ratios are scaled to sum to 1. Custom dimensions that were not asked for are 0.
    `num_agents` that are not given are those of a configuration, or 2.

    Raises:
        ValueError: As for `checked_request`; a size lacks a ratio or has one of another name, a value is not finite, or
            no size in `sizes` has a data ratio above 0: nothing legal is near.
    """
    if isinstance(requested, EnvConfig):
        num_agents, requested = requested.num_agents if num_agents is None else num_agents, ratios(requested)
    requested = checked_request(requested)
    sizes, num_agents = legal_sizes(sizes), 2 if num_agents is None else plain(num_agents)
    if type(num_agents) is not int or not 1 <= num_agents <= MAX_AGENTS:
        raise ValueError(f"num_agents: {shown(num_agents)} is not an integer in 1..{MAX_AGENTS}")
    legal = [size for size in sizes if size in requested]
    for size in legal:
        if unknown := [key for key in requested[size] if key not in DIMENSIONS]:
            raise ValueError(f"size {size}: {', '.join(map(shown, unknown))} is none of {', '.join(DIMENSIONS)}")
        if lacking := [key for key in PAPER if key not in requested[size]]:
            raise ValueError(f"size {size}: lacks {', '.join(lacking)}")
        for key, value in requested[size].items():
            if value is None and DIMENSIONS[key].nullable:
                continue
            if isinstance(value, bool) or not isinstance(value, Real):
                raise ValueError(f"size {size}: {key}: {shown(value)} is not a number")
            if not _finite(value):
                raise ValueError(f"size {size}: {key} {shown(value)} is not finite")
    weights = [_clip(requested[size]["data_ratio"], math.inf) for size in legal]
    if not any(weights):
        raise ValueError(f"no size of {[*sizes]} has a data ratio above 0 in {dict(requested)}")
    parts = {}
    for size, weight in zip(legal, _normalised(weights), strict=True):
        clipped: dict[str, Any] = {
            name: None if value is None else _clip(value, DIMENSIONS[name].top)
            for name, value in requested[size].items()
        }
        room = size * size - cells_needed(num_agents)  # for holes, if there are boards of this size
        if weight and num_holes(size, clipped["hole_ratio"]) > room:
            clipped["hole_ratio"] = room / (size * size)
        parts[size] = SizeConfig.from_ratios(clipped | {"data_ratio": weight})
    return EnvConfig(parts, num_agents=num_agents)


def _finite(value: Real) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False


def _clip(value: Any, high: float) -> float:
    return min(max(float(value), 0.0), high)


def _normalised(weights: Sequence[float]) -> list[float]:
    """Returns the weights, not all 0, scaled to sum to 1; unchanged if they do so within 1e-6."""
    largest = max(weights)
    if largest <= 1 and abs(math.fsum(weights) - 1) <= 1e-6:
        return list(weights)
    scaled = [w / largest for w in weights]  # first: the sum of very large numbers is inf
    total = math.fsum(scaled)
    return [w / total for w in scaled]
