"""A bank of real situations: runs from a student each under random configurations, a situation after every round.

Situations of one run share weights and history, so they are held out by run, never by row. If all runs trained in the
same way, their policies would be similar in the end, and no design could be better for one report than for another. So
with a recipe of supervised training each run has a range of sizes of its own, and some runs master sizes that others
have hardly seen (our choice; reports/log.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mapflake import repro
from mapflake.engineer.backend import Grpo, Supervised, TrainingBackend
from mapflake.engineer.compact.base import BaseParams, StudentParams, student_of
from mapflake.engineer.designers.rules import random_config
from mapflake.engineer.rounds import RoundSettings, Start, run_arm, run_round
from mapflake.engineer.situations import KindTable, Situation, TableParams, measure
from mapflake.env import Task
from mapflake.provenance import code_sha256
from mapflake.repro import Params
from mapflake.trainer.params import WarmStartParams


class BankParams(Params):
    """The runs of a bank.

    Attributes:
        rounds: Rounds of a run, and situations that it gives.
        training: Recipe of a round, supervised; None: GRPO as in the arms, on all sizes.
        ages: Ages of the students that the runs start from, in turn.
    """

    rounds: int = Field(ge=1)
    training: WarmStartParams | None = None
    ages: list[Annotated[int, Field(ge=0)]] = Field(default=[0], min_length=1)


def bank_start(
    base: BaseParams,
    students: StudentParams,
    params: BankParams,
    warm_start: str | Path,
    boards: Path,
    folder: Path,
    number: int,
) -> str | Path:
    """Returns the checkpoint that a run of the bank starts from: a student (`student_of`) with lessons of its own."""
    bank_base = base.model_copy(update={"seed": repro.seed_for(base.seed, "bank")})
    bank_students = students.model_copy(update={"ages": params.ages})
    return student_of(bank_base, bank_students, warm_start, boards, folder / "student", seed=number)


def bank_run(
    folder: Path,
    number: int,
    trainer: TrainingBackend,
    start: str | Path,
    validation: Sequence[Task],
    sizes: Sequence[int],
    params: BankParams,
    tables: TableParams,
    *,
    samples: int,
) -> list[Situation]:
    """Returns the situations of one run of the bank, the earliest first: trained and measured now, or as recorded.

    Configurations, boards and noise come from the run's `number`, `start` is of `bank_start`, and `sizes` may be asked
    for. Where `params` have a supervised recipe, the `trainer` only says how policies sample. `samples` are completions
    a validation board.
    """
    seed, run_sizes = repro.seed_for(number, "bank"), list(sizes)
    if params.training:
        validated = sorted({task.instance.size for task in validation})
        trainer, run_sizes = Supervised(trainer, params.training), sizes_of_run(number, validated)
    settings = RoundSettings(folder, trainer, validation, seed, samples, arm="bank", stale="replace")
    first = run_round(settings, (), start=Start(start, random_config(run_sizes, repro.rng_for(seed, "round 0"))))
    history = run_arm("domain_randomisation", settings, (first,), rounds=params.rounds - 1, sizes=run_sizes)
    situations = []
    for past_round in history:
        path = past_round.checkpoint.with_name("tables.json")
        code = code_sha256("mapflake.engineer.bank")  # sampling's too: a policy may be the same where that has changed
        key = [past_round.checkpoint_sha256, list(sizes), tables.model_dump(), trainer.describe(), code]
        if not (path.is_file() and repro.read_json(path)["made_from"] == key):
            values = [*map(repro.to_json, measure(trainer.load(past_round.checkpoint), sizes, tables, seed=seed))]
            repro.write_json(path, {"made_from": key, "tables": values})
        success, learnability = (repro.from_json(KindTable, v, str(path)) for v in repro.read_json(path)["tables"])
        situations.append(
            Situation(past_round.report, history[: past_round.index + 1], success, learnability, f"run {number}")
        )
    return situations


def sizes_of_run(number: int, sizes: Sequence[int]) -> list[int]:
    """Returns the sizes that a run's configurations may ask for: from one random size to another."""
    low, high = sorted(repro.rng_for(number, "sizes of the run").integers(len(sizes), size=2))
    return sorted(sizes)[low : high + 1]


def round_cost(trainer: Grpo, params: BankParams, validation: int) -> dict[str, int]:
    """Returns what a round of a run takes: rollouts, `validation` among them, and boards that are shown solved."""
    if params.training:
        return {"rollouts": validation, "demonstrations": Supervised(trainer, params.training).instances}
    rl = trainer.params
    return {"rollouts": validation + rl.instances * rl.epochs * rl.generations}
