"""The designer that measures: what it asks for follows what the policy solves, and it is charged for its answers."""

from dataclasses import replace

import pytest
from engineer_samples import REPORTS, SIZES, history
from speaker import Speaker

from mapflake.engineer.designers import measured as module
from mapflake.engineer.designers.measured import BOARDS, SAMPLES, frontier, success_variance
from mapflake.engineer.report import BoardBin
from mapflake.env import EnvConfig, GenerationError, format_plan, generate, render_prompt

TASKS = {}
REPORT = replace(REPORTS[0], bins=(BoardBin(3, 0.1, False, 30, 9), BoardBin(4, 0.2, True, 10, 3)))
HOLES = 0.125  # the mean over its rollouts


def learner(solved):
    """A policy that solves a board in `solved[size, needs_wait]` of four answers, and no board of other kinds."""

    def answer(prompt, i):
        task = TASKS[prompt]
        right = i < solved.get((task.instance.size, task.needs_wait), 0)
        return format_plan(task.instance, task.solution.plan, "compact") if right else "no plan"

    return Speaker(answer)


def drawn(config, n, **options):
    tasks = generate(config, n, **options)
    TASKS.update({render_prompt(t.instance, "compact"): t for t in tasks})
    return tasks


@pytest.fixture(autouse=True)
def remember_boards(monkeypatch):
    """Lets the learner look up the answer of every board that is drawn."""

    monkeypatch.setattr(module, "generate", drawn)


def test_the_kinds_near_the_best_are_asked_for_in_equal_parts_and_answers_are_charged():
    # p (1 - p) is 1/4 x 4/3 if two of four answers are right, 3/16 x 4/3 (0.75 of that) if one is, 0 if all are
    solved = {(3, False): 4, (4, False): 2, (4, True): 2, (5, True): 2, (6, False): 1}
    proposal = frontier(lambda past: learner(solved), SIZES, seed=2)(REPORT, history(1))
    shares = {size: (part.data_ratio, part.wait_ratio) for size, part in proposal.config.sizes.items()}
    assert {size: value for size, value in shares.items() if value[0]} == {
        4: (pytest.approx(2 / 3), 0.5),
        5: (pytest.approx(1 / 3), 1.0),
    }
    assert proposal.config.sizes[4].hole_ratio == pytest.approx(HOLES)
    assert proposal.extra_cost == {"rollouts": 2 * len(SIZES) * BOARDS * SAMPLES}
    assert "5x5 with waits 0.333" in proposal.reply
    other_design = frontier(lambda past: learner({(6, False): 1}), SIZES, seed=2)(REPORT, history(1))
    assert other_design.config.data_ratios[6] == 1.0  # it asks the policy, not the report
    even_design = frontier(lambda past: learner({}), SIZES, seed=2)(REPORT, history(1))
    assert even_design.config.data_ratios == pytest.approx(dict.fromkeys(SIZES, 1 / len(SIZES)))  # no kind is best


def test_a_kind_that_cannot_be_drawn_is_left_out(monkeypatch):
    def without_waits(config, n, **options):
        if any(part.wait_ratio for part in config.sizes.values()):
            raise GenerationError("no", 3)
        return drawn(config, n, **options)

    monkeypatch.setattr(module, "generate", without_waits)
    assert success_variance(learner({}), (3, True), 0.1, 2, seed=1) is None
    assert success_variance(learner({}), (3, False), 0.4, 5, seed=1) is None  # no room for five
    proposal = frontier(lambda past: learner({}), SIZES, seed=2)(REPORT, history(1))
    assert {part.wait_ratio for part in proposal.config.sizes.values()} == {0.0}
    assert proposal.extra_cost == {"rollouts": len(SIZES) * BOARDS * SAMPLES}


def test_a_mistake_in_drawing_boards_is_no_kind_that_cannot_be_drawn(monkeypatch):
    monkeypatch.setattr(module, "generate", lambda *args, **options: int("a mistake"))
    with pytest.raises(ValueError, match="a mistake"):
        success_variance(learner({}), (3, False), 0.1, 2, seed=1)


def test_an_answer_that_did_not_come_is_named():
    lossy = Speaker(lambda prompt, i: "no plan" if i else None)
    with pytest.raises(ValueError, match="frontier: 16 of 64 answers on boards of 3x3 did not come"):
        success_variance(lossy, (3, False), 0.1, 2, seed=1)


def test_the_boards_measured_have_as_many_agents_as_those_trained_on(monkeypatch):
    configs = []
    monkeypatch.setattr(module, "generate", lambda config, *a, **k: configs.append(config) or drawn(config, *a, **k))
    past = (replace(history(1)[0], config=EnvConfig.uniform(SIZES, 0.1, num_agents=3)),)
    frontier(lambda past: learner({}), SIZES[:1], seed=2)(REPORT, past)
    assert {config.num_agents for config in configs} == {3}
