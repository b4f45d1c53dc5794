"""A study that never ran: records of arms whose effects are known, on boards that are numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mapflake import repro
from mapflake.repro import rng_for
from mapflake.study.names import BASE, ROUND_0
from mapflake.study.records import METRICS

AGENTS = (2, 3)


def simulate(
    folder: Path,
    effects: Mapping[str, float],
    *,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    boards: int = 80,
    samples: int = 8,
) -> Path:
    """Writes boards.json and a record for each arm and seed; an arm solves `0.4 + effect` of all answers.

    Each set has every second of `boards` boards, so that the two subsets share none, and validation has its own.
    """
    sets = {}
    for i, name in enumerate(("validation", "wr025", "wr050")):
        half = range(i * boards // 2, (i + 1) * boards // 2)
        about = {"agents": [AGENTS[b % 2] for b in half], "size": [3 + b % 4 // 2 for b in half]}
        about["needs_wait"] = [b % 8 < 4 for b in half]
        sets[name] = {"sha256": f"sha of {name}", "board": list(half), **about}
    repro.write_json(folder / "boards.json", {"sizes": [3, 4], "sets": sets})
    made = {"commit": "c0ffee", "clean": True, "code_sha256": "s", "versions": {"python": "3"}}
    for arm, effect in {BASE: -0.2, ROUND_0: 0.0, **effects}.items():
        for seed in seeds:
            rng = rng_for(seed, "simulated", arm)
            values: dict[str, Any] = {
                name: {"boards_sha256": f"sha of {name}", "samples": samples}
                | {m: _digits(rng, 0.4 + effect, boards // 2, samples) for m in METRICS}
                for name in sets
            }
            rounds = 1 if arm in (BASE, ROUND_0) else 2
            parameters = {"samples": samples, "rounds": 2, "rl": {"instances": 8, "epochs": 1, "generations": 4}}
            record = {"schema": 2, "arm": arm, "seed": seed, "parameters": parameters}
            record |= {"validation": [values.pop("validation")] * rounds, "benchmark": values}
            record |= {"rounds": [], "made": made}
            repro.write_json(folder / f"{arm}-{seed}.json", record)
    return folder


def _digits(rng: np.random.Generator, rate: float, boards: int, samples: int) -> str:
    return "".join(map(str, rng.binomial(samples, rate, boards)))
