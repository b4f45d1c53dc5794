"""Speed of a GRPO step on one thread, against stock TRL: same policy, same boards, same batch, same run.

Stock is GRPOTrainer with its own `generate`; ours is `RoundTrainer`. Both make a step of RLParams' defaults from one
warm start, made here, for which many groups carry signal and some carry none. They train by turns in separate
processes, so that each has its own peak memory; a first step warms up and is not counted.
"""

from __future__ import annotations

import functools
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from transformers import ProgressCallback, TrainerCallback
from trl import GRPOTrainer

from benchmarks.report import table
from mapflake.env import (
    REWARD,
    VOCABULARY,
    EnvConfig,
    format_plan,
    generate,
    naive_plan_fails,
    render_prompt,
    reward_functions,
)
from mapflake.trainer import grpo
from mapflake.trainer.params import RLParams, WarmStartParams
from mapflake.trainer.policy import load_policy
from mapflake.trainer.round_trainer import RoundTrainer
from mapflake.trainer.warmstart import warm_start

PACKAGES = ("mapflake", "torch", "transformers", "trl")

TURNS = 2
STEPS = 3
"""Steps that are counted in each turn."""

PARTS = {
    "generation": {"ours": "_sample", "stock": "_generate_single_turn"},
    "rewards": {"ours": "_calculate_rewards", "stock": "_calculate_rewards"},
    "log-probabilities of the start, for KL": {"ours": "_start_logps"},
    "forward": {"ours": "_compute_loss", "stock": "_compute_loss"},
    "backward": {"ours": "backward", "stock": "backward"},
}
"""Part of a step -> the method of the trainer, or of its accelerator, that is timed. Neither computes old
log-probabilities: samples are used once, so TRL takes those of the forward pass."""


def measure() -> dict[str, Any]:
    """Returns, for stock and ours: seconds of a step and its parts (medians), samples and tokens a second, memory."""
    with tempfile.TemporaryDirectory() as folder:
        start = _warm_start(Path(folder) / "start")
        runs: dict[str, list[dict[str, Any]]] = {"stock": [], "ours": []}
        for turn in range(TURNS):
            for which, results in runs.items():
                results.append(apart(_train, which, start, Path(folder) / f"{which}-{turn}"))
    return {which: _summary(results) for which, results in runs.items()}


def apart(call: Callable[..., Any], *arguments: Any) -> Any:
    """Returns what a call returns in a process of its own, with its own peak memory."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(call, arguments)


def markdown(numbers: dict[str, Any]) -> str:
    """Returns the tables of throughput and of where a step's time goes."""
    stock, ours = numbers["stock"], numbers["ours"]
    ratio = f"{ours['samples_per_s'] / stock['samples_per_s']:.1f}"
    rows = [
        (name, f"{stock[key]:.{digits}f}", f"{ours[key]:.{digits}f}", ratio if key == "samples_per_s" else "")
        for name, key, digits in (
            ("samples a second", "samples_per_s", 0),
            ("seconds a step", "step_s", 2),
            ("tokens a second, sampled", "tokens_per_s", 0),
            ("peak memory, GiB", "peak_gib", 2),
        )
    ]
    about = f"A step is {ours['samples']} samples; {ours['without_signal']:.0%} of the groups carry no signal."
    step, parts = table(("GRPO", "stock TRL", "mapflake", "ratio"), rows), parts_of((stock, ours), 2)
    return "\n\n".join([step, table(("seconds of a step", *numbers), parts), about])


def parts_of(runs: Sequence[dict[str, Any]], digits: int) -> list[tuple[str, ...]]:
    """Returns a row for each part of a step: the time of each run, empty where it has no such part."""
    return [
        (name, *(f"{run['parts'][name]:.{digits}f}" if name in run["parts"] else "" for run in runs))
        for name in (*PARTS, "rest")
    ]


