"""One round of reinforcement learning: GRPO (Shao et al. 2024) through TRL, on boards or another problem.

With `processes` above 1 the round runs in processes started here: by `torchrun`, or by `accelerate launch` with the
shipped FSDP2 configuration where weights are sharded. Not covered: several machines; bit-equal resume where vLLM
samples on CUDA, which TRL's seed does not reach.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from mapflake.extras import needs

with needs("train"):
    import torch
    from datasets import Dataset, concatenate_datasets
    from trl import GRPOConfig

from mapflake import repro
from mapflake.env import DIMENSIONS, REWARD, Task, reward_functions, to_dataset
from mapflake.env.rewards import BUILT_IN
from mapflake.repro import rng_for, seed_for, whole
from mapflake.trainer import checkpoint, engine
from mapflake.trainer.logps import logits_fit
from mapflake.trainer.params import RLParams
from mapflake.trainer.policy import Policy, check_room, encode_prompts, load_policy
from mapflake.trainer.precision import settle
from mapflake.trainer.round_trainer import RoundTrainer
from mapflake.trainer.training import run
from mapflake.trainer.weights import lora_config, parent_of

ACCELERATE = Path(__file__).parent / "accelerate"


class Problem(Protocol):
    """What a policy is trained on: prompts, and rewards of completions. It is pickled for further processes."""

    def __len__(self) -> int:
        """Returns the number of instances."""

    def identity(self) -> Any:
        """Returns all that decides the problem, as JSON values."""

    def rows(self, prompt_format: str) -> Dataset:
        """Returns a row for each instance, with the columns `prompt` and those that the rewards take."""

    def rewards(self, prompt_format: str) -> dict[Callable[..., Any], float]:
        """Returns TRL's reward functions with their weights."""


@dataclass(frozen=True)
class Boards:
    """The problem of the paper's policy: boards to be solved."""

    tasks: Sequence[Task]

    def __len__(self) -> int:
        return len(self.tasks)

    def identity(self) -> Any:
        """Returns the boards' keys, and the reward if it is another than the built-in one."""
        keys = [t.instance.key for t in self.tasks]
        return keys if REWARD == BUILT_IN else [keys, REWARD]

    def rows(self, prompt_format: str) -> Dataset:
        """Returns the rows of `to_dataset`."""
        return to_dataset(self.tasks, prompt_format)

    def rewards(self, prompt_format: str) -> dict[Callable[..., list[float]], float]:
        """Returns a function for each entry of `REWARD`."""
        return dict(zip(reward_functions(prompt_format), REWARD.values(), strict=True))


@dataclass(frozen=True)
class Mixture:
    """Several problems in one training; a row is rewarded by the problem that it comes from, `part` is its number."""

    parts: Sequence[Problem]

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def identity(self) -> Any:
        """Returns the identities of the parts."""
        return [part.identity() for part in self.parts]

    def rows(self, prompt_format: str) -> Dataset:
        """Returns the rows of all parts; the columns of other parts are None."""
        tables = [part.rows(prompt_format) for part in self.parts]
        return concatenate_datasets([rows.add_column("part", [i] * len(rows)) for i, rows in enumerate(tables)])

    def rewards(self, prompt_format: str) -> dict[Callable[..., list[float | None]], float]:
        """Returns the functions of all parts, which give None on rows of others: TRL leaves these out."""

        def only(number: int, reward: Callable[..., list[float]]) -> Callable[..., list[float | None]]:
            def own(completions: Sequence[Any], part: Sequence[int], **columns: Any) -> list[float | None]:
                rows = [i for i, row_part in enumerate(part) if row_part == number]
                own_columns = {name: [c[i] for i in rows] for name, c in columns.items() if isinstance(c, list)}
                values = iter(reward(completions=[completions[i] for i in rows], **own_columns))
                return [next(values) if row_part == number else None for row_part in part]

            own.__name__ = reward.__name__
            return own

        return {
            only(i, reward): weight
            for i, part in enumerate(self.parts)
            for reward, weight in part.rewards(prompt_format).items()
        }


