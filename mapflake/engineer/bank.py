"""A bank of real situations: runs from one checkpoint under random configurations, a situation after every round.

Situations of one run share weights and history, so they are held out by run, never by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mapflake import repro
from mapflake.engineer.backend import TrainingBackend
from mapflake.engineer.designers.rules import random_config
from mapflake.engineer.rounds import RoundSettings, Start, run_arm, run_round
from mapflake.engineer.situations import KindTable, Situation, TableParams, measure
from mapflake.env import Task


def bank_run(
    folder: Path,
    number: int,
    trainer: TrainingBackend,
    start: str | Path,
    validation: Sequence[Task],
    sizes: Sequence[int],
    params: TableParams,
    *,
    rounds: int,
    samples: int,
) -> list[Situation]:
    """Returns the situations of one run of the bank, the earliest first: trained and measured now, or as recorded.

    Args:
        folder: The run's folder.
        number: The run's number; configurations, boards and noise come from it.
        trainer: The training of a round.
        start: The checkpoint that all runs start from.
        validation: The boards of reports and of `alignment`.
        sizes: Board sizes that may be asked for.
        params: How much is sampled for the tables.
        rounds: Number of rounds, and of situations.
        samples: Completions a validation board.
    """
    own = repro.seed_for(number, "bank")
    settings = RoundSettings(folder, trainer, validation, own, samples, arm="bank", stale="replace")
    first = run_round(settings, (), start=Start(start, random_config(sizes, repro.rng_for(own, "round 0"))))
    history = run_arm("domain_randomisation", settings, (first,), rounds=rounds - 1, sizes=sizes)
    found = []
    for one in history:
        path = one.checkpoint.with_name("tables.json")
        key = [one.checkpoint_sha256, list(sizes), params.model_dump(), repro.code_sha256()]
        if not (path.is_file() and repro.read_json(path)["made_from"] == key):
            tables = measure(trainer.load(one.checkpoint), sizes, validation, params, seed=own)
            repro.write_json(path, {"made_from": key, "tables": {name: repro.to_json(t) for name, t in tables.items()}})
        rows = repro.read_json(path)["tables"]
        tables = {name: repro.from_json(KindTable, value, f"{path}: {name}") for name, value in rows.items()}
        found.append(Situation(one.report, history[: one.index + 1], tables, f"run {number}"))
    return found
