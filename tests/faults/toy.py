"""A run in small of everything that can be interrupted, and what strikes it. Runs in processes of its own.

Warm start, round 0, a round that the policy designed: a second each. A fault happens at the point that a
test names, and is real: SIGKILL, limits of the kernel.
"""

from __future__ import annotations

import gc
import itertools
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from starts import SHAPE, byte_level_model, demonstrations
from torch.optim.optimizer import register_optimizer_step_post_hook
from transformers import LlamaForCausalLM, Trainer

from mapflake import env, provenance, repro
from mapflake.engineer import ENGINEER_WORDS, EngineerParams, Grpo, Ledger, RoundSettings, Start, run_arm, run_round
from mapflake.engineer.compact.base import BaseParams, StudentParams, base_model, student_of
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.engineer.design_rl import Designs
from mapflake.env import EnvConfig, generate, save_tasks
from mapflake.trainer import checkpoint, decoding, grpo, training
from mapflake.trainer.grpo import Boards, train_round
from mapflake.trainer.params import RLParams, WarmStartParams
from mapflake.trainer.warmstart import warm_start

SIZES = (3,)
WARM = WarmStartParams(
    model=SHAPE.model_copy(update={"max_positions": 256}),
    steps=60, batch_size=16, save_every=20, warmup_steps=2, learning_rate=2e-2,
)  # fmt: skip
RL = RLParams(
    instances=4, epochs=2, prompts=2, generations=4, microbatch=8, learning_rate=3e-4, max_new_tokens=16,
    save_every=1, warmup_steps=0,
)  # fmt: skip
CONFIG = EnvConfig.uniform(SIZES, 0.1, num_agents=1)


def run(folder: Path, stage: str, log: Path, *faults: tuple) -> None:
    """Runs a stage, or what is not done yet of it; what it says goes to `log`."""
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.chdir(folder)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # as the pipeline has it
    for name, *arguments in faults:
        FAULTS[name](*arguments)
    validation = generate(CONFIG, 6, seed=1, split="validation")
    settings = RoundSettings(folder / stage, Grpo(RL), validation, seed=0, samples=2)
    first = Ledger(folder / "shared/rounds.jsonl").rounds
    if stage == "warm_start":
        pairs = demonstrations(generate(CONFIG, 40, seed=1), "compact")
        warm_start(pairs, [*env.VOCABULARY, *ENGINEER_WORDS], WARM, folder / stage, seed=0)
    elif stage == "shared":
        run_round(settings, (), start=Start(folder / "warm_start", CONFIG))
    elif stage == "language_model":
        language_model(folder / stage, settings)
    elif stage == "two_ranks":
        params = RL.model_copy(update={"processes": 2, "microbatch": 4})
        train_round(folder / "warm_start", Boards(generate(CONFIG, 4, seed=2)), params, folder / stage, seed=0)
    else:
        run_arm("engineer", settings, first, rounds=1, sizes=SIZES)


def language_model(folder: Path, settings: RoundSettings) -> None:
    """Runs what the run `llm` does, on a model with a byte-level tokenizer that others saved, in bfloat16.

    A supervised start in its own words, lessons with designs in JSON, GRPO on boards, over designs, a designed round.
    """
    theirs, boards = folder.with_name("theirs"), folder.with_name("boards")
    if not boards.is_dir():
        for part in byte_level_model(LlamaForCausalLM, 32):
            part.save_pretrained(theirs)
        save_tasks(boards / "demonstrations.jsonl", generate(EnvConfig.uniform(SIZES, 0.2), 24, seed=1))
        repro.write_json(boards / "settings.json", {"sizes": SIZES})
    recipe = {"steps": 6, "batch_size": 4, "microbatch": 2, "save_every": 2, "warmup_steps": 1, "precision": "bfloat16"}
    start_params = {"base": theirs.name, "prompt_format": "brief", "engineer_share": 0, "engineer_variants": ["V6"]}
    base = BaseParams.parse({"seed": 0, "hard_share": 0.5, "training": recipe, **start_params}, "warm_start")
    students = StudentParams(ages=[4], engineer_share=0.25)
    common = base_model(base, boards, folder / "warm_start")
    start = student_of(base, students, common, boards, folder / "student", seed=0)
    small_rl = RL.model_copy(update={"precision": "bfloat16", "epochs": 1})
    settings = replace(settings, folder=folder / "round", trainer=Grpo(small_rl))
    first = run_round(settings, (), start=Start(start, CONFIG))
    situations = [made_up(i, SIZES, seed=0) for i in range(small_rl.instances)]
    train_round(first.checkpoint, Designs(situations, SIZES), small_rl, folder / "engineer", seed=0)
    engineer = EngineerParams(samples=1, max_new_tokens=200, constrained=True)
    run_arm("engineer", settings, (first,), rounds=1, sizes=SIZES, params=engineer)


