"""Other students' reports: whose they are, that they and nothing else are told, and what pooling counts."""

import functools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapflake.engineer import Round, random_config
from mapflake.engineer.compact.demonstrations import synthetic_report
from mapflake.engineer.designers.rules import heuristic_expert
from mapflake.engineer.students import group_of, pooled, telling, told, told_seeds
from mapflake.repro import rng_for

SIZES = (3, 4, 5)


@functools.cache
def history(number: int, rounds: int = 2) -> tuple[Round, ...]:
    """Rounds of a made-up student; another number is another student with designs of its own."""
    reports = [synthetic_report(10 * number + i, SIZES, seed=number).report for i in range(rounds)]
    return tuple(
        Round("fixed", i, random_config(SIZES, rng_for(number, i)), replace(report, training={"boards": number}))
        for i, report in enumerate(reports)
    )


@given(st.integers(0, 1000), st.integers(2, 8))
def test_another_is_of_another_age_and_near_is_next_to_it(seed: int, ages: int) -> None:
    group = group_of(seed, ages)
    assert seed in group
    assert [member % ages for member in group] == list(range(ages))
    (another,), (near,) = told_seeds("another", seed, ages), told_seeds("near", seed, ages)
    assert {another, near} <= {*group} - {seed}
    assert abs(near - seed) == 1
    assert abs(another - seed) >= ages // 2
    assert told_seeds("mean", seed, ages) == group


def test_the_reports_that_are_told_are_those_of_each_round() -> None:
    histories = {0: history(0), 1: history(1, rounds=3)}
    assert told("another", 0, 2, histories) == tuple(r.report for r in histories[1])
    reports = told("mean", 0, 2, histories)
    assert len(reports) == 2  # as many as all of them have
    assert reports[1] == pooled([histories[0][1].report, histories[1][1].report])


def test_reports_are_exchanged_and_designs_are_not() -> None:
    own_past, other_past = history(0), history(1)
    calls = []

    def spy(report, past):
        calls.append((report, past))
        return heuristic_expert(SIZES)(report, past)

    reports = [r.report for r in other_past]
    telling(spy, reports)(own_past[-1].report, own_past)
    ((report, past),) = calls
    assert [r.config for r in past] == [r.config for r in own_past]
    assert [r.report.sizes for r in past] == [r.report.sizes for r in other_past]
    assert report == past[-1].report
    assert report.training == own_past[-1].report.training  # of its own boards
    proposal = telling(heuristic_expert(SIZES), reports)(own_past[-1].report, own_past)
    # The control: the report matters to a rule.
    assert proposal.config != heuristic_expert(SIZES)(own_past[-1].report, own_past).config
    later = (replace(own_past[-1], index=1),)  # a history that begins after round 0
    telling(spy, reports)(later[-1].report, later)
    assert calls[-1][0].sizes == reports[1].sizes
    with pytest.raises(ValueError, match="round 1: the reports that are told end after 1 rounds"):
        telling(heuristic_expert(SIZES), reports[:1])(own_past[-1].report, own_past)
    with pytest.raises(ValueError, match="report 'another': training seed 1 has no recorded round"):
        told("another", 0, 2, {0: own_past})
    with pytest.raises(ValueError, match=r"report 'another': takes students of two ages or more"):
        told_seeds("another", 3, 1)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=4, unique=True))
def test_pooling_adds_rollouts(numbers: list[int]) -> None:
    reports = [history(number, rounds=1)[0].report for number in numbers]
    pool = pooled(reports)
    for size in SIZES:
        rows = [report.at(size) for report in reports]
        assert pool.at(size).rollouts == sum(row.rollouts for row in rows)
        assert pool.at(size).valid == sum(row.valid for row in rows)
        assert pool.at(size).failures == tuple(map(sum, zip(*(row.failures for row in rows), strict=True)))
