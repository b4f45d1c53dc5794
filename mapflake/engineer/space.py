"""The engineer's action space: which configurations are legal, how one is written, and the nearest legal one.

Two ways of writing: JSON, exact, and compact words, in steps of 1/20. Not covered: reading (see `reply`), and whether
boards of a legal configuration are rare: for 2 agents every legal one can be drawn from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence

from mapflake.env import EnvConfig, SizeConfig
from mapflake.env.config import DIMENSIONS, MAX_HOLE_RATIO, MAX_SIZE, MIN_SIZE, cells_needed, num_holes

Requested = Mapping[int, Mapping[str, float | None]]
"""What was asked for each size: `{3: {"data_ratio": 0.2, "hole_ratio": 0.1, "wait_ratio": 0.5}}`."""

PROMPT_FORMATS = ("json", "compact")

STEP = 20  # the compact prompt format speaks ratios in steps of 1/20
ANY = "any"  # the wait ratio "as it falls"
END = "end"
PERCENT = tuple(f"p{100 * i // STEP:02d}" for i in range(STEP + 1))
VOCABULARY = (
    *PERCENT,
    *(f"round{i}" for i in range(10)),
    *("engineer", "guide", "report", "history", "summary", "rejected", "details", "none", "design"),
    ANY,
    END,
)
"""The engineer's words of the compact prompt format that are not in `mapflake.env.text.VOCABULARY`."""


def legal_sizes(sizes: Iterable[int]) -> tuple[int, ...]:
    """Returns the sizes in ascending order.

    Raises:
        ValueError: There are none, or one is not a board size.
    """
    chosen = tuple(sorted(set(sizes)))
    if not chosen:
        raise ValueError("sizes: there are none to ask for")
    for size in chosen:
        if type(size) is not int or not MIN_SIZE <= size <= MAX_SIZE:
            raise ValueError(f"sizes: {size!r} is not an integer in {MIN_SIZE}..{MAX_SIZE}")
    return chosen


def project(requested: EnvConfig | Requested, sizes: Iterable[int], num_agents: int = 2) -> EnvConfig:
    """Returns the legal configuration nearest to `requested`; a legal one over `sizes` comes back equal.

    Ratios are clipped to [0, 1], hole ratios to [0, 0.5] and to what leaves room for the agents; sizes outside
    `sizes` are dropped; negative data ratios count as 0, and the rest are scaled to sum to 1 unless they do so already.
    Dimensions of one's own that were not asked for are 0: a rule need not know them.

    Raises:
        ValueError: A value is not finite, or no size in `sizes` has a data ratio above 0: nothing legal is near.
    """
    if isinstance(requested, EnvConfig):
        requested = {size: c.ratios for size, c in requested.sizes.items()}
    sizes = legal_sizes(sizes)
    legal = [size for size in sizes if size in requested]
    for size in legal:
        for key, value in requested[size].items():
            if value is not None and not math.isfinite(value):
                raise ValueError(f"size {size}: {key} {value} is not finite")
    weights = _normalise([_clip(requested[size]["data_ratio"], math.inf) for size in legal])
    if weights is None:
        raise ValueError(f"no size of {list(sizes)} has a data ratio above 0 in {dict(requested)}")
    return EnvConfig(
        {
            size: _part(size, weight, requested[size], num_agents if weight else 0)
            for size, weight in zip(legal, weights, strict=True)
        },
        num_agents=num_agents,
    )


def _part(size: int, weight: float, asked: Mapping[str, float | None], num_agents: int) -> SizeConfig:
    ratios: dict[str, float | None] = {
        name: None if asked[name] is None and dimension.nullable else _clip(asked[name], dimension.top)
        for name, dimension in DIMENSIONS.items()
        if name in asked
    }
    return SizeConfig.of(ratios | {"data_ratio": weight, "hole_ratio": _holes(size, asked["hole_ratio"], num_agents)})


def _clip(value: float | None, high: float) -> float:
    return min(max(0.0 if value is None else float(value), 0.0), high)


def _holes(size: int, ratio: float | None, num_agents: int) -> float:
    """Returns the hole ratio, lowered to what leaves room for the agents (0 agents: a size that gets no boards)."""
    ratio = _clip(ratio, MAX_HOLE_RATIO)
    most = size * size - (cells_needed(num_agents) if num_agents else 0)
    return ratio if num_holes(size, ratio) <= most else most / (size * size)


def _normalise(weights: Sequence[float]) -> list[float] | None:
    """Returns the weights scaled to sum to 1, unchanged if they do so within 1e-6; None if they are all 0."""
    largest = max(weights, default=0.0)
    if largest == 0:
        return None
    if largest <= 1 and abs(math.fsum(weights) - 1) <= 1e-6:
        return list(weights)
    scaled = [w / largest for w in weights]  # first: the sum of very large numbers is inf
    total = math.fsum(scaled)
    return [w / total for w in scaled]


# ---------------------------------------------------------------- writing


def format_config(config: EnvConfig, prompt_format: str = "json") -> str:
    """Returns the reply that asks for `config`.

    Exact in "json"; in "compact" ratios are rounded to 1/20, data ratios so that they still sum to 1.
    """
    if prompt_format == "json":
        return json.dumps({"sizes": {str(size): c.ratios for size, c in sorted(config.sizes.items())}})
    return " ".join([*config_words(config), END])


def config_words(config: EnvConfig) -> list[str]:
    """Returns a configuration in compact words, without the closing one: each size, ascending, and its ratios."""
    sizes = sorted(config.sizes.items())
    words = []
    for (size, c), twentieths in zip(sizes, in_steps([c.data_ratio for _, c in sizes]), strict=True):
        _, *others = c.ratios.values()
        words += [f"size{size}", PERCENT[twentieths], *(ANY if r is None else percent(r) for r in others)]
    return words


def words_a_size() -> int:
    """Returns how many compact words a size takes in a configuration: its name, and one for each dimension."""
    return 1 + len(DIMENSIONS)


def reply_words(sizes: Sequence[int]) -> int:
    """Returns where a compact reply over these sizes may be cut off: a whole design and a few words more."""
    return words_a_size() * len(sizes) + 8


def percent(ratio: float) -> str:
    """Returns the compact word of a ratio in [0, 1], to the nearest 1/20 (halves up)."""
    return PERCENT[math.floor(ratio * STEP + 0.5)]


def in_steps(shares: Sequence[float], total: int = STEP) -> list[int]:
    """Returns whole numbers that sum to `total`, in proportion to `shares`, by largest remainder (ties: the first)."""
    scale = total / math.fsum(shares)
    whole = [math.floor(s * scale + 1e-9) for s in shares]
    order = sorted(range(len(shares)), key=lambda i: (whole[i] - shares[i] * scale, i))
    for i in order[: total - sum(whole)]:
        whole[i] += 1
    return whole
