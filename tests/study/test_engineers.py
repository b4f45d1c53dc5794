"""Trained engineers over seeds, from records made by hand."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from simulated import changed

from mapflake import repro, study
from mapflake.study import claim_tables, claims, engineers, statistics

CELLS = Path(__file__).parents[2] / "reports/cells/study"

REAL, MADE_UP, BEFORE, AFTER = engineers.REAL, engineers.MADE_UP, engineers.BEFORE, engineers.AFTER


def record(own: float) -> dict:
    def measured(worth: float) -> dict:
        elsewhere = {"another's": worth - 0.2, "shuffled": worth - 0.2}
        return {"own": worth, **elsewhere, "accepted": 0.97, "reading": 0.2, "moved": 0.1}

    yardsticks = {"random": 0.1, "half-solved rule": 0.34, "learnability rule": 0.43, "best of one size": 0.9}
    worth = {f"{REAL} / {BEFORE}": 0.3, f"{REAL} / {AFTER}": own, f"{MADE_UP} / {AFTER}": 0.8}
    return {
        "reading": {key: measured(value) for key, value in worth.items()},
        "after boards": {REAL: measured(own - 0.1)},
        "yardsticks": {key: dict(yardsticks) for key in (REAL, MADE_UP)},
    }


def test_intervals_are_students_over_seeds(tmp_path):
    (tmp_path / "design_rl").mkdir()
    for seed, reward in ((10, 0.7), (2, 0.6), (0, 0.5)):
        (tmp_path / f"design_rl/{seed}.json").write_text(json.dumps(record(reward)))
    records = engineers.load(tmp_path)
    assert engineers.load(tmp_path, [10, 99]) == records[2:]
    assert [engineers.readings([r])["own"].tolist()[1] for r in records] == [0.5, 0.6, 0.7]  # by seed, not by name
    expected = stats.ttest_1samp([0.5, 0.6, 0.7], 0).confidence_interval(0.95)
    interval = statistics.t_estimate([0.5, 0.6, 0.7])
    assert statistics.t_estimate([0.5]).low is None
    assert (interval.mean, interval.low, interval.high) == pytest.approx((0.6, expected.low, expected.high))
    assert interval.p == pytest.approx(stats.ttest_1samp([0.5, 0.6, 0.7], 0).pvalue)
    row = engineers.table(records).loc[(REAL, AFTER)]
    assert row["own"] == "0.60 (0.35 to 0.85)"
    assert engineers.table(records[:1]).loc[(REAL, AFTER), "own"] == "0.50"  # one seed has no interval
    assert engineers.table([]).empty


def test_what_one_kind_of_engineer_earns_more_is_paired_by_seed(tmp_path):
    def write(kind: str, earned: dict[int, float]) -> None:
        for seed, reward in earned.items():
            repro.write_json(tmp_path / kind / f"design_rl/{seed}.json", record(reward))

    def more() -> dict[str, statistics.Estimate]:
        return engineers.earns_more(tmp_path / "ours", tmp_path / "theirs")

    write("ours", {2: 0.5, 4: 0.6, 10: 0.7})
    write("theirs", {2: 0.4, 4: 0.3, 10: 0.6})
    assert more()[MADE_UP].mean == 0
    expected = statistics.t_estimate([0.1, 0.3, 0.1])
    assert (more()[REAL].mean, more()[REAL].low) == pytest.approx((expected.mean, expected.low))
    write("ours", {5: 0.5})
    with pytest.raises(ValueError, match=r"different seeds: \['5\.json'\]"):
        more()


def test_what_a_record_leaves_out_is_left_out_of_the_mean():
    whole, silent = record(0.5), record(0.7)
    for measured in silent["reading"].values():
        del measured["moved"]
    assert engineers.table([whole, silent]).loc[(REAL, AFTER), "moved"] == "0.10"
    assert engineers.table([silent, silent]).loc[(REAL, BEFORE)].get("moved", "") == ""
    for yardsticks in silent["yardsticks"].values():  # older records have another yardstick
        yardsticks["best kind"] = yardsticks.pop("best of one size") - 0.4
    for both in ([silent, whole], [whole, silent]):
        rewards = engineers.table(both)["own"]
        assert (rewards[REAL, "best kind"], rewards[REAL, "best of one size"]) == ("0.50", "0.90")
        assert rewards[REAL, "random"] == "0.10, 0.10"


def test_doses_need_a_report_for_each_design():
    """Without the cells of *fixed*, other students have one report on record, round 0's, and engineers two designs."""
    arms = ["engineer_trained", "engineer_trained_another"]
    whole = engineers.doses(study.load(CELLS, ["fixed", *arms], [0, 1, 2, 3]), 4)
    assert {*whole["seed"]} == {0, 1, 2, 3}
    assert engineers.doses(study.load(CELLS, arms, [0, 1, 2, 3]), 4).empty
    part = study.load(CELLS, ["fixed", *arms], [0, 1])  # of a group whose others have no record here
    assert engineers.doses(part, 4).empty
    assert engineers.first_designs(part, 4).empty


def test_first_designs_follow_the_report_and_a_control_that_does_not_is_refused():
    cells, arm, control = study.load(CELLS), "engineer_trained", "engineer_trained_another"
    table = engineers.first_designs(cells, 4)
    for seed, row in table.iterrows():
        own_rounds, other_rounds = (cells.history(key, seed) for key in (arm, control))
        source = cells.history("round_0", seed - seed % 4 + (seed + 2) % 4)[0]
        sizes = [
            sum(n * share for n, share in rounds[1].config.data_ratios.items()) for rounds in (own_rounds, other_rounds)
        ]
        valid = [round_.report.valid_rate for round_ in (own_rounds[0], source)]
        assert [row["own_size"], row["other_size"]] == pytest.approx(sizes)
        assert [row["own_valid"], row["other_valid"]] == pytest.approx(valid)
        assert row["response"] == pytest.approx(np.sign(valid[1] - valid[0]) * (sizes[1] - sizes[0]))
    reads = next(claim for claim in claims.CLAIMS if claim.shows == "reads")
    assert f" {table['response'].mean():+.1f} (" in claim_tables.table("", [reads], {"": cells}, 4)

    deaf = changed(cells, control, lambda seed, cell: cells.records[arm, seed].rounds)  # designs as if told its own
    with pytest.raises(ValueError, match=r"does not hold: \+0\.0 squares"):
        claim_tables.table("", [reads], {"": deaf}, 4)
    mismatch = changed(cells, control, lambda seed, cell: [row | {"parent_sha256": "others"} for row in cell.rounds])
    with pytest.raises(ValueError, match=r"engineer_trained-0 and .* did not design with the same weights"):
        engineers.first_designs(mismatch, 4)

    def rejected(seed, cell):
        nothing = {"config": None, "rejection": "no JSON", "requested": None}
        return [
            row | {"proposal": row["proposal"] | nothing} if (seed, row["index"]) == (1, 1) else row
            for row in cell.rounds
        ]

    assert {*table.index} - {*engineers.first_designs(changed(cells, control, rejected), 4).index} == {1}
    with pytest.raises(ValueError, match="not measured over two seeds"):
        claim_tables.table("", [replace(reads, arm="engineer")], {"": cells}, 4)
