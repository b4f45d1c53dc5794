"""Trained engineers over seeds, from records made by hand."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from mapflake import study
from mapflake.study import claims, engineers, statistics

CELLS = Path(__file__).parents[2] / "reports/cells/study"

REAL = engineers.REAL


def record(own: float) -> dict:
    def measured(worth: float) -> dict:
        another = worth - 0.2
        same = {"accepted": 0.97, "reading": 0.2, "moved": 0.1}
        return {**same, "own": worth, "another's": another, "shuffled": another}

    known = {"random": 0.1, "half-solved rule": 0.34, "learnability rule": 0.43, "best of one size": 0.9}
    return {
        "reading": {
            f"{REAL} / {engineers.BEFORE}": measured(0.3),
            f"{REAL} / {engineers.AFTER}": measured(own),
            f"{engineers.MADE_UP} / {engineers.AFTER}": measured(0.8),
        },
        "after boards": {REAL: measured(own - 0.1)},
        "yardsticks": {key: dict(known) for key in (REAL, engineers.MADE_UP)},
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


def test_first_designs_follow_the_report_and_a_control_that_does_not_is_refused():
    found = study.load(CELLS)
    table = engineers.first_designs(found, 4)

    def rounds(arm: str, seed: int) -> list[dict]:
        return json.loads((CELLS / f"{arm}-{seed}.json").read_text())["rounds"]

    def size(one: dict) -> float:
        return sum(int(n) * part["data_ratio"] for n, part in one["config"]["sizes"].items())

    def valid(one: dict) -> float:
        return np.divide(*(sum(s[key] for s in one["report"]["sizes"]) for key in ("valid", "rollouts")))

    for seed, row in table.iterrows():
        own = rounds("engineer_trained", seed)
        another = next(one for one in rounds("engineer_trained_another", seed) if one["index"] == 1)
        (told,) = rounds("round_0", seed - seed % 4 + (seed % 4 + 2) % 4)
        assert [row["own_size"], row["other_size"]] == pytest.approx([size(own[1]), size(another)])
        assert [row["own_valid"], row["other_valid"]] == pytest.approx([valid(own[0]), valid(told)])
        response = np.sign(valid(told) - valid(own[0])) * (size(another) - size(own[1]))
        assert row["response"] == pytest.approx(response)
    reads = next(claim for claim in claims.CLAIMS if claim.shows == "reads")
    assert f"**{table['response'].mean():+.1f} (" in claims.claims_markdown(found, [reads], ages=4)

    def changed(rounds_of: Callable[[int, Any], list[dict]]) -> study.Study:
        """The study with other rounds of the engineer that is told another's report."""
        records = {
            (arm, seed): replace(one, rounds=rounds_of(seed, one)) if arm == "engineer_trained_another" else one
            for (arm, seed), one in found.records.items()
        }
        return study.Study(records, found.sets)

    deaf = changed(lambda seed, one: found.records["engineer_trained", seed].rounds)  # it designs as if told its own
    with pytest.raises(ValueError, match=r"does not hold: \+0\.0 squares"):
        claims.claims_markdown(deaf, [reads], ages=4)
    others = changed(lambda seed, one: [row | {"parent_sha256": "others"} for row in one.rounds])
    with pytest.raises(ValueError, match=r"engineer_trained-0 and .* did not design with the same weights"):
        engineers.first_designs(others, 4)
    with pytest.raises(ValueError, match="not measured over two seeds"):
        claims.claims_markdown(found, [replace(reads, arm="engineer")], ages=4)
