"""The bank of real situations, with a learner that trains in milliseconds; and what design RL takes from it."""

import shutil

import pytest
from toy_learner import ToyLearner

from mapflake import repro
from mapflake.engineer import Grpo, LedgerError
from mapflake.engineer.bank import BankParams, bank_run, round_cost, sizes_of_run
from mapflake.engineer.design_rl import cost, mixed
from mapflake.engineer.situations import DesignRLParams, TableParams, kinds
from mapflake.env import EnvConfig, generate
from mapflake.provenance import code_sha256, deciding
from mapflake.trainer.params import RLParams, WarmStartParams

SIZES = (3, 4)
VALIDATION = generate(EnvConfig.uniform(SIZES, 0.1), 12, seed=0, split="validation")
RL = {"prompts": 8, "generations": 4, "microbatch": 32}
PARAMS = DesignRLParams(tables=TableParams(boards=3, samples=4), rl=RLParams(instances=40, epochs=1, **RL))


def run(folder, number=0, rounds=2):
    args = (ToyLearner(), "nothing yet", VALIDATION, SIZES, BankParams(rounds=rounds), PARAMS.tables)
    return bank_run(folder, number, *args, samples=2)


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    """The folder of a run, and its situations."""
    folder = tmp_path_factory.mktemp("bank") / "a"
    return folder, run(folder)


def test_a_situation_after_every_round_with_its_table(bank, tmp_path):
    folder, situations = bank
    assert [len(situation.history) for situation in situations] == [1, 2]
    assert [situation.report for situation in situations] == [situation.history[-1].report for situation in situations]
    assert situations[0].history[0].config != situations[1].history[1].config  # a new random configuration every round
    for situation in situations:
        assert 0 < max(situation.learnability.vector) <= 1.34  # unbiased: 4 samples can say 4/3
        assert 0 < max(situation.success.vector) <= 1
        assert situation.origin == "run 0"
    assert run(folder) == situations
    assert repro.read_json(folder / "round-0/tables.json")["made_from"][-1] == code_sha256("mapflake.engineer.bank")
    assert "trainer/decoding.py" in deciding(["mapflake.engineer.bank"])  # the same policy, sampled in another way
    second_run = run(tmp_path / "b", number=1)
    assert [situation.success for situation in second_run] != [situation.success for situation in situations]


def test_a_killed_run_goes_on_and_ends_the_same(bank, tmp_path):
    run(tmp_path / "b", rounds=1)
    tables = [(situation.success, situation.learnability) for situation in run(tmp_path / "b")]
    assert tables == [(situation.success, situation.learnability) for situation in bank[1]]


def test_what_is_torn_or_exchanged_is_named(bank, tmp_path):
    shutil.copytree(bank[0], tmp_path / "a")
    path = tmp_path / "a/round-1/tables.json"
    text = path.read_text()
    path.write_text(text[: len(text) // 2])
    with pytest.raises(ValueError, match=r"round-1/tables.json: not JSON"):
        run(tmp_path / "a")
    path.unlink()
    run(tmp_path / "a")
    assert path.read_text() == text
    repro.write_json(tmp_path / "a/round-1/checkpoint/practised.json", {"3x3": 1})
    with pytest.raises(LedgerError, match=r"round-1/checkpoint: its weights have the hash"):
        run(tmp_path / "a")


def test_situations_of_a_training_are_mixed_in_the_share_that_is_asked_for(bank):
    _, real = bank
    situations = mixed(real, SIZES, PARAMS, seed=0)
    assert len(situations) == 40
    assert 10 < sum(situation in real for situation in situations) < 30
    assert situations == mixed(real, SIZES, PARAMS, seed=0) != mixed(real, SIZES, PARAMS, seed=1)
    assert not any(situation in real for situation in mixed([], SIZES, PARAMS, seed=0))  # made up, all of them


def test_runs_have_ranges_of_sizes_of_their_own():
    sizes = (3, 4, 5, 6)
    ranges = [sizes_of_run(number, sizes) for number in range(40)]
    assert {tuple(r) for r in ranges} == {sizes[i:j] for i in range(4) for j in range(i + 1, 5)}


def test_what_it_costs():
    rl = Grpo(RLParams(instances=8, epochs=2, **RL))
    tables = 2 * len(kinds(SIZES)) * 3 * 4  # answers
    rl_cost = round_cost(rl, BankParams(rounds=1), validation=24)
    assert rl_cost == {"rollouts": 24 + 8 * 2 * 4}
    assert cost(PARAMS, SIZES, tables=2, each=rl_cost) == {"rollouts": tables + 2 * 88, "replies": 160}
    lesson_cost = round_cost(rl, BankParams(rounds=1, training=WarmStartParams(steps=5, batch_size=16)), validation=24)
    assert lesson_cost == {"rollouts": 24, "demonstrations": 80}
    total = {"rollouts": tables + 2 * 24, "demonstrations": 160, "replies": 160}
    assert cost(PARAMS, SIZES, tables=2, each=lesson_cost) == total
