"""Designers: the rules by hand, the model engineer by script, the names of arms."""

from dataclasses import replace

import pytest
from engineer_samples import RANDOM, REPLY, REPORTS, SIZES, ScriptedPolicy, history

from mapflake.engineer import ARMS, EngineerParams, build_prompt, designer_for, random_config
from mapflake.engineer.designers import domain_randomisation, heuristic_expert, keep, llm_engineer
from mapflake.engineer.ledger import Round
from mapflake.env import EnvConfig, SizeConfig
from mapflake.repro import ParamError, rng_for

GOOD = "size3 p20 p10 p50 size4 p80 p00 any end"
WANTED = EnvConfig({3: SizeConfig(0.2, 0.1, 0.5), 4: SizeConfig(0.8, 0.0, None)})


def test_keep_changes_nothing():
    proposal = keep()(REPORTS[0], history(1))
    assert proposal.config == RANDOM
    assert proposal.rejection is None
    assert proposal.dialect is None


def test_heuristic_expert_by_hand():
    last = EnvConfig(
        {3: SizeConfig(0.2, 0.45, 0.95), 4: SizeConfig(0.4, 0.2, None), 5: SizeConfig(0.4, 0.05, 0.05)}, num_agents=2
    )
    past = (*history(1), Round("x", 1, last, REPORTS[0]))
    proposal = heuristic_expert(SIZES)(REPORTS[0], past)  # valid: 80%, 50%, 20%, 0%
    assert proposal.requested is not None
    assert {s: v["data_ratio"] for s, v in proposal.requested.items()} == pytest.approx({3: 0.4, 4: 1, 5: 0.4, 6: 0.05})
    config = proposal.config
    assert config is not None
    assert [config.sizes[s].hole_ratio for s in SIZES] == pytest.approx([0.5, 0.2, 0.0, 0.7 / 3 - 0.1])
    assert [config.sizes[s].wait_ratio for s in SIZES] == [1.0, None, 0.0, pytest.approx(0.4)]
    assert [config.sizes[s].data_ratio for s in SIZES] == pytest.approx([0.4 / 1.85, 1 / 1.85, 0.4 / 1.85, 0.05 / 1.85])
    # From 0.3 to 0.7 levels stay.
    assert config.sizes[4].hole_ratio == last.sizes[4].hole_ratio


def test_domain_randomisation_draws_anew_each_round_and_ignores_the_report():
    design = domain_randomisation(SIZES, seed=7)
    first, second = design(REPORTS[0], history(1)), design(REPORTS[0], history(2))
    assert first.config != second.config
    assert design(REPORTS[1], history(1)).config == first.config
    assert domain_randomisation(SIZES, seed=8)(REPORTS[0], history(1)).config != first.config


def test_random_configurations_are_on_the_grid_and_spread_over_it():
    drawn = [random_config(SIZES, rng_for(3, "test", i)) for i in range(400)]
    for config in drawn:
        for c in config.sizes.values():
            for ratio in (c.data_ratio, c.hole_ratio, c.wait_ratio):
                assert ratio is not None
                assert round(ratio * 20) / 20 == ratio
    parts = [c for config in drawn for c in config.sizes.values()]
    assert {c.hole_ratio for c in parts} == {i / 20 for i in range(11)}
    assert {c.wait_ratio for c in parts} == {i / 20 for i in range(21)}
    for size in SIZES:
        assert sum(c.sizes[size].data_ratio for c in drawn) / 400 == pytest.approx(0.25, abs=0.04)
    assert random_config(SIZES, rng_for(3, "test", 0)) == drawn[0]
    assert random_config([3], rng_for(3, "x"), num_agents=5).num_agents == 5


def ask(replies, samples=4, past=None, **options):
    policy = ScriptedPolicy({}, replies)
    design = llm_engineer(lambda _: policy, SIZES, samples=samples, seed=5, **options)
    past = past or history(1)
    return design(past[-1].report, past), policy


def test_the_first_reply_that_is_not_rejected_counts():
    proposal, policy = ask(["size3 end", "no", GOOD, "size5 p100 p00 p00 end"])
    assert proposal.config == WANTED
    assert proposal.reply == GOOD
    assert proposal.replies == ("size3 end", "no", GOOD, "size5 p100 p00 p00 end")
    assert proposal.prompt == build_prompt(REPORTS[0], history(1), SIZES, dialect="compact")
    assert policy.calls[0]["prompts"] == [proposal.prompt]
    assert policy.calls[0]["n"] == 4


