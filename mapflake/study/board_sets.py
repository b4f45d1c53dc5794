"""The boards on which cells are measured: what is behind each digit of a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mapflake import repro
from mapflake.env import Task


def write_boards(path: str | Path, sizes: Sequence[int], sets: Mapping[str, Sequence[Task]]) -> None:
    """Writes what is behind each digit of all outcomes.

    Args:
        path: boards.json in the folder of notebook 01.
        sizes: Board sizes of the study.
        sets: "validation" and each subset of the benchmark -> its boards. A board in several sets gets one number.
    """
    numbers: dict[str, int] = {}
    found = {}
    for name, tasks in sets.items():
        found[name] = {
            "sha256": boards_sha256(tasks),
            "board": [numbers.setdefault(t.instance.key, len(numbers)) for t in tasks],
            "agents": [t.instance.num_agents for t in tasks],
            "size": [t.instance.size for t in tasks],
            "needs_wait": [t.needs_wait for t in tasks],
        }
    repro.write_text(path, repro.dumps({"sizes": list(sizes), "sets": found}) + "\n")


def boards_sha256(tasks: Sequence[Task]) -> str:
    """Returns the hash of boards in their order."""
    return repro.json_sha256([t.instance.key for t in tasks])
