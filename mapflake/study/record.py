"""Reads the finished cells of a study into one long table; checks that they belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mapflake import repro
from mapflake.engineer import History, Ledger
from mapflake.study.cells import BEGINNINGS, METRICS, SCHEMA


Boards = dict[str, tuple[str, pd.DataFrame]]  # subset -> hash of its boards, what they are


class StudyError(ValueError):
    """Cells that cannot be read, or do not belong together; the message names the file and what is wrong."""


@dataclass(frozen=True)
class Study:
    """Finished cells.

    Attributes:
        benchmark: A row for each (arm, seed, board): subset, agents, size, needs_wait, and the metrics, each the share
            of the board's samples. `board` numbers the boards of all subsets.
        validation: The same on the validation boards, with `round`: 0 for round 0, -1 for the base model.
        cells: A row a cell: arm, seed, cpu_minutes, code_sha256.
        histories: (arm, seed) -> its rounds, round 0 included if that cell is there.
    """

    benchmark: pd.DataFrame
    validation: pd.DataFrame
    cells: pd.DataFrame
    histories: dict[tuple[str, int], History]

    @property
    def arms(self) -> list[str]:
        """Arms with at least one finished cell, without what all arms begin with."""
        return [arm for arm in dict.fromkeys(self.cells["arm"]) if arm not in BEGINNINGS]


def load(folder: str | Path) -> Study:
    """Returns the study in `folder`: `boards.json` and `cells/<arm>-<seed>/`; cells that are not there are no error.

    Raises:
        StudyError: There is no finished cell, one cannot be read, or two were measured on other boards, with another
            number of samples, or with another budget.
    """
    folder = Path(folder)
    paths = sorted(folder.glob("cells/*/cell.json"))
    if not paths:
        raise StudyError(f"{folder}: no finished cell; `make study` makes them")
    boards = {name: _boards(found) for name, found in repro.read_json(folder / "boards.json")["sets"].items()}
    found = [_read(path) for path in paths]
    shared = {"rl": found[0]["rl"], "samples": found[0]["samples"]}
    benchmark, validation, histories = [], [], {}
    for path, cell in zip(paths, found, strict=True):
        for key, value in shared.items():
            if cell[key] != value:
                raise StudyError(f"{path}: {key} {cell[key]} is not that of {paths[0]}, {value}: run one of them anew")
        named = {"arm": cell["arm"], "seed": cell["seed"]}
        for subset, outcomes in cell["benchmark"].items():
            benchmark.append(_rows(path, outcomes, subset, boards).assign(**named))
        first = {"warm_start": -1, "round_0": 0}.get(cell["arm"], 1)
        for index, outcomes in enumerate(cell["validation"], start=first):
            validation.append(_rows(path, outcomes, "validation", boards).assign(**named, round=index))
        if (path.parent / "rounds.jsonl").is_file():
            histories[cell["arm"], cell["seed"]] = Ledger(path.parent / "rounds.jsonl").rounds
    for (arm, seed), history in histories.items():
        if arm not in BEGINNINGS:
            histories[arm, seed] = (*histories.get(("round_0", seed), ()), *history)
    about = [{key: cell[key] for key in ("arm", "seed", "cpu_minutes", "code_sha256")} for cell in found]
    return Study(_join(benchmark), _join(validation), pd.DataFrame(about), histories)


def _read(path: Path) -> dict[str, Any]:
    try:
        cell = repro.read_json(path)
    except ValueError as error:
        raise StudyError(f"{path}: {error}") from None
    if not isinstance(cell, dict) or cell.get("schema") != SCHEMA:
        raise StudyError(f"{path}: not a cell of schema {SCHEMA}")
    return cell


def _boards(found: dict[str, Any]) -> tuple[str, pd.DataFrame]:
    return found["sha256"], pd.DataFrame({key: values for key, values in found.items() if key != "sha256"})


def _rows(
    path: Path, outcomes: dict[str, Any], subset: str, boards: dict[str, tuple[str, pd.DataFrame]]
) -> pd.DataFrame:
    sha256, about = boards[subset]
    if outcomes["boards_sha256"] != sha256:
        raise StudyError(f"{path}: was measured on other {subset} boards than boards.json has: run the cell anew")
    shares = {m: np.frombuffer(outcomes[m].encode(), np.uint8) - ord("0") for m in METRICS}
    return about.assign(
        subset=subset, place=range(len(about)), **{m: s / outcomes["samples"] for m, s in shares.items()}
    )


def _join(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    rows = pd.concat(frames, ignore_index=True)
    rows["board"] = rows.groupby(["subset", "place"]).ngroup()  # the same number in every cell
    return rows.drop(columns="place")
