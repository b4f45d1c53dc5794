"""Looking at things by hand: what is found, what is shown, and that the knobs do it."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapflake import explore
from mapflake.env import EnvConfig, Instance, Plan, Task, check, format_plan, generate, solve
from mapflake.explore import panels, views
from mapflake.explore.records import Failure, readable
from mapflake.trainer import evaluate

ROOT = Path(__file__).resolve().parents[2]
LEDGERS = sorted((ROOT / "reports/rounds").glob("*.jsonl"))
BOARD = Instance.from_text("S1 . . G2\n . H . .\n . . H .\n S2 . . G1")
WRONG = Plan(("RDRRDD", "RRRUUU"))


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


class Echo:
    """A policy that answers every prompt with one text."""

    prompt_format = "compact"

    def __init__(self, answer: str | None) -> None:
        self.answer, self.asked = answer, []

    def complete(self, prompts, **settings):
        self.asked.append((list(prompts), settings))
        return [[self.answer] for _ in prompts]


# ---------------------------------------------------------------- what is found


def test_histories_put_the_shared_round_before_each_arm() -> None:
    found = explore.histories(LEDGERS)
    assert "engineer" in found
    for arm, history in found.items():
        assert [one.index for one in history] == list(range(len(history))), arm
        assert history[1].parent_sha256 == history[0].checkpoint_sha256, arm
        assert {one.arm for one in history[1:]} == {arm}


def test_failures_are_those_of_the_report_or_of_the_runs_own_files(tmp_path: Path) -> None:
    (ledger,) = [path for path in LEDGERS if path.stem == "engineer_loop"]
    history = explore.histories([ledger])["engineer"]
    published = explore.failures(history)
    assert [one.instance.to_text() for one in published] == [e.board for one in history for e in one.report.examples]
    assert {one.source for one in published} == {"engineer, round 1", "engineer, round 2"}
    for one in published:
        assert one.kinds
        assert one.plan is None or one.kinds == check(one.instance, one.plan).kinds
    assert explore.failures([*history, *history]) == published

    shutil.copy(ledger, tmp_path / "rounds.jsonl")
    tasks = generate(EnvConfig.uniform([3], 0.1), 3, seed=0)
    texts = ["no plan", format_plan(tasks[1].instance, Plan(("", "")), "compact"), "<U> X a0 <U> U a0 ;"]
    done = [
        evaluate.Rollout(t, 0, text, evaluate.judge(t, text, "compact")) for t, text in zip(tasks, texts, strict=True)
    ]
    evaluate.save_rollouts(
        tmp_path / json.loads(ledger.read_text().splitlines()[0])["files"]["failures"], done, "compact"
    )
    own = explore.failures(explore.histories([tmp_path / "rounds.jsonl"])["engineer"][:1])
    assert [one.kinds for one in own] == [("parse",), ("goal",), done[2].verdict.kinds]


@pytest.mark.parametrize("prompt_format", ["chat", "compact"])
def test_a_plan_is_read_in_both_prompt_formats(prompt_format: str) -> None:
    plan = solve(BOARD).plan
    assert readable(format_plan(BOARD, plan, prompt_format), BOARD).moves[0].rstrip("W") == plan.moves[0].rstrip("W")
    assert readable("I do not know", BOARD) is None


# ---------------------------------------------------------------- what is shown


def test_a_moment_shows_what_went_wrong_so_far() -> None:
    violations = check(BOARD, WRONG).violations
    crosses = [views.moment(BOARD, WRONG, time).count("stroke-linecap") for time in range(WRONG.horizon + 1)]
    ways = BOARD.num_agents  # each path has that attribute too
    assert crosses == [ways + 2 * sum(v.time <= t for v in violations) for t in range(WRONG.horizon + 1)]
    assert words(views.step(BOARD, WRONG, 0)).endswith("step 0 of 6")
    assert "step 2 of 6: agent 1 down, agent 2 right step 2: agent 1 falls into a hole" in words(
        views.step(BOARD, WRONG, 2)
    )
    best = solve(BOARD).plan
    assert f"valid: makespan {best.horizon}" in views.step(BOARD, best, best.horizon)
    assert "valid" not in views.step(BOARD, best, best.horizon - 1)
    assert "agent 1 waits" in views.step(BOARD, Plan(("R", "RR")), 2)


def test_the_gallery_filters_and_pages() -> None:
    task = Task.of(BOARD)
    other = generate(EnvConfig.uniform([3], 0.0), 1, seed=0)[0].instance
    found = [Failure(f"number {i}", BOARD, "", WRONG) for i in range(9)] + [Failure("<b>odd</b>", other, "?", None)]
    assert {one.kinds for one in found} == {check(task.instance, WRONG).kinds, ("parse",)}
    first = words(views.gallery(found))
    assert first.startswith("1 to 8 of 10")
    assert "number 7" in first
    assert "number 8" not in first
    assert "9 to 10 of 10" in views.gallery(found, page=2)
    assert views.gallery(found, page=99) == views.gallery(found, page=2)
    unread = views.gallery(found, size=3)
    assert "1 to 1 of 1" in unread
    assert "&lt;b&gt;odd&lt;/b&gt;" in unread
    assert views.gallery(found, kind="parse") == unread
    assert words(views.gallery(found, size=3, kind="hole")) == "none"


def test_an_exchange_shows_prompt_replies_and_what_changed() -> None:
    before, after = explore.histories(LEDGERS)["engineer"][:2]
    shown = views.exchange(before, after)
    assert after.proposal.prompt in shown
    for reply in after.proposal.replies:
        assert reply in shown
    assert f"&gt; {after.proposal.reply}" in shown or f"> {after.proposal.reply}" in shown
    assert "accepted" in shown
    assert "drawn at random" in views.exchange(before, before)
    old, new = EnvConfig.uniform([3, 4], 0.1, 0.5), EnvConfig.uniform([3, 4], 0.1, None)
    assert words(views.changes(old, new)) == "data holes waits 3x3 50% 10% 50% → any 4x4 50% 10% 50% → any"


def test_an_answer_is_judged_and_escaped() -> None:
    text, task = BOARD.to_text(), Task.of(BOARD)
    best = Echo(format_plan(BOARD, task.solution.plan, "compact"))
    shown = views.answered(best, text, temperature=0.5, seed=3)
    assert "the answer: optimal" in shown
    assert best.asked == [(["size4 holes b1 c2 agent1 a0 to d3 agent2 d0 to a3 plan"], {"temperature": 0.5, "seed": 3})]
    assert "the answer: fails: hole" in views.answered(Echo(format_plan(BOARD, WRONG, "compact")), text)
    odd = views.answered(Echo("<script>alert(1)</script>"), text)
    assert "the answer: fails: parse" in odd
    assert "<script>" not in odd
    assert "(no answer)" in views.answered(Echo(None), text)


# ---------------------------------------------------------------- knobs


def test_turning_a_knob_changes_the_view() -> None:
    panel = explore.generator([3, 4])
    at_first = panel.shown.value
    assert at_first.count("<svg") == 8
    assert "data:image/png" in at_first
    panel.controls["data_3"].value = 0.0
    assert panel.shown.value != at_first
    table = panel.shown.value[panel.shown.value.index("<table") :]
    assert words(table).split()[6:9] == ["2", "4", "300"]  # agents, size, boards
    panel.controls["data_4"].value = 0.0
    assert "ValueError: no size of [3, 4] has a data ratio above 0" in words(panel.shown.value)
    panel.controls["data_4"].value = 1.0
    assert panel.shown.value.count("<svg") == 8


def test_a_panel_leaves_its_picture_where_no_browser_is() -> None:
    panel = explore.stepper(BOARD, WRONG)
    shown = panel._repr_mimebundle_()
    assert {"application/vnd.jupyter.widget-view+json", "text/html"} <= set(shown)
    assert shown["text/html"] == views.step(BOARD, WRONG, 0)
    panel.controls["time"].value = 3
    assert panel.shown.value == views.step(BOARD, WRONG, 3)


def test_filters_turn_back_to_the_first_page() -> None:
    found = [Failure(str(i), BOARD, "", WRONG) for i in range(20)] + [Failure("x", BOARD, "", None)]
    panel = explore.browse(found)
    panel.controls["page"].value = 3
    assert "17 to 21 of 21" in panel.shown.value
    panel.controls["kind"].value = "parse"
    assert (panel.controls["page"].value, panel.controls["page"].max) == (1, 1)
    assert "1 to 1 of 1" in panel.shown.value
    assert explore.browse([]).shown.value == views.gallery([])


def test_rounds_of_all_arms_can_be_chosen() -> None:
    found = explore.histories(LEDGERS)
    panel = explore.rounds(found)
    chosen = panel.controls["chosen"]
    assert len(chosen.options) == sum(len(history) - 1 for history in found.values())
    chosen.index = len(chosen.options) - 1
    arm = list(found)[-1]
    assert panel.shown.value == views.exchange(*found[arm][-2:])


def test_a_board_is_drawn_by_clicks_and_solved_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = Echo("no plan")
    monkeypatch.setattr(panels, "_policy", lambda checkpoint: policy)
    panel = explore.ask(BOARD.to_text(), ["a/checkpoint"])
    board = panel.children[0]
    assert len(policy.asked) == 1
    board.brush.value = "S1"
    board.paint(2, 2)
    assert Instance.from_text(board.text.value).starts[0] == (2, 2)
    assert board.grid.children[10].description == "S1"
    board.brush.value = "H"
    for button in (board.grid.children[11], board.grid.children[14]):  # by a click; the second walls agent 1 in
        button.click()
    board.paint(1, 2)
    assert "Unsolvable" in board.seen.value
    assert len(policy.asked) == 1
    panel.children[2].children[2].click()
    assert "Unsolvable" in panel.shown.value
    board.size.value = 3
    assert "agent 1 has no goal" in board.seen.value


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.sampled_from(panels.BRUSHES)), max_size=12))
def test_painting_keeps_every_start_and_goal_in_one_place(strokes: list[tuple[int, int, str]]) -> None:
    text = BOARD.to_text()
    for row, col, mark in strokes:
        text = panels.painted(text, row, col, mark)
        cells = [line.split() for line in text.splitlines()]
        assert [len(line) for line in cells] == [4] * 4
        assert mark in cells[row][col]
        ends = re.findall(r"[SG]\d", text)
        assert len(ends) == len(set(ends))
        for cell in itertools.chain(*cells):
            assert re.fullmatch(r"\.|H|S\d|G\d|S\dG\d", cell), cell
