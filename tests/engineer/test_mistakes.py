"""Mistakes in a designer, a reward or a comparison of one's own: each is an error that says what would be right."""

import pytest
from engineer_samples import history
from small_repo import ROOT

from mapflake import study
from mapflake.engineer.design_rl import Designs
from mapflake.engineer.designers.rules import ruled
from mapflake.engineer.ledger import designed
from mapflake.engineer.reply import format_config

PAST = history(1)
RATIOS = {"data_ratio": 1.0, "hole_ratio": 0.1, "wait_ratio": 0.5}


@pytest.mark.parametrize("returned", [None, {"sizes": {}}, "3x3"])
def test_a_designer_returns_a_proposal(returned):
    def mine(report, history):
        return returned

    with pytest.raises(TypeError, match=r"a designer returns a Proposal .*, not .*: .*mine"):
        designed(mine, PAST)
    assert designed(lambda report, history: ruled({3: RATIOS}, history, "why"), PAST).config  # the control


@pytest.mark.parametrize(
    ("wrong", "said"), [({"why": 3}, "proposal.reply: 3"), ({"extra_cost": {"calls": 12.5}}, "extra_cost.calls: 12.5")]
)
def test_a_proposal_that_could_not_be_read_back_is_refused_before_it_is_trained(wrong, said):
    with pytest.raises(ValueError, match=said):
        designed(lambda report, history: ruled({3: RATIOS}, history, **{"why": "why"} | wrong), PAST)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), None, "1"])
def test_a_reward_of_designs_is_finite_and_not_negative(value):
    reply = format_config(ruled({3: RATIOS}, PAST, "why").config)
    rewards = Designs([None], (3,), reward=lambda situation, config: value).rewards("chat")
    with pytest.raises(ValueError, match=f"a reward of designs is a number from 0 on, not {value!r}"):
        next(iter(rewards))(completions=[reply], situation=[0])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"arms": ["enginer_trained"]}, "enginer_trained.*: no such arm; the records have fixed, "),
        ({"arms": "engineer_trained"}, "arms: takes a list of names, not 'engineer_trained'"),
        ({"against": "fixd"}, "fixd.*: no such arm"),
        ({"metric": "vaild"}, "metric: .*vaild.* is none of valid, optimal, soc_optimal"),
        ({"boards": "wr100"}, "boards: .*wr100.* is none of benchmark, validation, "),
        ({"agents": 7}, "benchmark has no boards of agents 7"),
        ({"waits": True}, "waits: boards have agents, size, needs_wait"),
    ],
)
def test_a_comparison_names_what_is_not_there(given, said):
    cells = study.load(ROOT / "reports/cells/study")
    with pytest.raises(ValueError, match=said):
        study.compare(cells, **{"arms": ["engineer"], "against": "fixed"} | given)
    assert study.compare(cells, ["engineer", "engineer_base"], "fixed")[0].arm == "engineer"  # legal, one not run
