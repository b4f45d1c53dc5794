"""Situations and their tables: what a design's value is, and where the values come from."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from speaker import Speaker

from mapflake.engineer import situations
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.engineer.designers.rules import random_config
from mapflake.engineer.report import FailureReport, SizeReport
from mapflake.engineer.situations import (
    HOLES,
    VALIDATED_HOLES,
    ExpectedGain,
    KindTable,
    LessonParams,
    Situation,
    TableParams,
    best_of_one_size,
    boards_of_kinds,
    expected_gain,
    kind_shares,
    kinds,
    learnable,
    measure,
    table,
)
from mapflake.env import EnvConfig, GenerationError, SizeConfig, board_statistics, generate
from mapflake.repro import rng_for
from mapflake.trainer.params import WarmStartParams

SIZES = (3, 4, 5)
KINDS = kinds(SIZES)


def situation(success, rollouts=(100, 50)):
    """A policy with a success rate by kind; its report has (all, with a wait) `rollouts` for each size."""
    n, waits = rollouts
    rows = tuple(SizeReport(size, n, 0, 0, waits, 0, 0, (0,) * 8) for size in SIZES)
    chances = {kind: success(kind) for kind in KINDS}
    learnability = table({kind: 4 * p * (1 - p) for kind, p in chances.items()})
    return Situation(FailureReport(rows), (), table(chances), learnability)


@given(st.integers(0, 10_000))
def test_shares_of_kinds_are_those_of_the_design(seed):
    config = random_config(SIZES, rng_for(seed))
    shares = kind_shares(config)
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) >= 0
    for size, part in config.sizes.items():
        size_shares = {kind: share for kind, share in shares.items() if kind[0] == size}
        assert sum(size_shares.values()) == pytest.approx(part.data_ratio)
        assert sum(share * hole for (_, hole, _), share in size_shares.items()) == pytest.approx(
            part.data_ratio * min(part.hole_ratio, HOLES[-1])
        )
        if part.wait_ratio is not None:
            waits = sum(share for (_, _, wait), share in size_shares.items() if wait)
            assert waits == pytest.approx(part.data_ratio * part.wait_ratio)


def test_numbers_of_a_reward_may_be_integers():
    config, situation = EnvConfig.uniform(SIZES, 0.15, 0.5), made_up(0, SIZES, seed=1)
    assert ExpectedGain(size_power=1)(situation, config) == ExpectedGain(size_power=1.0)(situation, config) > 0


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("near_sizes", 0.0), ("near_holes", -0.2), ("kept", 0), ("forgetting", math.nan), ("size_power", math.inf)],
)
def test_a_reward_takes_numbers_for_which_it_has_a_value(name, wrong):
    """With others all designs would be worth 0."""
    with pytest.raises(ValueError, match=f"^{name}: .* is not a finite number"):
        ExpectedGain(**{name: wrong})
    ExpectedGain(**{name: 0.3})  # the control


def test_lessons_have_rows_for_all_their_situations():
    recipe = WarmStartParams(steps=40, batch_size=16, microbatch=16)
    with pytest.raises(ValueError, match="situations: 321, but 640 rows less 320 boards are 320"):
        LessonParams(situations=321, training=recipe)
    assert LessonParams(situations=320, training=recipe).boards == 320


def test_the_order_of_sizes_in_a_table_changes_no_reward():
    situation, config = made_up(0, SIZES, seed=1), EnvConfig.uniform(SIZES[:1], 0.15, 0.5)
    reversed_table = KindTable(dict(reversed([*situation.success.values.items()])))
    assert reversed_table == situation.success
    assert ExpectedGain()(replace(situation, success=reversed_table), config) == ExpectedGain()(situation, config)


def test_designs_with_hardly_any_room_for_their_agents_have_kinds_too():
    for holes in (0.0, 0.33):  # 0.33 stands for a part of 0.45, which leaves no room for five agents
        assert sum(kind_shares(EnvConfig.uniform([3, 4], holes, None, 5)).values()) == pytest.approx(1)


def test_waits_left_to_chance_are_as_many_as_in_boards_that_are_drawn():
    config = EnvConfig({4: SizeConfig(0.25, 0.0, None), 5: SizeConfig(0.75, 0.0, None)})
    tasks = generate(config, 4000, seed=1)
    drawn_share = sum(task.needs_wait for task in tasks) / len(tasks)
    shares = kind_shares(config)
    counted_share = sum(share for (_, _, wait), share in shares.items() if wait)
    variances = []
    for size, part in config.sizes.items():
        stats = board_statistics(size, 2, 0.0, boards=400, seed=0)
        p = stats.waits / stats.solved
        variances.append(part.data_ratio**2 * p * (1 - p) / stats.solved)
    error = (sum(variances) + drawn_share * (1 - drawn_share) / len(tasks)) ** 0.5
    assert abs(counted_share - drawn_share) <= 4 * error
    half_shares = kind_shares(EnvConfig({4: SizeConfig(0.25, 0.0, 0.5), 5: SizeConfig(0.75, 0.0, 0.5)}))  # the control
    assert abs(sum(share for (_, _, wait), share in half_shares.items() if wait) - drawn_share) > 4 * error + 0.01


@given(st.lists(st.floats(0, 1), min_size=len(KINDS), max_size=len(KINDS)), st.integers(0, 100), st.integers(0, 1000))
def test_the_expected_gain_by_hand(success, waits, seed):
    chances = dict(zip(KINDS, success, strict=True))
    config = random_config(SIZES, rng_for(seed))
    q = kind_shares(config)
    weights = {
        (size, VALIDATED_HOLES, wait): size**expected_gain.size_power * (waits if wait else 100 - waits)
        for size in SIZES
        for wait in (False, True)
    }
    total = sum(weights.values())
    learnability = {kind: 4 * p * (1 - p) for kind, p in chances.items()}
    gain = 0.0
    for kind, weight in weights.items():
        signal = 0.0
        for source, share in q.items():
            sizes, holes = kind[0] - source[0], kind[1] - source[1]
            distance = (sizes / expected_gain.near_sizes) ** 2 + (holes / expected_gain.near_holes) ** 2
            similarity = math.exp(-distance / 2) * (1 if kind[2] == source[2] else expected_gain.other_waits)
            signal += share * learnability[source] * similarity
        gain += weight / total * learnability[kind] * signal**0.5
    for side in (False, True):
        shown_share = sum(share for (_, _, wait), share in q.items() if wait == side)
        solved_share = sum(weight * chances[kind] for kind, weight in weights.items() if kind[2] == side) / total
        gain -= expected_gain.forgetting * solved_share * max(0, 1 - shown_share / expected_gain.kept)
    assert expected_gain(situation(chances.get, (100, waits)), config) == pytest.approx(max(0, gain), abs=1e-9)


def test_the_best_of_one_size_is_near_the_frontier_and_no_design_of_one_size_is_worth_more():
    weak, strong = (situation(lambda kind, s=s: 1 / (1 + math.exp(3 * (kind[0] - s)))) for s in (3, 5))
    (small,), (large,) = (best_of_one_size(s).sizes for s in (weak, strong))
    assert small < large
    designs = [EnvConfig.uniform([size], 0.15, waits) for size in SIZES for waits in (0.0, 0.5, 1.0)]
    assert expected_gain(strong, best_of_one_size(strong)) >= max(expected_gain(strong, design) for design in designs)


def test_a_table_has_a_finite_value_for_each_kind():
    with pytest.raises(ValueError, match=r"size 4, holes 0\.15"):
        table(dict.fromkeys(KINDS, 0.5) | {(4, HOLES[1], True): math.nan})
    with pytest.raises(ValueError, match=r"size 3, holes 0: \(0\.1,\) is not a pair"):
        KindTable({3: ((0.1,),) * 4})
    with pytest.raises(ValueError, match="3 rows"):
        KindTable({3: ((0.1, 0.2),) * 3})
    with pytest.raises(ValueError, match="size 5: the table has 3"):
        KindTable({3: ((0.1, 0.2),) * 4}).value((5, 0.0, True))
    with pytest.raises(ValueError, match=r"holes 0\.2: the table has 0\.0, 0\.15"):
        KindTable({3: ((0.1, 0.2),) * 4}).value((3, 0.2, True))


@given(st.floats(0, 1), st.integers(2, 9))
def test_learnability_has_no_bias(p, n):
    expected = sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) * learnable(k, n) for k in range(n + 1))
    assert expected == pytest.approx(4 * p * (1 - p), abs=1e-9)


def test_kinds_that_cannot_be_drawn_have_no_boards_and_teach_nothing(monkeypatch):
    def rare(config, n, **options):
        if config.sizes[3].hole_ratio > 0.4:
            raise GenerationError("too rare", 3)
        return generate(config, n, **options)

    monkeypatch.setattr(situations, "generate", rare)
    boards = boards_of_kinds([3], 2, seed=0)
    assert boards[3, 0.0, True]
    assert not boards[3, 0.45, False]
    success, learnability = measure(Speaker(lambda prompt, _: ""), [3], TableParams(boards=2, samples=2), seed=0)
    assert success.values == learnability.values == {3: ((0.0, 0.0),) * len(HOLES)}


def test_a_board_whose_answers_did_not_all_come_says_nothing_of_learnability():
    lossy = Speaker(lambda prompt, i: None if i else "no plan")
    success, learnability = measure(lossy, [3], TableParams(boards=2, samples=2), seed=0)
    assert success.values == learnability.values == {3: ((0.0, 0.0),) * len(HOLES)}


def test_made_up_situations_hide_the_policy_that_their_report_shows():
    pairs = [(s, row) for n in range(60) for s in [made_up(n, SIZES, seed=3)] for row in s.report.sizes]
    rows = [(s, row, row.rollouts - row.wait_rollouts) for s, row in pairs if row.rollouts - row.wait_rollouts > 100]
    assert len(rows) > 30
    bounds, values = [], []
    for s, row, calm in rows:  # at the holes of the report, on boards that need no wait
        # Of the chance of a valid plan; the exact interval takes much longer.
        interval = binomtest(row.valid - row.wait_valid, calm).proportion_ci(1 - 1e-6, method="wilson")
        chances = np.linspace(interval.low, interval.high, 100)
        bounds.append((min(4 * chances * (1 - chances)) - 1e-9, max(4 * chances * (1 - chances)) + 1e-3))
        values.append(s.learnability.value((row.size, 0.15, False)))
    assert all(low <= value <= high for value, (low, high) in zip(values, bounds, strict=True))
    rolled = zip(values[1:] + values[:1], bounds, strict=True)  # the control: another policy's
    assert sum(low <= value <= high for value, (low, high) in rolled) < 0.7 * len(rows)
    assert made_up(1, SIZES, seed=3) == made_up(1, SIZES, seed=3) != made_up(1, SIZES, seed=4)


def test_a_mistake_in_drawing_boards_is_no_kind_that_cannot_be_drawn(monkeypatch):
    def broken(*args, **options):
        raise ValueError("a mistake whose message speaks of free cells")

    monkeypatch.setattr(situations, "generate", broken)
    with pytest.raises(ValueError, match="a mistake"):
        boards_of_kinds([3], 1, seed=0)
