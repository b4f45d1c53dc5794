"""Supervised warm start of the from-scratch policy: its "pretraining", on (prompt, completion) pairs.

The pairs come from callers (solved boards, the engineer's language); nothing here knows what they say. The recipe
is ours (measured: findings in reports/log.md). Real LLMs need no warm start: they come pretrained.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import Field
from transformers import PreTrainedTokenizerBase, Trainer, TrainingArguments

from mapflake import repro
from mapflake.repro import Params, rng_for, seed_for
from mapflake.trainer import checkpoint
from mapflake.trainer.policy import ModelParams, encode_prompts, from_scratch, save_policy

logger = logging.getLogger(__name__)

MEGABATCH = 16  # batches that are sorted by length together: little padding, yet a different mix at every epoch


class WarmStartParams(Params):
    """Supervised training: AdamW, linear warm-up, cosine decay to a tenth of the peak learning rate."""

    model: ModelParams = ModelParams()
    steps: int = Field(900, ge=1)
    batch_size: int = Field(48, ge=1)
    learning_rate: float = Field(2e-3, gt=0)
    warmup_steps: int = Field(50, ge=0)
    save_every: int = Field(100, ge=1)
    threads: int = Field(2, ge=1)


def warm_start(
    pairs: Sequence[tuple[str, str]],
    vocabulary: Sequence[str],
    params: WarmStartParams,
    out: str | Path,
    *,
    seed: int,
) -> list[dict[str, float]]:
    """Trains a new policy on `pairs`, writes it to `out` and returns its curve: `{"step", "loss", ...}` rows.

    Continues from its last save if it was interrupted; does nothing if `out` was made from the same input.

    Raises:
        ValueError: A text has a word outside `vocabulary`, or there are no pairs.
    """
    if not pairs:
        raise ValueError("warm_start needs at least one (prompt, completion) pair")
    out = Path(out)
    made_from = repro.json_sha256([list(map(list, pairs)), list(vocabulary), params.model_dump(), seed])
    if not checkpoint.is_made_from(out, made_from):
        torch.set_num_threads(params.threads)
        policy = from_scratch(params.model, vocabulary, seed=seed)
        data = _encode(policy.tokenizer, pairs)
        order = _batches([len(row["input_ids"]) for row in data], params, rng_for(seed, "warm_start", "order"))
        trainer = Trainer(
            model=policy.model,
            args=_arguments(checkpoint.resumable(out, made_from), params, seed_for(seed, "warm_start")),
            train_dataset=[data[i] for i in order],
            data_collator=_Collator(policy.tokenizer.pad_token_id),
            callbacks=[checkpoint.Seal()],
        )
        run(trainer, out, made_from, policy.tokenizer)
    return repro.read_jsonl(out / "curve.jsonl")


def run(trainer: Trainer, out: Path, made_from: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Runs a `transformers` trainer from its newest whole save to its end and publishes the result at `out`."""
    unfinished = Path(trainer.args.output_dir)
    resume = checkpoint.newest_whole(unfinished)
    if resume:
        logger.warning("%s: going on from %s", out, resume.name)
    trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    if trainer.is_world_process_zero():
        model: Any = trainer.accelerator.unwrap_model(trainer.model)
        if hasattr(model, "merge_and_unload"):  # LoRA: the next round starts from whole weights
            model = model.merge_and_unload()
        save_policy(model, tokenizer, out, made_from, curve=_without_times(trainer.state.log_history))
        shutil.rmtree(unfinished)


def _without_times(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the steps of a trainer's log without what differs at every run: results must be comparable by hash."""
    timed = ("runtime", "per_second", "time", "total_flos")
    steps = [{k: v for k, v in row.items() if not any(t in k for t in timed)} for row in history]
    return [row for row in steps if "loss" in row]


def _arguments(output: Path, params: WarmStartParams, seed: int) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(output),
        max_steps=params.steps,
        per_device_train_batch_size=params.batch_size,
        learning_rate=params.learning_rate,
        warmup_steps=params.warmup_steps,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": 0.1},
        adam_beta2=0.98,
        weight_decay=0.01,
        train_sampling_strategy="sequential",  # the order is ours: batches of like lengths, shuffled
        remove_unused_columns=False,
        save_steps=params.save_every,
        save_total_limit=2,
        logging_steps=min(20, params.steps),
        seed=seed,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),
        report_to=trackers(),
    )


def trackers() -> str:
    """Returns what the trainers report to: wandb if the environment asks for it (WANDB_MODE), else nothing."""
    return "wandb" if os.environ.get("WANDB_MODE") in ("online", "offline") else "none"


def _encode(tokenizer: PreTrainedTokenizerBase, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
    """Returns input ids and labels; the loss is on the completion and its closing eos alone."""
    prompts = encode_prompts(tokenizer, [p for p, _ in pairs])
    completions = encode_prompts(tokenizer, [c for _, c in pairs])
    eos = tokenizer.eos_token_id
    return [
        {"input_ids": [*p, *c, eos], "labels": [-100] * len(p) + [*c, eos]}
        for p, c in zip(prompts, completions, strict=True)
    ]


def _batches(lengths: list[int], params: WarmStartParams, rng: np.random.Generator) -> list[int]:
    """Returns the order of examples for all steps: epochs of shuffled batches whose examples have like lengths."""
    need, order = params.steps * params.batch_size, []
    while len(order) < need:
        epoch = rng.permutation(len(lengths)).tolist()
        span = MEGABATCH * params.batch_size
        batches = []
        for first in range(0, len(epoch), span):
            mega = sorted(epoch[first : first + span], key=lambda i: lengths[i])
            batches += [mega[i : i + params.batch_size] for i in range(0, len(mega), params.batch_size)]
        full = [b for b in batches if len(b) == params.batch_size] or batches
        order += [i for b in rng.permutation(len(full)) for i in full[b]]
    return order[:need]


class _Collator:
    """Right-pads a batch: input ids with pad, labels with -100; `[B, T]`."""

    def __init__(self, pad: int) -> None:
        self.pad = pad

    def __call__(self, rows: list[dict[str, list[int]]]) -> dict[str, torch.Tensor]:
        width = max(len(row["input_ids"]) for row in rows)

        def padded(key: str, value: int) -> torch.Tensor:
            return torch.tensor([row[key] + [value] * (width - len(row[key])) for row in rows])

        mask = torch.tensor([[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows])
        return {"input_ids": padded("input_ids", self.pad), "labels": padded("labels", -100), "attention_mask": mask}
