"""The training behind the bank: rounds that imitate the solver, with real weights."""

import shutil
from collections import Counter
from types import SimpleNamespace

import pytest
from starts import PARAMS, TASKS, demonstrations

from mapflake.engineer import Grpo
from mapflake.engineer.backend import Supervised
from mapflake.trainer import evaluate, warmstart
from mapflake.trainer.params import WarmStartParams

RECIPE = WarmStartParams(steps=24, batch_size=8, microbatch=4, learning_rate=5e-3, warmup_steps=2, save_every=4)
SCHOOL = Supervised(Grpo(PARAMS), RECIPE)


@pytest.mark.parametrize("name", ["start", "chat_start"])
def test_a_policy_learns_the_plans_of_its_boards_in_its_own_format(name, request, tmp_path):
    start = request.getfixturevalue(name)
    boards = [TASKS[i % len(TASKS)] for i in range(SCHOOL.instances)]
    curve = SCHOOL.train(start, boards, tmp_path / "a", seed=0)
    assert curve[-1]["loss"] < curve[0]["loss"]
    valid = Counter()
    for checkpoint in (start, tmp_path / "a"):
        rollouts = evaluate.rollout(SCHOOL.load(checkpoint), TASKS, samples=20, seed=1)
        valid[checkpoint] = sum(r.verdict.valid for r in rollouts)
    # It was shown wrong plans as often as right ones before. A count has a standard error of at most half the root of
    # the number of rollouts.
    assert valid[tmp_path / "a"] > valid[start] + 4 * (2 * len(rollouts)) ** 0.5 / 2


def test_a_model_on_the_hub_is_trained_by_its_name(monkeypatch, tmp_path):
    def load(path, **options):
        raise LookupError(path)

    monkeypatch.setattr(Grpo, "load", lambda self, path: SimpleNamespace(prompt_format="chat"))
    monkeypatch.setattr(warmstart, "load_policy", load)
    with pytest.raises(LookupError, match=r"^someone/model$"):
        SCHOOL.train("someone/model", TASKS, tmp_path / "a", seed=0)


def test_the_weights_in_a_folder_decide_a_training_however_the_folder_is_named(start, tmp_path):
    pairs, out = demonstrations(TASKS, "compact"), tmp_path / "out"
    warmstart.warm_start(pairs, start, RECIPE, out, seed=0)
    trained = out.stat().st_ino  # of a new training it would be another folder
    for path in (str(start), shutil.copytree(start, tmp_path / "copy")):
        warmstart.warm_start(pairs, path, RECIPE, out, seed=0)
        assert out.stat().st_ino == trained


def test_a_round_is_known_by_its_sampling_too():
    other = Supervised(Grpo(PARAMS.model_copy(update={"max_new_tokens": PARAMS.max_new_tokens + 1})), RECIPE)
    assert other.describe() != SCHOOL.describe()
