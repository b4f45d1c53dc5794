"""The reasoning-gym dataset by what reasoning-gym's own tests ask of every dataset; `make test-reasoning-gym`."""

import json

import numpy as np
import pytest

pytest.importorskip(
    "reasoning_gym", reason="reasoning-gym is not installed, it pins tabulate 0.9.0: make test-reasoning-gym"
)

import reasoning_gym
from reasoning_gym.factory import create_curriculum, get_score_answer_fn
from reasoning_gym.utils import extract_answer

from mapflake.adapters.reasoning import NAME
from mapflake.env import Task, num_holes, split_of
from mapflake.repro import from_json


def dataset(**chosen):
    return reasoning_gym.create_dataset(NAME, **chosen)


def task(entry):
    return from_json(Task, entry["metadata"]["task"], "task")


@pytest.mark.parametrize("prompt_format", ["chat", "brief", "compact"])
def test_the_answer_of_an_entry_scores_one(prompt_format):
    boards = dataset(seed=1234, size=10, prompt_format=prompt_format)
    for entry in boards:
        assert isinstance(entry["question"], str)
        assert isinstance(entry["answer"], str)
        assert boards.score_answer(answer=entry["answer"], entry=entry) == 1.0
        assert get_score_answer_fn(NAME)(entry["answer"], entry) == 1.0
        assert entry["metadata"]["source_dataset"] == NAME
        json.dumps(entry)


def test_entries_are_decided_by_seed_and_index():
    first, second = (dataset(seed=42, size=20) for _ in range(2))
    assert len(first) == 20
    assert [*first] == [*first] == [second[idx] for idx in range(20)]
    assert first[7] == second[7]
    assert [entry["metadata"]["source_index"] for entry in first] == [*range(20)]
    assert first[np.int64(7)] == first[7]
    with pytest.raises(TypeError):
        first[7.0]
    with pytest.raises(IndexError, match=r"20 is not in 0\.\.19"):
        first[20]


def test_neighbouring_seeds_share_no_entries():
    """Those of reasoning-gym's own datasets do, which is what this would find."""

    def shared(name):
        first, second = ([entry["question"] for entry in reasoning_gym.create_dataset(name, seed=seed, size=50)]
                         for seed in (0, 1))  # fmt: skip
        return len({*first} & {*second})

    assert shared(NAME) == 0
    assert shared("n_queens") >= 40


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"min_size": 7}, "min_size: 7 is larger than max_size, 6"),
        ({"min_size": 3, "max_agents": 9}, "leaves 8 free cells for 9 agents"),
        ({"min_agents": 1}, "wait_ratio: 0.5 is not 0, and one agent"),
        ({"prompt_format": "compact", "max_agents": 6}, "max_agents: 6, but compact has words for 5"),
        ({"prompt_format": "html"}, "prompt_format: 'html'"),
    ],
)
def test_a_wrong_configuration_is_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        dataset(**wrong)


def test_boards_are_those_of_the_configuration_and_never_held_out():
    entries = dataset(
        seed=3, size=150, min_size=3, max_size=5, min_agents=1, max_agents=3, max_hole_ratio=0.3, wait_ratio=None
    )
    boards = [task(entry).instance for entry in entries]
    assert {board.size for board in boards} == {3, 4, 5}
    assert {board.num_agents for board in boards} == {1, 2, 3}
    assert all(num_holes(board.size, 0.1) <= len(board.holes) <= num_holes(board.size, 0.3) for board in boards)
    assert {split_of(board) for board in boards} == {"train"}  # 2 in 10 of all boards are in another


def test_the_score_is_the_reward():
    boards = dataset(seed=0, size=5)
    for entry in boards:
        best = task(entry).solution.plan.moves
        longer = json.dumps({"plan": ["W" + moves for moves in best]})
        wrong = json.dumps({"plan": ["U" * 30 for _ in best]})
        tagged = f"<think>...</think> <answer>{entry['answer']}</answer>"
        assert [boards.score_answer(text, entry) for text in (longer, wrong, "", "no plan", None, tagged)] == [
            0.5, 0.0, 0.0, 0.0, 0.0, 1.0,
        ]  # fmt: skip
        assert boards.score_answer(extract_answer(tagged), entry) == 1.0


def test_levels_go_up_and_down():
    curriculum = create_curriculum(NAME)
    lowest = curriculum.generate_configuration({"size": 150, "seed": 1})
    assert (lowest.min_size, lowest.max_size, lowest.max_agents, lowest.wait_ratio) == (4, 4, 2, 0.0)
    assert (lowest.size, lowest.seed) == (150, 1)
    for name in ("size", "agents", "hole_ratio", "wait_ratio"):
        assert curriculum.increment_attr_level(name)
    higher = curriculum.generate_configuration()
    assert (higher.min_size, higher.max_size) == (4, 6)
    assert (higher.min_agents, higher.max_agents) == (2, 3)
    assert (higher.min_hole_ratio, higher.max_hole_ratio, higher.wait_ratio) == (0.1, 0.2, 0.25)
    assert curriculum.decrement_attr_level("size")
    assert curriculum.generate_configuration().max_size == 4


@pytest.mark.parametrize("level", range(4))
def test_every_level_has_boards(level):
    curriculum = create_curriculum(NAME)
    curriculum.set_global_level(level)
    config = curriculum.generate_configuration({"seed": 0, "size": 12})
    boards = [task(entry) for entry in dataset(**vars(config))]
    for board in boards:
        assert config.min_size <= board.instance.size <= config.max_size == 4 + 2 * level
        assert config.min_agents <= board.instance.num_agents <= config.max_agents == 2 + level
    assert any(board.needs_wait for board in boards) == (level > 0)
