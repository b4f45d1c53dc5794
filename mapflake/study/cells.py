"""One cell of the study: an arm under one seed, trained, measured and written down small.

All seeds branch from one base model (notebook 02's warm start), as all runs of the paper begin with one Qwen3-4B: a
seed decides the first random configuration, all boards and all sampling. Within a seed every arm branches from the same
round 0, has the same budget, the same evaluation boards and the same sampling noise, so arms are paired.

A cell is a measurement: it depends on what `parameters` names, the boards and the weights that it starts from, and
keeps the hash of the code that took it. Changing the code does not take it again (`dvc repro -f` does). Checkpoints are
not part of it.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mapflake import repro
from mapflake.engineer import (
    ARMS,
    EngineerParams,
    Grpo,
    History,
    Ledger,
    Round,
    RoundSettings,
    Start,
    random_config,
    run_arm,
    run_round,
)
from mapflake.env import Task, load_tasks
from mapflake.repro import ParamError, rng_for, seed_for
from mapflake.trainer import evaluate
from mapflake.trainer.grpo import RLParams

SCHEMA = 1
METRICS = ("valid", "optimal", "soc_optimal")

CODE = ("repro.py", "env", "trainer", "engineer", "study/cells.py")
"""What of the package decides a cell."""


class StudyError(ValueError):
    """Cells that cannot be read, or do not belong together; the message names the file and what is wrong."""


@dataclass(frozen=True)
class Inputs:
    """Where a study finds what it starts from and leaves what it makes; all folders are created as needed.

    Attributes:
        parameters: Folder of `<arm>.json`, what `parameters` gave.
        boards: Folder of notebook 01's boards.
        base: The base model's checkpoint, or its name on the Hugging Face hub.
        runs: Large files: round 0 of every seed, and unfinished cells.
        cells: Small ones: a folder `<arm>-<seed>` for each finished cell.
    """

    parameters: Path
    boards: Path
    base: str | Path
    runs: Path
    cells: Path


def measure_round_0(inputs: Inputs, seed: int) -> None:
    """Trains round 0 of a seed and measures it and the base model: cells `warm_start-<seed>` and `round_0-<seed>`."""
    given, began = _given(inputs, "round_0"), time.process_time()
    settings, first = _round_0(inputs, seed)
    measured = _benchmark(inputs, first.checkpoint, settings, given)
    _write(inputs, "round_0", seed, given, measured, _validation((first,)), began, settings.ledger)
    began = time.process_time()
    policy = settings.trainer.load(inputs.base)
    rollouts = evaluate.rollout(
        policy, settings.validation, samples=settings.samples, seed=seed_for(seed, "validation")
    )
    before = outcomes(rollouts, settings.validation)
    _write(inputs, "warm_start", seed, given, _benchmark(inputs, inputs.base, settings, given), [before], began)


def measure_arm(inputs: Inputs, arm: str, seed: int) -> None:
    """Runs the rounds of an arm from round 0 of the seed and measures the last checkpoint: cell `<arm>-<seed>`.

    An interrupted one goes on where it stopped, if parameters and code are the same. Round 0 is trained again where
    only its cell is left: a clone has the cells, not the checkpoints.

    Raises:
        FileNotFoundError: Round 0 of the seed was not measured.
        StudyError: Trained again, round 0 is not the one that was measured.
    """
    given = _given(inputs, arm)
    cell = inputs.cells / f"round_0-{seed}" / "rounds.jsonl"
    if not cell.is_file():
        raise FileNotFoundError(f"{cell} is missing: run round_0 of seed {seed} first")
    _, first = _round_0(inputs, seed)
    (measured,) = Ledger(cell).rounds
    if first.checkpoint_sha256 != measured.checkpoint_sha256:
        raise StudyError(
            f"{cell}: round 0 has the weights {measured.checkpoint_sha256[:12]}, and trained here "
            f"{first.checkpoint_sha256[:12]} (another processor, other versions, other code?); all cells of a seed "
            f"branch from one: `dvc repro -f reports/study/dvc.yaml:round_0@{seed}` makes the one from here theirs"
        )
    settings, began = _settings(inputs, arm, seed, given), time.process_time()
    asked = given["engineer"]
    history = run_arm(
        arm,
        settings,
        (first,),
        rounds=given["rounds"],
        sizes=_sizes(inputs),
        base=inputs.base,
        params=None if asked is None else EngineerParams.parse(asked, "engineer"),
        designers=None if arm in ARMS else {arm: {}},  # `asked` says it all
    )
    final = _benchmark(inputs, history[-1].checkpoint, settings, given)
    _write(inputs, arm, seed, given, final, _validation(history[1:]), began, settings.ledger)
    shutil.rmtree(settings.folder)


def write_boards(inputs: Inputs) -> None:
    """Writes `boards.json` beside the cells: what is behind each digit of an outcome, in the same order.

    `board` numbers the boards of all sets; one that is in several sets has one number.
    """
    sets: dict[str, Any] = {}
    numbers: dict[str, int] = {}
    for name, tasks in {"validation": _validation_boards(inputs), **_subsets(inputs)}.items():
        sets[name] = {
            "sha256": _boards_sha256(tasks),
            "board": [numbers.setdefault(t.instance.key, len(numbers)) for t in tasks],
            "agents": [t.instance.num_agents for t in tasks],
            "size": [t.instance.size for t in tasks],
            "needs_wait": [int(t.needs_wait) for t in tasks],
        }
    found = {"sizes": _sizes(inputs), "sets": sets}
    repro.write_text(inputs.cells.parent / "boards.json", repro.dumps(found) + "\n")


# ---------------------------------------------------------------- pieces


def code_sha256() -> str:
    """Returns one hash of the code that decides a cell."""
    package = Path(repro.__file__).parent
    files = [f for name in CODE for f in ([package / name] if name.endswith(".py") else (package / name).rglob("*"))]
    kept = sorted(f for f in files if f.suffix in (".py", ".c", ".h"))
    return repro.json_sha256({f.relative_to(package).as_posix(): repro.file_sha256(f) for f in kept})


def _given(inputs: Inputs, arm: str) -> dict[str, Any]:
    path = inputs.parameters / f"{arm}.json"
    if not path.is_file():
        raise ParamError(
            f"{path} is missing: {arm!r} is no arm of the study in params.yaml, or `dvc repro` has not run"
        )
    return repro.read_json(path)


def _round_0(inputs: Inputs, seed: int) -> tuple[RoundSettings, Round]:
    """Returns round 0 of a seed, trained if it is not here; one process trains, the others of the seed wait for it."""
    with repro.single_writer(inputs.runs / f"round_0-{seed}.lock", wait=True):
        settings = _settings(inputs, "round_0", seed, _given(inputs, "round_0"))
        config = random_config(_sizes(inputs), rng_for(seed, "round 0"))
        return settings, run_round(settings, (), start=Start(inputs.base, config))


def _settings(inputs: Inputs, arm: str, seed: int, given: Mapping[str, Any]) -> RoundSettings:
    """Returns how the rounds of a cell are run, in a folder of its own: empty, or as the same cell was left there."""
    import torch

    rl = RLParams.parse(given["rl"], "rl")
    torch.set_num_threads(rl.threads)  # sums are rounded differently with another number
    trainer, boards, folder = Grpo(rl), _validation_boards(inputs), inputs.runs / f"{arm}-{seed}"
    key = repro.json_sha256([given, seed, code_sha256(), trainer.sha256(inputs.base), _boards_sha256(boards)])
    if not (folder / ".key").is_file() or (folder / ".key").read_text() != key:
        shutil.rmtree(folder, ignore_errors=True)
        repro.write_text(folder / ".key", key)
    return RoundSettings(folder, trainer, boards, seed, samples=given["samples"]["validation"])


def _sizes(inputs: Inputs) -> list[int]:
    return repro.read_json(inputs.boards / "settings.json")["sizes"]


def _validation_boards(inputs: Inputs) -> list[Task]:
    return load_tasks(inputs.boards / "validation.jsonl")


def _subsets(inputs: Inputs) -> dict[str, list[Task]]:
    names = repro.read_json(inputs.boards / "settings.json")["subsets"]
    return {name: load_tasks(inputs.boards / f"benchmark_{name}.jsonl") for name in names}


def _boards_sha256(tasks: Sequence[Task]) -> str:
    return repro.json_sha256([t.instance.key for t in tasks])


def _benchmark(
    inputs: Inputs, checkpoint: str | Path, settings: RoundSettings, given: Mapping[str, Any]
) -> dict[str, Any]:
    policy, found = settings.trainer.load(checkpoint), {}
    for name, tasks in _subsets(inputs).items():
        seed, about = seed_for(settings.seed, "benchmark", name), f"seed {settings.seed}: {name}"
        rollouts = evaluate.rollout(policy, tasks, samples=given["samples"]["benchmark"], seed=seed, progress=about)
        found[name] = outcomes(rollouts, tasks)
    return found


def _validation(history: History) -> list[dict[str, Any]]:
    found = []
    for one in history:
        rollouts = evaluate.load_rollouts(one.files["rollouts"])
        found.append(outcomes(rollouts, [r.task for r in rollouts if r.sample == 0]))
    return found


def outcomes(rollouts: Sequence[evaluate.Rollout], tasks: Sequence[Task]) -> dict[str, Any]:
    """Returns for each metric one digit a board: in how many of its samples it was reached.

    Args:
        rollouts: `[len(tasks) * samples]`, task-major, at most 9 samples.
        tasks: The boards; one may be there twice.

    Raises:
        ValueError: The rollouts are not those.
    """
    samples = len(rollouts) // len(tasks)
    keys = [task.instance.key for task in tasks for _ in range(samples)]
    if samples > 9 or [r.task.instance.key for r in rollouts] != keys:
        raise ValueError("outcomes takes the same number of answers to each board, at most 9, board after board")
    digits = {}
    for metric in METRICS:
        reached = [bool(getattr(r.verdict, metric)) for r in rollouts]
        digits[metric] = "".join(str(sum(reached[i : i + samples])) for i in range(0, len(reached), samples))
    return {"boards_sha256": _boards_sha256(tasks), "samples": samples, **digits}


def _write(
    inputs: Inputs,
    arm: str,
    seed: int,
    given: Mapping[str, Any],
    benchmark: Mapping[str, Any],
    validation: Sequence[Mapping[str, Any]],
    began: float,
    ledger: Ledger | None = None,
) -> None:
    """Writes the cell: its rounds, if it has any, then `cell.json`."""
    cell = inputs.cells / f"{arm}-{seed}"
    cell.mkdir(parents=True, exist_ok=True)
    curves = []
    if ledger is not None:
        shutil.copyfile(ledger.path, cell / "rounds.jsonl")
        for one in ledger.rounds:
            rows = repro.read_jsonl(one.checkpoint / "curve.jsonl")
            curves.append([round(row["rewards/valid/mean"], 4) for row in rows])
    found = {
        "schema": SCHEMA,
        **given,
        "arm": arm,
        "seed": seed,
        "benchmark": benchmark,
        "validation": validation,
        "training_valid": curves,
        "cpu_minutes": round((time.process_time() - began) / 60, 1),
        "code_sha256": code_sha256(),
        "versions": repro.versions(),
    }
    repro.write_text(cell / "cell.json", repro.dumps(found, indent=1) + "\n")
