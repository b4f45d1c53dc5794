"""The gate's values against simulated trials of which the truth is known, with controls in which there is nothing."""

import numpy as np
import pytest

from benchmarks import gate

DESIGNS = ("small", "middle", "large", "draw 0", "draw 1")
TRUTH = np.array([[6.0, 3.0, 0.0, 1.0, 2.0], [2.0, 4.0, 3.0, 1.0, 2.0], [0.0, 3.0, 6.0, 1.0, 2.0]])  # [S, D]
DRAWS, CONSTANTS = DESIGNS[3:], ("middle",)


def rows(truth, seeds, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {"student": f"s{s}", "design": DESIGNS[d], "seed": k, "gain": truth[s, d] + rng.normal(0, noise), "tokens": 1}
        for s in range(len(truth))
        for d in range(len(DESIGNS))
        for k in range(seeds)
    ]


def test_values_are_those_of_the_truth_in_whatever_order_trials_come():
    trials = sorted(rows(TRUTH, 3), key=lambda row: (-row["seed"], row["gain"]))
    estimates = gate.values(gate.trials(trials), DRAWS, CONSTANTS)
    best = TRUTH.max(axis=1)
    assert estimates["designing"].mean == pytest.approx((best - 1.5).mean())
    assert estimates["reading"].mean == pytest.approx((best - TRUTH[:, 1]).mean())  # middle is the best for all
    assert estimates["against middle"].mean == estimates["reading"].mean
    assert estimates["reading, searched"].mean >= estimates["reading"].mean - 1e-9
    assert (estimates["reading"].seeds, estimates["reading"].boards) == (3, 3)


def test_at_equal_tokens_a_design_with_short_answers_gains_more():
    trials = [row | {"tokens": 1 if row["design"] == "small" else 4} for row in rows(TRUTH, 2)]
    scaled = gate.trials(trials).at_equal_tokens()  # the mean is 3.4 tokens
    assert scaled.gain[:, 0, 0] == pytest.approx(TRUTH[:, 0] * 3.4)
    assert scaled.gain[:, 1:, 1] == pytest.approx(TRUTH[:, 1:] * 3.4 / 4)


def test_where_there_is_nothing_to_be_read_cross_fitting_finds_nothing():
    """A maximum over the same seeds that score it, the control, finds points that are not there."""
    read, naive = [], []
    for gain in np.random.default_rng(0).normal(TRUTH[1][:, None], 2.0, (200, 6, len(DESIGNS), 3)):
        read.append((gate.best_of_each(gain) - gate.best_constant(gain)).mean())
        naive.append(gain.mean(axis=2).max(axis=1).mean() - gain.mean(axis=(0, 2)).max())
    error = np.std(read, ddof=1) / len(read) ** 0.5
    assert np.mean(read) < 3 * error  # choosing for each student on less data can only lose
    assert np.mean(naive) > 3 * error


def test_a_constant_that_was_searched_for_on_others_is_never_told_the_student():
    odd = np.array([[9.0, 0, 0, 0, 0], [9.0, 0, 0, 0, 0], [0, 0, 5.0, 0, 0]])
    gain = gate.trials(rows(odd, 2)).gain
    assert gate.best_constant(gain)[2].tolist() == [0.0, 0.0]
    pair = gain[[0, 2]]  # of two students each gets what is best for the other one
    assert gate.best_constant(pair, on_others=True).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match="takes at least 2 students"):
        gate.best_constant(gain[:1], on_others=True)


def test_ceiling_is_one_without_noise_and_none_where_all_is_noise():
    assert gate.ceiling(gate.trials(rows(TRUTH, 3)).gain) == pytest.approx([1, 1, 1])
    flat = gate.trials(rows(np.zeros((200, len(DESIGNS))), 2, noise=1.0)).gain
    ceilings = np.array(gate.ceiling(flat))
    assert abs(ceilings.mean()) < 3 * ceilings.std(ddof=1) / len(ceilings) ** 0.5


def test_the_interaction_is_that_of_two_regressions():
    """Its p is small where students need different designs, and is as it should be where all are alike."""
    gain = gate.trials(rows(TRUTH, 3, noise=1.0)).gain
    s, d, k = (axis.ravel() for axis in np.indices(gain.shape))

    def residual(*groups):
        columns = np.hstack([np.eye(group.max() + 1)[group] for group in groups])
        return gain.ravel() - columns @ np.linalg.lstsq(columns, gain.ravel(), rcond=None)[0]

    alike, apart = ((residual(s * 3 + k, group) ** 2).sum() for group in (d, s * 5 + d))
    ratio, first, second, p = gate.interaction(gain)
    assert ratio == pytest.approx((alike - apart) / 8 / (apart / 24))
    assert (first, second) == (8, 24)
    assert p < 1e-4
    same = np.random.default_rng(0).normal(TRUTH[1][:, None], 1.0, (400, 3, len(DESIGNS), 3))
    p_values = [gate.interaction(gain)[-1] for gain in same]
    assert 0.02 < np.mean(np.array(p_values) < 0.05) < 0.09


def test_what_is_missing_or_there_twice_is_named():
    whole = rows(TRUTH, 2)
    with pytest.raises(ValueError, match=r"^student s1, design large, seed 1: not tried \(1 missing in all\)$"):
        gate.trials([row for row in whole if (row["student"], row["design"], row["seed"]) != ("s1", "large", 1)])
    with pytest.raises(ValueError, match=r"^student s0, design small, seed 0: this trial is there twice$"):
        gate.trials([*whole, whole[0]])
    with pytest.raises(ValueError, match="takes 2 seeds, not 1"):
        gate.trials(rows(TRUTH, 1))
    with pytest.raises(ValueError, match=r"^design 'huge' was not tried; tried: small, middle"):
        gate.trials(whole).of(["huge"])
