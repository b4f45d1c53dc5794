"""Views of notebooks/explore.ipynb: what they find and show, and that knobs change it."""

from __future__ import annotations

import html
import re
from itertools import pairwise
from types import SimpleNamespace

from IPython.display import HTML
from small_repo import ROOT

from mapflake import explore, study
from mapflake.engineer import Round, diagnose
from mapflake.env import EnvConfig, Instance, Plan, Task, format_plan, judge_completion, solve
from mapflake.trainer.evaluate import Rollout

BOARD = Instance.from_text("S1 . . G2\n . H . .\n . . H .\n S2 . . G1")
WRONG = Plan(("RDRRDD", "RRRUUU"))
ANSWERS = ('{"plan": []}', '{"plan": ["R", "U", "L"]}')


def words(shown: HTML) -> str:
    return html.unescape(" ".join(re.sub(r"<[^>]*>", " ", shown.data).split()))


def test_every_published_round_can_be_shown() -> None:
    results = study.load(ROOT / "reports/cells/study")
    assert {"fixed", "engineer_trained"} <= {*results.arms}
    for arm in results.arms:
        history = results.history(arm, results.seeds(arm)[0])
        assert [r.index for r in history] == list(range(len(history))), arm
        assert history[1].parent_sha256 == history[0].checkpoint_sha256, arm
        assert {r.arm for r in history[1:]} == {arm}
        assert explore.failures([*history, *history]) == explore.failures(history)
        for before, after in pairwise(history):
            assert "valid " in words(explore.exchange((before, after)))
    left_out = next(r for r in results.history("engineer_trained", 0)[1:] if 10 not in r.config.sizes)
    shown = words(explore.exchange((results.history("engineer_trained", 0)[0], left_out)))
    assert re.search(r" 10 \d+% 0% \d+% - (any|\d+%) -", shown), shown
    assert "sampled at random" in words(explore.exchange((history[0], history[0])))


def test_a_plan_for_another_number_of_agents_fails_as_the_report_says():
    task, config = Task.of(BOARD), EnvConfig.uniform([4], 0.1)
    rollouts = [Rollout(task, 0, "chat", answer, *judge_completion(task, answer, "chat")) for answer in ANSWERS]
    none, three = explore.failures([Round("engineer", 1, config, diagnose([r])) for r in rollouts])
    assert none.kinds == three.kinds == ("agents",)
    assert none.source == "paper's engineer, round 1, seed 0"
    (shared,) = explore.failures([Round("shared", 0, config, diagnose(rollouts[:1]), seed=5)])
    assert shared.source == "round 0, seed 5"
    assert words(explore.step(three.instance, three.plan, 1)) == "3 lists of moves for 2 agents: nothing moves"


def test_a_ratio_that_is_not_legal_is_told(monkeypatch):
    monkeypatch.setattr(explore, "_image", lambda figure: "")
    text = words(explore.generated(5, 0, n=20, data_3=1.0, holes_3=0.5, waits_3=None))
    assert "3x3: no boards of {'hole_ratio': 0.5, 'wait_ratio': None}, so {'hole_ratio': 0." in text
    assert "no boards" not in words(explore.generated(2, 0, n=20, data_3=1.0, holes_3=0.2, waits_3=None))


def test_answers_are_judged_and_escaped(monkeypatch):
    titles, calls = [], []
    monkeypatch.setattr(explore.plots, "gallery", lambda boards, plans, labels: titles.append(labels[0]))
    monkeypatch.setattr(explore, "_image", lambda figure: "")

    def complete(prompts, **settings):
        calls.append((prompts, settings))
        return [[answers[len(calls) - 1]]]

    policy = SimpleNamespace(prompt_format="compact", complete=complete)
    monkeypatch.setattr("mapflake.trainer.policy.load_policy", lambda checkpoint: policy)
    best, wrong = (format_plan(BOARD, plan, "compact") for plan in (solve(BOARD).plan, WRONG))
    answers = [best, wrong, "<script>alert(1)</script>", None]
    shown = [explore.answered("a/checkpoint", BOARD.to_text(), temperature=0.5, seed=3) for _ in answers]
    assert titles == [
        f"the answer: {verdict}" for verdict in ("optimal", "fails: hole, edge", "fails: parse", "fails: goal")
    ]
    prompt = "size4 holes b1 c2 agent1 a0 to d3 agent2 d0 to a3 plan"
    assert calls[0] == ([prompt], {"temperature": 0.5, "seed": 3})
    assert "(no answer)" in words(shown[-1])
    assert "<script>" not in shown[2].data
