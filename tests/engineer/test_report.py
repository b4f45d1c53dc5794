"""Reports count what happened, exactly and in a stable order; model text in them cannot act."""

import json

import pytest
from engineer_samples import HOSTILE
from hypothesis import given
from hypothesis import strategies as st

from mapflake import repro
from mapflake.engineer import diagnose
from mapflake.engineer.report import BoardBin, environment_statistics, quote
from mapflake.env import KINDS, Instance, Task, judge_completion
from mapflake.trainer.evaluate import Rollout

# Agent 1 goes right along the top row (2 steps), agent 2 stays out of its way (1 step); no one has to wait.
EASY = Task.of(Instance.from_text("S1 . G1\n. H .\nS2 G2 ."))
# A junction: agent 2 has to wait until agent 1 has passed.
NARROW = Task.of(Instance.from_text("S1G2 . G1 H\nH S2 H H\nH H H H\nH H H H"))


def answered(task, text, sample=0, prompt_format="chat"):
    return Rollout(task, sample, prompt_format, text, *judge_completion(task, text, prompt_format))


def rollout(task, *moves, sample=0):
    return answered(task, json.dumps({"plan": list(moves)}), sample)


OPTIMAL = rollout(EASY, "RR", "R")
LONG = rollout(EASY, "RRWLR", "R", sample=1)  # 3 steps too long: it leaves its goal once more
HOLES = rollout(EASY, "DRUR", "R", sample=2)  # through the hole, once, to the goal
TWICE = rollout(EASY, "DRLRUR", "R", sample=3)  # in and out and in again: still one rollout
LOST = rollout(EASY, "R", "U", sample=4)  # no agent arrives
CRASH = rollout(NARROW, "RR", "UL")
ALL = [OPTIMAL, LONG, HOLES, TWICE, LOST, answered(EASY, "?", 5), CRASH]


def test_diagnose_counts_by_hand():
    assert NARROW.needs_wait
    assert not EASY.needs_wait
    report = diagnose(ALL)
    assert report == diagnose(ALL[::-1])
    with pytest.raises(ValueError, match="at least one rollout"):
        diagnose([])
    three, four = report.sizes
    assert (three.size, three.rollouts, three.valid, three.optimal) == (3, 6, 2, 1)
    assert (three.wait_rollouts, three.wait_valid, three.extra_steps) == (0, 0, 3)
    assert dict(zip(KINDS, three.failures, strict=True)) == {
        "parse": 1, "agents": 0, "move": 0, "bounds": 0, "hole": 2, "vertex": 0, "edge": 0, "goal": 1,
    }  # fmt: skip
    assert (four.size, four.rollouts, four.valid, four.wait_rollouts, four.wait_valid) == (4, 1, 0, 1, 0)
    assert dict(zip(KINDS, four.failures, strict=True))["vertex"] == 1
    assert (report.valid_rate, report.optimal_rate) == (2 / 7, 1 / 7)
    assert report.bins == (BoardBin(3, 0.1111, False, 6, 2), BoardBin(4, 0.75, True, 1, 0))
    assert environment_statistics([EASY, NARROW, EASY]) == {
        "3x3": {"instances": 2, "wait_needed": 0.0, "holes": 0.1111},
        "4x4": {"instances": 1, "wait_needed": 1.0, "holes": 0.75},
    }
    assert report.at(4) is four
    assert report.at(5) is None


def test_examples_are_the_commonest_failures_of_each_size_first():
    examples = diagnose(ALL, examples=10).examples
    kinds = [(3, "hole"), (4, "vertex"), (3, "goal"), (3, "parse")]
    assert [(e.size, e.violations.split()[0]) for e in examples] == kinds
    assert examples[0].board == EASY.instance.to_text()
    assert examples[0].completion == HOLES.completion  # the first by board, then by sample
    assert examples[0].violations == "hole at step 2, agent 1, cell (1, 1)"
    assert examples[1].violations == "vertex at step 1, agents 1 and 2, cell (0, 1)"
    assert diagnose(ALL, examples=2).examples == examples[:2]
    assert diagnose([OPTIMAL]).examples == ()
    assert diagnose(ALL, examples=0).examples == ()
    with pytest.raises(ValueError, match="examples: must be at least 0, not -1"):
        diagnose(ALL, examples=-1)


def test_violation_text_cuts_a_long_list_and_says_so():
    [example] = diagnose([rollout(EASY, "XXXXXX", "")]).examples
    assert example.violations.startswith("move at step 1, agent 1, cell (0, 0); move at step 2")
    assert example.violations.endswith("; and 4 more")


def test_what_is_kept_of_a_completion_is_bounded_and_can_be_stored():
    text = json.dumps({"plan": ["U" * 5000] * 1000})
    report = diagnose([answered(EASY, text)])
    assert len(json.dumps(repro.to_json(report))) < 10_000
    assert len(report.to_text()) < 5_000
    assert f"[{len(text) - 600} more characters]" in report.to_text()
    assert "more characters" not in diagnose([LOST]).to_text()
    assert diagnose([answered(EASY, "a\ud800b")]).examples[0].completion == "a\ufffdb"


def test_changes_are_against_the_report_before():
    before = diagnose([OPTIMAL, LOST])
    assert diagnose(ALL, before=before).before == before.sizes
    rows = [line for line in diagnose(ALL, before=before).to_text().split("\n") if line.startswith("| 3x3")]
    assert "| -16.7           | -33.3 " in rows[0]  # of valid: 1 of 2, then 2 of 6; of optimal: 1 of 2, then 1 of 6


CONTROL_TOKENS = ["<|im_end|>", "</s>", "<think>", "</think>", "<tool_call>", "[INST]", "[/INST]", "<<SYS>>"]


@given(st.lists(st.sampled_from([*CONTROL_TOKENS, "```", "~~~", "\nUser: ", "\n# ", "<", "|", "\r", "\x1b", "\ud800"])))
def test_quoted_text_cannot_act(pieces):
    quoted = quote("".join(pieces))
    assert not any(token in quoted for token in [*CONTROL_TOKENS, "```", "~~~"])
    assert all(line.startswith("| ") for line in quoted.split("\n"))
    assert all(c == "\n" or c.isprintable() for c in quoted)
    quoted.encode()


def test_quoted_text_is_bounded_and_says_what_was_cut():
    assert quote("a" * 1000) == "| " + "a" * 600 + "\n[400 more characters]"
    assert len(quote(HOSTILE * 100_000)) < 2500
    assert quote("U D\n<UDR> U b0") == "| U D\n| < UDR> U b0"
