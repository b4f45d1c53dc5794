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

import numpy as np
import pandas as pd

from mapflake import repro
from mapflake.engineer import History, Round
from mapflake.env import Task, load_tasks
from mapflake.study.names import APART, BEGINNINGS, METRICS, NAMES, ROUND_0
from mapflake.trainer import evaluate

UNMADE = (":!reports", ":!runs", ":!dvc.lock", ":!params.yaml")
"""Files that a pipeline itself changes in the repository; parameters are in the record."""


@dataclass(frozen=True)
class Outcomes:
    """What came of the answers to a set of boards.

    Attributes:
        boards_sha256: Hash of the boards in their order.
        samples: Answers to each board.
        valid: A digit a board: how many of its answers are valid.
        optimal: The same for optimal answers.
        soc_optimal: The same for answers with the least sum of costs.
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
        code_sha256: Hash of the code that decides a record.
        versions: Python and the packages that compute.
    """

    commit: str | None
    clean: bool
    code_sha256: str
    versions: dict[str, str]


@dataclass(frozen=True)
class Record:
    """One finished cell.

    Attributes:
        schema: Version of the format.
        arm: A name of `engineer.ARMS`, a designer of one's own, or one of `names.BEGINNINGS`.
        seed: Training seed.
        parameters: All parameters that decide the record, as JSON values.
        benchmark: Subset, or "held_out" -> outcomes of the last checkpoint.
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


# ---------------------------------------------------------------- writing


def benchmark(
    policy: evaluate.Completer, boards_folder: str | Path, *, seed: int, samples: int, title: str = ""
) -> dict[str, list[evaluate.Rollout]]:
    """Returns rollouts of a policy on each subset of the benchmark; all policies of a seed get the same noise.

    Args:
        policy: Asked at temperature 1.
        boards_folder: Notebook 01's, with settings.json and `benchmark_<subset>.jsonl`.
        seed: Training seed.
        samples: Answers to each board, at most 9 for `write_record`.
        title: Of the progress bar.
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
    """Writes the record of a cell.

    Args:
        path: `<arm>-<seed>.json` in the folder of the run's records.
        arm: See `Record`, for `seed` and `parameters` too.
        seed: Training seed.
        boards_folder: Notebook 01's.
        benchmark: From `benchmark`, of the last checkpoint.
        validation: Rollouts on the validation boards after each measured round.
        history: The arm's own rounds.
        parameters: As JSON values.

    Raises:
        ValueError: The rollouts are not the same number of answers, 1 to 9, to each board in order.
    """
    folder = Path(boards_folder)
    checked = load_tasks(folder / "validation.jsonl")
    record = Record(
        schema=2,
        arm=arm,
        seed=seed,
        parameters=dict(parameters),
        benchmark={name: outcomes(benchmark[name], tasks) for name, tasks in _subsets(folder).items()},
        validation=tuple(outcomes(found, checked) for found in validation),
        rounds=tuple(repro.to_json(replace(one, checkpoint=Path(), files={})) for one in history),
        made=made(),
    )
    repro.write_text(path, repro.dumps(repro.to_json(record), indent=1) + "\n")


def made() -> Made:
    """Returns how a record that is written now comes to be."""
    return Made(*_commit(), code_sha256(), repro.versions())


def write_boards(path: str | Path, sizes: Sequence[int], sets: Mapping[str, Sequence[Task]]) -> None:
    """Writes what is behind each digit of all outcomes.

    Args:
        path: boards.json in the folder of notebook 01.
        sizes: Board sizes of the study.
        sets: "validation", "held_out" and each subset of the benchmark -> its boards. A board in several sets gets one
            number.
    """
    numbers: dict[str, int] = {}
    found = {}
    for name, tasks in sets.items():
        found[name] = {
            "sha256": _boards_sha256(tasks),
            "board": [numbers.setdefault(t.instance.key, len(numbers)) for t in tasks],
            "agents": [t.instance.num_agents for t in tasks],
            "size": [t.instance.size for t in tasks],
        }
    repro.write_text(path, repro.dumps({"sizes": list(sizes), "sets": found}) + "\n")


