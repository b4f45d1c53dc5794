"""Splits: which boards are for training, for validation, for the benchmark.

A hash that is invariant under the symmetries of the square and the names of the agents puts every board into one of ten
buckets; each split has its own buckets. csrc/splits.h computes the same in C; change both.
"""

from __future__ import annotations

import hashlib
from typing import Any

from mapflake.env.instance import Instance, image

SPLITS = ("train", "validation", "benchmark")
"""Uses of boards; no board is in two of them, not even turned, mirrored or with agents renamed."""

_SPLIT_OF_BUCKET = ("train",) * 8 + ("validation", "benchmark")

# Split -> its buckets, as a set of bits.
BUCKETS = {name: sum(1 << k for k, split in enumerate(_SPLIT_OF_BUCKET) if split == name) for name in SPLITS}
ALL_BUCKETS = sum(BUCKETS.values())


def canonical(instance: Instance) -> tuple[int, tuple[Any, ...], tuple[Any, ...]]:
    """Returns one form for an instance, its 8 images, and all renamings of its agents; different ones differ."""
    size = instance.size
    ends = list(zip(instance.starts, instance.goals, strict=True))
    images = [(sorted((*image(start, size, k), *image(goal, size, k)) for start, goal in ends), k) for k in range(8)]
    best = min(agents for agents, _ in images)
    # Holes decide only between images whose agents have the same cells: usually there is only one such image.
    least = min(sorted(image(cell, size, k) for cell in instance.holes) for agents, k in images if agents == best)
    return size, tuple(best), tuple(least)


def bucket(instance: Instance) -> int:
    """Returns the bucket, 0 to 9, of an instance, its images and its renamings."""
    digest = hashlib.blake2b(repr(canonical(instance)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") % 10


def split_of(instance: Instance) -> str:
    """Returns the split that the instance, its images and its renamings may belong to: in 8 of 10 cases train."""
    return _SPLIT_OF_BUCKET[bucket(instance)]
