"""What designers changed, in the paper's terms: budget beside the frontier of competence, settings that worked."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd

from mapflake.engineer.imitation import variation
from mapflake.env import EnvConfig
from mapflake.study.record import Study

FRONTIER = 0.5  # valid rate from which on a size counts as one that the policy can do; our choice


def changes(study: Study, beside: str = "engineer") -> pd.DataFrame:
    """Returns a row for each design: arm, seed, round, and what it changed.

    - `below_frontier`: the frontier (the largest size solved at least half of the time before the design; the smallest
      if none is) minus the mean size of the boards asked for; positive: smaller boards than that.
    - `hole_ratio`, `wait_ratio`: means over the boards asked for; a wait ratio of None is left out.
    - `moved`: total variation between its data ratios and those before, 0 to 1.
    - `kept`: of the sizes solved at least half of the time and still asked for, the share whose hole and wait
      ratios both stay within 0.05; NaN if there is none.
    - `unlike`: total variation between its data ratios and those of the arm `beside` in the same seed and round; NaN
      if that was not run.
    - `rejected`: whether no reply was legal, so that all stayed as it was.
    """
    rows = []
    theirs = {seed: history for (arm, seed), history in study.histories.items() if arm == beside}
    for (arm, seed), history in study.histories.items():
        for before, after in itertools.pairwise(history):
            if arm in study.arms and after.proposal is not None:
                row = _change(before.config, after.config, {s.size: s.valid_rate for s in before.report.sizes})
                other = [
                    variation(after.config, _shares(r.config)) for r in theirs.get(seed, ()) if r.index == after.index
                ]
                row |= {"unlike": other[0] if other else np.nan, "rejected": float(after.proposal.config is None)}
                rows.append({"arm": arm, "seed": seed, "round": after.index, **row})
    return pd.DataFrame(rows)


def _change(before: EnvConfig, after: EnvConfig, valid: dict[int, float]) -> dict[str, float]:
    able = [size for size, rate in valid.items() if rate >= FRONTIER]
    frontier = max(able, default=min(valid))
    parts = after.sizes
    share = _shares(after)
    waits = {size: part.wait_ratio for size, part in parts.items() if part.wait_ratio is not None}
    both = [size for size in able if share.get(size) and size in before.sizes]
    return {
        "below_frontier": frontier - sum(size * ratio for size, ratio in share.items()),
        "hole_ratio": sum(parts[size].hole_ratio * ratio for size, ratio in share.items()),
        "wait_ratio": float(np.average(list(waits.values()), weights=[share[s] for s in waits])) if waits else np.nan,
        "moved": variation(after, _shares(before)),
        "kept": float(np.mean([_alike(before.sizes[s], parts[s]) for s in both])) if both else np.nan,
    }


def _shares(config: EnvConfig) -> dict[int, float]:
    return {size: part.data_ratio for size, part in config.sizes.items()}


def _alike(one: Any, other: Any) -> bool:
    if (one.wait_ratio is None) != (other.wait_ratio is None):
        return False
    waits = 0.0 if one.wait_ratio is None else abs(one.wait_ratio - other.wait_ratio)
    return abs(one.hole_ratio - other.hole_ratio) < 0.051 and waits < 0.051
