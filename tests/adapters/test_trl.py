"""The engineer inside a stock GRPOTrainer: the boards are those of `run_round`, and a resume changes nothing."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from chat_server import Chat, completion, serving
from peft import LoraConfig
from starts import byte_level_tokenizer
from trl import GRPOConfig, GRPOTrainer

from mapflake import env, provenance, repro
from mapflake.adapters import trl as door
from mapflake.adapters.trl import DesignedBoards, DynamicSampling, EngineerCallback
from mapflake.engineer import ENGINEER_WORDS, EngineerParams, RoundSettings, Start, diagnose, ruled, run_arm, run_round
from mapflake.engineer.actions import ratios
from mapflake.engineer.designers import RULES
from mapflake.engineer.designers.search import reward_search
from mapflake.engineer.ledger import ARM_KEYS
from mapflake.engineer.variants import VARIANTS, Variant
from mapflake.env import (
    REWARD,
    EnvConfig,
    Instance,
    Task,
    format_plan,
    generate,
    reward_functions,
    tasks_of,
    to_dataset,
)
from mapflake.trainer import checkpoint
from mapflake.trainer.evaluate import rollout
from mapflake.trainer.grpo import order_of_rows
from mapflake.trainer.params import ModelParams
from mapflake.trainer.policy import encode_prompts, from_scratch, load_policy, save_policy

WORDS = [*dict.fromkeys([*env.VOCABULARY, *ENGINEER_WORDS])]
SIZES = (3, 4)
START = EnvConfig.uniform(SIZES, 0.1, num_agents=2)
VALIDATION = generate(EnvConfig.uniform(SIZES, 0.1, 0.5, 2), 12, seed=0, split="validation")
TINY = ModelParams(hidden_size=16, layers=1, heads=2, intermediate_size=16)
STEPS = 4  # of a round: 8 boards, twice, 4 a step
LENGTH = 10


def make(folder: Path, designer: Any = "heuristic", *, seed: int = 0, rounds: int = 2, **changed: Any) -> Any:
    """Returns a stock trainer of a tiny random policy, and its callback."""
    torch.manual_seed(0)
    words = changed.pop("words", WORDS)
    policy = from_scratch(TINY, words, seed=0)
    boards = DesignedBoards(START, 8, seed=seed, passes=2, prompt_format="compact")
    options = {
        name: changed.pop(name) for name in ("params", "sizes", "policy", "validation", "samples") if name in changed
    }
    settings: dict[str, Any] = {
        "output_dir": str(folder), "num_train_epochs": rounds, "shuffle_dataset": False, "save_steps": 3,
        "per_device_train_batch_size": 8, "num_generations": 2, "max_completion_length": LENGTH, "logging_steps": 1,
        "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": "none", "learning_rate": 1e-2,
        "lr_scheduler_type": "constant", "disable_tqdm": True,
    }  # fmt: skip
    extra = changed.pop("rewards", [])
    trainer_options = {name: changed.pop(name) for name in ("peft_config", "redraws") if name in changed}
    trainer = (DynamicSampling if "redraws" in trainer_options else GRPOTrainer)(
        **trainer_options,
        model=policy.model,
        processing_class=policy.tokenizer,
        train_dataset=changed.pop("train_dataset", boards.dataset),
        reward_funcs=[*reward_functions("compact"), *extra],
        args=GRPOConfig(**settings | {"reward_weights": [*REWARD.values(), *[1.0] * len(extra)]} | changed),
    )
    engineer = EngineerCallback(trainer, boards, designer, **{"validation": VALIDATION, **options})
    trainer.add_callback(engineer)
    return trainer, engineer


class Watch:
    """Keeps the boards of each generation batch, as the reward functions see them, by step."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}

    def reward(self, completions: list[str], task: list[str], trainer_state: Any, **_: Any) -> list[float]:
        """Returns a reward that differs within each group, so that each step changes the weights."""
        self.batches[trainer_state.global_step] = list(task)
        return [float(i % 2) for i in range(len(task))]


