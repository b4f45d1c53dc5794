"""Whether designs depend on the report: with an engineer that reads, one that does not, and one that says nothing."""

from dataclasses import replace

import pandas as pd
import pytest
from engineer_samples import REPORTS, history
from engineer_samples import SIZES as ALL
from speaker import Speaker

from mapflake import repro
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.engineer.prompt import build_prompt
from mapflake.engineer.reading import ask, data_ratios, elsewhere, exchanged, reading, response, worth, yardsticks
from mapflake.engineer.reply import format_config
from mapflake.engineer.situations import best_of_one_size, expected_gain
from mapflake.engineer.words import reply_words

SIZES = (3, 4, 5)
SITUATIONS = [made_up(i, SIZES, seed=11) for i in range(40)]


def best_reply(situation):
    """The design of one size that is worth most in a situation, in words."""
    return format_config(best_of_one_size(situation), "compact")


KNOWN = {build_prompt(s.report, s.history, SIZES, prompt_format="compact"): best_reply(s) for s in SITUATIONS}
READER = Speaker(lambda prompt, _: KNOWN.get(prompt, "size3 p100 p00 p00 end"))  # it knows only the true prompts


def test_one_that_reads_loses_by_anothers_report():
    measures = reading(READER, SITUATIONS, SIZES, seed=0)
    best = sum(expected_gain(s, best_of_one_size(s)) for s in SITUATIONS) / len(SITUATIONS)
    assert measures["own"] == pytest.approx(best)
    assert measures["reading"] > 0.25 * best
    assert measures["shuffled"] < 0.75 * measures["own"]
    assert measures["moved"] > 0.3
    assert measures["accepted"] == 1


def test_one_that_does_not_read_loses_nothing_and_replies_are_as_long_as_they_may_be():
    for limit, expected in ((None, reply_words(SIZES)), (7, 7)):
        deaf = Speaker(lambda prompt, _: "size4 p100 p15 p50 end")
        measures = reading(deaf, SITUATIONS, SIZES, max_new_tokens=limit, seed=0)
        assert {options["max_new_tokens"] for options in deaf.asked} == {expected}
        assert measures["reading"] == pytest.approx(0)
        assert (measures["shuffled"], measures["moved"]) == (measures["own"], 0)


def test_rejected_replies_are_worth_nothing():
    measures = reading(Speaker(lambda prompt, _: "no"), SITUATIONS, SIZES, seed=0)
    assert (measures["accepted"], measures["own"], measures["reading"]) == (0, 0, 0)
    assert "moved" not in measures
    assert repro.dumps(measures)  # a record takes no number that is none
    assert data_ratios(ask(READER, SITUATIONS, SIZES, seed=0), SIZES).sum() == pytest.approx(1)


def test_another_is_one_of_another_run():
    runs = [replace(s, origin=f"run {i % 2}") for i, s in enumerate(SITUATIONS[:4])]
    designs = [best_of_one_size(s) for s in runs]
    by_hand = [expected_gain(runs[j], designs[i]) for i in range(4) for j in range(4) if (i - j) % 2]
    assert elsewhere(designs, runs) == pytest.approx(sum(by_hand) / 8)
    assert elsewhere([*designs, None], [*runs, runs[0]]) == pytest.approx(sum(by_hand) / 10)


def test_yardsticks_lie_above_random_designs_and_tell_situations_apart():
    rewards = yardsticks(SITUATIONS, SIZES, seed=0)
    assert list(rewards) == ["random", "half-solved rule", "best of one size", "best of one size for another's"]
    assert 0 < rewards["random"] < rewards["best of one size"] <= 1
    assert 0 < rewards["half-solved rule"] < rewards["best of one size"]
    assert 0 < rewards["best of one size for another's"] < 0.75 * rewards["best of one size"]
    assert worth([None] * len(SITUATIONS), SITUATIONS) == 0
    same_run = [replace(s, origin="run 1") for s in SITUATIONS[:2]]  # no other run to compare with
    assert list(yardsticks(same_run, SIZES, seed=0)) == ["random", "half-solved rule", "best of one size"]
    with pytest.raises(ValueError, match="situations: all are of one run"):
        reading(READER, same_run, SIZES, seed=0)


def half_solved_reply(prompt, sample):
    """All boards of the first size that is solved half of the time; a wait where waits are never solved."""
    words = prompt.split()
    rows = {words[i]: words[i + 1 : i + 5] for i, word in enumerate(words) if word.startswith("size")}
    size = next((name for name, row in rows.items() if row[0] == "p50"), "size3")
    return f"{size} p100 p15 {'p100' if rows['size3'][2] == 'p00' else 'p00'} end"


def test_response_is_to_the_row_that_moves():
    table = response(Speaker(half_solved_reply), SIZES, SIZES, replies=2, seed=0)
    assert table["accepted"].eq(1).all()
    shares = {row: part.set_index("told")["asked"] for row, part in table.groupby("moved")}
    assert list(shares) == ["3", "4", "5", "waits"]
    assert shares["3"].to_dict() == {0: 0, 0.25: 0, 0.5: 1, 0.75: 0, 1: 0}
    assert shares["waits"].to_dict() == {0: 1, 0.25: 0, 0.5: 0, 0.75: 0, 1: 0}
    pd.testing.assert_frame_equal(response(Speaker(half_solved_reply), SIZES, SIZES[::-1], replies=2, seed=0), table)
    deaf_table = response(Speaker(lambda prompt, _: "size4 p100 p15 p50 end"), SIZES, SIZES, replies=2, seed=0)
    assert deaf_table.groupby("moved")["asked"].nunique().eq(1).all()
    assert response(Speaker(lambda prompt, _: "no"), SIZES, SIZES, replies=2, seed=0)["asked"].isna().all()


def test_exchanged_rows_belong_to_other_sizes_everywhere():
    past = history(2)
    report, shuffled_past = exchanged(REPORTS[1], past, seed=3)
    assert [s.size for s in report.sizes] == sorted(ALL)
    assert sorted(s.valid for s in report.sizes) == sorted(s.valid for s in REPORTS[1].sizes)
    assert all(report.at(size).valid != REPORTS[1].at(size).valid for size in ALL)
    assert shuffled_past[-1].report == report  # the history says the same
    assert [r.config for r in shuffled_past] == [r.config for r in past]
    new_sizes = {row.valid: row.size for row in report.sizes}  # no two sizes have the same count
    for row, earlier_row in zip(REPORTS[1].sizes, REPORTS[1].before, strict=False):
        # The rows of `before` move to the same sizes.
        assert new_sizes[row.valid] == next(s.size for s in report.before if s.valid == earlier_row.valid)
    assert exchanged(REPORTS[1], past, seed=3) == (report, shuffled_past)
    assert any(exchanged(REPORTS[1], past, seed=s)[0] != report for s in range(8))
