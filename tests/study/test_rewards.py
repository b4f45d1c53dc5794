"""Rewards judged by simulated trials: the reward that made the gains, and scores that have nothing to do with them."""

import numpy as np
import pytest

from benchmarks import laboratory, rewards
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.engineer.situations import ExpectedGain
from mapflake.repro import rng_for

KNOWN = {str(i): made_up(i, laboratory.SPACE, seed=3, reported=laboratory.SIZES) for i in range(5)}
TRUTH = ExpectedGain(near_sizes=0.7, other_waits=0.25, size_power=0.0, forgetting=1.0, kept=0.5)


def rows(seeds=(0, 1), noise=0.1, designs=laboratory.DESIGNS):
    """Trials whose gains are what `TRUTH` expects, in points, with noise."""
    for student, situation in KNOWN.items():
        for name, config in designs.items():
            for seed in seeds:
                gain = 100 * TRUTH(situation, config) + rng_for(seed, student, name).normal(0, noise)
                yield {"student": student, "design": name, "seed": seed, "gain": gain, "tokens": 1}


@pytest.fixture(scope="module")
def few():
    """A grid that has the truth in it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            rewards, "GRID", {name: {getattr(TRUTH, name), getattr(ExpectedGain(), name)} for name in rewards.GRID}
        )
        yield


def test_the_reward_that_made_the_gains_is_found_by_the_other_students(few):
    trials = laboratory.whole(rows())
    candidates = rewards.candidates()
    chosen, _, judged = rewards.held_out([rewards.scores(reward, trials, KNOWN) for reward in candidates], trials)
    assert judged["share"].mean() > 0.9
    assert judged["rank"].mean() > 0.9
    assert {candidates[c].forgetting for c in chosen} == {TRUTH.forgetting}


def test_scores_without_a_relation_to_gains_go_no_way():
    trials = laboratory.whole(rows())
    shares = [rewards.judged(rng_for(i).random(trials.gain.shape[:2]), trials)["share"].mean() for i in range(200)]
    assert abs(np.mean(shares)) < 4 * np.std(shares, ddof=1) / len(shares) ** 0.5


def test_a_reward_is_judged_under_seeds_that_did_not_set_it(monkeypatch):
    monkeypatch.setattr(rewards, "CHOSEN_ON", dict.fromkeys(KNOWN, (0, 1)))
    assert rewards.under_new_seeds(laboratory.whole(rows()), KNOWN).empty
    trials = laboratory.whole(rows(seeds=(0, 1, 2)))
    monkeypatch.setattr(rewards, "expected_gain", TRUTH)
    result = rewards.under_new_seeds(trials, KNOWN)["under new seeds"]
    assert float(result["rank correlation"].split()[0]) > 0.9
    assert abs(float(result["ahead of the best design under the other seeds"].split()[0])) < 0.2  # the noise is 0.1
    draws = [trials.designs.index(name) for name in laboratory.DRAWS]
    ahead = trials.gain[:, :, 2].max(axis=1) - trials.gain[:, draws, 2].mean(axis=1)
    assert float(result["ahead of a random draw"].split()[0]) == pytest.approx(ahead.mean(), abs=0.2)
    monkeypatch.setattr(rewards, "expected_gain", lambda situation, config: -TRUTH(situation, config))  # the control
    assert rewards.under_new_seeds(trials, KNOWN)["under new seeds"]["rank correlation"].startswith("-")


def test_what_a_reward_promises_is_held_against_gains_on_designs_that_engineers_asked_for(few, monkeypatch):
    monkeypatch.setattr(rewards, "expected_gain", TRUTH)
    assert rewards.with_asked(list(rows()), KNOWN).empty  # nobody tried these designs
    both = [*rows(), *rows(seeds=(1,), designs=laboratory.first_designs())]
    table = rewards.with_asked(both, KNOWN)
    assert table["gained for each point promised"].to_numpy() == pytest.approx(1, abs=0.1)
    assert (table[["explained", "explained, fitted to others", "rank"]] > 0.9).all(axis=None)
    half = [row | {"gain": row["gain"] / 2} for row in both]
    assert rewards.with_asked(half, KNOWN)["gained for each point promised"].to_numpy() == pytest.approx(0.5, abs=0.1)
    noise = [row | {"gain": rng_for(row["seed"], row["student"], row["design"]).normal()} for row in both]
    assert rewards.with_asked(noise, KNOWN)["explained"].mean() < 0.3  # the control


def test_the_table_says_what_is_missing_and_what_was_chosen(few):
    assert rewards.table(list(rows(seeds=(0,))), KNOWN).startswith("The trials are too few")
    text = rewards.table([*rows(), {"student": "99", "design": "uniform", "seed": 0, "gain": 1.0, "tokens": 1}], KNOWN)
    lines = {line.split("|")[1].strip(): line for line in text.splitlines() if line.startswith("| ")}
    assert {"expected gain, as it is set", "mean learnability", "the mean design"} <= {*lines}
    assert f"'forgetting': {TRUTH.forgetting}" in text.split("Chosen by all: ")[1].splitlines()[0]
