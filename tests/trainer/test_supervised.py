"""The training behind the bank: rounds that imitate the solver, with real weights."""

from collections import Counter

import pytest
from starts import PARAMS, TASKS

from mapflake.engineer import Grpo
from mapflake.engineer.backend import Supervised
from mapflake.engineer.bank import BankParams, bank_run, sizes_of_run
from mapflake.engineer.situations import TableParams
from mapflake.env import EnvConfig, generate
from mapflake.trainer import evaluate
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


def test_a_run_of_the_bank_asks_for_sizes_of_its_own_and_is_measured_on_all(start, tmp_path):
    sizes, number = (3, 4), 3
    assert sizes_of_run(number, sizes) == [4]
    validation = generate(EnvConfig.uniform(sizes, 0.1), 8, seed=0, split="validation")
    given = (
        Grpo(PARAMS),
        start,
        validation,
        sizes,
        BankParams(rounds=2, training=RECIPE.model_copy(update={"steps": 8})),
    )
    first, second = bank_run(tmp_path, number, *given, TableParams(boards=2, samples=2), samples=1)
    assert [set(one.config.sizes) for one in second.history] == [{4}, {4}]
    assert [one.training["algorithm"] for one in second.history] == ["supervised"] * 2
    assert second.history[1].parent_sha256 == first.history[0].checkpoint_sha256 != second.history[1].checkpoint_sha256
    assert {*first.success.values} == {*first.learnability.values} == {3, 4}
    assert [s.size for s in first.report.sizes] == [3, 4]
