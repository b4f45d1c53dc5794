"""Speed of training SmolLM2-135M in its own tokens: as a share of the rate of matrix products, and against stock TRL.

All is in CPU seconds of one thread, which other work on the machine disturbs less than seconds. The rate of the machine
is that of products of the model's shapes, forward and both backward, in the precision that the processor multiplies
faster, timed before and after each measurement. A training's products are counted at real tokens (6 x parameters a
token, the output head where the loss is), so padding, attention, norms and the optimizer all lower its share. Two
threads are compared with one by the shortest step, in seconds, if the machine has no other work. The first steps are
not counted: until memory is kept (`training.memory_kept`), the kernel clears what they take.

A processor with AMX is measured twice, the second time with oneDNN held to AVX-512, as on processors without AMX. What
was measured on processors of another kind stays in reports/bench.json, each with its processor's name.

The GRPO step is answered by the pretrained model as it is, which writes to the limit. Its reward is the parity of the
answer's bytes, so that nearly all groups carry signal. Needs the extra smollm2.
"""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import tempfile
import time
from pathlib import Path
from statistics import mean
from typing import Any
from unittest import mock

import torch
from transformers import TrainerCallback

from benchmarks import report
from benchmarks.report import table
from benchmarks.trainer import apart, clocked, parts_of, trainer_of
from mapflake.env import EnvConfig, format_plan, generate, render_prompt
from mapflake.trainer import grpo, warmstart
from mapflake.trainer.params import RLParams, WarmStartParams
from mapflake.trainer.policy import load_policy
from mapflake.trainer.precision import of_processor
from mapflake.trainer.pretrained import starting_point
from mapflake.trainer.training import memory_kept

PACKAGES = ("mapflake", "torch", "transformers", "trl")
BOARDS, MICROBATCH = 16, 16  # of a supervised step
STEPS, WARM_UP = 8, 3
PROMPTS, GENERATIONS, NEW_TOKENS = 4, 8, 48  # of a GRPO step
GRPO_STEPS, GRPO_WARM_UP = 4, 2
CORES = "one of them used (both in the row of two threads), processors as in the table"
WITHOUT_AMX = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}


def measure() -> dict[str, Any]:
    """Returns rates of matrix products, of supervised training, and of GRPO, stock and ours, by the instructions."""
    idle, numbers = os.getloadavg()[0] < 0.5, report.read_json(report.BENCH)["llm"]["numbers"]
    with tempfile.TemporaryDirectory() as folder:
        start, out = starting_point("smollm2", Path(folder) / "start", prompt_format="brief"), Path(folder) / "out"
        amx = torch.cpu.get_capabilities().get("amx_bf16")
        limits = {"AMX": {}, "AMX held off": WITHOUT_AMX} if amx else {"no AMX": {}}
        for instructions, limit in limits.items():
            with mock.patch.dict(os.environ, limit):
                numbers[instructions] = {
                    "cpu": report.machine()["cpu"],
                    "supervised": {str(n): apart(_supervised, start, out, n) for n in (1, 2) if n == 1 or idle},
                    "grpo": {which: apart(_grpo, start, out, which) for which in ("stock", "ours")},
                }
    return numbers


def markdown(numbers: dict[str, Any]) -> str:
    """Returns the tables of supervised training and of a GRPO step."""
    rows = [{"processor": run["cpu"]} | _supervised_column(run["supervised"]) for run in numbers.values()]
    supervised = [(key, *(column[key] for column in rows)) for key in rows[0]]
    parts = [table(("SmolLM2-135M, supervised", *numbers), supervised)]
    for instructions, run in numbers.items():
        stock, ours = (run["grpo"][which] for which in ("stock", "ours"))
        parts.append(table((f"GRPO, {instructions}", "stock TRL", "mapflake", "ratio"), _grpo_rows(stock, ours)))
        parts.append(
            f"A GRPO step is {ours['prompts']} prompts x {ours['generations']} answers of {ours['length']:.0f} tokens; "
            f"{ours['without_signal']:.0%} of the groups carry no signal."
        )
    return "\n\n".join(parts)


def _supervised_column(runs: dict[str, Any]) -> dict[str, str]:
    one_thread, two_threads = runs["1"], runs.get("2")
    return {
        "precision taken": one_thread["precision"],
        "products of the model's shapes, GFLOP/s": f"{one_thread['matrix_gflops']:.0f}",
        "supervised training, GFLOP/s": f"{one_thread['gflops']:.0f}",
        "share of the products' rate": f"{one_thread['gflops'] / one_thread['matrix_gflops']:.0%}",
        "tokens a CPU second": f"{one_thread['tokens_per_cpu_s']:.0f}",
        "times as fast on two threads, shortest step": (
            f"{one_thread['shortest_s'] / two_threads['shortest_s']:.2f}" if two_threads else "not measured"
        ),
        "peak memory, GiB": f"{one_thread['peak_gib']:.1f}",
    }


