"""The boards on which cells are measured: what is behind each digit of a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mapflake import repro
from mapflake.env import Task


def write_boards(path: str | Path, sizes: Sequence[int], sets: Mapping[str, Sequence[Task]]) -> None:
    """Writes boards.json for a study with these board sizes; `sets` has "validation" and the subsets of the benchmark.

    A board in several sets gets one number.
    """
    numbers: dict[str, int] = {}
    boards = {
        name: {
            "sha256": boards_sha256(tasks),
            "board": [numbers.setdefault(t.instance.key, len(numbers)) for t in tasks],
            "agents": [t.instance.num_agents for t in tasks],
            "size": [t.instance.size for t in tasks],
            "needs_wait": [t.needs_wait for t in tasks],
        }
        for name, tasks in sets.items()
    }
    repro.write_text(path, repro.dumps({"sizes": list(sizes), "sets": boards}) + "\n")


def boards_sha256(tasks: Sequence[Task]) -> str:
    """Returns the hash of boards in their order."""
    return repro.json_sha256([t.instance.key for t in tasks])
