"""Finished cells, read from their records: the one table from which every comparison is made."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mapflake.extras import needs

with needs("lab"):
    import pandas as pd

from mapflake import repro
from mapflake.engineer import History, Round
from mapflake.engineer.designers import DYNAMIC
from mapflake.engineer.ledger import ARM_KEYS
from mapflake.repro import shown, whole
from mapflake.study.names import BASE, BEGINNINGS, NAMES, ROUND_0
from mapflake.study.records import METRICS, Outcomes, Record

logger = logging.getLogger(__name__)

COLUMNS = ("board", "agents", "size", "needs_wait")
"""What boards.json says of each board of a set."""

STARTS = {
    0: ("student", "before_design_rl_sha256", "parent_sha256"),
    1: ("round 0", "parent_sha256", "checkpoint_sha256"),
}
"""Index of an arm's first round -> what it continues from, the key there, and that of the shared round 0. An arm with a
round 0 of its own has RL on designs before it."""


@dataclass(frozen=True, eq=False)
class Study:
    """Finished cells that belong together.

    Attributes:
        records: (arm, seed) -> record.
        sets: "validation" and each subset of the benchmark -> a row a board: its number, agents, size, `needs_wait`.
    """

    records: Mapping[tuple[str, int], Record]
    sets: Mapping[str, pd.DataFrame]

    @property
    def arms(self) -> list[str]:
        """Arms with a finished cell in the order of tables, without what all arms begin with."""
        order = [*NAMES]
        arms = {arm for arm, _ in self.records} - {*BEGINNINGS}
        return sorted(arms, key=lambda arm: (order.index(arm) if arm in NAMES else len(order), arm))

    @property
    def boards(self) -> pd.DataFrame:
        """Those of the benchmark (`about`)."""
        return self.about("benchmark")

    def seeds(self, arm: str) -> list[int]:
        """Returns the seeds under which an arm is finished."""
        return sorted(seed for name, seed in self.records if name == arm)

    def measured_rounds(self, arm: str) -> list[int]:
        """Returns the rounds after which an arm was measured on the validation boards: -1 for the model before RL.

        Raises:
            ValueError: The arm was not run.
        """
        if not self.seeds(arm):
            raise ValueError(f"{shown(arm)}: no such arm; the records have {', '.join(self.arms)}")
        first = {BASE: -1, ROUND_0: 0}.get(arm, 1)
        return [first + i for i in range(len(self.records[arm, self.seeds(arm)[0]].validation))]

    def rates(
        self, arm: str, metric: str = "valid", boards: str = "benchmark", *, index: int = -1, **kept: Any
    ) -> pd.DataFrame:
        """Returns an arm's rates, mean shares of the samples, `[seeds, boards]`; the last arguments as for `compare`.

        A board in several subsets of the benchmark is one. `index` is which of `measured_rounds` on the validation
        boards; the benchmark is of the last checkpoint.

        Raises:
            ValueError: There is no such arm, metric or round, or as for `chosen`.
        """
        if not self.seeds(arm):
            raise ValueError(f"{shown(arm)}: no such arm; the records have {', '.join(self.arms)}")
        if metric not in METRICS:
            raise ValueError(f"metric: {shown(metric)} is none of {', '.join(METRICS)}")
        last = len(rounds := self.measured_rounds(arm)) - 1
        if boards == "validation" and index not in range(-last - 1, last + 1):
            raise ValueError(f"index: {shown(index)} is not in 0 to {last} (or -1, ...): {arm} has the rounds {rounds}")
        return self._rates(arm, metric, boards, index)[self.chosen(boards, kept)]

    def chosen(self, boards: str, kept: Mapping[str, Any]) -> list[int]:
        """Returns the numbers of the boards of a set that have one of the values in `kept`, key by key.

        Raises:
            ValueError: There is no such set, no such key, no board with one of the values, or none with all of them.
        """
        about = self.about(boards)
        legal = {key: listed_values(values) for key, values in kept.items()}
        if unknown := {*kept} - {*about}:
            raise ValueError(f"{', '.join(sorted(unknown))}: boards have {', '.join(about)}")
        for key, values in legal.items():
            present = sorted(about[key].unique().tolist())
            if absent := [shown(value) for value in values if value not in present]:
                raise ValueError(f"{boards} has no boards of {key} {', '.join(absent)}: there are {present}")
        for key, values in legal.items():
            about = about[about[key].isin(values)]
        if about.empty:
            raise ValueError(f"{boards} has no boards of {', '.join(f'{key} {value}' for key, value in kept.items())}")
        return about.index.tolist()

    def about(self, boards: str) -> pd.DataFrame:
        """Returns agents, size and `needs_wait` of each board of a set, or of the whole benchmark, by its number."""
        return self._about(*self._subsets(boards)).copy()

    @functools.cache  # noqa: B019 - a study lives as long as the analysis
    def _about(self, *names: str) -> pd.DataFrame:
        rows = pd.concat([self.sets[name] for name in names])
        return rows.drop_duplicates("board").set_index("board").sort_index()

    def _subsets(self, boards: str) -> list[str]:
        if boards not in ("benchmark", *self.sets):
            raise ValueError(f"boards: {shown(boards)} is none of benchmark, {', '.join(self.sets)}")
        return [name for name in self.sets if name != "validation"] if boards == "benchmark" else [boards]

    @functools.cache  # noqa: B019
    def _rates(self, arm: str, metric: str, boards: str, index: int) -> pd.DataFrame:
        names = self._subsets(boards)
        numbers, place = np.unique(np.concatenate([self.sets[name]["board"] for name in names]), return_inverse=True)
        sums = []
        for seed in self.seeds(arm):
            record = self.records[arm, seed]
            outcomes = [
                record.validation[index] if boards == "validation" else record.benchmark[name] for name in names
            ]
            sums.append(np.bincount(place, weights=np.concatenate([_shares(outcome, metric) for outcome in outcomes])))
        return pd.DataFrame(np.stack(sums) / np.bincount(place), index=self.seeds(arm), columns=numbers)

    @functools.cache  # noqa: B019
    def history(self, arm: str, seed: int) -> History:
        """Returns the rounds of an arm under a seed, with round 0, the shared one or its own, if that cell is there."""
        cells = [self.records[key] for key in dict.fromkeys(((ROUND_0, seed), (arm, seed))) if key in self.records]
        if not cells or arm not in (*NAMES, *(name for name, _ in self.records)):
            raise ValueError(
                f"{shown(arm)}, seed {shown(seed)}: no such cell; the records have {', '.join(self.arms)}, this arm "
                f"under the seeds {self.seeds(arm)}"
            )
        rounds = [repro.from_json(Round, row, arm) for record in cells for row in record.rounds]
        return tuple({round_.index: round_ for round_ in rounds}.values())


def load(folder: str | Path, arms: Sequence[str] | None = None, seeds: Sequence[int] | None = None) -> Study:
    """Returns the study of the records in `folder`, `<arm>-<seed>.json`, with boards.json beside them.

    All arms and training seeds are taken that there are, unless some are given; what arms begin with always is.

    Raises:
        ValueError: There is no record, one cannot be read, or two do not belong together; or `seeds` are no integers.
    """
    folder, boards = Path(folder), Path(folder) / "boards.json"
    if isinstance(seeds, str | int):
        raise ValueError(f"seeds: takes a list of training seeds, not {seeds!r}")
    seeds = None if seeds is None else [whole(seed, "seeds") for seed in seeds]
    cells = {path: path.stem.rpartition("-") for path in sorted(folder.glob("*-*.json"))}
    recorded = sorted({arm for arm, _, _ in cells.values()})
    if isinstance(arms, str):
        raise ValueError(f"arms: takes a list of names, not {arms!r}")
    if wrong := [arm for arm in arms or () if arm not in (*NAMES, *recorded)]:
        raise ValueError(f"arms: {', '.join(map(shown, wrong))}: no records; there are {', '.join(recorded)}")
    wanted = recorded if arms is None else (*BEGINNINGS, *arms)
    paths = [p for p, (arm, _, seed) in cells.items() if arm in wanted and (seeds is None or seed in map(str, seeds))]
    if not boards.is_file():
        raise ValueError(f"{folder}: no boards.json: notebook 01 makes it; in the pipeline, `dvc repro env_design`")
    present = sorted({int(seed) for arm, _, seed in cells.values() if arm in wanted and seed.isdigit()})
    if present and not paths:
        raise ValueError(f"seeds: {folder} has no records of {shown(seeds)}; there are {', '.join(map(str, present))}")
    if not paths:
        raise ValueError(f"{folder}: no records: notebook 02 makes the first; in the pipeline, `dvc repro baseline_rl`")
    about = repro.read_json(boards)
    sets = about.get("sets") if isinstance(about, dict) else None
    if not isinstance(sets, dict) or not all({*COLUMNS, "sha256"} <= {*board_set} for board_set in sets.values()):
        raise ValueError(f"{boards}: takes sets, each with {', '.join(COLUMNS)} and sha256: run notebook 01 anew")
    records: dict[tuple[str, int], Record] = {}
    for path in paths:
        record = repro.from_json(Record, repro.read_json(path), str(path))
        first = next(iter(records.values()), record)
        if path.stem != f"{record.arm}-{record.seed}":
            raise ValueError(f"{path}: holds the cell {record.arm}-{record.seed}: a record has its cell's name")
        for name in ("rl", "samples"):
            if record.parameters.get(name) != first.parameters.get(name):
                value, expected = (repro.dumps(r.parameters.get(name)) for r in (record, first))
                raise ValueError(f"{path}: {name} {value} is not that of {first.arm}-{first.seed}, {expected}")
        same = next((r for r in records.values() if r.arm == record.arm), record)
        times = [len(r.validation) for r in (record, same)]
        if times[0] != times[1]:
            raise ValueError(f"{path}: was measured {times[0]} times, {same.arm}-{same.seed} {times[1]} times")
        indices = [row.get("index") for row in record.rounds]
        if indices and (indices[0] not in STARTS or indices != [*range(indices[0], indices[0] + len(indices))]):
            raise ValueError(f"{path}: has the rounds {indices}; takes one after the other, from 0 or 1 on")
        if {*record.benchmark} != {*sets} - {"validation"} or not record.validation:
            raise ValueError(f"{path}: {', '.join(record.benchmark)}, validation: not the sets of boards.json")
        for name, outcome in [*record.benchmark.items(), *(("validation", outcome) for outcome in record.validation)]:
            if outcome.boards_sha256 != sets[name]["sha256"]:
                raise ValueError(f"{path}: was measured on other {name} boards than boards.json has: run the cell anew")
            for metric in METRICS:
                digits, legal = getattr(outcome, metric), "0123456789"[: outcome.samples + 1]
                if len(digits) != len(sets[name]["board"]) or not {*digits} <= {*legal}:
                    raise ValueError(f"{path}: {name}.{metric}: takes a digit up to {outcome.samples} for each board")
        rounds = record.parameters.get("rounds")
        if rounds != first.parameters.get("rounds") and record.arm.removesuffix(DYNAMIC) != "fixed_longer":
            of = f"{first.arm}-{first.seed} has {first.parameters.get('rounds')}"
            raise ValueError(f"{path}: {rounds} rounds, and {of}: they are no comparison")
        own_weights = (record.parameters.get("engineer") or {}).get("model") == "base"  # each student's before RL
        for key in sorted(ARM_KEYS - ({"model_sha256"} if own_weights else set())):
            # Of arms of this package they differ where its code was rewritten.
            if record.arm not in NAMES and record.parameters.get(key) != same.parameters.get(key):
                raise ValueError(f"{path}: {key} is not that of {same.arm}-{same.seed}: run all cells of this arm anew")
        records[record.arm, record.seed] = record
    for (arm, seed), record in records.items():  # arms of a seed are paired, which takes the same beginning
        begin, shared = record.rounds[:1], records.get((ROUND_0, seed))
        if begin and arm != ROUND_0:
            if not shared:
                raise ValueError(
                    f"{folder}: no {ROUND_0}-{seed}.json: {arm}-{seed} is compared with what it begins with"
                )
            weights, parent, start = STARTS[begin[0]["index"]]
            parent, start = begin[0][parent] or "", shared.rounds[0][start]
            if parent != start:
                raise ValueError(
                    f"{folder}: {arm}-{seed} continues from another {weights} ({parent[:8]}) than {ROUND_0}-{seed} "
                    f"({start[:8]}): trained on another processor or by other code; take seeds without records"
                )
    if absent := [arm for arm in arms or () if arm not in {arm for arm, _ in records}]:
        logger.warning("%s: no records of %s under these seeds", folder, ", ".join(absent))
    if absent := [str(seed) for seed in seeds or () if seed not in {seed for _, seed in records}]:
        logger.warning("%s: no records of seed %s", folder, ", ".join(absent))
    return Study(records, {name: pd.DataFrame({c: board_set[c] for c in COLUMNS}) for name, board_set in sets.items()})


def together(*sets: Study) -> Study:
    """Returns sets of cells without a student in common, measured on the same boards, as one.

    Raises:
        ValueError: A training seed is in two sets, or they have other boards, samples, rounds or parameters of GRPO.
    """
    seeds = [seed for study in sets for seed in {seed for _, seed in study.records}]
    if repeated := sorted({seed for seed in seeds if seeds.count(seed) > 1}):
        raise ValueError(f"seeds: {', '.join(map(str, repeated))} are in more than one set: a student counts once")
    first, *others = (_common(study) for study in sets)
    for other in others:
        if unlike := [name for name, value in first.items() if other[name] != value]:
            raise ValueError(f"{', '.join(unlike)}: not the same in all sets, so their cells do not belong together")
    return Study({key: record for study in sets for key, record in study.records.items()}, sets[0].sets)


def _common(study: Study) -> dict[str, Any]:
    """Returns what all cells of a study share: the parameters that `load` compares, and hashes of the boards."""
    record = study.records[min(study.records, key=lambda cell: cell[0] not in BEGINNINGS)]
    sets = {**record.benchmark, "validation": record.validation[0]}
    hashes = {f"{name} boards": outcome.boards_sha256 for name, outcome in sorted(sets.items())}
    return {name: record.parameters.get(name) for name in ("rl", "samples", "rounds")} | hashes


def span(study: Study) -> str:
    """Returns the training seeds of `fixed` in words, the first and the last."""
    seeds = study.seeds("fixed")
    return f"{seeds[0]} to {seeds[-1]}"


def listed_values(values: Any) -> list[Any]:
    """Returns one value, or several in any container, as a list."""
    return np.atleast_1d(sorted(values) if isinstance(values, Set) else values).tolist()


def _shares(outcome: Outcomes, metric: str) -> np.ndarray:
    return (np.frombuffer(getattr(outcome, metric).encode(), np.uint8) - ord("0")) / outcome.samples