def forked_ranks(command: list[str], **_: object) -> SimpleNamespace:
    """Runs the job of two ranks in two processes that have imported everything already, in place of torchrun."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    child = os.fork()
    rank = "0" if child else "1"
    os.environ |= {"TORCHELASTIC_RUN_ID": "toy", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"WORLD_SIZE": "2", "RANK": rank, "LOCAL_RANK": rank}
    grpo._run_job(Path(command[-1]))
    if not child:
        os._exit(0)
    return SimpleNamespace(returncode=os.waitpid(child, 0)[1])


def kill() -> None:
    """Ends this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def _before(owner: object, name: str, strike: Callable[..., None], nth: int = 1) -> None:
    """Makes `strike` happen before the nth call of `owner.name`; it gets the call's arguments."""
    original, calls = getattr(owner, name), itertools.count(1)

    def struck(*arguments: object, **options: object) -> object:
        if next(calls) == nth:
            strike(*arguments, **options)
        try:
            return original(*arguments, **options)
        finally:
            sys.setprofile(None)

    setattr(owner, name, struck)


def _kill_before(owner: object, name: str) -> Callable[[int], None]:
    return lambda nth=1: _before(owner, name, lambda *_, **__: kill(), nth)


def _kill_in_step(nth: int) -> None:
    """When the weights have been changed and nothing else."""
    steps = itertools.count(1)
    register_optimizer_step_post_hook(lambda *_: kill() if next(steps) == nth else None)


def _kill_when(owner: object, name: str, folder: Callable[..., Path]) -> Callable[[int, int], None]:
    """In the nth call of `owner.name`, as soon as the folder that it writes holds so many files, whole or not."""

    def fault(nth: int, files: int) -> None:
        def strike(*arguments: object, **_: object) -> None:
            path, seen = folder(*arguments), 0

            def watch(*_: object) -> None:
                nonlocal seen
                try:
                    changed = os.stat(path).st_mtime_ns
                except FileNotFoundError:
                    return
                if changed != seen and len(os.listdir(path)) >= files:
                    kill()
                seen = changed

            sys.setprofile(watch)  # called at every call and return, also of C

        _before(owner, name, strike, nth)

    return fault


def _torn_append(nth: int) -> None:
    """The kernel lets 200 bytes of the line pass and ends the process at the next one."""

    def limit(path: Path, row: object) -> None:
        size = Path(path).stat().st_size if Path(path).exists() else 0
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 200, resource.RLIM_INFINITY))

    _before(repro, "append_jsonl", limit, nth)


def _wandb(how: str) -> None:
    os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true"}
    if how == "absent":
        sys.modules["wandb"] = None  # type: ignore[assignment]
    if how == "log":
        from wandb.sdk.wandb_run import Run

        def broken(*_: object, **__: object) -> None:
            raise BrokenPipeError("the service of wandb is gone")

        Run.log = broken


FAULTS: dict[str, Callable[..., None]] = {
    "step": _kill_in_step,
    "token": _kill_before(decoding, "_pick"),
    "save": _kill_when(
        Trainer, "_save_checkpoint", lambda t, *_: Path(t.args.output_dir) / f"checkpoint-{t.state.global_step}"
    ),
    "publish": _kill_when(training, "save_policy", lambda model, words, out, *_: out.with_name(f".{out.name}.tmp")),
    "manifest": _kill_before(checkpoint, "write_manifest"),
    "replace": _kill_before(os, "replace"),
    "torn append": _torn_append,
    "disk": lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY)),
    "wandb": _wandb,
    "ranks": lambda: setattr(grpo, "subprocess", SimpleNamespace(run=forked_ranks)),
}

# For the processes that are forked from one that has imported this: they hash no code, and collect no imports.
provenance.code_sha256("mapflake.engineer.rounds")
checkpoint.input_hash_of("mapflake.trainer.grpo")
gc.freeze()
