"""The study's statistics: coverage by simulation, known answers, laws."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mapflake.repro import rng_for
from mapflake.study import statistics


def rows(arms: dict[str, np.ndarray]) -> pd.DataFrame:
    """Returns a frame as `record` makes it: values `[seeds, boards]` for each arm, two kinds of boards."""
    parts = []
    for arm, values in arms.items():
        seeds, boards = values.shape
        for s in range(seeds):
            about = {"arm": arm, "seed": s, "subset": "wr050", "board": range(boards), "size": 4}
            parts.append(pd.DataFrame({**about, "agents": [2 + b % 2 for b in range(boards)], "valid": values[s]}))
    return pd.concat(parts)


def simulate(rng: np.random.Generator, effect: float, seeds: int, boards: int, between: float) -> np.ndarray:
    """Returns differences with an effect of each seed, of each board, and noise."""
    by_seed = rng.normal(0, between, (seeds, 1))
    return effect + by_seed + rng.normal(0, 0.03, (1, boards)) + rng.normal(0, 0.2, (seeds, boards))


@pytest.mark.parametrize(("seeds", "between"), [(3, 0.01), (5, 0.0), (5, 0.01), (5, 0.05)])
def test_intervals_cover_the_truth_as_often_as_they_say(
    seeds: int, between: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "RESAMPLES", 200)  # enough for a standard error to 5%
    rng = rng_for(0, "coverage", seeds, str(between))
    runs = [statistics.estimate(simulate(rng, 0.02, seeds, 60, between)) for _ in range(300)]
    covered = sum(run["low"] <= 0.02 <= run["high"] for run in runs)
    assert stats.binomtest(covered, 300, 0.95, alternative="less").pvalue > 1e-3, covered


def test_the_standard_error_is_that_of_seeds_when_boards_say_nothing() -> None:
    values = np.array([0.0, 0.1, 0.3, 0.2, 0.05])[:, None] + np.zeros((1, 50))
    expected = values[:, 0].std(ddof=1) / np.sqrt(5)
    assert statistics.standard_error(values) == pytest.approx(expected, rel=0.05)


def test_the_standard_error_is_that_of_boards_with_one_seed() -> None:
    values = rng_for(1, "boards").normal(size=(1, 400))
    assert statistics.standard_error(values) == pytest.approx(values.std() / 20, rel=0.06)
    assert np.isnan(statistics.estimate(values)["p"])


@given(st.integers(2, 5), st.integers(2, 30), st.floats(-3, 3), st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_shifting_shifts_and_turning_round_turns_round(seeds: int, boards: int, shift: float, number: int) -> None:
    values = rng_for(number, "values").normal(size=(seeds, boards))
    one, moved, turned = (statistics.estimate(v) for v in (values, values + shift, -values))
    assert moved["mean"] == pytest.approx(one["mean"] + shift)
    assert moved["high"] - moved["low"] == pytest.approx(one["high"] - one["low"])
    assert (turned["low"], turned["high"], turned["p"]) == pytest.approx((-one["high"], -one["low"], one["p"]))


def test_p_is_below_5_percent_where_the_interval_leaves_out_zero() -> None:
    rng = rng_for(2, "p")
    for effect in np.linspace(0, 0.1, 20):
        found = statistics.estimate(simulate(rng, effect, 5, 40, 0.02))
        assert (found["p"] < 0.05) == (found["low"] > 0 or found["high"] < 0)


def test_comparisons_are_paired_by_seed_and_corrected_for_their_number() -> None:
    rng = rng_for(3, "arms")
    level = rng.normal(0.5, 0.3, (5, 1))  # seeds differ much more than arms
    noise = lambda: rng.normal(0, 0.02, (5, 60))  # noqa: E731
    arms = {"fixed": level + noise(), "same": level + noise(), "better": level + 0.05 + noise()}
    arms["few"] = (level + noise())[:3]
    table = statistics.comparisons(rows(arms), [*arms], "fixed", "valid").set_index("arm")
    assert list(table.index) == ["same", "better", "few"]
    assert table["seeds"].to_dict() == {"same": 5, "better": 5, "few": 3}
    assert table.loc["better", "mean"] == pytest.approx(0.05, abs=0.01)
    assert table.loc["better", "holm"] < 0.05 < table.loc["same", "holm"]
    assert table.loc["better", "holm"] == pytest.approx(3 * table.loc["better", "p"])
    assert (table["holm"] >= table["p"]).all()


def test_a_board_in_two_subsets_counts_once() -> None:
    one = rows({"fixed": np.array([[0.0, 1.0, 1.0]])})
    again = one[one["board"] == 0].assign(subset="wr075", valid=1.0)
    values = statistics.matrix(pd.concat([one, again]), "fixed", "valid")
    assert values.to_numpy().tolist() == [[0.5, 1.0, 1.0]]


def test_against_several_arms_is_against_their_mean() -> None:
    arms = {"x": np.full((2, 4), 0.9), "a": np.full((2, 4), 0.2), "b": np.full((2, 4), 0.4)}
    assert np.allclose(statistics.paired(rows(arms), "x", ["a", "b"], "valid"), 0.6)
    arms["c"] = np.zeros((0, 4))
    with pytest.raises(ValueError, match="x and nobody have no seed in common"):
        statistics.paired(rows(arms), "x", "nobody", "valid")


def test_interquartile_mean_and_probability_of_improvement() -> None:
    # kinds: (seed, agents); boards 0 and 2 have 2 agents, 1 and 3 have 3
    arms = {"fixed": np.array([[0.0, 0.2, 0.0, 0.2], [0.4, 1.0, 0.4, 1.0]])}
    arms["x"] = arms["fixed"] + np.array([[0.1, -0.1, 0.1, -0.1], [0.0, 0.1, 0.0, 0.1]])
    assert statistics.interquartile_mean(rows(arms), "fixed", "valid") == pytest.approx(0.3)
    assert statistics.probability_of_improvement(rows(arms), "x", "fixed", "valid") == pytest.approx(2.5 / 4)


def test_what_can_be_detected_is_detected_four_times_in_five() -> None:
    effect = statistics.detectable(1.0, 5)
    draws = rng_for(4, "power").normal(effect, 1.0, (20_000, 5))
    assert np.mean(stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05) == pytest.approx(0.8, abs=0.01)
