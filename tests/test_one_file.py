"""one_file.py against the package: two implementations of one method that share no line, and agree."""

import ast
import random
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from boards import boards
from hypothesis import given, settings
from starts import PARAMS, TASKS

import one_file
from mapflake.engineer.report import diagnose
from mapflake.env import (
    KINDS,
    VOCABULARY,
    Instance,
    Plan,
    Task,
    Unsolvable,
    Verdict,
    Violation,
    check,
    judge_plan,
    needs_wait,
    render_prompt,
    reward,
    solve,
    to_dataset,
)
from mapflake.trainer import grpo
from mapflake.trainer.evaluate import Rollout
from mapflake.trainer.params import ModelParams
from mapflake.trainer.policy import from_scratch
from mapflake.trainer.round_trainer import RoundTrainer

LINES = Path(one_file.__file__).read_text().splitlines()
IMPORTS = {"argparse", "collections", "copy", "types", "numpy", "torch"}


def test_it_is_short_and_stands_alone():
    assert len(LINES) <= 350
    tree = ast.walk(ast.parse("\n".join(LINES)))
    imports = [node for node in tree if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = [[alias.name for alias in n.names] if isinstance(n, ast.Import) else [n.module] for n in imports]
    assert {name.split(".")[0] for group in names for name in group} == IMPORTS


# ---------------------------------------------------------------- boards, checks, solver


def test_mutated_plans_fail_the_same_checks():
    """Mutations of right plans reach every check, and leave some plans valid."""
    rng, pick, seen = np.random.default_rng(0), random.Random(0), set()
    for _ in range(300):
        task = one_file.random_task(pick.choice((3, 4, 5)), 0.25, rng, pick.choice((None, True)))
        plan = task.plan[: pick.choice((1, 2, 2, 2, 2))]
        for _ in range(pick.randint(0, 2)):
            agent, place = pick.randrange(len(plan)), pick.randint(0, 4)
            change = pick.choice(("", *"UDLRWWx"))  # in place of a move, or between two
            plan[agent] = plan[agent][:place] + change + plan[agent][place + pick.randint(0, 1) :]
        verdict = check(Instance(*task.board), Plan(tuple(plan)))
        assert one_file.check(task.board, plan) == verdict.kinds
        assert verdict.makespan in (None, one_file.makespan(plan))
        seen |= {*verdict.kinds} or {"valid"}
    assert one_file.check(task.board, None) == ("parse",)
    assert seen == {*KINDS, "valid"} - {"parse"}


@given(boards((2, 5), (2, 2)))
@settings(max_examples=200)
def test_optima_and_wait_labels_are_the_same(instance):
    board = one_file.Board(instance.size, instance.holes, instance.starts, instance.goals)
    plan = one_file.solve(board)
    try:
        solution = solve(instance)
    except Unsolvable:
        assert plan is None
        return
    verdict = check(instance, Plan(tuple(plan)))
    assert (verdict.valid, verdict.makespan) == (True, solution.makespan)
    least = one_file.arrivals(board)
    assert least == solve(instance, "sum_of_costs").sum_of_costs
    assert (one_file.arrivals(board, waits=False, most=least) > least) == needs_wait(instance)


def test_the_generator_meets_a_configuration():
    config = np.array([[0.5, 0.2, 1.0], [0.5, 0.3, 0.0], [0.0, 0.0, 0.0]])
    tasks = one_file.draw(config, 60, np.random.default_rng(0))
    assert {task.board.size for task in tasks} == {3, 4}
    for task in tasks:
        instance = Instance(*task.board)
        assert task.waits == needs_wait(instance) == (instance.size == 3)
        assert len(instance.holes) == {3: 2, 4: 5}[instance.size]
        assert all(start != goal for start, goal in zip(instance.starts, instance.goals, strict=True))
    avoid = {task.board for task in tasks}
    assert avoid.isdisjoint(task.board for task in one_file.draw(config, 60, np.random.default_rng(0), avoid))


def test_words_hold_the_whole_board_and_the_whole_plan():
    rng = np.random.default_rng(1)
    for task in one_file.draw(np.array([[1 / 3, 0.4, 0.3]] * 3), 60, rng):
        prompt = render_prompt(Instance(*task.board), "compact")
        assert one_file.ask(task.board) == re.sub("agent[12]", "agent", prompt).split()
        ids = one_file.encode([one_file.ask(task.board)])
        assert ids.shape == (1, one_file.PROMPT)
        words = one_file.answer(task.board, task.plan)
        assert len(words) < one_file.ANSWER
        assert [moves.rstrip("W") for moves in one_file.read_plan(words)] == task.plan
        assert one_file.read_plan(words[:-1]) is None


# ---------------------------------------------------------------- GRPO, held against TRL as the package sets it up


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    """The package's trainer of an untrained policy, two steps on the same answers."""
    policy = from_scratch(ModelParams(hidden_size=32, layers=1, heads=2, intermediate_size=32), VOCABULARY, seed=0)
    params = PARAMS.model_copy(update={"iterations": 2})
    rows = grpo.training_rows(policy, grpo.Boards(TASKS), params, 0)
    arguments = grpo.training_arguments(params, tmp_path_factory.mktemp("grpo"), 0, [1.0], large=False)
    noise = random.Random(0)

    def score(completions, **columns):
        return [noise.choice((0.0, 0.0, 0.5, 1.0)) for _ in completions]

    trainer = RoundTrainer(policy, rows, [score], arguments, seed=0)
    trainer.current_gradient_accumulation_steps = arguments.gradient_accumulation_steps
    trainer.model.train()
    return trainer


def test_advantages_and_loss_are_those_of_the_package(trainer, monkeypatch):
    rows = [row for row in to_dataset(TASKS[:4], "compact").to_list() for _ in range(trainer.num_generations)]
    rewards = []
    calculate = trainer._calculate_rewards
    monkeypatch.setattr(trainer, "_calculate_rewards", lambda *a: rewards.append(calculate(*a)) or rewards[0])
    batch = trainer._generate_and_score_completions(rows)

    groups = rewards[0].view(-1, trainer.num_generations)
    advantage = one_file.advantages(groups).flatten()
    assert (advantage != 0).any()
    torch.testing.assert_close(advantage, batch["advantages"], atol=1e-5, rtol=0)

    old = batch["old_per_token_logps"]
    new = old + 0.3 * torch.randn(old.shape, generator=torch.Generator().manual_seed(0))  # many ratios are clipped
    monkeypatch.setattr(
        trainer, "_get_per_token_logps_and_entropies", lambda *a, **k: (new, torch.zeros_like(new), None)
    )
    mask, words = batch["completion_mask"], batch["num_items_in_batch"]
    ours = one_file.grpo_loss(new, old, advantage, mask, words)
    theirs = trainer._compute_loss(trainer.model, batch)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    unclipped = -((new - old).exp() * advantage[:, None] * mask).sum() / words
    assert (ours - unclipped).abs() > 1e-3  # the comparison would notice another clipping


def test_the_cache_changes_nothing():
    """The probabilities with which answers are sampled are those of a plain forward pass."""
    torch.manual_seed(0)
    policy = one_file.Policy(32, 2, 2)
    prompts = torch.randint(len(one_file.WORDS), (5, one_file.PROMPT))
    ids = torch.randint(len(one_file.WORDS), (5, 9))
    logits, cache = policy(prompts)
    steps = [logits[:, -1]]
    for column in ids.T[:-1]:
        logits, cache = policy(column[:, None], cache)
        steps.append(logits[:, -1])
    stepwise = torch.stack(steps, 1).log_softmax(-1).gather(2, ids[..., None])[..., 0]
    torch.testing.assert_close(one_file.log_probabilities(policy, prompts, ids), stepwise, atol=1e-5, rtol=0)


# ---------------------------------------------------------------- report, reward, design


def test_reports_and_rewards_are_the_same():
    rng, pick = np.random.default_rng(2), random.Random(2)
    tasks = one_file.draw(np.array([[1 / 3, 0.2, 0.5]] * 3), 120, rng)
    plans = []
    for task in tasks:
        cut = [moves[: pick.randint(0, len(moves))] + pick.choice(("", "U", "LR")) for moves in task.plan]
        plans.append(pick.choice((None, task.plan, ["W" + moves for moves in task.plan], cut)))
    rollouts = []
    for task, plan in zip(tasks, plans, strict=True):
        theirs = Task.of(Instance(*task.board))
        read = None if plan is None else Plan(tuple(plan))
        verdict = judge_plan(theirs, read) if read else Verdict((Violation("parse"),))
        rollouts.append(Rollout(theirs, 0, "compact", "", read, verdict))
        assert one_file.reward(task, plan) == reward(verdict)
    report = one_file.failure_report(tasks, plans)
    theirs = diagnose(rollouts).sizes
    assert [s.size for s in theirs] == [*report]
    for s in theirs:
        count = report[s.size]
        for key in ("rollouts", "valid", "optimal", "wait_rollouts", "wait_valid", "extra_steps"):
            assert count[key] == getattr(s, key) > 0
        assert tuple(count[kind] for kind in KINDS) == s.failures
        calm = (s.valid - s.wait_valid) / (s.rollouts - s.wait_rollouts)
        expected = [calm, s.wait_valid / s.wait_rollouts, s.failures[KINDS.index("hole")] / s.rollouts]
        assert one_file.rates(report)[[*report].index(s.size)] == pytest.approx(expected)


def test_designs_are_read_into_the_legal_space():
    before = np.full((3, 3), 0.3)
    words = ["20%", "95%", "100%", "40%", "0%", "0%", "40%", "5%", "50%"]
    design = one_file.read_design(words, before)
    assert design == pytest.approx(np.array([[0.2, 0.4, 1.0], [0.4, 0.0, 0.0], [0.4, 0.05, 0.5]]))
    for reply in (None, [], words[:-1], ["U", *words[1:]], ["0%", *words[1:3]] * 3):
        assert one_file.read_design(reply, before) is before
    rng = np.random.default_rng(0)
    for _ in range(100):  # what is taught can be read
        prompt, reply = one_file.report_lesson(rng)
        assert one_file.read_design(reply, before) is not before
        one_file.encode([prompt])


# ---------------------------------------------------------------- the whole file


def test_it_runs_and_learns(monkeypatch, capsys):
    """Whatever the configurations, boards are empty 3x3 ones without a wait, which a small policy learns in seconds."""
    draw_one = one_file.random_task
    monkeypatch.setattr(one_file, "SIZES", (3,))
    monkeypatch.setattr(one_file, "random_task", lambda size, holes, rng, waits=None: draw_one(3, 0.0, rng, False))
    start = {"width": 64, "depth": 2, "lessons": 140, "batch": 20, "lesson_rate": 5e-3, "threads": 1}
    results = one_file.main(**start, rounds=2, steps=3, boards=16, rate=1e-3, validation=20, test=150)

    one_file.show(results)
    shown = capsys.readouterr().out
    assert list(results) == [("start", "-"), ("random", 0), *((name, 1) for name in one_file.DESIGNERS)]
    assert all(f"\n{name} " in shown for name, _ in results)
    for design, rewards in results.values():
        assert rewards.shape == (150,)
        assert design.shape == (1, 3)
        assert (design >= 0).all()
        assert (design <= [1, one_file.MAX_HOLES, 1]).all()
    valid = {name: (rewards > 0).mean() for (name, _), (_, rewards) in results.items()}
    assert valid["start"] > 0.2  # an untrained policy has 0
    trained = [valid[name] for name in one_file.DESIGNERS]
    assert np.mean(trained) > valid["start"] + 0.02  # without reinforcement learning they would be equal
