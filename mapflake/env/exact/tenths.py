"""To which tenth of all boards a board belongs: what keeps the splits of generator.py apart.

A hash of what the symmetries of the square and the names of the agents leave alone decides. Not covered: which tenths
a split has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

Cell = tuple[int, int]

TURNS: tuple[Callable[[int, int, int], Cell], ...] = (
    lambda r, c, n: (r, c),
    lambda r, c, n: (n - r, c),
    lambda r, c, n: (r, n - c),
    lambda r, c, n: (n - r, n - c),
    lambda r, c, n: (c, r),
    lambda r, c, n: (n - c, r),
    lambda r, c, n: (c, n - r),
    lambda r, c, n: (n - c, n - r),
)


def canonical(
    size: int, holes: Iterable[Cell], starts: Iterable[Cell], goals: Iterable[Cell]
) -> tuple[int, tuple[Any, ...], tuple[Any, ...]]:
    """Returns what is common to a board, its 8 images, and all renamings of its agents; cells are (row, col)."""
    last = size - 1
    pairs = [(*start, *goal) for start, goal in zip(starts, goals, strict=True)]
    images = []
    for k, turn in enumerate(TURNS):
        images.append((sorted((*turn(a, b, last), *turn(c, d, last)) for a, b, c, d in pairs), k))
    best = min(agents for agents, _ in images)
    # Holes decide only between the images whose agents are alike: usually there is one.
    least = min(sorted(TURNS[k](row, col, last) for row, col in holes) for agents, k in images if agents == best)
    return size, tuple(best), tuple(least)


def tenth(form: tuple[int, tuple[Any, ...], tuple[Any, ...]]) -> int:
    """Returns the tenth, 0 to 9, of a canonical form."""
    digest = hashlib.blake2b(repr(form).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % 10
