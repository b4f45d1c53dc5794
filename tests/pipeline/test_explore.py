"""Views of notebooks/explore.ipynb: what they find and show, and that knobs change it."""

from __future__ import annotations

import html
import re
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.display import HTML

from mapflake import explore, study
from mapflake.engineer import Proposal
from mapflake.env import EnvConfig, Instance, Plan, check, format_plan, generate, judge_completion, solve
from mapflake.explore import Failure
from mapflake.trainer import evaluate

ROOT = Path(__file__).resolve().parents[2]
BOARD = Instance.from_text("S1 . . G2\n . H . .\n . . H .\n S2 . . G1")
WRONG = Plan(("RDRRDD", "RRRUUU"))


def words(shown: HTML) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", shown.data).split())


def test_every_published_round_can_be_shown() -> None:
    found = study.load(ROOT / "reports/cells/default")
    assert {"fixed", "engineer"} <= {*found.arms}
    for arm in found.arms:
        history = found.history(arm, found.seeds(arm)[0])
        assert [one.index for one in history] == list(range(len(history))), arm
        assert history[1].parent_sha256 == history[0].checkpoint_sha256, arm
        assert {one.arm for one in history[1:]} == {arm}
        assert explore.failures([*history, *history]) == explore.failures(history)
        for before, after in pairwise(history):
            assert "valid " in words(explore.exchange((before, after)))
    assert "sampled at random" in words(explore.exchange((history[0], history[0])))


def test_failures_are_those_of_the_runs_files_or_of_the_report(tmp_path: Path) -> None:
    tasks = generate(EnvConfig.uniform([3], 0.1), 2, seed=0)
    texts = ["no plan", format_plan(tasks[1].instance, Plan(("", "")), "compact")]
    rollouts = [
        evaluate.Rollout(task, 0, "compact", text, *judge_completion(task, text, "compact"))
        for task, text in zip(tasks, texts, strict=True)
    ]
    saved = tmp_path / "failures.jsonl"
    evaluate.save_rollouts(saved, rollouts)
    examples = [SimpleNamespace(board=BOARD.to_text(), moves=moves) for moves in (WRONG.moves, ())]
    one = SimpleNamespace(index=0, arm="shared", files={"failures": saved}, report=SimpleNamespace(examples=examples))
    plan = Plan(("", ""))
    assert explore.failures([one, one]) == [
        Failure("round 0", tasks[0].instance, None, ("parse",)),
        Failure("round 0", tasks[1].instance, plan, check(tasks[1].instance, plan).kinds),
    ]
    later = SimpleNamespace(index=2, arm="engineer", files={"failures": tmp_path / "gone"}, report=one.report)
    assert explore.failures([later]) == [
        Failure("engineer, round 2", BOARD, WRONG, check(BOARD, WRONG).kinds),
        Failure("engineer, round 2", BOARD, None, ("parse",)),
    ]


def test_gallery_filters_and_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    titles: list[str] = []
    monkeypatch.setattr(explore.plots, "gallery", lambda boards, plans, told: titles.append(told[-1]))
    monkeypatch.setattr(explore, "_image", lambda figure: "")
    other = generate(EnvConfig.uniform([3], 0.0), 1, seed=0)[0].instance
    found = [Failure(f"number {i}", BOARD, WRONG, ("hole", "edge")) for i in range(9)]
    found.append(Failure("odd", other, None, ("parse",)))
    asked = [{}, {"page": 2}, {"page": 99}, {"size": 3}, {"kind": "parse"}, {"kind": "edge", "page": 2}]
    said = [words(explore.gallery(found, **one)) for one in asked]
    assert said == ["1 to 8 of 10", *["9 to 10 of 10"] * 2, *["1 to 1 of 1"] * 2, "9 to 9 of 9"]
    assert titles == ["number 7\nhole, edge", *["odd\nparse"] * 4, "number 8\nhole, edge"]
    assert words(explore.gallery(found, size=3, kind="hole")) == "none"


