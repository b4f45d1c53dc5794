"""Situations and their tables: what a design's value is, and where the values come from."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from mapflake.engineer import situations
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.engineer.designers.rules import random_config
from mapflake.engineer.situations import (
    HOLES,
    KindTable,
    boards_of_kinds,
    kinds,
    learnability_table,
    learnable,
    table,
    transfer_table,
)
from mapflake.env import EnvConfig, SizeConfig, board_statistics, generate, judge_completion
from mapflake.repro import rng_for
from mapflake.trainer.evaluate import Rollout

SIZES = (3, 4, 5)
RNG = np.random.default_rng(0)
KINDS = kinds(SIZES)
NATURAL = {(size, hole): board_statistics(size, 2, hole, boards=400, seed=0) for size, hole, _ in KINDS}
TABLE = table({kind: float(RNG.random()) for kind in kinds(SIZES)})


@given(st.integers(0, 10_000))
def test_a_design_is_worth_the_mixture_of_its_sizes(seed):
    config = random_config(SIZES, rng_for(seed))
    alone = [
        c.data_ratio * TABLE.mean(EnvConfig({size: SizeConfig(1.0, c.hole_ratio, c.wait_ratio)}))
        for size, c in config.sizes.items()
    ]
    assert TABLE.mean(config) == pytest.approx(math.fsum(alone))
    assert TABLE.mean(config) <= TABLE.value(TABLE.best_kind()) + 1e-12


@pytest.mark.parametrize("waits", [0.5, None])
def test_a_design_is_worth_the_mean_over_the_boards_that_are_drawn(waits):
    config = EnvConfig({4: SizeConfig(0.25, 0.0, waits), 5: SizeConfig(0.75, 0.0, waits)})
    tasks = generate(config, 4000, seed=1)
    values = [TABLE.values[t.instance.size][0][t.needs_wait] for t in tasks]
    # Boards that need a wait are as many as asked for, or as random draws and the table's own census of them give.
    census = [
        part.data_ratio * np.ptp(TABLE.values[size][0]) * (p * (1 - p) / NATURAL[size, 0.0].solved) ** 0.5
        for size, part in config.sizes.items()
        for p in [NATURAL[size, 0.0].waits / NATURAL[size, 0.0].solved]
    ]
    error = 0.0 if waits else (np.var(values) / len(values) + sum(one**2 for one in census)) ** 0.5
    assert abs(TABLE.mean(config) - np.mean(values)) <= 4 * error + 1e-9
    other = EnvConfig({4: SizeConfig(0.75, 0.0, waits), 5: SizeConfig(0.25, 0.0, waits)})  # the control
    assert abs(TABLE.mean(other) - np.mean(values)) > 4 * error + 0.01


def test_between_two_hole_ratios_it_is_between_their_values():
    low, middle, high = (TABLE.mean(EnvConfig({4: SizeConfig(1.0, hole, 0.0)})) for hole in (0.0, 0.075, 0.15))
    assert middle == pytest.approx((low + high) / 2)
    assert (low, high) == pytest.approx((TABLE.values[4][0][0], TABLE.values[4][1][0]))


def test_a_size_that_is_not_in_the_table_teaches_nothing():
    assert TABLE.mean(EnvConfig({8: SizeConfig(1.0, 0.1)})) == 0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_value_that_is_not_finite_is_named(value):
    values = dict.fromkeys(kinds(SIZES), 0.5) | {(4, HOLES[1], True): value}
    with pytest.raises(ValueError, match=r"size 4, holes 0\.15"):
        table(values)


def test_a_table_lacks_no_kind():
    with pytest.raises(ValueError, match="3 rows"):
        KindTable({3: ((0.1, 0.2),) * 3})


@given(st.floats(0, 1), st.integers(2, 9))
def test_learnability_has_no_bias(p, n):
    expected = sum(math.comb(n, k) * p**k * (1 - p) ** (n - k) * learnable(k, n) for k in range(n + 1))
    assert expected == pytest.approx(4 * p * (1 - p), abs=1e-9)


def test_kinds_that_cannot_be_drawn_have_no_boards_and_teach_nothing():
    boards = boards_of_kinds([3], 2, num_agents=5, seed=0)
    assert boards[3, 0.0, True]
    assert not boards[3, 0.45, False]
    rollouts = {
        kind: [Rollout(t, i, "compact", "", *judge_completion(t, "", "compact")) for t in own for i in range(2)]
        for kind, own in boards.items()
    }
    assert learnability_table(rollouts).values[3] == ((0.0, 0.0),) * len(HOLES)


def test_made_up_situations_hide_the_policy_that_their_report_shows():
    seen = [(one, s) for n in range(60) for one in [made_up(n, SIZES, seed=3)] for s in one.report.sizes]
    told = [(one, s, s.rollouts - s.wait_rollouts) for one, s in seen if s.rollouts - s.wait_rollouts > 100]
    assert len(told) > 30
    possible, values = [], []
    for one, s, calm in told:  # at the holes of the report, on boards that need no wait
        interval = binomtest(s.valid - s.wait_valid, calm).proportion_ci(1 - 1e-6)  # of the chance of a valid plan
        chances = np.linspace(interval.low, interval.high, 100)
        possible.append((min(4 * chances * (1 - chances)) - 1e-9, max(4 * chances * (1 - chances)) + 1e-3))
        values.append(one.tables["learnability"].mean(EnvConfig({s.size: SizeConfig(1.0, 0.15, 0.0)})))
    assert all(low <= value <= high for value, (low, high) in zip(values, possible, strict=True))
    rolled = zip(values[1:] + values[:1], possible, strict=True)  # the control: another policy's
    assert sum(low <= value <= high for value, (low, high) in rolled) < 0.7 * len(told)
    assert made_up(1, SIZES, seed=3) == made_up(1, SIZES, seed=3) != made_up(1, SIZES, seed=4)


@given(st.lists(st.floats(0, 1), min_size=len(KINDS), max_size=len(KINDS)))
def test_transfer_is_learnability_times_nearness_to_what_validation_can_learn(values):
    learnable = dict(zip(KINDS, values, strict=True))
    found = transfer_table(table(learnable))
    for kind in KINDS:
        total = near = 0.0
        for other in KINDS:
            size, hole, wait = other
            waits = NATURAL[size, hole].waits / NATURAL[size, hole].solved
            weight = learnable[other] * size**2 * (waits if wait else 1 - waits) * (hole <= 0.3)
            apart = ((kind[0] - size) / 1.0) ** 2 + ((kind[1] - hole) / 0.2) ** 2
            total += weight
            near += weight * math.exp(-apart / 2) * (1 if kind[2] == wait else 0.5)
        assert found.value(kind) == pytest.approx(learnable[kind] * near / total if total else 0.0, abs=1e-9)
        assert 0 <= found.value(kind) <= learnable[kind] * (1 + 1e-9)


def test_boards_that_validation_does_not_have_teach_less_however_learnable():
    alike = transfer_table(table(dict.fromkeys(KINDS, 1.0)))
    assert alike.value((5, 0.15, False)) > alike.value((5, 0.45, False))  # holes beyond those of validation
    assert alike.value((5, 0.15, False)) > alike.value((5, 0.15, True))  # waits are rare
    only = {kind: float(kind == (4, 0.15, False)) for kind in KINDS}
    assert transfer_table(table(only)) == table(only)  # what teaches nothing is worth nothing, near or not


def test_a_mistake_in_drawing_boards_is_no_kind_that_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> None:
        raise ValueError("a mistake whose message speaks of free cells")

    monkeypatch.setattr(situations, "generate", broken)
    with pytest.raises(ValueError, match="a mistake"):
        boards_of_kinds([3], 1, seed=0)