class Lucky:
    """Solves boards of size 3 half of the time, others a quarter of it, whatever the trainer does."""

    prompt_format = "compact"

    def complete(self, prompts: list[str], *, n: int = 1, seed: int = 0, **_: Any) -> list[list[str]]:
        return [[self.answer(p, repro.rng_for(seed, i, j).random()) for j in range(n)] for i, p in enumerate(prompts)]

    def answer(self, prompt: str, luck: float) -> str:
        words = prompt.split()
        size, agents = int(words[0][4:]), [i for i, word in enumerate(words) if word.startswith("agent")]
        if luck > (0.5 if size == 3 else 0.25):
            return ""

        def cell(word: str) -> tuple[int, int]:
            return ord(word[0]) - ord("a"), int(word[1:])

        holes = frozenset(map(cell, words[words.index("holes") + 1 : agents[0]])) if "holes" in words else frozenset()
        starts, goals = ([cell(words[i + place]) for i in agents] for place in (1, 3))
        board = Instance(size, holes, starts, goals)
        return format_plan(board, Task.of(board).solution.plan, "compact")


def keys(rows: list[str]) -> list[str]:
    return [task.instance.key for task in tasks_of({"task": row} for row in rows)]


def weights(trainer: Any) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in trainer.model.state_dict().items()}


# ---------------------------------------------------------------- the same rounds


class Still:
    """A training backend that keeps the weights and the boards that it was given."""

    instances = 8

    def __init__(self, policy: Any) -> None:
        self.policy, self.trained = policy, []

    def train(self, start: Any, tasks: Any, out: Path, *, seed: int) -> list[dict[str, Any]]:
        self.trained.append([tasks[i].instance.key for i in order_of_rows(8, 2, seed)])
        repro.write_json(out / "trained.json", self.trained[-1])
        return []

    def load(self, checkpoint: Any) -> Any:
        return self.policy

    def sha256(self, checkpoint: Any) -> str:
        return "the same"

    def describe(self) -> dict[str, Any]:
        return {"algorithm": "none", "epochs": 2}


@pytest.mark.parametrize(
    ("arm", "changed"),
    [
        ("engineer_search", {}),  # an engineer that asks no model
        ("frontier", {"dataloader_num_workers": 1}),  # asks for the policy; the next one for the seed
        # The same generation batches in two parts.
        ("domain_randomisation", {"gradient_accumulation_steps": 2, "per_device_train_batch_size": 4}),
    ],
)
def test_its_rounds_are_those_of_run_round(tmp_path: Path, arm: str, changed: dict[str, Any]) -> None:
    """What is measured is the same policy in both, so that reports, designs and boards must be the same."""
    watch = Watch()
    trainer, engineer = make(tmp_path / "trl", arm, rounds=3, policy=Lucky(), rewards=[watch.reward], **changed)
    trainer.train()

    def rounds(seed: int) -> Any:
        still = Still(engineer.policy)
        settings = RoundSettings(tmp_path / f"{arm}-{seed}", still, VALIDATION, seed)
        history = (run_round(settings, (), start=Start("nothing", START)),)
        return still.trained, run_arm(arm, settings, history, rounds=2, sizes=SIZES)

    boards, history = rounds(0)
    seen = [[*itertools.chain(*(watch.batches[i * STEPS + step] for step in range(STEPS)))] for i in range(3)]
    for half in (slice(0, None, 2), slice(1, None, 2)):  # new boards at once, in whole groups
        assert [keys(rows[half]) for rows in seen] == boards
    assert 0.2 < history[0].report.valid_rate < 0.8
    for ours, theirs in zip(engineer.history, history, strict=True):
        assert (ours.config, ours.fallback, ours.proposal) == (theirs.config, theirs.fallback, theirs.proposal)
        assert ours.report.sizes == theirs.report.sizes
        assert ours.report.training == theirs.report.training
        assert (ours.report.bins, ours.report.before) == (theirs.report.bins, theirs.report.before)
    assert rounds(1)[0] != boards  # the control: another seed has others


