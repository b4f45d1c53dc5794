"""Trained engineers over seeds of design RL: what their designs are worth, whether they read, what it did to solving.

The records are those of notebook 04, one a seed. All seeds train on the same bank and are asked in the same held-out
situations; an interval is Student's, over seeds alone.
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
    """Returns the records of design RL in a profile's folder of cells, in the order of seeds."""
    paths = sorted((folder / "design_rl").glob("*.json"), key=lambda path: int(path.stem))
    return [repro.read_json(path) for path in paths]


def readings(records: Records) -> pd.DataFrame:
    """Returns a row for each seed, set of situations and stage of the engineer, with the columns of `reading.reading`.

    The stages are before design RL, after it, and after a round of RL on boards too.
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
    """Returns the mean over seeds and its 95% interval; NaN for its ends with one seed."""
    found, n = np.asarray(values, dtype=float), len(values)
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * found.std(ddof=1) / n**0.5 if n > 1 else np.nan
    return float(found.mean()), float(found.mean() - half), float(found.mean() + half)


def table(records: Records) -> pd.DataFrame:
    """Returns as text a row for each set of situations and engineer, then its yardsticks: means, 95% intervals."""
    found = readings(records)
    if found.empty:
        return found
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for where, own in found.groupby("situations", sort=False):
        for stage, group in own.groupby("engineer", sort=False):
            measures = group.drop(columns=["seed", "situations", "engineer"])
            rows[str(where), str(stage)] = {name: _said(measures[name].tolist()) for name in measures}
        for name in records[0]["yardsticks"][where]:
            rows[str(where), name] = {"own": _said([one["yardsticks"][where][name] for one in records])}
    return pd.DataFrame(rows).T.fillna("")


def sentence(records: Records) -> str:
    """Returns what design RL did, on held-out real situations, in words; "" without records."""
    found = readings(records)
    real = found[found["situations"] == REAL] if len(found) else found
    if real.empty:
        return ""
    after, before = (real[real["engineer"] == stage].set_index("seed") for stage in (AFTER, BEFORE))
    unseen = found[(found["situations"] == MADE_UP) & (found["engineer"] == AFTER)]
    elsewhere, unseen_elsewhere = after["another's"], unseen["another's"]
    rules = {name: [one["yardsticks"][REAL][name] for one in records] for name in records[0]["yardsticks"][REAL]}
    hand = {name: float(np.mean(values)) for name, values in rules.items() if name.endswith("rule")}
    best = max(hand, key=lambda name: hand[name])
    solving = [100 * one["solving"]["mean"] for one in records]
    seeds = f"Over {len(records)} seeds" if len(records) > 1 else "With one seed, which gives no interval,"
    return (
        f"{seeds} of design RL, a design for a held-out policy is worth {_said(after['own'])}, before it "
        f"{_said(before['own'])}; the {best} {hand[best]:.2f}, the best kind of boards "
        f"{np.mean(rules['best kind']):.2f}. In another's situation the same designs are worth "
        f"{_said(elsewhere)}; designs for shuffled tables {_said(after['shuffled'])}. On made-up situations, which "
        f"differ more, they are worth {_said(unseen['own'])}, and {_said(unseen_elsewhere)} in another's. "
        f"{after['accepted'].mean():.0%} of replies are accepted ({before['accepted'].mean():.0%} before); the valid "
        f"rate on boards changes by {_said(solving, '+.1f')} points."
    )


def _said(values: Sequence[float], form: str = ".2f") -> str:
    values = [value for value in values if not np.isnan(value)]  # left out where all replies were rejected
    if not values:
        return ""
    mean, low, high = interval(values)
    return f"{mean:{form}}" if np.isnan(low) else f"{mean:{form}} ({low:{form}} to {high:{form}})"
