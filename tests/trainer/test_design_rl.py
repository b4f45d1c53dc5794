"""Reinforcement over designs, for real, by a tiny policy that speaks. Kills: tests/faults."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from mapflake import env, repro
from mapflake.engineer.compact.base import BaseParams
from mapflake.engineer.compact.demonstrations import demonstrations, made_up
from mapflake.engineer.design_rl import Designs, beside_boards, cost, mixed, taught
from mapflake.engineer.reading import reading
from mapflake.engineer.reply import read_reply
from mapflake.engineer.situations import DesignRLParams, LessonParams, expected_gain, kind_shares
from mapflake.engineer.words import ENGINEER_WORDS, reply_words
from mapflake.trainer.grpo import Boards, Mixture, train_round
from mapflake.trainer.params import ModelParams, RLParams, WarmStartParams
from mapflake.trainer.policy import load_policy
from mapflake.trainer.warmstart import warm_start

SIZES = (3, 4)
PARAMS = RLParams(  # at a learning rate of 5e-3 some trainings collapse, and a processor's rounding decides which
    instances=128, epochs=1, prompts=16, generations=8, microbatch=128, learning_rate=2e-3, warmup_steps=0,
    max_new_tokens=reply_words(SIZES), save_every=2,
)  # fmt: skip


@pytest.fixture(scope="module")
def speaker(tmp_path_factory):
    """A tiny policy that has seen demonstrations of the engineer's language over two sizes."""
    out = tmp_path_factory.mktemp("speaker") / "policy"
    params = WarmStartParams(
        model=ModelParams(hidden_size=32, layers=2, heads=2, intermediate_size=64),
        steps=120, batch_size=32, microbatch=32, learning_rate=1e-2, warmup_steps=5, final_share=0.5,
    )  # fmt: skip
    pairs = demonstrations(960, SIZES, seed=0, variants=["V1"])
    warm_start(pairs, [*env.VOCABULARY, *ENGINEER_WORDS], params, out, seed=0)
    return out


def designs(n: int, value) -> Designs:
    """Returns made-up situations without a history, in which each kind of boards is worth `value(kind)`."""

    def reward(situation, config) -> float:
        return sum(share * value(kind) for kind, share in kind_shares(config).items())

    return Designs([replace(made_up(i, SIZES, seed=7), history=()) for i in range(n)], SIZES, "V1", reward)


def data_on(policy_path, size: int) -> np.ndarray:
    """Returns the data ratio of a size in each accepted reply."""
    policy = load_policy(policy_path, max_new_tokens=reply_words(SIZES))
    problem = designs(50, lambda kind: 0.0)
    texts = [text for replies in policy.complete(problem.prompts("compact"), n=8, seed=5) for text in replies]
    configs = [c for text in texts if (c := read_reply(text, SIZES, "compact").config)]
    assert len(configs) > len(texts) / 2
    return np.array([c.sizes[size].data_ratio if size in c.sizes else 0.0 for c in configs])


def test_designs_move_to_what_is_rewarded_and_without_a_reward_nothing_moves(speaker, tmp_path):
    four = designs(128, lambda kind: float(kind[0] == 4))
    curve = train_round(speaker, four, PARAMS, tmp_path / "four", seed=0)
    before, after = data_on(speaker, 4), data_on(tmp_path / "four", 4)
    assert after.mean() - before.mean() > 4 * (before.var() / len(before) + after.var() / len(after)) ** 0.5
    assert {"rewards/design/mean", "rewards/accepted/mean", "rewards/distinct/mean", "entropy"} <= {*curve[0]}
    assert all(0 < row["rewards/distinct/mean"] <= 1 for row in curve)
    unrewarded = designs(16, lambda kind: 0.0)  # without signal: the control
    params = PARAMS.model_copy(update={"instances": 16})
    train_round(speaker, unrewarded, params, tmp_path / "nothing", seed=0)
    assert all(
        torch.equal(a, b)
        for a, b in zip(*(load_policy(p).model.parameters() for p in (speaker, tmp_path / "nothing")), strict=True)
    )