def test_exchange_shows_prompt_replies_and_changes() -> None:
    old, new = EnvConfig.uniform([3, 4], 0.1, 0.5), EnvConfig.uniform([3, 4], 0.1, None)
    report = SimpleNamespace(valid_rate=0.25, to_text=lambda: "all <fails>")
    proposal = SimpleNamespace(prompt="the prompt", reply="b", replies=("a", "b"), config=new, rejection=None)
    both = {"report": report, "proposal": proposal}
    both["fallback"] = {3: {"asked": {"wait_ratio": 0.5}, "got": {"wait_ratio": None}}}
    rounds = [SimpleNamespace(index=i, config=config, **both) for i, config in enumerate((old, new))]
    shown = explore.exchange(tuple(rounds))
    assert "all &lt;fails&gt;" in shown.data
    assert words(shown).startswith("told the prompt answered (&gt; counts) a &gt; b the report all")
    changes = "data holes waits 3x3 50% 10% 50% → any 4x4 50% 10% 50% → any"
    missed = "3x3: no boards of {'wait_ratio': 0.5}, so {'wait_ratio': None}"
    ended = f"accepted {changes} valid 25%, after the round 25% {missed}"
    assert html.unescape(words(shown)).endswith(ended)
    assert {"prompt", "reply", "replies", "config", "rejection"} <= set(Proposal.__dataclass_fields__)


def test_turning_a_knob_of_the_generator_changes_the_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple] = []
    monkeypatch.setattr(explore, "generated", lambda *arguments: asked.append(arguments))
    panel = explore.generator([3, 4])
    holes, quota = panel.children[1].children[1], panel.children[2].children[3]
    holes.value, quota.value = 0.35, False
    (first, agents, seed), (last, *_) = asked[0], asked[-1]
    assert (agents, seed, first[4]) == (2, 0, {"data_ratio": 0.5, "hole_ratio": 0.2, "wait_ratio": 0.25})
    assert (last[3]["hole_ratio"], last[4]["wait_ratio"]) == (0.35, None)
    monkeypatch.undo()
    shown = explore.generated(last, 2, 0, n=20).data
    assert shown.count("data:image/png") == 2
    nothing = {size: ratios | {"data_ratio": 0.0} for size, ratios in last.items()}
    with pytest.raises(ValueError, match=r"no size of \[3, 4\] has a data ratio above 0"):
        explore.generated(nothing, 2, 0)


def test_answers_are_judged_and_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    titles: list[str] = []
    monkeypatch.setattr(explore.plots, "gallery", lambda boards, plans, told: titles.append(told[0]))
    monkeypatch.setattr(explore, "_image", lambda figure: "")
    asked: list[tuple] = []
    best = format_plan(BOARD, solve(BOARD).plan, "compact")
    wrong = format_plan(BOARD, WRONG, "compact")
    for answer in (best, wrong, "<script>alert(1)</script>", None):

        def complete(prompts: list[str], answer: str | None = answer, **settings: float) -> list[list[str | None]]:
            asked.append((prompts, settings))
            return [[answer]]

        policy = SimpleNamespace(prompt_format="compact", complete=complete)
        monkeypatch.setattr(explore, "load", lambda checkpoint, policy=policy: policy)
        shown = explore.answered("a/checkpoint", BOARD.to_text(), temperature=0.5, seed=3)
    assert titles == [
        f"the answer: {outcome}" for outcome in ("optimal", "fails: hole, edge", "fails: parse", "fails: goal")
    ]
    prompt = "size4 holes b1 c2 agent1 a0 to d3 agent2 d0 to a3 plan"
    assert asked[0] == ([prompt], {"temperature": 0.5, "seed": 3})
    assert "(no answer)" in words(shown)
    assert "&lt;script&gt;" in explore._block("its words", "<script>")
    assert words(explore.board(BOARD.to_text())).endswith("6 steps")
