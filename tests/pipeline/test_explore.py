"""Views of notebooks/explore.ipynb: what they find and show, and that knobs change it."""

from __future__ import annotations

import re
from itertools import pairwise
from types import SimpleNamespace

from IPython.display import HTML
from small_repo import ROOT

from mapflake import explore, study
from mapflake.env import Instance, Plan, format_plan, solve

BOARD = Instance.from_text("S1 . . G2\n . H . .\n . . H .\n S2 . . G1")
WRONG = Plan(("RDRRDD", "RRRUUU"))


def words(shown: HTML) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", shown.data).split())


def test_every_published_round_can_be_shown() -> None:
    found = study.load(ROOT / "reports/cells/study")
    assert {"fixed", "engineer_trained"} <= {*found.arms}
    for arm in found.arms:
        history = found.history(arm, found.seeds(arm)[0])
        assert [one.index for one in history] == list(range(len(history))), arm
        begins = history[1].before_design_rl_sha256 or history[1].parent_sha256
        assert begins == history[0].checkpoint_sha256, arm
        assert {one.arm for one in history[1:]} == {arm}
        assert explore.failures([*history, *history]) == explore.failures(history)
        for before, after in pairwise(history):
            assert "valid " in words(explore.exchange((before, after)))
    assert "sampled at random" in words(explore.exchange((history[0], history[0])))


def test_answers_are_judged_and_escaped(monkeypatch):
    titles, asked = [], []
    monkeypatch.setattr(explore.plots, "gallery", lambda boards, plans, told: titles.append(told[0]))
    monkeypatch.setattr(explore, "_image", lambda figure: "")

    def complete(prompts, **settings):
        asked.append((prompts, settings))
        return [[answers[len(asked) - 1]]]

    policy = SimpleNamespace(prompt_format="compact", complete=complete)
    monkeypatch.setattr("mapflake.trainer.policy.load_policy", lambda checkpoint: policy)
    best, wrong = (format_plan(BOARD, plan, "compact") for plan in (solve(BOARD).plan, WRONG))
    answers = [best, wrong, "<script>alert(1)</script>", None]
    shown = [explore.answered("a/checkpoint", BOARD.to_text(), temperature=0.5, seed=3) for _ in answers]
    assert titles == [f"the answer: {said}" for said in ("optimal", "fails: hole, edge", "fails: parse", "fails: goal")]
    prompt = "size4 holes b1 c2 agent1 a0 to d3 agent2 d0 to a3 plan"
    assert asked[0] == ([prompt], {"temperature": 0.5, "seed": 3})
    assert "(no answer)" in words(shown[-1])
    assert "<script>" not in shown[2].data
