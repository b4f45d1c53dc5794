"""The games against PettingZoo's own tests, against `check`, and against the golden transcripts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pettingzoo.test import parallel_api_test, parallel_seed_test

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


@pytest.mark.filterwarnings("error")
def test_pettingzoos_own_tests():
    parallel_api_test(FrozenLake(PAIRS), num_cycles=300)
    parallel_seed_test(lambda: FrozenLake(PAIRS), num_cycles=30)


@settings(max_examples=60)
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


def test_wrong_calls_name_what_is_legal():
    with pytest.raises(ValueError, match="max_steps: must be at least 1, not 0"):
        FrozenLake(PAIRS, max_steps=0)
    with pytest.raises(ValueError, match=r"^tasks: Instance.* is not a Task"):
        FrozenLake([PAIRS[0].instance])
    assert FrozenLake(task for task in PAIRS).size == 4
    env = FrozenLake(PAIRS, max_steps=np.int64(9), render_mode="ansi")
    with pytest.raises(ValueError, match="no game is on; call reset first"):
        env.step({})
    with pytest.raises(ValueError, match="task: 12 is not an index below 12"):
        env.reset(options={"task": 12})
    env.reset(seed=1)
    assert env.render().count("G1") == 1
    for actions, message in (
        ({"agent_0": 0}, "actions: of agent_0; to move"),
        ([0, 1], "actions: of 0, 1; to move: agent_0, agent_1"),
        ({"agent_0": 0, "agent_1": 5}, "5 is not an"),
    ):
        with pytest.raises(ValueError, match=message):
            env.step(actions)


def test_the_example(example, capsys):
    planned, chance = example("play_pettingzoo")
    assert planned == 1.0
    assert 0 < chance < 0.2
    assert "reward of the plan 1.0" in capsys.readouterr().out