def test_boards_that_replace_others_are_of_the_same_round(tmp_path: Path) -> None:
    """Dynamic sampling under a designer: half of the boards give no signal, and are replaced by others of the round."""
    seen: dict[int, list[list[str]]] = {}

    def teaching(completions: list[str], task: list[str], trainer_state: Any, **_: Any) -> list[float]:
        calls = seen.setdefault(trainer_state.global_step, [])
        calls.append(keys(task))
        return [float(i % 2 and int(key, 16) % 2) for i, key in enumerate(calls[-1])]

    trainer, engineer = make(tmp_path, "domain_randomisation_dynamic", rewards=[teaching], redraws=2)
    trainer.train()
    assert max(map(len, seen.values())) == 3
    with pytest.raises(ValueError, match="seed: must be at least 0, not -1"):
        DesignedBoards(START, 8, seed=-1)
    boards = DesignedBoards(START, 8, seed=0)
    for round_ in engineer.history:
        boards.draw(round_.config, round_.index)
        used = {key for step in range(STEPS) for calls in seen[round_.index * STEPS + step] for key in calls}
        assert used <= {task.instance.key for task in boards.tasks}
    rows = [row for row in trainer.state.log_history if "loss" in row]
    counted = [row["dynamic_sampling/completions"] for row in rows]
    assert counted == [sum(map(len, seen[step])) for step in range(2 * STEPS)]
    assert engineer.arm == "domain_randomisation_dynamic"
    assert engineer.history[0].training["algorithm"] == "DynamicSampling"


# ---------------------------------------------------------------- killed and resumed


class Killed(BaseException):
    """As little is caught of it as of a signal."""


def killing(owner: Any, name: str, at: int) -> None:
    """Makes call number `at` of a function end the training."""
    original, calls = getattr(owner, name), []

    def part(*arguments: Any, **options: Any) -> Any:
        calls.append(name)
        if len(calls) == at:
            raise Killed(name)
        return original(*arguments, **options)

    setattr(owner, name, part)


ITSELF: dict[str, Any] = {"designer": "engineer", "params": EngineerParams(constrained=True, samples=1)}


def trained(folder: Path, watch: Watch, before: Any = lambda trainer, engineer: None, resume: Any = None) -> Any:
    trainer, engineer = make(folder, rewards=[watch.reward], **ITSELF)
    trainer.add_callback(checkpoint.ManifestCallback())
    before(trainer, engineer)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    return weights(trainer), engineer.history


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns the boards, weights and rounds of a training that nobody killed."""
    watch = Watch()
    final, history = trained(tmp_path_factory.mktemp("whole"), watch)
    assert not any(r.was_rejected for r in history)  # each design counts: what follows can fail
    assert history[0].config != history[1].config
    assert {*watch.batches[0]} != {*watch.batches[STEPS]}
    return watch.batches, final, history


PHASES = {  # one for each checkpoint that a training can go on from, and one within a save
    "training": lambda trainer, engineer: killing(trainer, "training_step", 7),
    "measuring": lambda trainer, engineer: killing(door, "rollout", 2),
    "designing": lambda trainer, engineer: killing(engineer, "designer", 1),
    "saving": lambda trainer, engineer: killing(trainer, "_save_rng_state", 3),
}


@pytest.mark.parametrize("phase", PHASES)
def test_a_killed_training_goes_on_to_the_same_weights(
    tmp_path: Path, whole: Any, phase: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "rollout", door.rollout)  # which PHASES change
    boards, final, history = whole
    watch = Watch()
    with pytest.raises(Killed):
        trained(tmp_path, watch, PHASES[phase])
    monkeypatch.undo()
    resume = checkpoint.newest_whole(tmp_path)
    assert resume is not None
    rest = Watch()
    values, rounds = trained(tmp_path, rest, resume=resume)
    assert rounds == history
    assert watch.batches | rest.batches == boards
    assert min(rest.batches) == int(resume.name.removeprefix("checkpoint-"))
    assert all(torch.equal(values[name], final[name]) for name in final)


def test_steps_beyond_the_last_whole_round_are_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer, engineer = make(tmp_path, max_steps=STEPS + 1)
    trainer.train()
    assert len(engineer.history) == 1
    assert f"a round has {STEPS} steps, so the last 1 of {STEPS + 1} are in no round" in caplog.text


def test_random_numbers_that_a_designer_draws_are_not_the_trainings(tmp_path: Path) -> None:
    """Neither those of sampling, which are torch's, nor those that a reward function may draw."""

    def careless(draws: int) -> Any:
        def design(report: Any, history: Any) -> Any:
            torch.rand(draws)
            np.random.rand(draws)  # noqa: NPY002  the global ones
            random.sample(range(1000), draws)
            return ruled(ratios(history[-1].config), history, "unchanged")

        return design

    def noisy(completions: list[str], **_: Any) -> list[float]:
        seen.append([np.random.rand() + random.random() for _ in completions])  # noqa: NPY002
        return seen[-1]

    runs = []
    for draws in (1, 100):
        seen: list[list[float]] = []
        trainer, _ = make(tmp_path / str(draws), careless(draws), rewards=[noisy])
        trainer.train()
        runs.append((seen, weights(trainer)))
    (first, before), (second, after) = runs
    assert first == second
    assert all(torch.equal(before[name], after[name]) for name in before)


