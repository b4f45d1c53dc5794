"""The bank of real situations, with a learner of milliseconds; and what design RL takes from it."""

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
    given = (ToyLearner(), "nothing yet", VALIDATION, SIZES, BankParams(rounds=rounds), PARAMS.tables)
    return bank_run(folder, number, *given, samples=2)


def test_a_situation_after_every_round_with_its_table(tmp_path):
    found = run(tmp_path / "a")
    assert [len(one.history) for one in found] == [1, 2]
    assert [one.report for one in found] == [one.history[-1].report for one in found]
    assert found[0].history[0].config != found[1].history[1].config  # a new random configuration every round
    for one in found:
        assert 0 < max(one.learnability.vector) <= 1.34  # unbiased: 4 samples can say 4/3
        assert 0 < max(one.success.vector) <= 1
        assert one.origin == "run 0"
    again = run(tmp_path / "a")
    assert again == found
    assert repro.read_json(tmp_path / "a/round-0/tables.json")["made_from"][-1] == code_sha256("mapflake.engineer.bank")
    assert "trainer/decoding.py" in deciding(["mapflake.engineer.bank"])  # the same policy, sampled in another way
    other = run(tmp_path / "b", number=1)
    assert [one.success for one in other] != [one.success for one in found]


def test_a_killed_run_goes_on_and_ends_the_same(tmp_path):
    whole = run(tmp_path / "a")
    run(tmp_path / "b", rounds=1)
    measured = [(one.success, one.learnability) for one in run(tmp_path / "b")]
    assert measured == [(one.success, one.learnability) for one in whole]


def test_what_is_torn_or_exchanged_is_named(tmp_path):
    run(tmp_path / "a")
    table = tmp_path / "a/round-1/tables.json"
    whole = table.read_text()
    table.write_text(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"round-1/tables.json: not JSON"):
        run(tmp_path / "a")
    table.unlink()
    run(tmp_path / "a")
    assert table.read_text() == whole
    repro.write_json(tmp_path / "a/round-1/checkpoint/practised.json", {"3x3": 1})
    with pytest.raises(LedgerError, match=r"round-1/checkpoint: its weights have the hash"):
        run(tmp_path / "a")


def test_situations_of_a_training_are_mixed_in_the_share_that_is_asked_for(tmp_path):
    real = run(tmp_path / "a")
    chosen = mixed(real, SIZES, PARAMS, seed=0)
    assert len(chosen) == 40
    assert 10 < sum(one in real for one in chosen) < 30
    assert chosen == mixed(real, SIZES, PARAMS, seed=0) != mixed(real, SIZES, PARAMS, seed=1)
    assert not any(one in real for one in mixed([], SIZES, PARAMS, seed=0))  # made up, all of them


def test_runs_have_ranges_of_sizes_of_their_own():
    sizes = (3, 4, 5, 6)
    ranges = [sizes_of_run(number, sizes) for number in range(40)]
    assert {tuple(found) for found in ranges} == {sizes[i:j] for i in range(4) for j in range(i + 1, 5)}


def test_what_it_costs():
    rl = Grpo(RLParams(instances=8, epochs=2, **RL))
    tables = 2 * len(kinds(SIZES)) * 3 * 4  # answers
    as_arms = round_cost(rl, BankParams(rounds=1), validation=24)
    assert as_arms == {"rollouts": 24 + 8 * 2 * 4}
    assert cost(PARAMS, SIZES, tables=2, each=as_arms) == {"rollouts": tables + 2 * 88, "replies": 160}
    shown = round_cost(rl, BankParams(rounds=1, training=WarmStartParams(steps=5, batch_size=16)), validation=24)
    assert shown == {"rollouts": 24, "demonstrations": 80}
    spent = {"rollouts": tables + 2 * 24, "demonstrations": 160, "replies": 160}
    assert cost(PARAMS, SIZES, tables=2, each=shown) == spent
