r"""Intervals over training seeds and boards, Holm's correction, and the differences that a number of seeds could show.

All seeds are measured on the same boards, so a difference $d_{sb}$ of two arms (seed s of S, board b of B, averaged
over samples) has two crossed random effects and noise, and its mean over all of them has

$$\widehat{\mathrm{var}} = \frac{M_S + M_B - M_E}{S\,B}, \qquad
  \mathrm{df} = \frac{(M_S + M_B - M_E)^2}{M_S^2/(S-1) + M_B^2/(B-1) + M_E^2/((S-1)(B-1))}$$

with the mean squares of the two-way analysis of variance: $M_S = B\sum_s(\bar d_s-\bar d)^2/(S-1)$, $M_B$ likewise over
boards, $M_E = \sum_{sb}(d_{sb}-\bar d_s-\bar d_b+\bar d)^2/((S-1)(B-1))$. The degrees of freedom are Satterthwaite's
(1946), at least min(S, B) - 1, and the interval is Student's. The sum is at least $M_S$ and at least $M_B$: an effect
of seeds or boards that seems negative is none, and is not taken to make the other one smaller (our choice).

The p-values are approximate. This table has the chance of p < a divided by a where there is no effect, and the coverage
of the 95% interval, from 2,000,000 simulated studies a row: normal effects of seeds and boards and normal noise on 480
boards, with standard deviations of 0.10 over boards and 0.33 of the noise, as in the published differences; those over
seeds are 0 to 0.05 there.

| seeds | deviation over seeds | a = 0.05 | 0.01 | 0.0056 | 0.001 | coverage |
|---|---|---|---|---|---|---|
| 5 | 0 | 0.43 | 0.18 | 0.13 | 0.04 | 97.9% |
| 5 | 0.02 | 0.92 | 0.88 | 0.86 | 0.76 | 95.4% |
| 5 | 0.05 | 1.08 | 1.40 | 1.62 | 2.79 | 94.6% |
| 6 | 0 | 0.51 | 0.26 | 0.20 | 0.09 | 97.4% |
| 6 | 0.02 | 0.96 | 0.97 | 0.97 | 0.96 | 95.2% |
| 6 | 0.05 | 1.06 | 1.29 | 1.45 | 2.31 | 94.7% |
| 10 | 0 | 0.72 | 0.53 | 0.45 | 0.27 | 96.4% |
| 10 | 0.02 | 1.00 | 1.06 | 1.09 | 1.21 | 95.0% |
| 10 | 0.05 | 1.03 | 1.12 | 1.17 | 1.48 | 94.9% |

So where seeds differ little a p-value is too large. Where they differ much one far below 5% is too small, by a factor
of up to 3 with five or six seeds and of up to 1.6 with ten. Holm's correction uses such small ones: a corrected p just
below 5% from five seeds is not safe. One seed or one board gives no interval. Not covered: variation over base models.

Where seeds come in a number A of ages that were chosen beforehand, they may be compared *within their age*: $\bar d$ in
$M_S$ and $\bar d_b$, $\bar d$ in $M_E$ are then the means of the seed's age, and S - 1 becomes S - A. The interval is
about seeds of these ages, and what all seeds of an age have in common does not widen it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy import optimize, stats

from mapflake.repro import whole


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds and boards, its 95% interval, and the p-value of a mean of zero.

    With one seed or board, or where nothing varies, it has no interval and no p-value.
    """

    mean: float
    seeds: int
    boards: int
    low: float | None = None
    high: float | None = None
    p: float | None = None

    @property
    def excludes_zero(self) -> bool:
        """Whether there is a 95% interval and zero is not in it. It is not corrected for several comparisons."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    def text(self, form: str, scale: float = 1) -> str:
        """Returns the mean times `scale`, in brackets its 95% interval if it has one; `form` formats each number."""
        mean = f"{scale * self.mean:{form}}"
        if self.low is None or self.high is None:
            return mean
        return f"{mean} ({scale * self.low:{form}} to {scale * self.high:{form}})"


def estimate(values: pd.DataFrame | np.ndarray, ages: Sequence[int] | None = None) -> Estimate:
    """Returns the mean of `values`, `[seeds, boards]`, with its 95% interval over seeds and boards.

    With `ages`, one for each seed, seeds are compared within their age.

    Raises:
        ValueError: One of the values is not a finite number, or ages are not one a seed, each as often as any other and
            at least twice.
    """
    array = _finite(values)
    (seeds, boards), mean = array.shape, float(array.mean())
    if min(seeds, boards) == 1:
        return Estimate(mean, seeds, boards)
    variance, df = _variance(*mean_squares(array, ages), seeds, boards, ages=len({*ages}) if ages is not None else 1)
    return _with_interval(Estimate(mean, seeds, boards), variance**0.5, df)


def t_estimate(values: Sequence[float] | np.ndarray) -> Estimate:
    """Returns the mean of independent values, one a seed or a board, with Student's 95% t interval; `boards` is 1.

    Raises:
        ValueError: There is no value, or one of them is not a finite number.
    """
    array, n = _finite(values), len(values)
    if not n:
        raise ValueError("values: there is none, so there is no mean")
    return _with_interval(Estimate(float(array.mean()), n, 1), float(stats.sem(array)) if n > 1 else 0.0, n - 1)


def _finite(values: pd.DataFrame | Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns the values as an array; ValueError if one is NaN or infinite."""
    array = np.asarray(values, dtype=float)
    if wrong := int((~np.isfinite(array)).sum()):
        raise ValueError(f"values: must be finite numbers, and {wrong} of {array.size} are NaN or infinite")
    return array