# ---------------------------------------------------------------- designers, logs, errors


def test_it_logs_where_the_trainer_logs_and_takes_nothing_from_its_rows(tmp_path: Path) -> None:
    trainer, engineer = make(tmp_path, "domain_randomisation", policy=Lucky())
    trainer.train()
    rows = [(row["step"], row) for row in trainer.state.log_history]
    ours = [(step, row) for step, row in rows if "engineer/valid" in row]
    assert [step for step, _ in ours] == [STEPS, 2 * STEPS]
    for round_, (_, row) in zip(engineer.history, ours, strict=True):
        assert row["engineer/valid"] == round_.report.valid_rate
        assert row["engineer/valid/3x3"] == round_.report.at(3).valid_rate
    designs = [(step, row) for step, row in rows if "engineer/rejected" in row]
    assert [step for step, _ in designs] == [0, STEPS]
    for round_, (_, row) in zip(engineer.history, designs, strict=True):
        assert row["engineer/3x3/hole_ratio"] == round_.config.sizes[3].hole_ratio
    assert not any("reward" in row for _, row in ours + designs)
    training = [step for step, row in rows if "loss" in row]
    assert training == list(range(1, 2 * STEPS + 1))
    assert all("reward" in row and "frac_reward_zero_std" in row for _, row in rows if "loss" in row)
    assert {*engineer.history[0].report.behaviour} >= {"completion tokens", "groups without signal"}


def test_what_is_measured_is_the_policy_as_it_is_now(tmp_path: Path) -> None:
    """The report of a round is that of the checkpoint that was saved as it ended; the control: not of another one."""

    def longer(completions: list[str], **_: Any) -> list[float]:
        return [float(len(text)) for text in completions]

    trainer, engineer = make(tmp_path, "fixed", rewards=[longer], learning_rate=0.05)
    trainer.train()

    def measured(step: int) -> Any:
        policy = load_policy(tmp_path / f"checkpoint-{step}", max_new_tokens=LENGTH, sealed=False)
        return diagnose(rollout(policy, VALIDATION, seed=repro.seed_for(0, "validation"))).examples

    first, last = (engineer.history[i].report.examples for i in (0, 1))
    assert (measured(STEPS), measured(2 * STEPS)) == (first, last)
    assert first != last


def test_adapters_and_gradient_checkpointing_are_measured_too(tmp_path: Path) -> None:
    """What is measured says greedily what `generate` of the trained model says."""
    changed = {"gradient_checkpointing": True, "peft_config": LoraConfig(target_modules="all-linear")}
    trainer, engineer = make(tmp_path, rewards=[Watch().reward], rounds=1, learning_rate=0.05, **changed)
    prompt = "size3 holes agent1 a0 to b0 plan"
    before = engineer.policy.complete([prompt], temperature=0)
    trainer.train()
    (ours,) = engineer.policy.complete([prompt], temperature=0)
    ids = trainer.processing_class([prompt], return_tensors="pt")["input_ids"]
    tokens = trainer.model.eval().generate(input_ids=ids, do_sample=False, max_new_tokens=LENGTH)[:, ids.size(1) :]
    assert ours == trainer.processing_class.batch_decode(tokens, skip_special_tokens=True)
    assert ours != before[0]  # the control: it has learned something


class Designing(Chat):
    """A server that asks for 3x3 boards alone, in words and JSON, and then for nothing that can be read."""

    def respond(self, asked: Any, number: int) -> None:
        ratios = {"data_ratio": 1, "hole_ratio": 0.2, "wait_ratio": 0.5}
        self.answer(200, completion("I cannot." if number else json.dumps({"sizes": {"3": ratios}})))


def test_a_server_designs_and_a_rejected_design_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with serving(Designing) as server:
        params = EngineerParams(model="openai:m", base_url=f"{server.url}/v1", samples=1)
        trainer, engineer = make(tmp_path, "engineer", rounds=3, params=params, sizes=[3])
        trainer.train()
    assert [sorted(r.config.sizes) for r in engineer.history] == [[3, 4], [3], [3]]
    assert [r.was_rejected for r in engineer.history] == [False, False, True]
    assert engineer.history[2].config == engineer.history[1].config
    assert "Failures" in server.asked[0]["messages"][0]["content"]


