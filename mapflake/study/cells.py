"""One cell of the study: an arm under one seed, trained, measured and written down small.

All seeds branch from one base model (notebook 02's warm start), as all runs of the paper begin with one Qwen3-4B: a
seed decides the first random configuration, all boards and all sampling. Within a seed every arm branches from the same
round 0, has the same budget, the same evaluation boards and the same sampling noise, so arms are paired.

A cell is a measurement: it depends on what `parameters` names, the boards and the weights that it starts from, and
keeps the hash of the code that took it. Changing the code does not take it again (`dvc repro -f` does). Checkpoints of
arms are not kept.
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
    RoundSettings,
    Start,
    params_of,
    random_config,
    run_arm,
    run_round,
)
from mapflake.env import Task, load_tasks
from mapflake.repro import ParamError, Params, rng_for, seed_for
from mapflake.trainer import evaluate
from mapflake.trainer.grpo import RLParams

SCHEMA = 1
METRICS = ("valid", "optimal", "soc_optimal")
BEGINNINGS = ("warm_start", "round_0")
"""What all arms of a seed have in common, measured as if they were arms."""

CODE = ("repro.py", "env", "trainer", "engineer", "study/cells.py")
"""What of the package decides a cell."""


class Group(Params):
    """Arms, and the seeds that each of them is run under."""

    arms: list[str]
    seeds: list[int]


class StudyParams(Params):
    """The section `study` of params.yaml.

    Attributes:
        primary: The arms of the questions asked beforehand.
        secondary: Further arms, under fewer seeds.
        rounds: After round 0.
        samples: Completions of each benchmark board, at temperature 1.
    """

    primary: Group
    secondary: Group
    rounds: int
    samples: int


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


def parameters(
    arm: str,
    study: StudyParams,
    rl: RLParams,
    samples: int,
    engineer: EngineerParams,
    designers: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Returns all parameters that decide the cells of an arm, as JSON values, and nothing else.

    So a change elsewhere in params.yaml, one more arm or seed, takes no cell again.

    Args:
        arm: A name of `engineer.ARMS` or `designers`, or "round_0".
        study: Rounds and samples.
        rl: The budget of a round.
        samples: Completions of each validation board.
        engineer: How a model engineer is asked.
        designers: Model engineers of one's own.
    """
    asked = None if arm in BEGINNINGS else params_of(arm, engineer, designers)
    return {
        "arm": arm,
        "engineer": None if asked is None else asked.model_dump(mode="json"),
        "rl": rl.model_dump(mode="json"),
        "rounds": 0 if arm in BEGINNINGS else study.rounds,
        "samples": {"validation": samples, "benchmark": study.samples},
    }


def measure_beginning(inputs: Inputs, seed: int) -> None:
    """Trains round 0 of a seed and measures it and the base model: cells `warm_start-<seed>` and `round_0-<seed>`.

    Leaves round 0 in `inputs.runs/round_0/<seed>`, from where all arms branch.
    """
    given, began = _given(inputs, "round_0"), time.process_time()
    work = _work(inputs, "round_0", seed, given)
    settings, sizes = _settings(inputs, work, seed, given)
    policy = settings.trainer.load(inputs.base)
    before = _rollouts(policy, settings.validation, settings.samples, seed_for(seed, "validation"))
    _write(inputs, "warm_start", seed, given, _benchmark(inputs, policy, seed, given), [before], began)
    began = time.process_time()
    config = random_config(sizes, rng_for(seed, "round 0"))
    first = run_round(settings, (), start=Start(inputs.base, config))
    policy = settings.trainer.load(first.checkpoint)
    _write(inputs, "round_0", seed, given, _benchmark(inputs, policy, seed, given), _validation((first,)), began, work)
    final = inputs.runs / "round_0" / str(seed)
    shutil.rmtree(final, ignore_errors=True)
    final.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(work, final)


