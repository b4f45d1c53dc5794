"""Reads the finished cells of a study into one long table; checks that they belong together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mapflake import repro
from mapflake.engineer import History, Ledger
from mapflake.study.cells import METRICS, SCHEMA, StudyError
from mapflake.study.plan import BEGINNINGS

Boards = dict[str, tuple[str, pd.DataFrame]]  # subset -> hash of its boards, what they are


@dataclass(frozen=True)
class Study:
    """Finished cells.

    Attributes:
        benchmark: A row for each (arm, seed, subset, board): agents, size, needs_wait, and the metrics, each the share
            of the samples. A board has one number, `board`, in all subsets that it is in.
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

    @property
    def final_validation(self) -> pd.DataFrame:
        """The rows of `validation` after the last round of each arm."""
        return self.validation[self.validation["round"] == self.validation.groupby("arm")["round"].transform("max")]


def seal(folder: str | Path) -> list[str]:
    """Writes `manifest.json`, the hash of every finished cell in `folder`/cells; returns their names.

    What is sealed is what `load` reads and what the analysis depends on: DVC would otherwise take a dependency on the
    cells for a wish to run all of them.
    """
    folder = Path(folder)
    names = sorted(path.parent.name for path in folder.glob("cells/*/cell.json"))
    cells = {name: _sha256(folder / "cells" / name) for name in names}
    repro.write_json(folder / "manifest.json", {"boards": repro.file_sha256(folder / "boards.json"), "cells": cells})
    return names


def load(folder: str | Path) -> Study:
    """Returns the sealed cells of the study in `folder`; not all arms and seeds need to be there.

    Raises:
        StudyError: There is no finished cell, one cannot be read or is not as it was sealed, or two were measured on
            other boards, with another number of samples, or with another budget.
    """
    folder = Path(folder)
    if not (folder / "manifest.json").is_file():
        raise StudyError(f"{folder}: no finished cell; `make study` makes them")
    manifest = repro.read_json(folder / "manifest.json")
    sealed = {"boards.json": manifest["boards"]} | {f"cells/{name}": sha for name, sha in manifest["cells"].items()}
    for name, sha in sealed.items():
        path = folder / name
        if not path.exists() or (_sha256(path) if path.is_dir() else repro.file_sha256(path)) != sha:
            raise StudyError(f"{path}: not as in manifest.json; if it is right, `python -m mapflake.study seal`")
    paths = [folder / "cells" / name / "cell.json" for name in manifest["cells"]]
    boards = {name: _boards(found) for name, found in repro.read_json(folder / "boards.json")["sets"].items()}
    found = [_read(path) for path in paths]
    benchmark, validation, histories = [], [], {}
    for path, cell in zip(paths, found, strict=True):
        for key in ("rl", "samples"):
            if cell[key] != found[0][key]:
                raise StudyError(f"{path}: {key} {cell[key]} is not that of {paths[0]}, {found[0][key]}")
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
    return Study(pd.concat(benchmark), pd.concat(validation), pd.DataFrame(about), histories)


def _sha256(cell: Path) -> str:
    return repro.json_sha256({f.name: repro.file_sha256(f) for f in sorted(cell.glob("*.json*"))})


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