def train_round(
    start: str | Path, problem: Problem, params: RLParams, out: str | Path, *, seed: int
) -> list[dict[str, Any]]:
    """Trains the checkpoint `start` on a problem, writes the result to `out` and returns its curve, a row a step.

    A row holds the mean of each reward, the share of groups without signal (`frac_reward_zero_std`), entropy,
    completion length, the tokens that were sampled (`sampled_tokens`), and `kl`, the divergence from `start` (for a
    large model only if `beta` is not 0). Continues from its last save if it was interrupted; does nothing if `out`
    is the result of the same input, and replaces that of another.

    Raises:
        ValueError: The number of the problem's instances is not `params.instances`, the model's context is too short
            for a prompt and `max_new_tokens`, or `beta` is not 0 and whole weights are trained on from adapters.
        RuntimeError: The processes that were started did not finish.
        EngineError: vLLM did not start, or ended; called again, the round goes on from its last save.
        CheckpointError: `start` cannot be read, or `out` is something else, or `start` itself.
    """
    seed = whole(seed, "seed", 0)
    if len(problem) != params.instances:
        raise ValueError(f"the round takes {params.instances} instances, {len(problem)} were given")
    out = Path(out)
    made_from = [checkpoint.origin_of(start), problem.identity(), params.model_dump(), seed]
    input_hash = checkpoint.input_hash_of("mapflake.trainer.grpo", *made_from)
    if not checkpoint.is_result_of(out, input_hash):
        checkpoint.check_out(out, start)
        engine.free()  # that of an evaluation: its memory is needed now
        if params.processes == 1 or torch.distributed.is_torchelastic_launched():
            _train(start, problem, params, out, input_hash, seed)
        else:
            _launch(start, problem, params, out, input_hash, seed)
    checkpoint.drop_resumable(out)
    return repro.read_jsonl(out / "curve.jsonl")


def _train(start: str | Path, problem: Problem, params: RLParams, out: Path, input_hash: str, seed: int) -> None:
    torch.set_num_threads(params.threads)
    full = params.lora is None  # small steps vanish in bfloat16
    if full and params.beta and parent_of(start) is not None:  # TRL reads the reference from one folder
        raise ValueError(f"beta: {params.beta} with whole weights takes a start without adapters, and {start} has them")
    saves = checkpoint.resumable(out, input_hash)
    precision = settle(params.precision, start, saves)
    policy = load_policy(start, full_precision=full, precision=precision)
    rewards = problem.rewards(policy.prompt_format)
    rows = training_rows(policy, problem, params, seed)
    prompts = {p if isinstance(p, str) else p[0]["content"] for p in rows["prompt"]}
    check_room(policy.model, encode_prompts(policy.tokenizer, sorted(prompts)), params.max_new_tokens)
    large = not logits_fit(policy.model, params.microbatch, params.max_new_tokens)
    autocast = torch.cuda.is_available() or (not full and precision == "bfloat16")
    arguments = training_arguments(params, saves, seed, list(rewards.values()), large=large, autocast=autocast)
    lora, vllm = params.lora and lora_config(params.lora), sampler(start, params)
    trainer = RoundTrainer(
        policy, rows, list(rewards), arguments, seed=seed, lora=lora, sampler=vllm, redraws=params.redraws
    )
    num_processes = trainer.accelerator.num_processes
    if num_processes != params.processes:  # some launchers start only one, without an error
        raise RuntimeError(f"processes: {params.processes} were asked for, {num_processes} run")
    try:
        run(trainer, start, out, input_hash, policy.tokenizer, precision)
    finally:
        engine.free()


def sampler(start: str | Path, params: RLParams) -> engine.Engine | engine.Server | None:
    """Returns what samples in place of TRL's vLLM, which needs CUDA; None there, and where vLLM is not asked for."""
    if params.vllm == "off" or torch.cuda.is_available():
        return None
    return engine.Engine(start, params.vllm_engine) if params.vllm == "colocate" else engine.Server(params.vllm_engine)


