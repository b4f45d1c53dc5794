"""Boards in TRL's `environment_factory`: one board a group, and a tool through TRL's own parser and loop."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from starts import byte_level_tokenizer
from trl import GRPOConfig, GRPOTrainer
from trl.chat_template_utils import qwen3_chat_template

from mapflake.adapters.trl import DesignedBoards, EngineerCallback
from mapflake.adapters.trl_tools import FrozenLakeEnvironment
from mapflake.env import EnvConfig, generate, reward, to_dataset
from mapflake.trainer.params import ModelParams
from mapflake.trainer.policy import from_scratch

CONFIG = EnvConfig.uniform((3, 4), 0.1, num_agents=2)
TASKS = generate(CONFIG, 8, seed=0)
SIZE = 4  # of a group


class Scripted(GRPOTrainer):
    """TRL's trainer, whose model submits a wrong plan, then the right one, or the wrong one alone, or says nothing."""

    said: list[str]

    def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
        if len(prompt_ids) == len(self.environments):
            self.said, self.turn = [], 0
        self.said += self.processing_class.batch_decode(prompt_ids)
        self.turn += 1
        if self.turn == 1:
            self.order = [i for i in range(len(prompt_ids)) if i % SIZE]  # who plays; the first of a group does not
            texts = ["I pass." if i % SIZE == 0 else self.call(i, wrong=i % SIZE < 3) for i in range(len(prompt_ids))]
        elif self.turn == 2:
            texts = [self.call(i, wrong=False) if i % SIZE == 2 else "Done." for i in self.order]
        else:
            texts = ["Done."] * len(prompt_ids)
        return [self.processing_class(f"{text}<|im_end|>")["input_ids"] for text in texts], None

    def call(self, i: int, wrong: bool) -> str:
        task = self.environments[i].task
        plan = ["UUUUUU"] if wrong else list(task.solution.plan.moves)
        return f"<tool_call>\n{json.dumps({'name': 'submit', 'arguments': {'plan': plan}})}\n</tool_call>"


def make(folder: Path, rows: Any, kind: type[GRPOTrainer] = GRPOTrainer, **changed: Any) -> GRPOTrainer:
    torch.manual_seed(0)
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template = qwen3_chat_template
    shape = ModelParams(hidden_size=16, layers=1, heads=2, intermediate_size=16, max_positions=8192)
    args = {
        "output_dir": str(folder), "per_device_train_batch_size": 2 * SIZE, "num_generations": SIZE, "use_cpu": True,
        "max_completion_length": 8, "bf16": False, "gradient_checkpointing": False, "report_to": "none",
        "logging_steps": 1, "max_steps": 2, "disable_tqdm": True, "save_strategy": "no",
    }  # fmt: skip
    return kind(
        from_scratch(shape, [str(i) for i in range(400)], seed=0).model,
        changed.pop("rewards", None),
        GRPOConfig(**args | changed),
        rows,
        processing_class=tokenizer,
        environment_factory=FrozenLakeEnvironment,
    )


def test_the_board_is_that_of_the_design(tmp_path: Path) -> None:
    """Both doors together: the rows are of the current round, and so are the boards that the environments read."""
    seen: list[set[str]] = []  # the boards of each group

    def groups(completions: Any, environments: Any, **_: Any) -> list[float]:
        keys = [environment.task.instance.key for environment in environments]
        seen.extend({*keys[i : i + SIZE]} for i in range(0, len(keys), SIZE))
        return [0.0] * len(keys)

    boards = DesignedBoards(CONFIG, 4, seed=0)
    options = {"max_steps": -1, "num_train_epochs": 2, "shuffle_dataset": False}
    trainer = make(tmp_path, boards.dataset, rewards=groups, **options)
    validation = generate(CONFIG, 4, seed=0, split="validation")
    engineer = EngineerCallback(trainer, boards, "domain_randomisation", validation=validation)
    trainer.add_callback(engineer)
    first = {task.instance.key for task in boards.tasks}
    trainer.train()
    second = {task.instance.key for task in boards.tasks}
    assert [len(group) for group in seen] == [1] * 8  # the members of a group have one board
    assert set().union(*seen[:4]) == first != second == set().union(*seen[4:])
    groups([""] * SIZE, [SimpleNamespace(task=task) for task in TASKS[:SIZE]])
    assert len(seen[-1]) == SIZE  # the control: environments that draw for themselves


def test_plans_go_through_trls_own_parser_and_loop(tmp_path: Path) -> None:
    options = {"max_completion_length": 2000, "max_steps": 1}
    trainer = make(tmp_path, to_dataset(TASKS), Scripted, **options)
    trainer.train()
    (row,) = [row for row in trainer.state.log_history if "reward" in row]
    # Of a group of four one passes, one submits a wrong plan, one a wrong and then the right one, one the right one.
    assert row["rewards/FrozenLakeEnvironment/mean"] == pytest.approx(0.5)
    assert row["tools/failure_frequency"] == 0
    assert row["tools/call_frequency"] == 1.0
    prompts = [text for text in trainer.said if "<tool_response>" not in text]
    assert len(prompts) == 2 * SIZE
    assert all(
        "submit" in text and "Row 0 is at the top" in text and "The last plan counts" in text for text in prompts
    )
    answers = [text.rpartition("<tool_response>")[2] for text in trainer.said if "<tool_response>" in text]
    assert sum("Not valid: agents." in answer for answer in answers) == 4
    assert sum("Valid: all agents are on their goals after" in answer for answer in answers) == 4


# ---------------------------------------------------------------- the environment by itself


def played(*plans: Any) -> tuple[FrozenLakeEnvironment, list[str]]:
    environment = FrozenLakeEnvironment()
    environment.reset(**to_dataset(TASKS[:1])[0])
    return environment, [environment.submit(plan) for plan in plans]


def test_the_last_plan_counts_and_what_is_wrong_is_said() -> None:
    right = list(TASKS[0].solution.plan.moves)
    longer = [right[0] + "WW", *right[1:]]
    outside = ["U" * 9, *right[1:]]
    environment, (wrong, later, good) = played(outside, longer, right)
    assert wrong.startswith("Not valid: bounds at step ")
    assert later == good  # waits at the end are no steps
    assert good == f"Valid: all agents are on their goals after {TASKS[0].solution.makespan} steps."
    assert environment.get_reward() == reward(environment.verdict) == 1.0
    assert played(right, outside)[0].get_reward() == 0
    assert played()[0].get_reward() == 0


RIGHT = list(TASKS[0].solution.plan.moves)


@pytest.mark.parametrize("plan", [None, {"a": 1}, [None], ["\ud800", "x" * 10_000], ["<", f"'plan': {RIGHT}"]])
def test_arguments_of_any_kind_are_judged(plan: Any) -> None:
    environment, (message,) = played(plan)
    assert message.startswith("Not valid: ")
    assert environment.get_reward() == 0


def test_a_reset_forgets_and_needs_a_board() -> None:
    environment, _ = played(list(TASKS[0].solution.plan.moves))
    environment.reset(**to_dataset(TASKS[1:2])[0])
    assert (environment.task, environment.get_reward()) == (TASKS[1], 0)
    with pytest.raises(ValueError, match="task: missing; the rows of the training set are those of to_dataset"):
        environment.reset(prompt=[{"role": "user", "content": ""}])
    with pytest.raises(ValueError, match="there is no board before reset"):
        FrozenLakeEnvironment().submit([])
