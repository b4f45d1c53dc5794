"""A study that never ran: records of arms whose effects are known, on boards that are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mapflake import repro, study
from mapflake.repro import rng_for
from mapflake.study.names import BASE, ROUND_0
from mapflake.study.records import METRICS

AGENTS, BOARDS, SAMPLES = (2, 3), 80, 8


def simulate(folder: Path, effects: Mapping[str, float], *, seeds: Sequence[int] = (0, 1, 2, 3, 4)) -> Path:
    """Writes boards.json and a record for each arm and seed; an arm solves `0.4 + effect` of all answers.

    Validation has half of `BOARDS` boards, each of the two subsets of the benchmark as many others.
    """
    sets = {}
    for i, name in enumerate(("validation", "wr025", "wr050")):
        half = range(i * BOARDS // 2, (i + 1) * BOARDS // 2)
        about = {"agents": [AGENTS[b % 2] for b in half], "size": [3 + b % 4 // 2 for b in half]}
        about["needs_wait"] = [b % 8 < 4 for b in half]
        sets[name] = {"sha256": f"sha of {name}", "board": list(half), **about}
    repro.write_json(folder / "boards.json", {"sizes": [3, 4], "sets": sets})
    made = {"commit": "c0ffee", "clean": True, "code_sha256": "s", "versions": {"python": "3"}}
    parameters = {"samples": SAMPLES, "rounds": 2, "rl": {"instances": 8, "epochs": 1, "generations": 4}}
    for arm, effect in {BASE: -0.2, ROUND_0: 0.0, **effects}.items():
        for seed in seeds:
            rng = rng_for(seed, "simulated", arm)
            outcomes: dict[str, dict[str, Any]] = {}
            for name in sets:
                digits = {m: "".join(map(str, rng.binomial(SAMPLES, 0.4 + effect, BOARDS // 2))) for m in METRICS}
                outcomes[name] = {"boards_sha256": f"sha of {name}", "samples": SAMPLES, **digits}
            validation = [outcomes.pop("validation")] * (1 if arm in (BASE, ROUND_0) else 2)
            record = {"schema": 2, "arm": arm, "seed": seed, "parameters": parameters, "made": made}
            record |= {"validation": validation, "benchmark": outcomes, "rounds": []}
            repro.write_json(folder / f"{arm}-{seed}.json", record)
    return folder


def changed(found: study.Study, arm: str, rounds: Callable[[int, Any], list[dict[str, Any]]]) -> study.Study:
    """Returns the study with other rounds of an arm: those that a function makes of a seed and its record."""
    records = {
        key: replace(record, rounds=rounds(key[1], record)) for key, record in found.records.items() if key[0] == arm
    }
    return study.Study({**found.records, **records}, found.sets)
