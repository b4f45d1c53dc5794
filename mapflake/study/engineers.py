"""Trained engineers over seeds of design RL: the reward of their designs, whether these use the report, and solving.

Notebook 04 writes one record for each seed. All seeds train on the same bank of contexts and are evaluated on the same
held-out contexts. Intervals are Student's t intervals over the seeds of design RL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from mapflake import repro
from mapflake.study.statistics import LEVEL

BEFORE, AFTER, LATER = "before design RL", "after design RL", "after a round on boards"
REAL, MADE_UP = "real, held out", "made up, unseen"
Records = Sequence[Mapping[str, Any]]


def load(folder: Path) -> Records:
    """Returns the records of design RL in a profile's folder of cells, in the order of their seeds."""
    paths = sorted((folder / "design_rl").glob("*.json"), key=lambda path: int(path.stem))
    return [repro.read_json(path) for path in paths]


def readings(records: Records) -> pd.DataFrame:
    """Returns one row for each seed, set of contexts and stage of the engineer, with the columns of `reading.reading`.

    The stages are: before design RL, after it, and after a further round of RL on boards.
    """
    rows = []
    for seed, record in enumerate(records):
        for key, measured in record["reading"].items():
            where, stage = key.split(" / ")
            rows.append({"seed": seed, "situations": where, "engineer": stage, **measured})
        for where, measured in record["after boards"].items():
            rows.append({"seed": seed, "situations": where, "engineer": LATER, **measured})
    return pd.DataFrame(rows)


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Returns the mean over seeds and the ends of its 95% interval, which are NaN with one seed."""
    array, n = np.asarray(values, dtype=float), len(values)
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * array.std(ddof=1) / n**0.5 if n > 1 else np.nan
    return float(array.mean()), float(array.mean() - half), float(array.mean() + half)


def table(records: Records) -> pd.DataFrame:
    """Returns a table as text, with a row for each set of contexts and stage or baseline: means and 95% intervals."""
    found = readings(records)
    if found.empty:
        return found
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for where, in_set in found.groupby("situations", sort=False):
        for stage, group in in_set.groupby("engineer", sort=False):
            measures = group.drop(columns=["seed", "situations", "engineer"])
            rows[str(where), str(stage)] = {name: _said(measures[name].tolist()) for name in measures}
        for name in records[0]["yardsticks"][where]:
            rows[str(where), name] = {"own": _said([record["yardsticks"][where][name] for record in records])}
    return pd.DataFrame(rows).T.fillna("")


def _said(values: Sequence[float], form: str = ".2f") -> str:
    values = [value for value in values if not np.isnan(value)]  # NaN where all replies were rejected
    if not values:
        return ""
    mean, low, high = interval(values)
    return f"{mean:{form}}" if np.isnan(low) else f"{mean:{form}} ({low:{form}} to {high:{form}})"