def _grpo_rows(stock: dict[str, Any], ours: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = [
        (
            name, f"{stock[key]:.{digits}f}", f"{ours[key]:.{digits}f}",
            f"{max(stock[key], ours[key]) / min(stock[key], ours[key]):.1f}",
        )
        for name, key, digits in (
            ("CPU seconds a step", "step_cpu_s", 1),
            ("tokens sampled a CPU second", "sampled_per_cpu_s", 0),
            ("tokens trained a CPU second", "trained_per_cpu_s", 0),
            ("peak memory, GiB", "peak_gib", 1),
        )
    ]  # fmt: skip
    return [*rows, *((*row, "") for row in parts_of((stock, ours), 1))]


def _pairs(boards: int) -> list[tuple[str, str]]:
    tasks = generate(EnvConfig.uniform((3, 4, 5), 0.15, 1 / 3), boards, seed=0)
    return [(render_prompt(t.instance, "brief"), format_plan(t.instance, t.solution.plan, "brief")) for t in tasks]


def _matrix_rate(model: Any, tokens: int, dtype: Any) -> float:
    """Returns GFLOP/s of products of a layer's shapes, forward and backward."""
    shapes = [m.weight.shape for m in model.model.layers[0].modules() if isinstance(m, torch.nn.Linear)]
    products = [
        [torch.randn(size, dtype=dtype) for size in ((tokens, width), (height, width), (tokens, height))]
        for height, width in shapes
    ]
    rates = []
    for _ in range(4):
        began = time.process_time()
        for x, weight, gradient in products:
            x @ weight.t(), gradient @ weight, gradient.t() @ x
        work = sum(6 * tokens * weight.numel() for _, weight, _ in products) / 1e9
        rates.append(work / (time.process_time() - began))
    return mean(rates[1:])


def _supervised(start: Path, out: Path, threads: int) -> dict[str, Any]:
    """Returns the rates of `warm_start`, the optimizer included; runs in a separate process."""
    params = WarmStartParams(
        steps=STEPS, batch_size=BOARDS, microbatch=MICROBATCH, precision="auto", save_every=1000, threads=threads
    )
    torch.set_num_threads(threads)
    policy, pairs = load_policy(start), _pairs(BOARDS * STEPS)
    model: Any = policy.model
    rows = warmstart.encode_pairs(policy.tokenizer, pairs)
    learned = [sum(label != -100 for label in row["labels"]) for row in rows]
    body = sum(w.numel() for name, w in model.named_parameters() if "embed" not in name)
    head = model.get_output_embeddings().weight.numel()
    tokens = sum(len(row["input_ids"]) for row in rows) / STEPS  # of a step: each row is seen once
    work = 6 * (body * tokens + head * sum(learned) / STEPS) / 1e9
    products = functools.partial(
        _matrix_rate, model, round(tokens * MICROBATCH / BOARDS), getattr(torch, of_processor())
    )
    rates = [products()]
    steps, seconds, precisions = [], [], []

    class Clock(TrainerCallback):
        """Notes the CPU time of each step, and the seconds."""

        def on_step_begin(self, *_: Any, **__: Any) -> None:
            self.began = time.process_time(), time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            steps.append(time.process_time() - self.began[0])
            seconds.append(time.perf_counter() - self.began[1])

    def run(trainer: Any, *arguments: Any) -> None:
        precisions.append(arguments[-1])  # the precision
        trainer.add_callback(Clock())
        with memory_kept():
            trainer.train()

    with mock.patch.object(warmstart, "run", run), mock.patch.object(warmstart.repro, "read_jsonl"):
        warmstart.warm_start(pairs, start, params, out, seed=0)  # nothing is written
    rates.append(products())
    return {
        "precision": precisions[0],
        "matrix_gflops": round(mean(rates), 1),
        "gflops": round(work / mean(steps[WARM_UP:]), 1),
        "tokens_per_cpu_s": round(tokens / mean(steps[WARM_UP:]), 1),
        "shortest_s": round(min(seconds[WARM_UP:]), 2),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def _parity(completions: list[Any], **_: Any) -> list[float]:
    """A reward that all models get half of the time."""
    return [float(sum(c[0]["content"].encode()) % 2) for c in completions]


def _grpo(start: Path, out: Path, which: str) -> dict[str, Any]:
    """Returns the means of the counted steps of `which` trainer; runs in a separate process."""
    torch.set_num_threads(1)
    precision = of_processor()
    params = RLParams(
        instances=PROMPTS * GRPO_STEPS, epochs=1, prompts=PROMPTS, generations=GENERATIONS,
        microbatch=PROMPTS * GENERATIONS, max_new_tokens=NEW_TOKENS, learning_rate=1e-6, save_every=1000,
    )  # fmt: skip
    tasks = generate(EnvConfig.uniform((3, 4, 5), 0.15, 1 / 3), params.instances, seed=1)
    ours = which == "ours"
    policy = load_policy(start, full_precision=True, precision=precision if ours else "float32")
    rows = grpo.training_rows(policy, grpo.Boards(tasks), params, seed=0)
    halved = precision == "bfloat16" and not ours  # stock TRL's way of it
    args = grpo.training_arguments(params, out, seed=0, weights=[1.0], large=False, autocast=halved)
    trainer = trainer_of(which, policy, rows, [_parity], args)
    with memory_kept() if ours else contextlib.nullcontext():
        steps = clocked(trainer, which, time.process_time)[GRPO_WARM_UP:]
    average = {key: mean(step[key] for step in steps) for key in ("step", "length", "without_signal")}
    samples, length = PROMPTS * GENERATIONS, average["length"]
    parts = {name: mean(step["parts"][name] for step in steps) for name in steps[0]["parts"]}
    trained = parts["forward"] + parts["backward"]
    return {
        "prompts": PROMPTS,
        "generations": GENERATIONS,
        "length": round(length, 1),
        "without_signal": round(average["without_signal"], 3),
        "step_cpu_s": round(average["step"], 2),
        "sampled_per_cpu_s": round(samples * length / parts["generation"], 1),
        "trained_per_cpu_s": round(samples * length / trained, 1),
        "parts": {name: round(value, 2) for name, value in parts.items()}
        | {"rest": round(average["step"] - sum(parts.values()), 2)},
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }
