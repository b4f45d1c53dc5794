"""What a configuration really teaches, with a learner of milliseconds, and whether scores predict it."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs/examples"))
from toy_learner import ToyLearner

from mapflake import repro
from mapflake.engineer import RoundSettings, Start, run_round
from mapflake.engineer.gains import Progress, correlations, rule_scores
from mapflake.engineer.situations import Situation
from mapflake.env import EnvConfig, SizeConfig, generate

SIZES = (3, 4)
VALIDATION = generate(EnvConfig.uniform(SIZES, 0.1, 1.0), 40, seed=0, split="validation")


class Counting(ToyLearner):
    """Counts its trainings."""

    def __init__(self) -> None:
        self.trained = 0

    def train(self, *given, **options):
        self.trained += 1
        return super().train(*given, **options)


@pytest.fixture
def situation(tmp_path) -> Situation:
    """A policy that has practised nothing but 3x3 boards without a wait."""
    first = EnvConfig({3: SizeConfig(1.0, 0.0, 0.0)})
    settings = RoundSettings(tmp_path / "run", ToyLearner(), VALIDATION, seed=0)
    one = run_round(settings, (), start=Start("nothing learned yet", first))
    return Situation(one.report, (one,))


def test_progress_is_the_gain_of_a_short_training_and_none_is_done_twice(situation, tmp_path):
    learner = Counting()
    progress = Progress(tmp_path / "gains", learner, VALIDATION, samples=4, seed=1)
    useful = EnvConfig.uniform(SIZES, 0.1, 1.0)  # the boards that are asked for
    useless = situation.history[-1].config
    assert progress(situation, useful) > 0.2
    assert progress(situation, useless) == 0
    assert learner.trained == 2
    again = Progress(tmp_path / "gains", learner, VALIDATION, samples=4, seed=1)
    assert again(situation, useful) == progress(situation, useful)
    assert learner.trained == 2
    again(situation, EnvConfig.uniform(SIZES, 0.2, 1.0))
    Progress(tmp_path / "gains", learner, VALIDATION, samples=4, seed=2)(situation, useful)
    assert learner.trained == 5  # another design; another seed, with both sides
    assert not [p for p in (tmp_path / "gains").iterdir() if p.is_dir()]  # no checkpoint is left


def test_boards_that_cannot_be_drawn_train_nothing(situation, tmp_path, monkeypatch):
    monkeypatch.setattr("mapflake.env.generator.MAX_ATTEMPTS", 1)
    learner = Counting()
    crowded = EnvConfig({3: SizeConfig(1.0, 0.0, 1.0)}, num_agents=8)
    progress = Progress(tmp_path / "gains", learner, VALIDATION, samples=4, seed=1)
    untrained = progress.valid_rate(situation.history[-1].checkpoint, None)
    assert progress.valid_rate(situation.history[-1].checkpoint, crowded) == untrained
    assert learner.trained == 0


def test_a_cached_gain_that_is_damaged_is_named(situation, tmp_path):
    progress = Progress(tmp_path / "gains", ToyLearner(), VALIDATION, samples=1, seed=1)
    progress(situation, EnvConfig.uniform(SIZES, 0.1, 1.0))
    for path in (tmp_path / "gains").glob("*.json"):
        path.write_text("0.")
    with pytest.raises(ValueError, match=r"gains.*json: not JSON"):
        progress(situation, EnvConfig.uniform(SIZES, 0.1, 1.0))


def test_hand_rules_score_what_they_look_for(situation):
    report = situation.report
    strong, weak = sorted((s.valid_rate, s.size) for s in report.sizes)[::-1]
    one, other = (EnvConfig({size: SizeConfig(1.0, 0.1)}) for _, size in (strong, weak))
    score = rule_scores(report)
    assert score["strongest"](one) >= score["strongest"](other)
    assert score["weakest"](one) <= score["weakest"](other)
    assert score["evaluation-matched"](EnvConfig.uniform(SIZES, 0.1)) == pytest.approx(0)
    assert score["evaluation-matched"](one) == pytest.approx(-0.5)


def test_correlations_are_within_checkpoints_and_find_what_predicts():
    rng = np.random.default_rng(0)
    gain = rng.normal(size=(8, 20))
    level = 10 * rng.normal(size=(8, 1))  # of the checkpoint: must not count
    pairs = pd.DataFrame(
        {
            "checkpoint": np.repeat(np.arange(8), 20),
            "gain": (gain + level).ravel(),
            "good": (gain + 0.3 * rng.normal(size=(8, 20))).ravel(),
            "noise": rng.normal(size=160),
            "level only": (level + rng.normal(size=(8, 20))).ravel(),
            "constant": np.ones(160),
        }
    )
    found = correlations(pairs, ["noise", "good", "level only", "constant"], resamples=200)
    assert found.index[0] == "good"
    assert found.loc["good", "low"] > 0.8
    for name in ("noise", "level only"):
        assert found.loc[name, "low"] < 0 < found.loc[name, "high"]
    assert np.isnan(found.loc["constant", "correlation"])
    assert repro.json_sha256(found.loc["good"].tolist()) == repro.json_sha256(
        correlations(pairs, ["good"], resamples=200).loc["good"].tolist()
    )