def _summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the medians over the steps of all turns."""
    steps = [step for result in results for step in result["steps"]]
    step = median(s["step"] for s in steps)
    parts = {name: median(s["parts"][name] for s in steps) for name in steps[0]["parts"]}
    samples = results[0]["samples"]
    return {
        "samples": samples,
        "step_s": round(step, 4),
        "samples_per_s": round(samples / step, 1),
        "tokens_per_s": round(median(s["length"] * samples / s["parts"]["generation"] for s in steps)),
        "parts": {name: round(value, 4) for name, value in parts.items()}
        | {"rest": round(median(s["step"] - sum(s["parts"].values()) for s in steps), 4)},
        "without_signal": round(sum(s["without_signal"] for s in steps) / len(steps), 3),
        "peak_gib": round(max(result["peak_gib"] for result in results), 2),
    }


def _warm_start(out: Path) -> Path:
    """Returns the folder of a policy of the default shape after some hundred steps on boards that need care."""
    tasks = [t for h in (0.1, 0.2) for t in generate(EnvConfig.uniform((3, 4, 5, 6), h), 6000, seed=0)]
    tasks = [t for i, t in enumerate(tasks) if i % 3 == 0 or naive_plan_fails(t.instance)]
    pairs = [(render_prompt(t.instance, "compact"), format_plan(t.instance, t.solution.plan, "compact")) for t in tasks]
    warm_start(pairs, VOCABULARY, WarmStartParams(steps=400, save_every=1000), out, seed=0)
    return out


def _train(which: str, start: Path, out: Path) -> dict[str, Any]:
    """Returns the measurements of `STEPS` steps of `which` trainer; runs in a separate process."""
    torch.set_num_threads(1)
    params = RLParams(instances=64 * (STEPS + 1), epochs=1, save_every=1000)
    tasks = generate(EnvConfig.uniform((3, 4, 5, 6), 0.15, 0.2), params.instances, seed=1)
    policy = load_policy(start)
    rows = grpo.training_rows(policy, grpo.Boards(tasks), params, seed=0)
    args = grpo.training_arguments(params, out, seed=0, weights=list(REWARD.values()), large=False)
    trainer = trainer_of(which, policy, rows, reward_functions("compact"), args)
    return {
        "samples": params.prompts * params.generations,
        "steps": clocked(trainer, which)[1:],
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def trainer_of(which: str, policy: Any, rows: Any, rewards: list[Callable[..., list[float]]], args: Any) -> Any:
    """Returns our trainer, or stock TRL's for the same policy, rows, rewards and arguments."""
    if which == "ours":
        return RoundTrainer(policy, rows, rewards, args, seed=0)
    return GRPOTrainer(
        model=policy.model, processing_class=policy.tokenizer, reward_funcs=rewards, args=args, train_dataset=rows
    )


def clocked(trainer: Any, which: str, clock: Callable[[], float] = time.perf_counter) -> list[dict[str, Any]]:
    """Trains and returns, for each step, its seconds and those of its parts, mean length and groups without signal."""
    trainer.remove_callback(ProgressCallback)
    spent: dict[str, float] = {name: 0.0 for name, methods in PARTS.items() if which in methods}
    for name in spent:
        method = PARTS[name][which]
        owner = trainer if hasattr(trainer, method) else trainer.accelerator
        setattr(owner, method, _timed(getattr(owner, method), name, spent, clock))
    steps: list[dict[str, Any]] = []

    class Clock(TrainerCallback):
        """Notes the time of each step, and of its parts."""

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            spent.update(dict.fromkeys(spent, 0.0))
            self.began = clock()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            steps.append({"step": clock() - self.began, "parts": dict(spent)})

        def on_log(self, *_: Any, logs: dict[str, Any], **__: Any) -> None:
            if "completions/mean_length" in logs:
                steps[-1] |= {"length": logs["completions/mean_length"], "without_signal": logs["frac_reward_zero_std"]}

    trainer.add_callback(Clock())
    trainer.train()
    return steps


def _timed(call: Callable[..., Any], name: str, spent: dict[str, float], clock: Callable[[], float]) -> Any:
    @functools.wraps(call)
    def timed(*args: Any, **kwargs: Any) -> Any:
        began = clock()
        try:
            return call(*args, **kwargs)
        finally:
            spent[name] += clock() - began

    return timed
