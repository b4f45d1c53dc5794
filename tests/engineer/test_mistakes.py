"""Mistakes in a designer or a reward of one's own: each is an error that says what would be right."""

import pytest
from engineer_samples import history

from mapflake.engineer.design_rl import Designs
from mapflake.engineer.designers.rules import ruled
from mapflake.engineer.designers.search import reward_search
from mapflake.engineer.ledger import designed
from mapflake.engineer.reply import format_config
from mapflake.engineer.report import FailureReport

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
    with pytest.raises(ValueError, match=f"a reward of designs is a number from 0 on, not {value!r}"):
        reward_search((3,), lambda situation, config: value)(PAST[-1].report, PAST)


def test_the_search_cannot_work_without_sizes():
    with pytest.raises(ValueError, match=r"^report: has no sizes, so there is nothing to guess"):
        reward_search((3, 4))(FailureReport(()), PAST)
    with pytest.raises(ValueError, match="sizes"):
        reward_search(())