def measure_arm(inputs: Inputs, arm: str, seed: int) -> None:
    """Runs the rounds of an arm from round 0 of the seed and measures the last checkpoint: cell `<arm>-<seed>`.

    An interrupted one goes on where it stopped, if parameters and code are the same.

    Raises:
        FileNotFoundError: Round 0 of the seed is not there.
    """
    given, began = _given(inputs, arm), time.process_time()
    ledger = inputs.runs / "round_0" / str(seed) / "rounds.jsonl"
    if not ledger.is_file():
        raise FileNotFoundError(f"{ledger} is missing: run round_0 of seed {seed} first")
    work = _work(inputs, arm, seed, given)
    settings, sizes = _settings(inputs, work, seed, given)
    asked = given["engineer"]
    history = run_arm(
        arm,
        settings,
        Ledger(ledger).rounds,
        rounds=given["rounds"],
        sizes=sizes,
        base=inputs.base,
        params=None if asked is None else EngineerParams.parse(asked, "engineer"),
        designers=None if arm in ARMS else {arm: {}},  # `asked` says it all
    )
    policy = settings.trainer.load(history[-1].checkpoint)
    measured = _benchmark(inputs, policy, seed, given)
    _write(inputs, arm, seed, given, measured, _validation(history[1:]), began, work)
    shutil.rmtree(work)


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


def _work(inputs: Inputs, arm: str, seed: int, given: Mapping[str, Any]) -> Path:
    """Returns the folder of an unfinished cell; what other parameters or another code left there is thrown away."""
    work = inputs.runs / "work" / f"{arm}-{seed}"
    key = repro.json_sha256([given, seed, code_sha256()])
    if not (work / ".key").is_file() or (work / ".key").read_text() != key:
        shutil.rmtree(work, ignore_errors=True)
        repro.write_text(work / ".key", key)
    return work


def _settings(inputs: Inputs, work: Path, seed: int, given: Mapping[str, Any]) -> tuple[RoundSettings, list[int]]:
    import torch

    rl = RLParams.parse(given["rl"], "rl")
    torch.set_num_threads(rl.threads)  # sums are rounded differently with another number
    settings = RoundSettings(work, Grpo(rl), _validation_boards(inputs), seed, samples=given["samples"]["validation"])
    return settings, _sizes(inputs)


def _sizes(inputs: Inputs) -> list[int]:
    return repro.read_json(inputs.boards / "settings.json")["sizes"]


def _validation_boards(inputs: Inputs) -> list[Task]:
    return load_tasks(inputs.boards / "validation.jsonl")


def _subsets(inputs: Inputs) -> dict[str, list[Task]]:
    names = repro.read_json(inputs.boards / "settings.json")["subsets"]
    return {name: load_tasks(inputs.boards / f"benchmark_{name}.jsonl") for name in names}


def _boards_sha256(tasks: Sequence[Task]) -> str:
    return repro.json_sha256([t.instance.key for t in tasks])


def _rollouts(policy: Any, tasks: Sequence[Task], samples: int, seed: int, progress: str = "") -> dict[str, Any]:
    return outcomes(evaluate.rollout(policy, tasks, samples=samples, seed=seed, progress=progress), tasks)


def _benchmark(inputs: Inputs, policy: Any, seed: int, given: Mapping[str, Any]) -> dict[str, Any]:
    samples = given["samples"]["benchmark"]
    return {
        name: _rollouts(policy, tasks, samples, seed_for(seed, "benchmark", name), f"seed {seed}: {name}")
        for name, tasks in _subsets(inputs).items()
    }


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
    work: Path | None = None,
) -> None:
    """Writes the cell: its rounds, if it has any, then `cell.json`."""
    cell = inputs.cells / f"{arm}-{seed}"
    cell.mkdir(parents=True, exist_ok=True)
    curves = []
    if work is not None:
        shutil.copyfile(work / "rounds.jsonl", cell / "rounds.jsonl")
        for one in Ledger(work / "rounds.jsonl").rounds:
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
