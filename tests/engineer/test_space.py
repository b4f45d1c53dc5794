"""The projection: legal configurations stay, all others become legal, once and for all."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapflake.engineer import VOCABULARY as ENGINEER_WORDS
from mapflake.engineer import format_config, project, read_reply
from mapflake.engineer.space import in_steps, percent
from mapflake.env import VOCABULARY, EnvConfig, SizeConfig, generate
from mapflake.env.generator import apportion

ALL = tuple(range(3, 11))
finite = st.floats(allow_nan=False, allow_infinity=False)
subsets = st.sets(st.sampled_from(ALL), min_size=1)


@st.composite
def legal(draw):
    """A configuration that `EnvConfig` accepts, built apart from `project`."""
    agents = draw(st.integers(1, 5))
    sizes = sorted(draw(subsets))
    weights = [draw(st.integers(0, 50)) for _ in sizes]
    weights[draw(st.integers(0, len(sizes) - 1))] += 1
    parts = {}
    for size, weight in zip(sizes, weights, strict=True):
        most = 0.5 if weight == 0 else min(0.5, (size * size - 6) / (size * size))
        hole = draw(st.floats(0, most))
        parts[size] = SizeConfig(weight / sum(weights), hole, draw(st.one_of(st.none(), st.floats(0, 1))))
    return EnvConfig(parts, agents)


@st.composite
def asked(draw):
    """Anything finite, with something to give data to."""
    sizes = sorted(draw(subsets))
    wanted = {
        s: {"data_ratio": draw(finite), "hole_ratio": draw(finite), "wait_ratio": draw(st.one_of(st.none(), finite))}
        for s in sizes
    }
    wanted[draw(st.sampled_from(sizes))]["data_ratio"] = draw(st.floats(5e-324, 1.7e308))
    return wanted


@given(legal())
def test_a_legal_configuration_comes_back_equal(config):
    assert project(config, ALL, config.num_agents) == config


@given(asked(), st.integers(1, 9))
def test_the_result_is_legal_and_stays(wanted, agents):
    config = project(wanted, ALL, agents)  # EnvConfig would not be built if it were not legal
    assert math.isclose(sum(c.data_ratio for c in config.sizes.values()), 1, abs_tol=1e-9)
    assert config.num_agents == agents
    assert project(config, ALL, agents) == config


@given(asked(), st.integers(0, 5000))
def test_a_round_has_exactly_its_budget_of_instances(wanted, budget):
    config = project(wanted, ALL)
    counts = apportion(budget, config)
    assert sum(counts.values()) == budget
    assert all(abs(n - budget * config.sizes[size].data_ratio) < 1 + 1e-6 * budget for size, n in counts.items())


@given(asked())
def test_data_ratios_keep_their_proportions(wanted):
    config = project(wanted, ALL)
    weights = {s: max(0.0, v["data_ratio"]) for s, v in wanted.items()}
    largest = max(weights, key=lambda s: weights[s])
    for size, weight in weights.items():
        expected = weight / weights[largest]
        assert math.isclose(config.sizes[size].data_ratio / config.sizes[largest].data_ratio, expected, abs_tol=2e-6)


@given(legal())
def test_json_says_a_configuration_exactly(config):
    proposal = read_reply(format_config(config), ALL, num_agents=config.num_agents)
    assert proposal.config == config


@given(legal())
def test_compact_says_it_to_the_nearest_step_in_closed_words(config):
    text = format_config(config, "compact")
    assert set(text.split()) <= {*VOCABULARY, *ENGINEER_WORDS}
    said = read_reply(text, ALL, "compact", num_agents=config.num_agents).config
    assert said is not None
    assert format_config(said, "compact") == text or config.num_agents > 2  # many agents may take back a dense 3x3
    for size, c in config.sizes.items():
        assert abs(said.sizes[size].data_ratio - c.data_ratio) < 0.05 + 1e-9
        if config.num_agents <= 2:
            assert abs(said.sizes[size].hole_ratio - c.hole_ratio) <= 0.025 + 1e-9
        assert (said.sizes[size].wait_ratio is None) == (c.wait_ratio is None)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(lambda x: sum(x) > 1e-3))
def test_steps_sum_to_the_whole_and_miss_by_less_than_one(shares):
    steps = in_steps(shares)
    assert sum(steps) == 20
    assert all(abs(n - 20 * s / sum(shares)) < 1 + 1e-6 for n, s in zip(steps, shares, strict=True))


def test_rounding_is_half_up():
    assert [percent(x) for x in (0, 0.024, 0.025, 0.075, 0.5, 0.97, 0.976, 1)] == [
        "p00", "p00", "p05", "p10", "p50", "p95", "p100", "p100",
    ]  # fmt: skip


def test_ratios_are_clipped_by_hand():
    wanted = {
        3: {"data_ratio": 2.0, "hole_ratio": 0.9, "wait_ratio": 1.5},
        4: {"data_ratio": -1.0, "hole_ratio": -0.1, "wait_ratio": -0.1},
        9: {"data_ratio": 6.0, "hole_ratio": 0.2, "wait_ratio": None},
        10: {"data_ratio": 8.0, "hole_ratio": 0.2, "wait_ratio": None},
    }
    assert project(wanted, (3, 4, 9)) == EnvConfig(
        {3: SizeConfig(0.25, 0.5, 1.0), 4: SizeConfig(0.0, 0.0, 0.0), 9: SizeConfig(0.75, 0.2, None)}
    )


def test_holes_leave_room_for_the_agents():
    wanted = {3: {"data_ratio": 1.0, "hole_ratio": 0.5, "wait_ratio": 0.0}}
    assert project(wanted, (3,), 5).sizes[3].hole_ratio == 3 / 9  # 5 agents need 6 of 9 cells
    assert project(wanted, (3,), 2).sizes[3].hole_ratio == 0.5


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_has_no_nearest_configuration(value):
    with pytest.raises(ValueError, match=r"size 3: hole_ratio .* is not finite"):
        project({3: {"data_ratio": 1.0, "hole_ratio": value, "wait_ratio": 0.0}}, ALL)


def test_without_data_there_is_no_nearest_configuration():
    with pytest.raises(ValueError, match=r"no size of .* has a data ratio above 0"):
        project({3: {"data_ratio": 0.0, "hole_ratio": 0.0, "wait_ratio": 0.0}}, ALL)
    with pytest.raises(ValueError, match=r"no size of \[4\] has a data ratio above 0"):
        project({3: {"data_ratio": 1.0, "hole_ratio": 0.0, "wait_ratio": 0.0}}, [4])


@pytest.mark.parametrize("size", [3, 6, 10])
@pytest.mark.parametrize("hole", [0.0, 0.5])
@pytest.mark.parametrize("wait", [0.0, 1.0])
def test_every_corner_for_two_agents_can_be_drawn_from(size, hole, wait):
    tasks = generate(EnvConfig({size: SizeConfig(1.0, hole, wait)}), 3, seed=5)
    assert [t.needs_wait for t in tasks] == [wait == 1.0] * 3
