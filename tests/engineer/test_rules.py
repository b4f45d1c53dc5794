"""Rules: by hand, and what no rule may do."""

import re

import numpy as np
import pytest
from engineer_samples import RANDOM, REPORTS, SIZES, history
from hypothesis import given, settings
from hypothesis import strategies as st

from mapflake.engineer import FailureReport, Round, build_prompt, diagnose, random_config
from mapflake.engineer.designers import RULES, RuleInputs
from mapflake.engineer.designers.rules import (
    constant,
    domain_randomisation,
    evaluation_matched,
    heuristic_expert,
    learnability,
    mixture,
    ruled,
    uniform,
)
from mapflake.engineer.report import BoardBin, SizeReport
from mapflake.env import KINDS, EnvConfig, SizeConfig, generate, judge_completion
from mapflake.env.config import num_holes
from mapflake.repro import rng_for
from mapflake.trainer.evaluate import Rollout


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


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"4": {}}, "asked: sizes are integers, not '4'"),
        (
            {4: 1.0},
            "asked: ratios by size, as in {4: {'data_ratio': 1, 'hole_ratio': 0.2, 'wait_ratio': 0.5}}, not {4: 1.0}",
        ),
        (EnvConfig.uniform([4], 0.1, num_agents=3), "num_agents: the rounds have 2, and 3 are asked for"),
    ],
)
def test_what_a_rule_cannot_ask_for_is_said(asked, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        ruled(asked, history(1), "x", SIZES)
    with pytest.raises(ValueError, match="history: empty"):
        ruled(asked, (), "x", SIZES)
    assert ruled(EnvConfig.uniform([4], 0.1), history(1), "x", SIZES).config is not None  # the control


def test_draws_are_anew_each_round_and_ignore_the_report():
    design = domain_randomisation(SIZES, seed=7)
    config = design(REPORTS[0], history(1)).config
    assert design(REPORTS[1], history(1)).config == config != design(REPORTS[0], history(2)).config
    assert domain_randomisation(SIZES, seed=8)(REPORTS[0], history(1)).config != config


def test_random_configurations_are_on_the_grid_and_spread_over_it():
    configs = [random_config(SIZES, rng_for(3, "test", i)) for i in range(400)]
    parts = [c for config in configs for c in config.sizes.values()]
    assert {c.data_ratio for c in parts} <= {i / 20 for i in range(21)}
    assert {c.hole_ratio for c in parts} == {i / 20 for i in range(11)}
    assert {c.wait_ratio for c in parts} == {i / 20 for i in range(21)}
    for size in SIZES:
        shares = np.array([c.sizes[size].data_ratio for c in configs])
        error = shares.std(ddof=1) / len(shares) ** 0.5
        assert abs(shares.mean() - 0.25) < 4 * error
    max_shares = np.array([max(config.data_ratios.values()) for config in configs])  # the control
    assert abs(max_shares.mean() - 0.25) > 8 * error
    assert random_config([3], rng_for(3, "x"), num_agents=5).num_agents == 5


def bins(*rows):
    """A report with these bins: (size, holes, needs a wait, rollouts, valid)."""
    return FailureReport((), bins=tuple(BoardBin(*row) for row in rows))


# p = (valid + 1) / (rollouts + 2): 0.5, 0.1, 0.9, 0.5
FOUR = bins((3, 0.0, False, 8, 4), (3, 0.2, True, 8, 0), (4, 0.1, False, 8, 8), (4, 0.3, True, 8, 4))


def test_evaluation_matched_by_hand():
    report = bins((3, 0.0, False, 30, 0), (3, 0.2, False, 10, 9), (5, 0.1, True, 40, 3), (6, 0.1, True, 40, 3))
    config = evaluation_matched([3, 5])(report, history(1)).config
    assert config == EnvConfig({3: SizeConfig(0.5, 0.05, 0.5), 5: SizeConfig(0.5, 0.1, 0.5)})


@pytest.mark.parametrize("holes", [0.1, 0.15, 0.2, 0.25])
def test_evaluation_matched_asks_for_as_many_holes_as_the_validation_boards_have(holes):
    sizes = (3, 4, 5, 6, 8)
    boards = {size: generate(EnvConfig.uniform([size], holes), 1, seed=0)[0] for size in sizes}
    report = diagnose(Rollout(task, 0, "chat", "", *judge_completion(task, "", "chat")) for task in boards.values())
    config = evaluation_matched(sizes)(report, history(1)).config
    hole_counts = {size: num_holes(size, part.hole_ratio) for size, part in config.sizes.items()}
    assert hole_counts == {size: len(task.instance.holes) for size, task in boards.items()}


def levels(config):
    return {size: (c.data_ratio, c.hole_ratio, c.wait_ratio) for size, c in config.sizes.items()}


def test_learnability_by_hand():
    config = learnability([3, 4])(FOUR, history(1)).config  # p (1 - p): 0.25, 0.09, 0.09, 0.25
    assert levels(config) == {
        3: pytest.approx((0.5, 0.2 * 0.09 / 0.34, 0.09 / 0.34)),
        4: pytest.approx((0.5, (0.1 * 0.09 + 0.3 * 0.25) / 0.34, 0.25 / 0.34)),
    }


def test_constant_and_uniform_ask_for_the_same_whatever_is_reported():
    config = EnvConfig({4: SizeConfig(0.5, 0.1, 0.5), 6: SizeConfig(0.5, 0.3, None)})
    design = constant(config, SIZES)
    assert design(REPORTS[0], history(1)).config == design(REPORTS[1], history(2)).config == config
    assert uniform(SIZES)(REPORTS[0], history(1)).config == EnvConfig.uniform(SIZES, 0.25, 0.5)
    with pytest.raises(ValueError, match=r"arm 'constant' asks for a configuration that is not given"):
        constant(None, SIZES)
    with pytest.raises(ValueError, match=r"arm 'constant': size 9 may not be asked for; sizes: 3, 4"):
        constant(EnvConfig.uniform([3, 9], 0.1), [3, 4])


def test_mixture_leaves_out_sizes_of_no_weight():
    first_bin, last_bin = FOUR.bins[0], FOUR.bins[3]
    assert mixture({first_bin: 0.0, last_bin: 2.0}) == {4: {"data_ratio": 1.0, "hole_ratio": 0.3, "wait_ratio": 1.0}}
    with pytest.raises(ValueError, match="the report has no bins to weigh"):
        learnability([3])(FailureReport(()), history(1))


def extreme(size: int, rate: float, waits: int) -> tuple[SizeReport, BoardBin]:
    """The counts of a size with 40 answers: the share `rate` is right, and `waits` are on boards that need a wait."""
    valid = round(40 * rate)
    failures = tuple((40 - valid) * (kind == "goal") for kind in KINDS)
    row = SizeReport(size, 40, valid, valid, waits, round(waits * rate), 0, failures)
    return row, BoardBin(size, 0.2, waits > 20, 40, valid)


reports = st.dictionaries(
    st.sampled_from(SIZES), st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0, 20, 40])), min_size=1
)


@given(reports)
@settings(max_examples=30)
def test_extreme_reports_have_a_prompt_and_a_legal_design_of_every_rule(told):
    """No success at all, nothing but success, a size that is not reported, a size without boards that need a wait."""
    rows = [extreme(size, *args) for size, args in sorted(told.items())]
    report = FailureReport(tuple(row for row, _ in rows), bins=tuple(board_bin for _, board_bin in rows))
    past = (Round("x", 0, RANDOM, report),)
    inputs = RuleInputs(sizes=SIZES, seed=0, constant=RANDOM, current=lambda history: None)
    for name, rule in RULES.items():
        if name != "frontier":  # reads boards of its own in place of the report (test_frontier)
            config = rule(inputs)(report, past).config
            assert config is not None
            assert sum(config.data_ratios.values()) == pytest.approx(1)
            assert {*config.sizes} <= {*SIZES}
    for variant in ("V3", "V6-full"):
        for form in ("compact", "json", "brief"):
            assert build_prompt(report, past, SIZES, variant=variant, prompt_format=form)