def outcomes(rollouts: Sequence[evaluate.Rollout], tasks: Sequence[Task]) -> Outcomes:
    """Returns for each metric one digit a board: how many of its answers reach it.

    Args:
        rollouts: `[len(tasks) * samples]`, task-major, at most 9 samples.
        tasks: The boards; one may be there twice.

    Raises:
        ValueError: The rollouts are not those.
    """
    samples = len(rollouts) // len(tasks)
    keys = [task.instance.key for task in tasks for _ in range(samples)]
    if not 1 <= samples <= 9 or [r.task.instance.key for r in rollouts] != keys:
        raise ValueError("a record takes the same number of answers to each board, 1 to 9, board after board")
    digits = {}
    for metric in METRICS:
        reached = [bool(getattr(r.verdict, metric)) for r in rollouts]
        digits[metric] = "".join(str(sum(reached[i : i + samples])) for i in range(0, len(reached), samples))
    return Outcomes(_boards_sha256(tasks), samples, **digits)


@functools.cache
def code_sha256() -> str:
    """Returns one hash of the code that decides a record."""
    found = {"package": repro.code_sha256(*repro.DECIDING, "study/records.py")}
    for notebook in sorted((Path(repro.__file__).parent.parent / "notebooks").glob("0[12346]*.ipynb")):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        found[notebook.name] = repro.json_sha256(["".join(c["source"]) for c in cells if c["cell_type"] == "code"])
    return repro.json_sha256(found)


