"""Rounding of shares to whole numbers: the boards of each size, the boards that need a wait, the holes of a board.

All of it is exact. A float stands for the simplest fraction that it can mean, so that 0.285 of 100 cells is 28.5 and
rounds upwards, where the float product is 28.499999999999996 and would round downwards.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from fractions import Fraction
from typing import TypeVar

K = TypeVar("K", bound=Hashable)


def rounded_share(share: float, count: int) -> int:
    """Returns the whole number nearest to `share * count`, halves upwards."""
    return math.floor(_fraction(share) * count + Fraction(1, 2))


def apportion(n: int, shares: Mapping[K, float]) -> dict[K, int]:
    """Returns n in whole parts, in proportion to `shares`: largest remainder, equal remainders to the first.

    Raises:
        ValueError: n or a share is below 0, or all shares are 0.
    """
    if n < 0:
        raise ValueError(f"n: a number from 0 on, not {n}")
    total = math.fsum(shares.values())
    if total <= 0 or min(shares.values()) < 0:
        raise ValueError(f"shares: takes numbers from 0 on, one of them above 0, not {dict(shares)}")
    parts = {key: _fraction(share / total) for key, share in shares.items()}
    whole = sum(parts.values())
    exact = {key: n * part / whole for key, part in parts.items()}
    counts = {key: math.floor(part) for key, part in exact.items()}
    order = sorted(exact, key=lambda key: counts[key] - exact[key])
    for key in order[: n - sum(counts.values())]:
        counts[key] += 1
    return counts


def _fraction(share: float) -> Fraction:
    # Decimals of six digits and all usual fractions are met; two such fractions are never as near as two floats.
    return Fraction(share).limit_denominator(10**6)