def _with_interval(point: Estimate, error: float, df: float) -> Estimate:
    """Returns the estimate with Student's interval and p-value for this standard error, unless it is rounding alone."""
    if error < 1e-12 * max(1.0, abs(point.mean)):
        return point
    mean, half = point.mean, float(stats.t.ppf(0.975, df)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, df))
    return replace(point, low=mean - half, high=mean + half, p=p)


def mean_squares(values: np.ndarray, ages: Sequence[int] | None = None) -> tuple[float, float, float]:
    """Returns the mean squares between seeds, between boards, and of the rest; takes at least 2 seeds and 2 boards.

    With `ages`, one for each seed, seeds are compared within their age; raises as for `estimate`.
    """
    seeds, boards = values.shape
    if min(seeds, boards) < 2:
        raise ValueError(f"mean squares take at least 2 seeds and 2 boards, not {seeds} and {boards}")
    labels = np.zeros(seeds) if ages is None else np.asarray(ages)
    _, age, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(age) != seeds or {*counts} != {counts[0]} or counts[0] < 2:
        raise ValueError(f"ages: takes one a seed, each as often as any other, at least twice, not {labels.tolist()}")
    deviations = values - np.stack([values[age == i].mean(0) for i in range(len(counts))])[age]
    by_seed, by_board, free = deviations.mean(1, keepdims=True), values.mean(0), seeds - len(counts)
    return (
        float(boards * (by_seed**2).sum() / free),
        float(seeds * ((by_board - values.mean()) ** 2).sum() / (boards - 1)),
        float(((deviations - by_seed) ** 2).sum() / (free * (boards - 1))),
    )


def _variance(
    between: float, by_board: float, rest: float, seeds: int, boards: int, ages: int = 1
) -> tuple[float, float]:
    """Returns the variance of the mean and its degrees of freedom, see the module."""
    total, free = between + by_board - rest, seeds - ages
    parts = (between, free), (by_board, boards - 1), (rest, free * (boards - 1))
    denominator = sum(square**2 / df for square, df in parts)
    fewest = min(free, boards - 1)
    df = max(total**2 / denominator, fewest) if denominator else fewest
    return max(total, between, by_board) / (seeds * boards), df


def paired(own: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Returns `own` minus `other`, each `[seeds, boards]`, for the seeds that both have.

    Raises:
        ValueError: They have no seed in common, or other boards, or one has a seed more than once.
    """
    for name, index in (("own", own.index), ("other", other.index)):
        if index.has_duplicates:
            raise ValueError(f"{name}: must have one row a seed, and has several of {index[index.duplicated()][0]}")
    if not own.columns.equals(other.columns):
        raise ValueError("not the same boards")
    seeds = own.index.intersection(other.index)
    if seeds.empty:
        raise ValueError("no seed in common")
    return own.loc[seeds] - other.loc[seeds]


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Returns p-values corrected for their number m (Holm 1979); a None stays and does not count.

    The i-th smallest becomes the largest (m - j + 1) p_j of all j up to i, at most 1.

    Raises:
        ValueError: A p-value is not in 0 to 1.
    """
    for i, value in enumerate(p):
        if value is not None and not 0 <= value <= 1:
            raise ValueError(f"p[{i}]: must be in 0 to 1, or None, not {value}")
    order = sorted((value, i) for i, value in enumerate(p) if value is not None)
    corrected: list[float | None] = [None] * len(p)
    worst = 0.0
    for rank, (value, i) in enumerate(order):
        worst = min(1.0, max(worst, (len(order) - rank) * value))
        corrected[i] = worst
    return corrected


def detectable(values: pd.DataFrame | np.ndarray, seeds: int) -> float:
    """Returns the smallest true mean whose 95% interval would leave out zero in 4 of 5 studies with `seeds` seeds.

    The mean squares of the differences `values`, `[seeds, boards]`, stand for those of the study to come.

    Raises:
        ValueError: `values` or the study to come has fewer than two seeds, or there are fewer than two boards, or a
            value is not a finite number.
    """
    array, seeds = _finite(values), whole(seeds, "seeds", 2)
    pilot, boards = array.shape
    between, by_board, rest = mean_squares(array)
    expected = max(rest, rest + (by_board - rest) * seeds / pilot)  # the effect of boards enters once for each seed
    variance, df = _variance(between, expected, rest, seeds, boards)
    limit = stats.t.ppf(0.975, df)
    shift = optimize.brentq(lambda nc: stats.nct.sf(limit, df, nc) - 0.8, 0.0, 100.0 * limit)
    return float(shift * variance**0.5)
