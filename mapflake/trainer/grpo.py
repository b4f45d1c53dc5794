"""One round of reinforcement learning: GRPO (Shao et al. 2024) through TRL, on the tasks of one configuration.

The reward is ours and fixed: half for a valid plan, half for an optimal one, for every arm and every round, out of the
engineer's reach (a reward for validity alone makes plans longer). What differs from stock TRL is small: completions
come from `decoding.decode`, and the loss is computed on length buckets without padding and without the rows that
carry no gradient; the numbers are the same (tests/trainer/test_grpo.py).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from datasets import Dataset
from pydantic import Field, model_validator
from trl import GRPOConfig, GRPOTrainer

from mapflake import repro
from mapflake.env import Task, Verdict, judge, render_prompt
from mapflake.repro import Params, rng_for, seed_for
from mapflake.trainer import checkpoint
from mapflake.trainer.decoding import decode
from mapflake.trainer.policy import Policy, encode_prompts, load_policy
from mapflake.trainer.warmstart import run, trackers

logger = logging.getLogger(__name__)

BUCKET = 64  # rows of like length in one forward pass
LARGE_VOCABULARY = 8192


class LoraParams(Params):
    """Low-rank adapters instead of full training (Hu et al. 2021); merged into the weights as the round ends."""

    rank: int = Field(default=32, ge=1)
    alpha: int = Field(default=64, ge=1)


class RLParams(Params):
    """GRPO of one round. An instance is seen `epochs` times; a step takes `prompts` instances x `generations` samples.

    The paper: 4000 instances, 2 epochs a round; what it does not state (learning rate, group size) is our choice.
    """

    instances: int = Field(default=640, ge=1)
    epochs: int = Field(default=2, ge=1)
    prompts: int = Field(default=64, ge=1)
    generations: int = Field(default=8, ge=2)
    microbatch: int = Field(default=512, ge=1)
    learning_rate: float = Field(default=2e-4, gt=0)
    warmup_steps: int = Field(default=3, ge=0)
    beta: float = Field(default=0.0, ge=0)
    temperature: float = Field(default=1.0, gt=0)
    max_new_tokens: int = Field(default=128, ge=1)
    lora: LoraParams | None = None
    vllm: Literal["off", "colocate", "server"] = "off"
    save_every: int = Field(default=5, ge=1)
    threads: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _divisible(self) -> RLParams:
        if self.instances % self.prompts:
            raise ValueError(f"instances ({self.instances}) must be a multiple of prompts ({self.prompts})")
        if (self.prompts * self.generations) % self.microbatch:
            raise ValueError(
                f"microbatch ({self.microbatch}) must divide prompts x generations ({self.prompts * self.generations})"
            )
        return self

    @property
    def steps(self) -> int:
        """Optimizer steps of one round."""
        return self.instances * self.epochs // self.prompts


def reward(verdict: Verdict) -> float:
    """Returns 0.5 for a valid plan plus 0.5 for an optimal one: 0, 0.5 or 1 (our choice; the paper does not say)."""
    return 0.5 * verdict.valid + 0.5 * verdict.optimal


def train_round(
    start: str | Path, tasks: Sequence[Task], params: RLParams, out: str | Path, *, seed: int
) -> list[dict[str, Any]]:
    """Trains the checkpoint `start` on `tasks`, writes the result to `out` and returns its curve, a row a step.

    Rows hold reward, valid and optimal rates of the step's samples, the share of groups without signal, entropy (of the
    rows that carry gradient), completion length. Continues from its last save if it was interrupted; does nothing if
    `out` was made from the same input.

    Raises:
        ValueError: The number of tasks is not `params.instances`.
    """
    if len(tasks) != params.instances:
        raise ValueError(f"the round takes {params.instances} instances, {len(tasks)} were given")
    out = Path(out)
    made_from = repro.json_sha256(
        [_identity(start), [t.instance.key for t in tasks], params.model_dump(exclude={"threads"}), seed]
    )
    if not checkpoint.is_made_from(out, made_from):
        torch.set_num_threads(params.threads)
        policy = load_policy(start, full_precision=params.lora is None)  # small steps vanish in bfloat16
        prompts = [render_prompt(task.instance, dialect=policy.dialect) for task in tasks]
        # The order of all epochs is laid out here: TRL's sampler shuffles from a state that no save holds, and a resume
        # in a later epoch would see other boards.
        order = [int(i) for e in range(params.epochs) for i in rng_for(seed, "order", e).permutation(len(tasks))]
        rows: list[dict[str, Any]] = [
            {"prompt": [{"role": "user", "content": prompts[i]}] if policy.dialect == "chat" else prompts[i], "task": i}
            for i in order
        ]
        trainer = RoundTrainer(policy, tasks, rows, params, checkpoint.resumable(out, made_from), seed)
        run(trainer, out, made_from, policy.tokenizer)
    return repro.read_jsonl(out / "curve.jsonl")


def _identity(start: str | Path) -> str:
    return checkpoint.weights_sha256(start) if Path(start).is_dir() else str(start)


class RoundTrainer(GRPOTrainer):
    """TRL's trainer with our sampling, our reward and a loss without padding."""

    def __init__(
        self,
        policy: Policy,
        tasks: Sequence[Task],
        rows: list[dict[str, Any]],
        params: RLParams,
        output: Path,
        seed: int,
    ) -> None:
        self._seed = seed
        dialect = policy.dialect

        def text(completion: Any) -> str:
            return completion if isinstance(completion, str) else completion[0]["content"]

        def valid(completions: list[Any], task: list[int], **_: Any) -> list[float]:
            return [float(judge(tasks[i], text(c), dialect).valid) for i, c in zip(task, completions, strict=True)]

        def optimal(completions: list[Any], task: list[int], **_: Any) -> list[float]:
            return [float(judge(tasks[i], text(c), dialect).optimal) for i, c in zip(task, completions, strict=True)]

        peft_config = None
        if params.lora is not None:
            from peft import LoraConfig

            peft_config = LoraConfig(
                r=params.lora.rank, lora_alpha=params.lora.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
            )
        with _quiet_experimental():
            super().__init__(
                model=policy.model,
                processing_class=policy.tokenizer,
                reward_funcs=[valid, optimal],
                args=_arguments(params, output, seed),
                train_dataset=Dataset.from_list(rows),
                rollout_func=self._rollout if params.vllm == "off" else None,
                peft_config=peft_config,
                callbacks=[checkpoint.Seal()],
            )

    def _rollout(self, prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        """Returns one completion for each prompt; TRL repeats a prompt for each sample of its group."""
        size = self.num_generations
        texts = [p if isinstance(p, str) else p[0]["content"] for p in prompts[::size]]
        ids = encode_prompts(self.processing_class, texts)
        decoded = decode(
            self.accelerator.unwrap_model(self.model),
            ids,
            n=size,
            temperature=self.temperature,
            max_new_tokens=self.max_completion_length,
            eos=self.processing_class.eos_token_id,
            rng=rng_for(self._seed, "rollout", self.state.global_step, self.accelerator.process_index),
            batch_size=len(prompts),  # one batch: its long tail is paid once
        )
        return {
            "prompt_ids": [row for row in ids for _ in range(size)],
            "completion_ids": [d.ids for d in decoded],
            "logprobs": [d.logps for d in decoded],
        }

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        """Returns TRL's loss over the rows whose advantage is not zero: without a KL term the others add nothing."""
        rows = inputs["advantages"].nonzero()[:, 0]
        if self.beta == 0 and 0 < len(rows) < len(inputs["advantages"]):
            per_row = ("prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages")
            inputs = inputs | {key: inputs[key][rows] for key in per_row}
            for key in ("old_per_token_logps", "sampling_per_token_logps", "importance_sampling_ratio"):
                if inputs.get(key) is not None:
                    inputs[key] = inputs[key][rows]
        return super()._compute_loss(model, inputs)

    def _get_per_token_logps_and_entropies(
        self,
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        batch_size: int | None = None,
        compute_entropy: bool = False,
        **unused: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        """Returns log-probabilities and entropies `[B, C]` of the last C tokens, row by row the same as TRL's.

        Rows are `[prompt, left-padded | completion, right-padded]`; each bucket of like lengths gets its own width.
        A real LLM's vocabulary would make the logits too large: there TRL's fused head does the work.
        """
        if len(self.processing_class) > LARGE_VOCABULARY:
            return super()._get_per_token_logps_and_entropies(
                model, input_ids, attention_mask, logits_to_keep, batch_size, compute_entropy, **unused
            )
        split = input_ids.size(1) - logits_to_keep
        before, after = attention_mask[:, :split].sum(1), attention_mask[:, split:].sum(1)
        order = (before + after).argsort(stable=True)
        logps, entropies = [], []
        for rows in order.split(BUCKET):
            width = int(after[rows].max())
            columns = slice(split - int(before[rows].max()), split + width)
            ids, mask = input_ids[rows, columns], attention_mask[rows, columns]
            with self.accelerator.autocast():
                logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=width + 1).logits[:, :-1]
            logp = torch.log_softmax(logits.float() / self.temperature, dim=-1)
            fill = (0, logits_to_keep - width)
            taken = logp.gather(-1, ids[:, -width:, None])[..., 0]
            logps.append(torch.nn.functional.pad(taken, fill))
            if compute_entropy:
                with torch.no_grad():
                    entropies.append(torch.nn.functional.pad(-(logp.exp() * logp).sum(-1), fill))
        back = order.argsort()
        return torch.cat(logps)[back], torch.cat(entropies)[back] if compute_entropy else None, None


def _arguments(params: RLParams, output: Path, seed: int) -> GRPOConfig:
    cuda = torch.cuda.is_available()
    accumulation = params.prompts * params.generations // params.microbatch
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
        reward_weights=[0.5, 0.5],
        use_vllm=params.vllm != "off",
        vllm_mode=params.vllm if params.vllm != "off" else "colocate",
        save_steps=params.save_every,
        save_total_limit=2,
        logging_steps=1,
        seed=seed_for(seed, "grpo") % 2**31,
        use_cpu=not cuda,
        bf16=cuda,
        gradient_checkpointing=cuda,
        disable_dropout=True,
        report_to=trackers(),
    )


class _quiet_experimental:
    """TRL warns that rollout_func is experimental; the pin of its version is our answer."""

    def __enter__(self) -> None:
        self.before = os.environ.get("TRL_EXPERIMENTAL_SILENCE")
        os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

    def __exit__(self, *_: object) -> None:
        if self.before is None:
            del os.environ["TRL_EXPERIMENTAL_SILENCE"]
        else:
            os.environ["TRL_EXPERIMENTAL_SILENCE"] = self.before