def test_if_all_replies_are_rejected_so_is_the_proposal():
    proposal, _ = ask(["size3 end", "no"], samples=2)
    assert proposal.config is None
    assert proposal.rejection == "size3 lacks its data_ratio"
    assert proposal.reply == "size3 end"
    assert len(proposal.replies) == 2


def test_a_chat_policy_is_asked_in_json():
    policy = ScriptedPolicy({}, [REPLY])
    policy.dialect = "chat"
    policy.complete = lambda prompts, **options: [[REPLY]]
    proposal = llm_engineer(lambda _: policy, SIZES, samples=1, seed=5, variant="V2")(REPORTS[0], history(1))
    assert proposal.dialect == "json"
    assert proposal.prompt == build_prompt(REPORTS[0], history(1), SIZES, variant="V2")
    assert proposal.config == EnvConfig({3: SizeConfig(0.25, 0.5, 0.5), 4: SizeConfig(0.75, 0.123456, None)})


def test_the_reply_decides_no_rule_in_between():
    for reply in (GOOD, "size6 p05 p50 p100 end", "size3 p100 p00 p00 size4 p00 p00 p00 end"):
        proposal, _ = ask([reply], samples=1)
        assert proposal.requested is not None
        said = reply.split(" ")[:-1]
        for i in range(0, len(said), 4):
            asked = proposal.requested[int(said[i][4:])]
            assert [None if w == "any" else int(w[1:]) / 100 for w in said[i + 1 : i + 4]] == list(asked.values())


def test_every_round_has_its_own_noise_and_arms_share_it():
    seeds = [ask([GOOD], samples=1, past=history(n))[1].calls[0]["seed"] for n in (1, 2, 3)]
    assert len(set(seeds)) == 3
    assert ask([GOOD], samples=1, past=history(2), variant="V3")[1].calls[0]["seed"] == seeds[1]


def test_a_reply_of_lone_surrogates_is_recorded_as_it_was_read():
    proposal, _ = ask(["\ud800", "no"], samples=2)
    assert proposal.replies[0] == "\ufffd"
    "".join(proposal.replies).encode()


def test_agents_are_those_of_the_last_configuration():
    past = (replace(history(1)[0], config=EnvConfig.uniform([4], 0.1, 0.5, num_agents=3)),)
    assert ask([GOOD], samples=1, past=past)[0].config == replace(WANTED, num_agents=3)


def test_arms_by_name():
    loaded = []
    policy = ScriptedPolicy({}, [GOOD] * 4)

    def load(path):
        loaded.append(str(path))
        return policy

    past = (*history(1), replace(history(2)[1], checkpoint="last/checkpoint"))
    for arm in ARMS:
        design = designer_for(arm, sizes=SIZES, seed=1, base="warm/checkpoint", load=load)
        proposal = design(past[-1].report, past)
        assert proposal.config is not None
        assert (proposal.dialect == "compact") == (arm in ("engineer", "base_engineer"))
    assert loaded == ["last/checkpoint", "warm/checkpoint"]


def test_wrong_names_and_values_are_errors():
    with pytest.raises(ValueError, match="arm: 'oracle' is none of engineer, base_engineer, keep"):
        designer_for("oracle", sizes=SIZES, seed=1)
    with pytest.raises(ValueError, match="needs the checkpoint of the base model"):
        designer_for("base_engineer", sizes=SIZES, seed=1)
    with pytest.raises(ValueError, match="2 is not an integer"):
        designer_for("heuristic", sizes=[2], seed=1)
    with pytest.raises(ValueError, match="samples: 0 is not"):
        llm_engineer(lambda _: ScriptedPolicy({}, []), SIZES, samples=0, seed=1)
    with pytest.raises(ParamError, match=r"engineer.variant: 'V0' is not legal: legal variants: V1, V2"):
        EngineerParams.parse({"variant": "V0"}, "engineer")
    with pytest.raises(ParamError, match=r"engineer.samples: 0 is not legal"):
        EngineerParams.parse({"samples": 0}, "engineer")
    with pytest.raises(ParamError, match=r"engineer.sample: unknown key; did you mean 'samples'"):
        EngineerParams.parse({"sample": 2}, "engineer")
