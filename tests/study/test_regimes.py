"""The criterion of a regime is what its text says, and the page of the search is that of the committed records."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks import regimes

REPORTS = Path(__file__).parents[2] / "reports"


def rows(regime, base, ahead):
    """Records of a regime whose best arm is ahead of the draws by `ahead`, a number for each seed."""
    for seed, more in enumerate(ahead):
        arms = {
            "base": base,
            "fixed": base - 1,
            "fixed_draw_2": base + 3,
            "learnability": base,
            "frontier": base + 1 + more,
        }
        for arm, valid in arms.items():
            yield {"regime": regime, "seed": seed, "arm": arm, "by_size": {"3": valid - 2, "4": valid + 2, "5": 99}}


def test_the_criterion_is_the_lead_over_the_draws_in_deviations_over_seeds():
    ahead = {"default": [2, 4, 6], "steps20": [5, 6, 7], "weak": [8, 8.5, 9], "few": [1, 1, 2.5]}
    found = regimes.table([row for one, points in ahead.items() for row in rows(one, 30, points)], [3, 4])
    for regime, points in ahead.items():
        assert found.loc[regime, "ahead"] == pytest.approx(np.mean(points))
        assert found.loc[regime, "criterion"] == pytest.approx(np.mean(points) / np.std(points, ddof=1))
        assert found.loc[regime, "gain"] == pytest.approx(np.mean(points) + 1)
        assert found.loc[regime, "best"] == "frontier"
    assert regimes.chosen(found) == ["steps20", "weak"]
    assert regimes.chosen(found.assign(gain=found["gain"].where(found.index != "weak", 0.0))) == ["steps20"]


def test_a_regime_that_lacks_a_draw_has_no_criterion():
    some = [row for row in rows("default", 30, [2, 4, 6]) if row["arm"] != "fixed_draw_2"]
    assert np.isnan(regimes.table(some, [3, 4]).loc["default", "criterion"])


def test_the_page_is_that_of_the_committed_records():
    written, records = (REPORTS / "regimes.md").read_text(), regimes.read(REPORTS / "regimes.jsonl")
    assert regimes.page(records) == written, "python -m benchmarks.regimes page"
    records[0]["by_size"]["5"] += 30  # the control
    assert regimes.page(records) != written
    assert {row["regime"] for row in records} == {*regimes.REGIMES}
    assert len({(row["regime"], row["seed"], row["arm"]) for row in records}) == len(records)