def training_rows(policy: Policy, problem: Problem, params: RLParams, seed: int) -> Dataset:
    """Returns the problem's rows, in the order of `order_of_rows`."""
    rows = problem.rows(policy.prompt_format)
    return rows.select(order_of_rows(len(rows), params.epochs, seed))


def order_of_rows(count: int, epochs: int, seed: int) -> list[int]:
    """Returns the numbers of the rows in the order of training, `[count * epochs]`; each epoch has its own order.

    TRL's sampler shuffles from a state that no save holds: after a resume a later epoch would see other boards.
    """
    return [int(i) for epoch in range(epochs) for i in rng_for(seed, "order", epoch).permutation(count)]


def training_arguments(
    params: RLParams, output: Path, seed: int, weights: Sequence[float], *, large: bool, autocast: bool = False
) -> GRPOConfig:
    """Returns TRL's configuration of a round, whose saves go to `output`; `weights` are those of the rewards.

    If a model is `large` (`logps.logits_fit`), memory is short; `autocast` makes products bfloat16.
    """
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
        num_iterations=params.iterations,
        max_completion_length=params.max_new_tokens,
        learning_rate=params.learning_rate,
        lr_scheduler_type=params.schedule,
        warmup_steps=params.warmup_steps,
        beta=params.beta,
        temperature=params.temperature,
        loss_type="dapo",
        reward_weights=list(weights),
        use_vllm=params.vllm != "off" and cuda,
        vllm_mode=params.vllm if params.vllm != "off" else "colocate",
        vllm_server_host="127.0.0.1",
        vllm_server_port=params.vllm_engine.server_port,
        vllm_tensor_parallel_size=params.vllm_engine.tensor_parallel_size,
        vllm_gpu_memory_utilization=params.vllm_engine.gpu_memory_utilization,
        vllm_max_model_length=params.vllm_engine.max_model_len,
        save_steps=params.save_every * params.iterations,  # never between two uses of the same samples
        save_total_limit=2,
        logging_steps=params.iterations,
        seed=seed_for(seed, "grpo") % 2**31,
        use_cpu=not cuda,
        bf16=autocast,
        gradient_checkpointing=cuda and large,
        ddp_broadcast_buffers=False,  # they are constants, and processes call the model unequally often (`logps`)
        disable_dropout=True,
        report_to="none",  # see `training.Tracking`
    )


def _launch(start: str | Path, problem: Problem, params: RLParams, out: Path, input_hash: str, seed: int) -> None:
    """Runs this module in `params.processes` processes and waits for them."""
    folder = checkpoint.resumable(out, input_hash)
    settle(params.precision, start, folder)  # once: the processes only read it
    job = folder / "job.pickle"
    # The boards are drawn: a transform is not needed, and one of a script or notebook would not be found there.
    dimensions = {name: replace(dimension, transform=None) for name, dimension in DIMENSIONS.items()}
    job.write_bytes(pickle.dumps((dict(REWARD), dimensions, start, problem, params, out, seed)))
    launcher = ["torch.distributed.run", "--standalone", f"--nproc_per_node={params.processes}"]
    if params.sharding != "none":
        config = ACCELERATE / f"{params.sharding}.yaml"
        launcher = ["accelerate.commands.launch", f"--config_file={config}", f"--num_processes={params.processes}"]
    command = [sys.executable, "-m", *launcher, "-m", "mapflake.trainer.grpo", str(job)]
    result = subprocess.run(command, check=False)
    if result.returncode:
        raise RuntimeError(f"{out}: {params.processes} training processes ended with {result.returncode}, see above")


def _run_job(path: Path) -> None:
    """Runs what `_launch` wrote, as one process of several, which by itself has no reward or dimension of a user."""
    reward, dimensions, *job, seed = pickle.loads(path.read_bytes())
    REWARD.clear()
    REWARD.update(reward)
    DIMENSIONS.update(dimensions)
    train_round(*job, seed=seed)


if __name__ == "__main__":
    _run_job(Path(sys.argv[1]))