def test_lessons_teach_the_designs_that_are_worth_most(speaker, tmp_path):
    boards = env.generate(env.EnvConfig.uniform(SIZES, 0.1), 40, seed=0, split="train")
    env.save_tasks(tmp_path / "demonstrations.jsonl", boards)
    repro.write_json(tmp_path / "settings.json", {"sizes": SIZES, "validated": SIZES})
    recipe = WarmStartParams(steps=60, batch_size=32, microbatch=32, learning_rate=5e-3, warmup_steps=5)
    base = BaseParams(seed=0, hard_share=0.5, engineer_share=0.5, engineer_variants=["V1"], training=recipe)
    params = LessonParams(situations=80, boards_share=0.25, training=recipe)
    assert (params.rows, params.boards) == (1920, 480)
    unseen = [replace(made_up(i, SIZES, seed=8), history=()) for i in range(60)]
    scores = {}
    for name, reward in (
        ("before", None),
        ("best", expected_gain),
        ("worst", lambda *arguments: 1 - expected_gain(*arguments)),
    ):
        policy = speaker
        if reward:
            options = {"variant": "V1", "reward": reward, "seed": 0}
            policy = taught(params, base, speaker, tmp_path, tmp_path / name, SIZES, **options)
        scores[name] = reading(load_policy(policy), unseen, SIZES, variant="V1", seed=3)["own"]
    assert scores["worst"] < 0.5 * min(scores["before"], scores["best"])  # the lessons decide which designs it writes
    assert cost(DesignRLParams(lessons=params, real_share=0.0, rl=PARAMS), SIZES, tables=3) == {
        "rollouts": 0, "demonstrations": 480, "replies": 128 * 8,
    }  # fmt: skip


def test_a_chat_reply_in_json_is_rewarded():
    problem = designs(1, lambda kind: float(kind[0] == 4))
    reply = 'I move on. {"sizes": {"4": {"data_ratio": 1, "hole_ratio": 0.1, "wait_ratio": null}}}'
    design, accepted, distinct = problem.rewards("chat")
    arguments = {"completions": [[{"content": text}] for text in (reply, reply, None)], "situation": [0, 0, 0]}
    assert design(**arguments) == [1.0, 1.0, 0.0]
    assert accepted(**arguments) == [1.0, 1.0, 0.0]
    assert distinct(**arguments) == [0.5, 0.5, 1.0]


def test_what_a_prompt_leaves_out_and_a_reward_may_read_is_in_the_identity():
    whole, partial = (replace(made_up(0, SIZES, seed=7), history=()) for _ in range(2))
    partial = replace(partial, report=replace(partial.report, sizes=partial.report.sizes[:1]))
    mute = [Designs([situation], SIZES, "schema") for situation in (whole, partial)]
    assert mute[0].prompts("compact") == mute[1].prompts("compact")
    assert mute[0].identity() != mute[1].identity()


def test_designs_and_boards_in_one_training_are_each_rewarded_by_their_own(speaker, tmp_path):
    tasks = env.generate(env.EnvConfig.uniform(SIZES, 0.1), 4, seed=0, split="train")
    problem = Mixture([designs(4, lambda kind: 1.0), Boards(tasks)])
    rows = problem.rows("compact")
    assert rows["part"][:] == [0] * 4 + [1] * 4
    texts = ["size3 p100 p10 any end"] * 4 + [env.format_plan(t.instance, t.solution.plan, "compact") for t in tasks]
    columns = {name: rows[name][:] for name in rows.column_names if name != "prompt"}
    rewards = {reward.__name__: reward(completions=texts, **columns) for reward in problem.rewards("compact")}
    assert rewards["design"] == rewards["accepted"] == [1.0] * 4 + [None] * 4
    assert rewards["valid"] == rewards["optimal"] == [None] * 4 + [1.0] * 4
    params = PARAMS.model_copy(update={"instances": 8, "prompts": 1, "generations": 4, "microbatch": 4})
    curve = train_round(speaker, problem, params, tmp_path / "out", seed=0)
    named = [{key.split("/")[1] for key in row if key.startswith("rewards/")} for row in curve]
    assert sorted(map(len, named)) == [2] * 4 + [3] * 4  # a step of one prompt has the rewards of its part alone


def test_boards_are_a_share_of_the_prompts():
    params = DesignRLParams(boards_share=0.25, real_share=0.0, rl=PARAMS)
    problem = beside_boards(Designs(mixed([], SIZES, params, seed=0), SIZES), params, seed=0)
    assert [len(part) for part in problem.parts] == [96, 32]
    assert {t.instance.size for t in problem.parts[1].tasks} == {*SIZES}
    assert cost(params, SIZES, tables=0) == {"rollouts": 32 * 8, "replies": 96 * 8}
    with pytest.raises(ValueError, match=r"rl\.redraws: must be 0"):
        DesignRLParams(rl=PARAMS.model_copy(update={"redraws": 2}))
