"""Trained engineers over seeds, from records made by hand."""

import json

import pytest
from scipy import stats

from mapflake.study import engineers, statistics

REAL = engineers.REAL


def record(own: float) -> dict:
    def measured(worth: float) -> dict:
        another = worth - 0.2
        return {
            "accepted": 0.97, "own": worth, "another's": another, "reading": 0.2, "shuffled": another, "moved": 0.1,
        }  # fmt: skip

    return {
        "reading": {
            f"{REAL} / {engineers.BEFORE}": measured(0.3),
            f"{REAL} / {engineers.AFTER}": measured(own),
            f"{engineers.MADE_UP} / {engineers.AFTER}": measured(0.8),
        },
        "after boards": {REAL: measured(own - 0.1)},
        "yardsticks": {
            key: {"random": 0.1, "half-solved rule": 0.34, "learnability rule": 0.43, "best of one size": 0.9}
            for key in (REAL, engineers.MADE_UP)
        },
        "solving": {"mean": -0.01, "low": -0.02, "high": 0.0},
    }


def test_intervals_are_students_over_seeds(tmp_path):
    (tmp_path / "design_rl").mkdir()
    for seed, own in ((10, 0.7), (2, 0.6), (0, 0.5)):
        (tmp_path / f"design_rl/{seed}.json").write_text(json.dumps(record(own)))
    found = engineers.load(tmp_path)
    assert [engineers.readings([one])["own"].tolist()[1] for one in found] == [0.5, 0.6, 0.7]  # by seed, not by name
    expected = stats.ttest_1samp([0.5, 0.6, 0.7], 0).confidence_interval(0.95)
    one = statistics.student([0.5, 0.6, 0.7])
    assert statistics.student([0.5]).low is None
    assert (one.mean, one.low, one.high) == pytest.approx((0.6, expected.low, expected.high))
    assert one.p == pytest.approx(stats.ttest_1samp([0.5, 0.6, 0.7], 0).pvalue)
    row = engineers.table(found).loc[(REAL, engineers.AFTER)]
    assert row["own"] == "0.60 (0.35 to 0.85)"
    assert engineers.table(found[:1]).loc[(REAL, engineers.AFTER), "own"] == "0.50"  # one seed has no interval
    assert engineers.table([]).empty


def test_what_a_record_leaves_out_is_left_out_of_the_mean():
    whole, silent = record(0.5), record(0.7)
    for measured in silent["reading"].values():
        del measured["moved"]
    assert engineers.table([whole, silent]).loc[(REAL, engineers.AFTER), "moved"] == "0.10"
    assert engineers.table([silent, silent]).loc[(REAL, engineers.BEFORE)].get("moved", "") == ""


def test_records_with_another_yardstick_stand_beside_each_other():
    older = record(0.5)
    for known in older["yardsticks"].values():
        known["best kind"] = known.pop("best of one size") - 0.4
    for both in ([older, record(0.7)], [record(0.7), older]):
        found = engineers.table(both)["own"]
        assert (found[REAL, "best kind"], found[REAL, "best of one size"]) == ("0.50", "0.90")
        assert found[REAL, "random"] == "0.10"
