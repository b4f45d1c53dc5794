"""Controls: what they tell is not the truth about the current checkpoint, in every place where it is told."""

from engineer_samples import REPORTS, SIZES, history

from mapflake.engineer import build_prompt
from mapflake.engineer.controls import as_told


def test_shuffled_rows_belong_to_other_sizes_everywhere():
    past = history(2)
    report, told = as_told(REPORTS[1], past, "shuffled", seed=3)
    assert [s.size for s in report.sizes] == list(SIZES)
    assert sorted(s.valid for s in report.sizes) == sorted(s.valid for s in REPORTS[1].sizes)
    assert all(report.at(size).valid != REPORTS[1].at(size).valid for size in SIZES)
    assert told[-1].report == report  # the history says the same
    assert [one.config for one in told] == [one.config for one in past]
    moved = {one.valid: one.size for one in report.sizes}  # no two sizes have the same count
    for one, earlier in zip(REPORTS[1].sizes, REPORTS[1].before, strict=False):
        assert moved[one.valid] == next(s.size for s in report.before if s.valid == earlier.valid)  # one row, one way
    assert as_told(REPORTS[1], past, "shuffled", seed=3) == (report, told)
    assert any(as_told(REPORTS[1], past, "shuffled", seed=s)[0] != report for s in range(8))
    prompt = build_prompt(report, told, SIZES)
    assert "| 6x6  | 100      | 12 of 100" not in prompt


def test_the_previous_report_is_told_as_if_it_were_the_last():
    report, told = as_told(REPORTS[1], history(2), "previous", seed=3)
    assert report == REPORTS[0]
    assert told[-1].report == REPORTS[0]
    assert told[-1].index == 1


def test_without_an_older_report_or_a_control_the_truth_is_told():
    assert as_told(REPORTS[0], history(1), "previous", seed=3) == (REPORTS[0], history(1))
    assert as_told(REPORTS[1], history(2), "current", seed=3) == (REPORTS[1], history(2))
