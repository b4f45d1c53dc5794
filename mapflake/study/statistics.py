"""Arms against each other: paired differences, their intervals over seeds and boards, and what could be seen at all.

A training seed is the unit of evidence: boards and samples within a seed share one policy. Intervals are hierarchical
bootstraps: seeds are drawn, then boards within each drawn seed. With n seeds, n - 1 are drawn (Rao & Wu 1988: else a
handful of seeds makes intervals too narrow by the square root of (n - 1) / n), and the half width is the bootstrap's
standard error times Student's t with n - 1 degrees of freedom instead of a percentile, which five seeds are too few
for (our choice; tests/study measures the coverage). p-values come from the same standard error, Holm's correction
from statsmodels. Not covered: variation over base models.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from mapflake.repro import rng_for

RESAMPLES = 2000
LEVEL = 0.95


def matrix(rows: pd.DataFrame, arm: str, metric: str) -> pd.DataFrame:
    """Returns an arm's rates, `[seeds, boards]`, from a frame of `record.Study`; a board in several subsets is one."""
    return rows[rows["arm"] == arm].pivot_table(index="seed", columns="board", values=metric, aggfunc="mean")


def paired(rows: pd.DataFrame, arm: str, against: str | Sequence[str], metric: str) -> pd.DataFrame:
    """Returns arm minus `against`, `[seeds, boards]`, for the seeds that all of them have.

    Args:
        rows: A frame of `record.Study`.
        arm: The one arm.
        against: The other; of several, their mean.
        metric: A column.

    Raises:
        ValueError: They have no seed in common.
    """
    others = [matrix(rows, name, metric) for name in ([against] if isinstance(against, str) else against)]
    own = matrix(rows, arm, metric)
    seeds = own.index
    for other in others:
        seeds = seeds.intersection(other.index)
    if not len(seeds):
        raise ValueError(f"{arm} and {against} have no seed in common")
    return own.loc[seeds] - sum(other.loc[seeds] for other in others) / len(others)


def standard_error(values: np.ndarray) -> float:
    """Returns the hierarchical bootstrap's standard error of the mean of `values`, `[seeds, boards]`.

    With one seed it is that over boards alone.
    """
    seeds, boards = values.shape
    drawn, within = _draws(seeds, boards, RESAMPLES)
    means = np.stack([within[s] @ values[s] for s in range(seeds)], axis=1)
    return float((drawn * means).sum(axis=1).std(ddof=1))


@functools.lru_cache(maxsize=4)
def _draws(seeds: int, boards: int, resamples: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the weights of seeds, `[resamples, seeds]`, and of boards in each, `[seeds, resamples, boards]`.

    The same for every comparison of a shape: differences between arms are not differences between draws.
    """
    rng = rng_for(0, "hierarchical bootstrap", seeds, boards)
    within = rng.multinomial(boards, np.full(boards, 1 / boards), size=(seeds, resamples)).astype(np.float32) / boards
    drawn = rng.multinomial(max(seeds - 1, 1), np.full(seeds, 1 / seeds), size=resamples) / max(seeds - 1, 1)
    return drawn, within


def estimate(values: np.ndarray) -> dict[str, float]:
    """Returns mean, low, high (95%), p (of a mean of zero) and seeds of `values`, `[seeds, boards]`.

    With one seed low and high are over boards alone, and p is NaN: one seed is no evidence about seeds.
    """
    values = np.asarray(values, dtype=float)
    seeds, mean, error = len(values), float(values.mean()), standard_error(values)
    if seeds == 1:
        half = stats.norm.ppf((1 + LEVEL) / 2) * error
        return {"mean": mean, "low": mean - half, "high": mean + half, "p": float("nan"), "seeds": 1}
    half = stats.t.ppf((1 + LEVEL) / 2, seeds - 1) * error
    p = float(2 * stats.t.sf(abs(mean) / error, seeds - 1)) if error else float(mean == 0)
    return {"mean": mean, "low": mean - half, "high": mean + half, "p": p, "seeds": seeds}


def half_width(curves: np.ndarray) -> np.ndarray:
    """Returns the half width of the 95% interval over seeds (Student's t) of each column of `curves`, `[seeds, n]`."""
    seeds = len(curves)
    return stats.t.ppf((1 + LEVEL) / 2, seeds - 1) * curves.std(axis=0, ddof=1) / np.sqrt(seeds)


def comparisons(rows: pd.DataFrame, arms: Sequence[str], against: str | Sequence[str], metric: str) -> pd.DataFrame:
    """Returns a row for each arm: `estimate` of its difference to `against`, and `holm`, p corrected for all of them.

    Arms without a seed in common with `against` are left out.
    """
    from statsmodels.stats.multitest import multipletests

    others = [against] if isinstance(against, str) else list(against)
    found = []
    for arm in arms:
        if arm not in others and set(rows.loc[rows["arm"] == arm, "seed"]) & set(
            rows.loc[rows["arm"] == others[0], "seed"]
        ):
            found.append({"arm": arm, **estimate(paired(rows, arm, others, metric).to_numpy())})
    table = pd.DataFrame(found, columns=["arm", "mean", "low", "high", "p", "seeds"])
    tested = table["p"].notna()
    table["holm"] = np.nan
    if tested.any():
        table.loc[tested, "holm"] = multipletests(table.loc[tested, "p"], method="holm")[1]
    return table


def interquartile_mean(rows: pd.DataFrame, arm: str, metric: str) -> float:
    """Returns the mean of the middle half of an arm's rates over (seed, agents, size) (Agarwal et al. 2021)."""
    return float(stats.trim_mean(_kinds(rows, arm, metric), 0.25))


def probability_of_improvement(rows: pd.DataFrame, arm: str, against: str, metric: str) -> float:
    """Returns how often the arm is better on a kind of board, ties counted half, over (seed, agents, size).

    Agarwal et al. 2021, but paired by seed: two runs of one seed share round 0 and noise.
    """
    difference = (_kinds(rows, arm, metric) - _kinds(rows, against, metric)).dropna()
    return float((np.sign(difference) + 1).mean() / 2)


def _kinds(rows: pd.DataFrame, arm: str, metric: str) -> pd.Series:
    """Returns an arm's rate on each kind of board (seed, agents, size)."""
    kinds = ["seed", "agents", "size"]
    boards = rows[rows["arm"] == arm].groupby([*kinds, "board"])[metric].mean()
    return boards.groupby(kinds).mean()


def detectable(deviation: float, seeds: int, *, power: float = 0.8) -> float:
    """Returns the smallest true difference that a two-sided paired t-test at 5% over the seeds finds with this power.

    Args:
        deviation: Standard deviation of the difference over seeds, in whatever unit the answer shall have.
        seeds: How many.
        power: Chance to find it.
    """
    from statsmodels.stats.power import TTestPower

    return float(deviation * TTestPower().solve_power(nobs=seeds, alpha=1 - LEVEL, power=power))