def test_a_checkpoint_designs_for_a_policy_that_cannot(tmp_path: Path) -> None:
    designer = from_scratch(TINY, WORDS, seed=1)
    save_policy(designer.model, designer.tokenizer, tmp_path / "designer", "made for this test")
    params = EngineerParams(model=str(tmp_path / "designer"), constrained=True, samples=1)
    trainer, engineer = make(tmp_path / "out", "engineer", params=params, words=env.VOCABULARY)
    trainer.train()
    assert [r.was_rejected for r in engineer.history] == [False] * 2
    assert engineer.history[1].config != engineer.history[0].config


def test_a_designer_of_ones_own_is_recorded_by_the_name_of_the_function_that_makes_it(tmp_path: Path) -> None:
    assert make(tmp_path, reward_search((3, 4)))[1].arm == "reward_search"
    assert make(tmp_path, "engineer_search")[1].arm == "engineer_search"  # the control


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"shuffle_dataset": True}, "shuffle_dataset: must be False"),
        ({"ignore_data_skip": True}, "ignore_data_skip: must be False"),
        ({"per_device_train_batch_size": 6}, r"instances \* passes \(16\) must be a multiple .*: 3\)"),
        ({"train_dataset": to_dataset(VALIDATION, "compact")}, "train_dataset: must be the dataset of the boards"),
        ({"validation": iter(())}, "validation: takes tasks"),
        ({"validation": to_dataset(VALIDATION)}, "validation: takes tasks, as `generate` or `tasks_of` gives them"),
        ({"designer": "constant"}, "'constant' takes a training, weights or a design of its own"),
        ({"designer": lambda *_: None, "sizes": [3]}, "params and sizes are for arms by name"),
        ({"samples": 0}, "samples: must be at least 1"),
        ({"seed": None}, "seed: must be an integer, not None"),
        ({"max_completion_length": 5000}, "and 5000 new ones: the model's context is"),
        ({"designer": "engineer", "words": env.VOCABULARY}, "designer: the policy lacks words of an engineer, such as"),
        ({"designer": "uniform", "params": EngineerParams()}, "params: of a model, but 'uniform' is a rule"),
        ({"designer": "engineer_trained"}, "designer: the arm 'engineer_trained' takes a training"),
        ({"designer": "engineer_another"}, "'engineer_another' takes .* or reports of other students: see run_arm"),
        ({"designer": "engineer", "params": EngineerParams(report="mean")}, "takes .* of its own"),
        ({"designer": "fixed_longer"}, "'fixed_longer' takes a training"),
        ({"designer": "fixed_dynamic"}, r"'fixed_dynamic' takes `DynamicSampling\(\.\.\., redraws=4\)` as the trainer"),
        ({"policy": SimpleNamespace(prompt_format="chat")}, "prompt_format: that of the boards is 'compact'"),
        ({"designer": None}, "designer: a function of report and history, or an arm's name, not None"),
        ({"designer": "engineer", "params": {"samples": 2}}, r"params: must be EngineerParams\(...\), not {'samples"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        make(tmp_path, **changed)


def asking(holes: float) -> Any:
    """Returns a designer that asks for one hole ratio."""
    return lambda report, history: ruled({3: {"data_ratio": 1, "hole_ratio": holes, "wait_ratio": 0}}, history, "")


def test_what_the_trainer_gives_the_chat_template_is_given_where_the_policy_is_measured(tmp_path: Path) -> None:
    tokenizer = byte_level_tokenizer()
    tokenizer.chat_template += "{% if thinking is false %}</think>{% endif %}"
    _, engineer = make(tmp_path, chat_template_kwargs={"thinking": False})
    assert engineer.policy.template == {"thinking": False}
    prompt = "Grid a0 to c2."
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, thinking=False, return_dict=False
    )
    assert encode_prompts(tokenizer, [prompt], engineer.policy.template) == [ids]
    assert encode_prompts(tokenizer, [prompt]) != [ids]