def _commit() -> tuple[str | None, bool]:
    """Returns HEAD of the repository that holds the package, and whether only results have been changed since."""

    def git(*command: str) -> str:
        at = ["git", "-C", str(Path(repro.__file__).parent.parent)]
        return subprocess.run([*at, *command], capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD"), not git("status", "--porcelain", "--", ".", *UNMADE)
    except (OSError, subprocess.CalledProcessError):
        return None, False


def _subsets(boards_folder: Path) -> dict[str, list[Task]]:
    names = repro.read_json(boards_folder / "settings.json")["subsets"]
    return {name: load_tasks(boards_folder / f"benchmark_{name}.jsonl") for name in names}


def _boards_sha256(tasks: Sequence[Task]) -> str:
    return repro.json_sha256([t.instance.key for t in tasks])


# ---------------------------------------------------------------- reading


@dataclass(frozen=True, eq=False)
class Study:
    """Finished cells that belong together; rates are mean shares of the samples, `[seeds, boards]`.

    Attributes:
        records: (arm, seed) -> record.
        sets: "validation", "held_out" (may be missing) and each subset of the benchmark -> a row a board: board (its
            number), agents, size.
    """

    records: Mapping[tuple[str, int], Record]
    sets: Mapping[str, pd.DataFrame]

    @property
    def arms(self) -> list[str]:
        """Arms with a finished cell in the order of tables, without what all arms begin with."""
        order = [*NAMES]
        arms = {arm for arm, _ in self.records} - {*BEGINNINGS}
        return sorted(arms, key=lambda arm: (order.index(arm) if arm in NAMES else len(order), arm))

    @functools.cached_property
    def boards(self) -> pd.DataFrame:
        """Agents and size of each board of the benchmark, by its number."""
        rows = pd.concat([rows for name, rows in self.sets.items() if name not in APART])
        return rows.drop_duplicates("board").set_index("board").sort_index()

    def seeds(self, arm: str) -> list[int]:
        """Returns the seeds under which an arm is finished."""
        return sorted(seed for one, seed in self.records if one == arm)

    def benchmark(self, arm: str, metric: str, **chosen: int) -> pd.DataFrame:
        """Returns an arm's rates on the benchmark, `[seeds, boards]`; a board in several subsets is one.

        Args:
            arm: One of `arms`, or what all begin with.
            metric: One of `names.METRICS`.
            chosen: Only boards of these, e.g. `agents=2`.
        """
        found = self._rates(arm, metric, "benchmark")
        for key, value in chosen.items():
            found = found.loc[:, (self.boards[key].loc[found.columns] == value).to_numpy()]
        return found

    def validation(self, arm: str, metric: str, index: int = -1) -> pd.DataFrame:
        """Returns an arm's rates on the validation boards, `[seeds, boards]`, after its `index`-th measured round."""
        return self._rates(arm, metric, "validation", index)

    def held_out(self, arm: str, metric: str) -> pd.DataFrame:
        """Returns an arm's rates on the boards like those of validation that no designer sees, `[seeds, boards]`."""
        return self._rates(arm, metric, "held_out")

    @functools.cache  # noqa: B019 - a study lives as long as the analysis
    def _rates(self, arm: str, metric: str, kind: str, index: int = -1) -> pd.DataFrame:
        names = [name for name in self.sets if name not in APART] if kind == "benchmark" else [kind]
        numbers, place = np.unique(np.concatenate([self.sets[name]["board"] for name in names]), return_inverse=True)
        sums = []
        for seed in self.seeds(arm):
            record = self.records[arm, seed]
            one = record.validation[index] if kind == "validation" else None
            found = [one] if one else [record.benchmark[name] for name in names]
            sums.append(np.bincount(place, weights=np.concatenate([_shares(one, metric) for one in found])))
        return pd.DataFrame(np.stack(sums) / np.bincount(place), index=self.seeds(arm), columns=numbers)

    @functools.cache  # noqa: B019
    def history(self, arm: str, seed: int) -> History:
        """Returns the rounds of an arm under a seed, with round 0, the shared one or its own, if that cell is there."""
        cells = [self.records[one, seed] for one in dict.fromkeys((ROUND_0, arm)) if (one, seed) in self.records]
        rounds = [repro.from_json(Round, row, arm) for record in cells for row in record.rounds]
        return tuple({one.index: one for one in rounds}.values())


def load(folder: str | Path, arms: Sequence[str] | None = None, seeds: Sequence[int] | None = None) -> Study:
    """Returns the study of the records in `folder`, with boards.json beside them.

    Args:
        folder: Has a file `<arm>-<seed>.json` for each finished cell.
        arms: The arms to take, with what they begin with; all that there are, unless given.
        seeds: The training seeds to take; all that there are, unless given.

    Raises:
        ValueError: There is no record, one cannot be read, or two do not belong together.
    """
    folder = Path(folder)
    paths, boards = sorted(p for p in folder.glob("*.json") if p.name != "boards.json"), folder / "boards.json"
    if arms is not None:
        paths = [p for p in paths if p.stem.rpartition("-")[0] in (*BEGINNINGS, *arms)]
    if seeds is not None:
        paths = [p for p in paths if p.stem.rpartition("-")[2] in map(str, seeds)]
    if not paths or not boards.is_file():
        missing = "records" if boards.is_file() else boards.name
        raise ValueError(f"{folder}: no {missing}; `make repro`, or notebooks 01 and 02, make them")
    sets = repro.read_json(boards)["sets"]
    records: dict[tuple[str, int], Record] = {}
    for path in paths:
        record = repro.from_json(Record, repro.read_json(path), str(path))
        first, key = next(iter(records.values()), record), (record.arm, record.seed)
        if key in records:
            raise ValueError(f"{path}: arm {record.arm} under seed {record.seed} is there twice")
        for name in ("rl", "samples"):
            if record.parameters.get(name) != first.parameters.get(name):
                found, other = (repro.dumps(r.parameters.get(name)) for r in (record, first))
                raise ValueError(f"{path}: {name} {found} is not that of {first.arm}-{first.seed}, {other}")
        if {*record.benchmark} != {*sets} - {"validation"} or not record.validation:
            raise ValueError(f"{path}: {', '.join(record.benchmark)}, validation: not the sets of boards.json")
        for name, outcome in [*record.benchmark.items(), *(("validation", one) for one in record.validation)]:
            if outcome.boards_sha256 != sets[name]["sha256"]:
                raise ValueError(f"{path}: was measured on other {name} boards than boards.json has: run the cell anew")
            for metric in METRICS:
                digits, legal = getattr(outcome, metric), "0123456789"[: outcome.samples + 1]
                if len(digits) != len(sets[name]["board"]) or not {*digits} <= {*legal}:
                    raise ValueError(f"{path}: {name}.{metric}: takes a digit up to {outcome.samples} for each board")
        records[key] = record
    columns = ("board", "agents", "size")
    return Study(records, {name: pd.DataFrame({c: found[c] for c in columns}) for name, found in sets.items()})


def _shares(outcome: Outcomes, metric: str) -> np.ndarray:
    return (np.frombuffer(getattr(outcome, metric).encode(), np.uint8) - ord("0")) / outcome.samples
