"""The games against PettingZoo's own tests, against `check`, and against the golden transcripts."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo.test import parallel_api_test, parallel_seed_test
from transcripts import TRANSCRIPTS

from mapflake.adapters import parallel_env
from mapflake.adapters.parallel_env import PLANES, FrozenLake
from mapflake.env import MOVES, EnvConfig, Instance, Plan, Task, check, generate, judge_plan, reward

PAIRS = generate(EnvConfig.uniform([3, 4], 0.15, 0.5, 2), 12, seed=0)
MIXED = PAIRS + generate(EnvConfig.uniform([5], 0.2, 0.5, 3), 6, seed=0)


def play(env, plan):
    """Plays a plan of legal moves on task 0, then waits, to the end; returns the return of each agent."""
    env.reset(options={"task": 0})
    total, time = dict.fromkeys(env.agents, 0.0), 0
    while env.agents:
        letters = [moves[time] if time < len(moves) else "W" for moves in plan.moves]
        _, rewards, *_ = env.step({a: MOVES.index(m) for a, m in zip(env.agents, letters, strict=True)})
        total, time = {agent: total[agent] + rewards[agent] for agent in total}, time + 1
    return total


def test_pettingzoos_own_tests():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(FrozenLake(PAIRS), num_cycles=300)
        parallel_seed_test(lambda: FrozenLake(PAIRS), num_cycles=30)
    parallel_api_test(FrozenLake(MIXED, max_steps=4), num_cycles=100)  # it warns of agents that a game does without


PLAYABLE = [
    t
    for t in TRANSCRIPTS
    if t.plan and len(t.plan.moves) == t.task.instance.num_agents and not set("".join(t.plan.moves)) - set(MOVES)
]


@pytest.mark.parametrize("transcript", PLAYABLE, ids=lambda t: f"{t.prompt_format}: {t.name}")
def test_golden_plans_score_as_in_words(transcript):
    env = FrozenLake([transcript.task])
    assert set(play(env, transcript.plan).values()) == {transcript.reward}
    assert env.verdict.valid == transcript.valid
    assert env.verdict.soc_optimal == transcript.soc_optimal
    assert {*transcript.violations} <= {*env.verdict.kinds}  # a game ends with what is broken first, goals unreached


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.data())
def test_any_game_has_the_verdict_of_its_moves(data):
    task = data.draw(st.sampled_from(MIXED))
    random_plan = st.tuples(*[st.text(MOVES, max_size=8)] * task.instance.num_agents).map(Plan)
    plan = data.draw(random_plan | st.just(task.solution.plan))
    env = FrozenLake([task])
    returns = play(env, plan)
    assert env.verdict == judge_plan(task, env.plan)
    assert set(returns.values()) == {reward(env.verdict)}
    horizon = env.plan.horizon
    assert env.plan.moves == tuple(moves.ljust(horizon, "W")[:horizon] for moves in plan.moves)
    # It ended no sooner than it had to, and no later.
    for cut in range(horizon):
        before = check(task.instance, Plan(tuple(moves[:cut] for moves in env.plan.moves)))
        assert before.kinds == ("goal",) or cut == 0
    assert env.verdict.kinds != ("goal",) or horizon == 3 * task.solution.makespan
    if horizon >= plan.horizon and check(task.instance, plan).valid:
        assert env.verdict.valid


def test_ends_are_of_all_agents_and_say_why():
    task = Task.of(Instance.from_text("S1 G1 S2\n. . .\n. . G2"))
    env = FrozenLake([task], max_steps=3)
    env.reset()
    _, _, terminations, truncations, infos = env.step({"agent_0": 1, "agent_1": 4})
    assert not any([*terminations.values(), *truncations.values()])
    assert "verdict" not in infos["agent_0"]
    _, rewards, terminations, _, infos = env.step({"agent_0": 2, "agent_1": 0})  # both leave the board
    assert terminations == {"agent_0": True, "agent_1": True}
    assert rewards == {"agent_0": 0.0, "agent_1": 0.0}
    assert infos["agent_1"]["verdict"].kinds == ("bounds", "goal")
    assert env.agents == []
    env.reset()
    for _ in range(3):
        _, _, terminations, truncations, _ = env.step({"agent_0": 4, "agent_1": 4})
    assert truncations == {"agent_0": True, "agent_1": True}
    assert terminations == {"agent_0": False, "agent_1": False}


def test_what_an_agent_sees_and_may_do():
    task = Task.of(Instance.from_text("S1 H G2 .\n. S2 . .\n. . . H\nG1 . . ."))
    small = Task.of(Instance.from_text("S1 G1 .\n. . .\n. . ."))
    env = FrozenLake([task, small])
    observations, infos = env.reset(options={"task": 0})
    view = observations["agent_1"]
    assert env.observation_space("agent_1").contains(view)
    cells = {name: {*map(tuple, np.argwhere(plane).tolist())} for name, plane in zip(PLANES, view, strict=True)}
    assert cells == {
        "no ice": {(0, 1), (2, 3)},
        "self": {(1, 1)},
        "own goal": {(0, 2)},
        "others": {(0, 0)},
        "their goals": {(3, 0)},
    }
    for agent, moves in (("agent_0", "DW"), ("agent_1", "DLRW")):
        assert infos[agent]["action_mask"].tolist() == [move in moves for move in MOVES]
    observations, _ = env.reset(options={"task": 1})
    assert list(observations) == ["agent_0"]
    beyond = {(row, col) for row in range(4) for col in range(4) if max(row, col) == 3}
    assert {*map(tuple, np.argwhere(observations["agent_0"][0]).tolist())} == beyond


def test_renderings():
    task = Task.of(Instance.from_text("S1 G1 H\n. . .\nG2 . S2"))
    env = FrozenLake([task], render_mode="ansi")
    env.reset()
    assert env.render() == "1  G1 H\n.  .  .\nG2 .  2"
    env.step({"agent_0": 3, "agent_1": 2})
    assert env.render() == ".   1G1 H\n.   .   .\nG2  2   ."
    env.render_mode = None
    assert env.render() is None


def test_wrong_calls_name_what_is_legal():
    with pytest.raises(ValueError, match="max_steps: 0 is not an integer from 1"):
        FrozenLake(PAIRS, max_steps=0)
    with pytest.raises(ValueError, match="render_mode: 'human' is neither ansi nor None"):
        FrozenLake(PAIRS, render_mode="human")
    env = FrozenLake(PAIRS)
    with pytest.raises(ValueError, match="no game is on; call reset first"):
        env.step({})
    with pytest.raises(ValueError, match="task: 12 is not an index below 12"):
        env.reset(options={"task": 12})
    env.reset(seed=1)
    with pytest.raises(ValueError, match=re.escape("actions: of agent_0; to move: agent_0, agent_1")):
        env.step({"agent_0": 0})
    with pytest.raises(ValueError, match="actions: agent_1: 5 is not an integer below 5"):
        env.step({"agent_0": 0, "agent_1": 5})


def test_the_example(example, capsys):
    planned, chance = example("play_pettingzoo")
    assert planned == 1.0
    assert 0 < chance < 0.2
    assert "reward of the plan 1.0" in capsys.readouterr().out


def test_a_step_costs_the_same_however_long_the_game_is(monkeypatch):
    """Counted in moves that the rules look at: one for each step, and the whole game once, for its verdict."""
    looked: list[int] = []
    for name in ("execute", "check", "judge_plan"):
        whole = getattr(parallel_env, name)

        def counted(board, plan, whole=whole):
            looked.append(plan.horizon)
            return whole(board, plan)

        monkeypatch.setattr(parallel_env, name, counted)
    env = FrozenLake([Task.of(Instance.from_text("S1 G1 .\n. . .\n. . ."))], max_steps=200)
    env.reset()
    while env.agents:
        env.step({"agent_0": MOVES.index("W")})
    assert env.plan == Plan(("W" * 200,))
    assert sum(looked) == 200 * 2 + 200