def test_a_resume_with_other_rounds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A designer is known by its source and what it holds, not by its name alone."""

    def begun(holes: float = 0.1, **changed: Any) -> Any:
        monkeypatch.setitem(RULES, "mine", lambda inputs: asking(holes))
        return make(tmp_path, **{"designer": "mine"} | changed)

    begun(rounds=1)[0].train()
    begun(holes=0.3, rounds=1)[0].train(resume_from_checkpoint=True)  # round 0 asked no designer
    begun(rounds=2)[0].train(resume_from_checkpoint=True)
    for changed, message in (
        ({"seed": 1}, "had other parameters .*seed: recorded 0, asked 1"),
        ({"holes": 0.2}, r"had other parameters \(designer\.designer\.sha256: recorded"),
        ({"designer": "uniform"}, "designer.arm: recorded 'mine', asked 'uniform'"),
        ({"gradient_accumulation_steps": 2}, "2 rounds of 2 steps: it was saved without this callback, or with other"),
    ):
        with pytest.raises(ValueError, match=message):
            begun(**changed)[0].train(resume_from_checkpoint=True)
    trainer, engineer = begun(rounds=3)
    trainer.train(resume_from_checkpoint=True)
    assert len(engineer.history) == 3  # the control


def test_a_designer_is_known_by_its_code_and_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a resume is refused, as for rules, if either has changed."""

    def known(designer: Any, **options: Any) -> Any:
        return make(tmp_path, designer, **options)[1].parameters["designer"]

    def write(seed: int) -> EngineerParams:
        policy = from_scratch(TINY, WORDS, seed=seed)
        save_policy(policy.model, policy.tokenizer, tmp_path / "model")
        return EngineerParams(model=str(tmp_path / "model"))

    assert known(asking(0.1)) == known(asking(0.1)) != known(asking(0.2))
    options = {"params": write(1)}
    before = known("engineer", **options), known("engineer_search")
    assert before == (known("engineer", **options), known("engineer_search"))  # the control
    assert "variant" not in before[0]
    monkeypatch.setitem(VARIANTS, "V6", Variant(summary=True))
    assert known("engineer", **options)["variant"] == Variant(summary=True).model_dump()
    fields = {key for name in ("engineer", "uniform") for key in known(name, **(options if name == "engineer" else {}))}
    assert fields == {"arm", "code_sha256", *ARM_KEYS} - {"constant"}  # which this trainer has not
    monkeypatch.undo()
    write(2)
    files = provenance.package_files()
    search = {name: text.replace("0.15, 0.3", "0.1, 0.3") for name, text in files.items() if name.endswith("search.py")}
    monkeypatch.setattr(provenance, "package_files", lambda: files | search)
    after = known("engineer", **options), known("engineer_search")
    assert after[0]["model_sha256"] != before[0]["model_sha256"]
    assert after[1]["code_sha256"] != before[1]["code_sha256"]


# ---------------------------------------------------------------- the example, and the page


EXAMPLE = Path(__file__).parents[2] / "docs/examples/engineer_trl.py"
SMALL = {"shown": 2, "instances": 4, "rounds": 2, "passes": 1}
CALL = f"import runpy, sys; runpy.run_path({str(EXAMPLE)!r})['main'](folder=sys.argv[1], **{SMALL})"


def final(folder: Path) -> tuple[bytes, dict[str, Any]]:
    """Returns the weights and the rounds of the last checkpoint in a folder."""
    last = checkpoint.newest_whole(folder / "learnability")
    assert last is not None
    assert last.name == "checkpoint-8"
    saved = repro.read_json(last / "trainer_state.json")["stateful_callbacks"]["mapflake"]
    return (last / "model.safetensors").read_bytes(), saved


