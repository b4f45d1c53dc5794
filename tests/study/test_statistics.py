"""The study's statistics: coverage by simulation, from both sides; known answers; laws."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mapflake.repro import rng_for
from mapflake.study import statistics
from mapflake.study.statistics import Estimate, estimate, t_estimate

RUNS = 1000


def simulate(rng, effect, seeds, boards, between):
    """Returns differences `[seeds, boards]` with an effect of each seed, of each board, and noise."""
    by_seed, by_board = rng.normal(0, between, (seeds, 1)), rng.normal(0, 0.05, (1, boards))
    return effect + by_seed + by_board + rng.normal(0, 0.2, (seeds, boards))


def covered(estimator, seeds, boards, between):
    """Returns how many of `RUNS` intervals hold the true effect."""
    rng = rng_for(0, "coverage", seeds, str(between))
    runs = [estimator(simulate(rng, 0.02, seeds, boards, between)) for _ in range(RUNS)]
    return sum(run.low <= 0.02 <= run.high for run in runs if run.low is not None and run.high is not None)


def as_often_as_claimed(count):
    """Whether a coverage of 92 to 98% is not refuted: an approximation is not exact, and must not be far off."""
    low = stats.binomtest(count, RUNS, 0.92, alternative="less").pvalue
    high = stats.binomtest(count, RUNS, 0.98, alternative="greater").pvalue
    return min(low, high) > 0.01


@pytest.mark.parametrize(("seeds", "boards", "between"), [(3, 300, 0.05), (5, 300, 0.02), (10, 300, 0.0)])
def test_estimate_covers_the_truth_as_often_as_it_claims(seeds, boards, between):
    assert as_often_as_claimed(covered(estimate, seeds, boards, between))


def test_coverage_refutes_intervals_that_forget_the_seeds():
    forgetful = lambda v: Estimate(0, 5, 60, *stats.ttest_1samp(v.ravel(), 0).confidence_interval())  # noqa: E731
    assert not as_often_as_claimed(covered(forgetful, 5, 60, 0.05))


def test_estimate_agrees_with_a_table_worked_by_hand():
    values = np.array([[1.0, 2.0, 6.0], [3.0, 4.0, 8.0]]) + np.array([[0.5, -0.5, 0.0], [-0.5, 0.5, 0.0]])
    assert statistics.mean_squares(values) == pytest.approx((6.0, 14.0, 0.5))
    interval = estimate(values)  # variance (6 + 14 - 0.5) / 6, df 19.5^2 / (6^2 + 14^2 / 2 + 0.5^2 / 2)
    of_t, error = stats.t(19.5**2 / (36 + 98 + 0.125)), (19.5 / 6) ** 0.5
    half, p = of_t.ppf(0.975) * error, 2 * of_t.sf(4 / error)
    assert (interval.mean, interval.low, interval.high, interval.p) == pytest.approx((4.0, 4 - half, 4 + half, p))


def test_students_are_compared_within_their_age():
    """What all students of an age have in common, on all boards or on some, is no part of the interval."""
    ages, half = [0, 1, 2, 3] * 2, slice(0, 150)

    def aged(values):  # a mean of zero over the ages
        values[2::4] += 0.12
        values[0::4, half] -= 0.24
        return values

    within, without = (
        covered(lambda values, ages=ages: estimate(aged(values), ages), 8, 300, 0.02) for ages in (ages, None)
    )
    assert as_often_as_claimed(within)
    assert not as_often_as_claimed(without)  # the control: it is too wide
    values = simulate(rng_for(1, "ages"), 0.02, 8, 300, 0.02)
    assert estimate(values, [5] * 8) == estimate(values)
    plain, moved = estimate(values, ages), estimate(values + np.array(ages)[:, None], ages)
    assert (moved.high - moved.low, moved.mean) == pytest.approx((plain.high - plain.low, plain.mean + 1.5))
    assert statistics.mean_squares(values, ages)[0] == pytest.approx(
        300 * np.mean([values.mean(1)[[i, i + 4]].var(ddof=1) for i in range(4)])
    )


@pytest.mark.parametrize("ages", [[0, 1, 2, 3], [0, 0, 0, 1], [0, 0, 1], [0, 0, 0, 0, 1, 1]])
def test_ages_are_one_a_seed_and_each_has_as_many_seeds(ages):
    with pytest.raises(ValueError, match=r"^ages: takes one a seed, each as often as any other, at least twice, not "):
        estimate(np.arange(12.0).reshape(4, 3) ** 2, ages)


@pytest.mark.parametrize("values", [np.arange(4.0)[None], np.arange(4.0)[:, None], np.full((3, 4), 1 / 3)])
def test_estimate_has_no_interval_with_one_seed_or_board_or_where_nothing_varies(values):
    interval = estimate(values)
    assert (interval.mean, interval.low, interval.high, interval.p) == (values.mean(), None, None, None)
    assert not interval.excludes_zero
    assert t_estimate([0.1, 0.1, 0.1]).p is None
    with pytest.raises(ValueError, match="values: there is none"):
        t_estimate([])
    assert t_estimate([0.1, 0.1, 0.1 + 1e-9]).p is not None  # the control


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_no_mean_is_taken_of_what_is_no_number(wrong):
    values = np.array([[0.1, 0.2, 0.3], [0.2, wrong, 0.1]])
    for function, taken in (
        (estimate, values),
        (estimate, values[1:]),
        (estimate, pd.DataFrame(values)),
        (lambda taken: statistics.detectable(taken, 5), values),
        (t_estimate, values[1]),
    ):
        with pytest.raises(ValueError, match=r"^values: must be finite numbers, and 1 of [36] are NaN or infinite$"):
            function(taken)


@given(st.integers(2, 5), st.integers(2, 30), st.floats(-3, 3), st.integers(0, 10**6))
@settings(max_examples=25)
def test_estimate_moves_and_turns_with_its_values(seeds, boards, shift, number):
    """Seeds and boards may change places: in the gate, students under two training seeds are the rows."""
    values = rng_for(number, "values").normal(size=(seeds, boards))
    plain, moved, turned, placed = (estimate(v) for v in (values, values + shift, -values[::-1, ::-1], values.T))
    assert None not in (plain.low, plain.high, moved.low, moved.high)
    assert moved.mean == pytest.approx(plain.mean + shift)
    assert moved.high - moved.low == pytest.approx(plain.high - plain.low)
    assert (turned.low, turned.high, turned.p) == pytest.approx((-plain.high, -plain.low, plain.p))
    assert (placed.low, placed.high, placed.p) == pytest.approx((plain.low, plain.high, plain.p))
    assert plain.excludes_zero == (plain.p is not None and plain.p < 0.05)


def test_holm_is_worked_by_hand():
    assert statistics.holm([0.01, None, 0.04, 0.03, 0.005]) == pytest.approx([0.03, None, 0.06, 0.06, 0.02])
    assert statistics.holm([0.6, 0.7]) == [1.0, 1.0]
    assert statistics.holm([]) == []
    assert statistics.holm([0, 1.0]) == [0.0, 1.0]
    for wrong in (np.nan, 2.0, -1):
        with pytest.raises(ValueError, match=rf"^p\[1\]: must be in 0 to 1, or None, not {wrong}$"):
            statistics.holm([0.01, wrong, None, 0.03])


def test_paired_takes_common_seeds():
    frame = lambda value, seeds: pd.DataFrame(value, index=seeds, columns=[7, 8])  # noqa: E731
    own, other = frame(0.9, [0, 1, 2]), frame(0.2, [2, 1])
    assert statistics.paired(own, other).to_numpy() == pytest.approx(np.full((2, 2), 0.7))
    with pytest.raises(ValueError, match="no seed in common"):
        statistics.paired(own, frame(0.1, [3]))
    for name, pair in (("own", (frame(0.9, [0, 1, 1]), other)), ("other", (other, frame(0.9, [0, 1, 1])))):
        with pytest.raises(ValueError, match=f"^{name}: must have one row a seed, and has several of 1$"):
            statistics.paired(*pair)
    with pytest.raises(ValueError, match="not the same boards"):
        statistics.paired(own, other.rename(columns={7: 9}))


def test_detectable_is_detected_four_times_in_five():
    rng = rng_for(4, "power")
    effect = statistics.detectable(simulate(rng, 0.0, 4000, 60, 0.05), 5)
    seen, less = (
        np.mean([estimate(simulate(rng, e, 5, 60, 0.05)).excludes_zero for _ in range(RUNS)])
        for e in (effect, 0.8 * effect)
    )
    error = (0.8 * 0.2 / RUNS) ** 0.5
    assert abs(seen - 0.8) < 4 * error < 0.8 - less  # the control: a smaller effect
    with pytest.raises(ValueError, match=r"^mean squares take at least 2 seeds and 2 boards, not 1 and 5$"):
        statistics.detectable(np.ones((1, 5)), 5)
    with pytest.raises(ValueError, match=r"^seeds: must be at least 2, not 1$"):
        statistics.detectable(rng.normal(size=(3, 5)), 1)


def p_values(runs, seeds, boards, between, by_board, noise):
    """Returns p-values of studies without an effect, from their mean squares, which are chi-squared."""
    rng = rng_for(0, "p-values", seeds, str(between))
    dfs = (seeds - 1, boards - 1, (seeds - 1) * (boards - 1))
    expected = (boards * between**2 + noise**2, seeds * by_board**2 + noise**2, noise**2)
    squares = np.stack([e * rng.chisquare(df, runs) / df for e, df in zip(expected, dfs, strict=True)], axis=1)
    variance, df = np.array([statistics._variance(*row, seeds, boards) for row in squares]).T
    means = rng.normal(0, ((expected[0] + expected[1] - expected[2]) / (seeds * boards)) ** 0.5, runs)
    return 2 * stats.t.sf(abs(means) / variance**0.5, df)


def test_p_values_are_as_true_as_the_table_of_the_module_says():
    table = [line for line in (statistics.__doc__ or "").splitlines() if line[:3] in ("| 5", "| 6", "| 1")]
    assert len(table) == 9
    runs, refuted = 20_000, set()
    for row in table:
        seeds, between, *ratios, _ = (cell.strip() for cell in row.strip("|").split("|"))
        simulated = p_values(runs, int(seeds), 480, float(between), 0.10, 0.33)
        for alpha, ratio in zip((0.05, 0.01, 0.0056, 0.001), map(float, ratios), strict=True):
            count = int((simulated < alpha).sum())
            # What two decimals leave open, and 4 standard errors of the count.
            error = 0.005 * alpha + 4 * (ratio * alpha / runs) ** 0.5
            assert abs(count / runs - ratio * alpha) < error, (row, alpha, count)
            refuted |= {between} if stats.binomtest(count, runs, alpha).pvalue < 1e-3 else set()
    assert {"0", "0.05"} <= refuted  # the control: exact p-values are refuted where they are far from exact
