"""The record of a cell, an arm under one training seed: small, of one JSON file, and all that the analysis reads.

Within a seed every arm branches from the same round 0 and has the same budget, boards and sampling noise: arms are
paired. A record keeps one digit a board, the rounds with every prompt and reply, and the commit that made it; made
again at that commit, it is the same file. Checkpoints and rollouts stay in the run.
"""

from __future__ import annotations

import functools
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from mapflake import provenance, repro
from mapflake.engineer import History
from mapflake.env import Task, load_tasks
from mapflake.study.board_sets import boards_sha256
from mapflake.trainer import evaluate

METRICS = ("valid", "optimal", "soc_optimal")

MAKERS = (
    "mapflake.study.records",
    "mapflake.engineer.compact.base",
    "mapflake.engineer.rounds",
    "mapflake.engineer.bank",
    "mapflake.engineer.design_rl",
)
"""The modules that, with all that they import, decide a record."""


@dataclass(frozen=True)
class Outcomes:
    """Of `samples` answers to each board of a set: how many reach a metric, a digit a board.

    `boards_sha256` is the hash of the boards in their order, `soc_optimal` counts answers with the least sum of costs.
    """

    boards_sha256: str
    samples: int
    valid: str
    optimal: str
    soc_optimal: str


@dataclass(frozen=True)
class Made:
    """How a record came to be.

    Attributes:
        commit: HEAD of the repository; None outside one.
        clean: Whether nothing but results had been changed since that commit.
        code_sha256: From `code_sha256`.
        versions: From `provenance.versions`.
        corrected: What was corrected in the record since then, a sentence each; nothing measured is ever changed.
    """

    commit: str | None
    clean: bool
    code_sha256: str
    versions: dict[str, str]
    corrected: tuple[str, ...] = ()


@dataclass(frozen=True)
class Record:
    """One finished cell.

    Attributes:
        arm: The name of an arm (`engineer.params_of`), or one of `names.BEGINNINGS`.
        parameters: All parameters that decide the record, as JSON values: those of the run, and what the arm was run
            with (`engineer`, if it is named like one; `sizes`). `rounds` is the number of rounds after
            round 0, of `base` and `round_0` that of the arms.
        benchmark: Subset -> outcomes of the last checkpoint.
        validation: Outcomes of each measured checkpoint on the validation boards, the last one last.
        rounds: The arm's own rounds as rows of its ledger.
        made: How it came to be.
    """

    schema: Literal[2]
    arm: str
    seed: int
    parameters: dict[str, Any]
    benchmark: dict[str, Outcomes]
    validation: tuple[Outcomes, ...]
    rounds: tuple[dict[str, Any], ...]
    made: Made


def benchmark(
    policy: evaluate.Completer, boards_folder: str | Path, *, seed: int, samples: int, title: str = ""
) -> dict[str, list[evaluate.Rollout]]:
    """Returns rollouts of a policy at temperature 1, `samples` answers to each board of each subset of the benchmark.

    The subsets are in `boards_folder`, that of notebook 01. All policies of a training seed get the same noise.
    """
    return {
        name: evaluate.rollout(
            policy, tasks, samples=samples, seed=repro.seed_for(seed, "benchmark", name), progress=f"{title} {name}"
        )
        for name, tasks in _subsets(Path(boards_folder)).items()
    }


def write_record(
    path: str | Path,
    *,
    arm: str,
    seed: int,
    boards_folder: str | Path,
    benchmark: Mapping[str, Sequence[evaluate.Rollout]],
    validation: Sequence[Sequence[evaluate.Rollout]],
    history: History = (),
    parameters: Mapping[str, Any],
) -> None:
    """Writes the record of a cell to `path`, `<arm>-<seed>.json` in the folder of the run's records; see `Record`.

    `benchmark` is from the function of this name, of the last checkpoint, `validation` has the rollouts on the
    validation boards after each measured round, and `history` the arm's own rounds; what the arm was run with is read
    from the last one. `parameters` are those of the run, as JSON values.

    Raises:
        ValueError: The rollouts are not the same number of answers, 1 to 9, to each board in order.
    """
    folder = Path(boards_folder)
    boards = load_tasks(folder / "validation.jsonl")
    about = history[-1].parameters.get("about", {}) if history else {}
    record = Record(
        schema=2,
        arm=arm,
        seed=seed,
        parameters={**parameters, **about},
        benchmark={name: outcomes(benchmark[name], tasks) for name, tasks in _subsets(folder).items()},
        validation=tuple(outcomes(rollouts, boards) for rollouts in validation),
        rounds=tuple(repro.to_json(replace(round_, checkpoint=Path(), files={})) for round_ in history),
        made=made(),
    )
    repro.write_text(path, repro.dumps(repro.to_json(record), indent=1) + "\n")


def made() -> Made:
    """Returns how a record that is written now comes to be."""
    return Made(*_commit(), code_sha256(), provenance.versions())


def outcomes(rollouts: Sequence[evaluate.Rollout], tasks: Sequence[Task]) -> Outcomes:
    """Returns what came of rollouts, `[len(tasks) * samples]`, task-major; a board may be there twice.

    Raises:
        ValueError: The rollouts are not the same number of answers, 1 to 9, to each board in order.
    """
    samples = len(rollouts) // len(tasks)
    keys = [task.instance.key for task in tasks for _ in range(samples)]
    if not 1 <= samples <= 9 or [r.task.instance.key for r in rollouts] != keys:
        raise ValueError("a record takes the same number of answers to each board, 1 to 9, board after board")
    digits = {}
    for metric in METRICS:
        reached = [bool(getattr(r.verdict, metric)) for r in rollouts]
        digits[metric] = "".join(str(sum(reached[i : i + samples])) for i in range(0, len(reached), samples))
    return Outcomes(boards_sha256(tasks), samples, **digits)


@functools.cache
def code_sha256() -> str:
    """Returns one hash of the code that decides a record."""
    hashes = {"package": provenance.code_sha256(*MAKERS)}
    for notebook in sorted((provenance.PACKAGE.parent / "notebooks").glob("0[12345]*.ipynb")):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        hashes[notebook.name] = repro.json_sha256(["".join(c["source"]) for c in cells if c["cell_type"] == "code"])
    return repro.json_sha256(hashes)


def _commit() -> tuple[str | None, bool]:
    """Returns HEAD of the repository that has the package, and whether only results have been changed since.

    None and False if no repository has it: an installed copy may lie in a folder that a repository ignores.
    """

    def git(*command: str) -> str:
        at = ["git", "-C", str(provenance.PACKAGE.parent)]
        return subprocess.run([*at, *command], capture_output=True, text=True, check=True).stdout.strip()

    results = (":!reports", ":!runs", ":!dvc.lock", ":!params.yaml")  # parameters are in the record
    try:
        git("ls-files", "--error-unmatch", "--", str(provenance.PACKAGE / "__init__.py"))
        return git("rev-parse", "HEAD"), not git("status", "--porcelain", "--", ".", *results)
    except (OSError, subprocess.CalledProcessError):
        return None, False


def _subsets(boards_folder: Path) -> dict[str, list[Task]]:
    names = repro.read_json(boards_folder / "settings.json")["subsets"]
    return {name: load_tasks(boards_folder / f"benchmark_{name}.jsonl") for name in names}