@pytest.mark.slow
def test_the_example_is_short_and_goes_on_after_a_kill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a real SIGKILL, in a process of its own, as soon as its first checkpoint is there."""
    assert len(EXAMPLE.read_text().splitlines()) <= 50
    main = runpy.run_path(str(EXAMPLE))["main"]

    def said(folder: Path) -> list[str]:
        main(folder=str(folder), **SMALL)
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith("round ")]

    lines = said(tmp_path / "whole")
    assert lines[1].startswith("round 1: valid")
    process = subprocess.Popen(
        [sys.executable, "-c", CALL, str(tmp_path / "killed")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    first = tmp_path / "killed/learnability/checkpoint-4/manifest.json"
    while not first.is_file() and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert said(tmp_path / "killed") == lines
    assert final(tmp_path / "killed") == final(tmp_path / "whole")
    main(asking(0.1), str(tmp_path / "whole"), **SMALL | {"rounds": 1})  # a function has a folder of its name
    assert {path.name for path in (tmp_path / "whole").iterdir()} == {"start", "learnability", asking(0.1).__name__}


def test_the_lines_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tiny model's folder in the place of the hub's name, and small numbers."""
    page = (Path(__file__).parents[2] / "docs/doors/trl.md").read_text()
    assert len(page.splitlines()) <= 40
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    model = from_scratch(TINY.model_copy(update={"max_positions": 8192}), [*map(str, range(400))], seed=0)
    model.model.save_pretrained(tmp_path / "model")
    byte_level_tokenizer().save_pretrained(tmp_path / "model")
    small = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False,
             "report_to": "none", "save_strategy": "no"}  # fmt: skip
    for old, new in (
        ('"Qwen/Qwen3-0.6B"', "FOLDER"),
        ("instances=64, seed", "instances=2, seed"),
        ("num_train_epochs=4", "num_train_epochs=2"),
        ("batch_size=64", "batch_size=8"),
        ("200", "4"),
        ("max_completion_length=2048", "max_completion_length=8"),
        ("reward_weights", "**SMALL, reward_weights"),
    ):
        assert code.count(old) == 1
        code = code.replace(old, new)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"FOLDER": str(tmp_path / "model"), "SMALL": small}
    exec(code, names)
    rounds = [row["engineer/rejected"] for row in names["trainer"].state.log_history if "engineer/rejected" in row]
    assert rounds == [0, 1]  # it cannot design yet


def refusing(report: Any, history: Any) -> Any:
    raise ValueError("it cannot design")


def one_of_several(folder: Path, resume: str = "") -> None:
    """Trains as one process of several, and writes the rounds, the weights and the boards that it saw."""
    watch = Watch()
    options = {"per_device_train_batch_size": 4, "ddp_backend": "gloo"}
    if resume == "refused":
        trainer, _ = make(folder, refusing, **options)
        with pytest.raises(Exception, match="it cannot design") as raised:
            trainer.train()
        repro.write_json(folder / f"refused-{trainer.accelerator.process_index}.json", str(raised.value))
        return
    trainer, engineer = make(folder, rewards=[watch.reward], **ITSELF, **options)
    trainer.train(resume_from_checkpoint=str(folder / resume) if resume else None)
    row = {
        "rounds": [repro.to_json(r) for r in engineer.history],
        "weights": {name: value.tolist() for name, value in weights(trainer).items()},
        "boards": {str(step): keys(rows) for step, rows in watch.batches.items()},
    }
    repro.write_json(folder / f"{resume or 'whole'}-{trainer.accelerator.process_index}.json", row)


@pytest.mark.slow
def test_two_processes_have_one_design_and_resume_alike(tmp_path: Path) -> None:
    """The first measures and designs; each has the same boards, and after a resume the same boards and weights."""
    launched = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", __file__]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([*launched, str(tmp_path)], env=settings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    whole, resumed = (
        [repro.read_json(tmp_path / f"{name}-{i}.json") for i in (0, 1)] for name in ("whole", "checkpoint-3")
    )
    for first, second in (whole, resumed):
        assert first["rounds"] == second["rounds"] == whole[0]["rounds"]
        assert first["weights"] == second["weights"] == whole[0]["weights"]
    assert len(whole[0]["rounds"]) == 2
    refused = [repro.read_json(tmp_path / f"refused-{i}.json") for i in (0, 1)]
    assert refused == ["it cannot design", "in the first process: ValueError: it cannot design"]
    for before, after in zip(whole, resumed, strict=True):
        assert after["boards"] == {step: boards for step, boards in before["boards"].items() if int(step) >= 3}
    step_boards = [whole[0]["boards"][str(step)] + whole[1]["boards"][str(step)] for step in range(2 * STEPS)]
    for boards in step_boards:
        assert boards[::2] == boards[1::2]  # whole groups
    seen = [{*itertools.chain(*step_boards[i * STEPS : (i + 1) * STEPS])} for i in range(2)]
    assert [len(drawn) for drawn in seen] == [8, 8]


if __name__ == "__main__":
    one_of_several(Path(sys.argv[1]))
    one_of_several(Path(sys.argv[1]), "checkpoint-3")
    one_of_several(Path(sys.argv[1]), "refused")
