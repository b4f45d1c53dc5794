"""One round of reinforcement learning: GRPO (Shao et al. 2024) through TRL, on the tasks of one configuration.

With `processes` above 1 the round runs in processes of its own, started here: by `torchrun` for plain data parallelism
(also on CPUs, under gloo), by `accelerate launch` with the shipped FSDP2 configuration where weights are sharded.
Calling and resuming are the same as with one. Not covered: several machines; bit-equal resume where vLLM samples, which
TRL's seed does not reach.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from peft import LoraConfig
from trl import GRPOConfig

from mapflake import repro
from mapflake.env import REWARD, Task, load_tasks, reward_functions, save_tasks, to_dataset
from mapflake.repro import rng_for, seed_for
from mapflake.trainer import checkpoint
from mapflake.trainer.params import RLParams
from mapflake.trainer.policy import Policy, load_policy
from mapflake.trainer.round_trainer import LARGE_VOCABULARY, RoundTrainer
from mapflake.trainer.training import run

ACCELERATE = Path(__file__).parent / "accelerate"


def train_round(
    start: str | Path, tasks: Sequence[Task], params: RLParams, out: str | Path, *, seed: int
) -> list[dict[str, Any]]:
    """Trains the checkpoint `start` on `tasks`, writes the result to `out` and returns its curve, a row a step.

    A row holds reward, valid and optimal rates of the step's samples, the share of groups without signal
    (`frac_reward_zero_std`), entropy, completion length, and `kl`, the divergence from `start` (for a large vocabulary
    only if `beta` is not 0). Continues from its last save if it was interrupted; does nothing if `out` is the result of
    the same input.

    Raises:
        ValueError: The number of tasks is not `params.instances`.
        RuntimeError: The processes that were started did not finish.
    """
    if len(tasks) != params.instances:
        raise ValueError(f"the round takes {params.instances} instances, {len(tasks)} were given")
    out = Path(out)
    origin = checkpoint.weights_sha256(start) if Path(start).is_dir() else str(start)
    input_hash = checkpoint.input_hash_of(origin, [t.instance.key for t in tasks], params.model_dump(), seed)
    if not checkpoint.is_result_of(out, input_hash):
        if params.processes == 1 or torch.distributed.is_torchelastic_launched():
            _train(start, tasks, params, out, input_hash, seed)
        else:
            _launch(start, tasks, params, out, input_hash, seed)
    checkpoint.drop_resumable(out)
    return repro.read_jsonl(out / "curve.jsonl")


def _train(start: str | Path, tasks: Sequence[Task], params: RLParams, out: Path, input_hash: str, seed: int) -> None:
    torch.set_num_threads(params.threads)
    policy = load_policy(start, full_precision=params.lora is None)  # small steps vanish in bfloat16
    saves = checkpoint.resumable(out, input_hash)
    lora = params.lora and LoraConfig(
        r=params.lora.rank, lora_alpha=params.lora.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    trainer = RoundTrainer(
        policy,
        training_rows(policy, tasks, params, seed),
        reward_functions(policy.prompt_format),
        training_arguments(params, saves, seed, large=len(policy.tokenizer) > LARGE_VOCABULARY),
        seed=seed,
        lora=lora,
    )
    running = trainer.accelerator.num_processes
    if running != params.processes:  # launchers have started one in silence
        raise RuntimeError(f"processes: {params.processes} were asked for, {running} run")
    run(trainer, out, input_hash, policy.tokenizer)


def training_rows(policy: Policy, tasks: Sequence[Task], params: RLParams, seed: int) -> Dataset:
    """Returns the rows of `to_dataset` of all epochs in order.

    It is laid out here: TRL's sampler shuffles from a state that no save holds, and a resume in a later epoch would see
    other boards.
    """
    order = [int(i) for e in range(params.epochs) for i in rng_for(seed, "order", e).permutation(len(tasks))]
    return to_dataset(tasks, policy.prompt_format).select(order)


def training_arguments(params: RLParams, output: Path, seed: int, *, large: bool) -> GRPOConfig:
    """Returns TRL's configuration of a round whose saves go to `output`; of a real LLM if `large`."""
    cuda = torch.cuda.is_available()
    accumulation = params.samples_a_process // params.microbatch
    return GRPOConfig(
        output_dir=str(output),
        num_train_epochs=1,
        shuffle_dataset=False,
        per_device_train_batch_size=params.microbatch,
        gradient_accumulation_steps=accumulation,
        steps_per_generation=accumulation,  # a save then never falls inside a generation: resume is exact
        num_generations=params.generations,
        max_completion_length=params.max_new_tokens,
        learning_rate=params.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=params.warmup_steps,
        beta=params.beta,
        temperature=params.temperature,
        loss_type="dapo",
        reward_weights=list(REWARD.values()),
        use_vllm=params.vllm != "off",
        vllm_mode=params.vllm if params.vllm != "off" else "colocate",
        vllm_server_host="127.0.0.1",
        save_steps=params.save_every,
        save_total_limit=2,
        logging_steps=1,
        seed=seed_for(seed, "grpo") % 2**31,
        use_cpu=not cuda,
        bf16=cuda,
        gradient_checkpointing=cuda and large,
        disable_dropout=True,
        report_to="none",  # see `training.Tracking`
    )


# ---------------------------------------------------------------- several processes


def _launch(start: str | Path, tasks: Sequence[Task], params: RLParams, out: Path, input_hash: str, seed: int) -> None:
    """Runs `main` in `params.processes` processes and waits for them."""
    folder = checkpoint.resumable(out, input_hash)
    save_tasks(folder / "tasks.jsonl", tasks)
    job = {"start": str(start), "params": params.model_dump(), "out": str(out), "seed": seed}
    repro.write_json(folder / "job.json", job)
    launcher = ["torch.distributed.run", "--standalone", f"--nproc_per_node={params.processes}"]
    if params.sharding != "none":
        config = ACCELERATE / f"{params.sharding}.yaml"
        launcher = ["accelerate.commands.launch", f"--config_file={config}", f"--num_processes={params.processes}"]
    command = [sys.executable, "-m", *launcher, "-m", "mapflake.trainer.grpo", str(folder)]
    finished = subprocess.run(command, check=False)
    if finished.returncode:
        raise RuntimeError(f"{out}: {params.processes} training processes ended with {finished.returncode}, see above")


def main(folder: Path) -> None:
    """Trains the round whose job `_launch` wrote to `folder`, as one process of several."""
    job = repro.read_json(folder / "job.json")
    tasks, params = load_tasks(folder / "tasks.jsonl"), RLParams.parse(job["params"], "rl")
    train_round(job["start"], tasks, params, job["out"], seed=job["seed"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
