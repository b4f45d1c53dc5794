"""Supervised warm start of the from-scratch policy: its "pretraining", on (prompt, completion) pairs.

The pairs come from callers (solved boards, the engineer's language); nothing here depends on their meaning. The recipe
is our choice; the ones tried are in reports/log.md. Real LLMs need no warm start: they come pretrained.
"""

from __future__ import annotations

import functools
import logging
import math
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from tqdm import tqdm
from transformers import (
    PreTrainedTokenizerBase,
    ProgressCallback,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from mapflake import repro
from mapflake.repro import rng_for, seed_for
from mapflake.trainer import checkpoint
from mapflake.trainer.params import WarmStartParams
from mapflake.trainer.policy import encode_prompts, from_scratch, save_policy
from mapflake.trainer.tracking import Tracking

logger = logging.getLogger(__name__)


def warm_start(
    pairs: Sequence[tuple[str, str]],
    vocabulary: Sequence[str],
    params: WarmStartParams,
    out: str | Path,
    *,
    seed: int,
) -> list[dict[str, float]]:
    """Trains a new policy on `pairs`, writes it to `out` and returns its curve: `{"step", "loss", ...}` rows.

    Continues from its last save if it was interrupted; does nothing if `out` is the result of the same input.

    Raises:
        ValueError: A text has a word outside `vocabulary`, or there are no pairs.
    """
    if not pairs:
        raise ValueError("warm_start needs at least one (prompt, completion) pair")
    out = Path(out)
    code = repro.code_sha256(*checkpoint.CODE)
    input_hash = repro.json_sha256([code, list(map(list, pairs)), list(vocabulary), params.model_dump(), seed])
    if not checkpoint.is_result_of(out, input_hash):
        torch.set_num_threads(params.threads)
        policy = from_scratch(params.model, vocabulary, seed=seed)
        data = _encode(policy.tokenizer, pairs)
        order = _order([len(row["input_ids"]) for row in data], params, rng_for(seed, "warm_start", "order"))
        trainer = Trainer(
            model=policy.model,
            args=_arguments(checkpoint.resumable(out, input_hash), params, seed_for(seed, "warm_start")),
            train_dataset=[data[i] for i in order],
            data_collator=functools.partial(_collate, pad=policy.tokenizer.pad_token_id),
            callbacks=[checkpoint.ManifestCallback()],
        )
        run(trainer, out, input_hash, policy.tokenizer)
    checkpoint.drop_resumable(out)
    return repro.read_jsonl(out / "curve.jsonl")


def run(trainer: Trainer, out: Path, input_hash: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Runs a `transformers` trainer from its newest whole save to its end and publishes the result at `out`."""
    unfinished = Path(trainer.args.output_dir)
    trainer.remove_callback(ProgressCallback)  # it prints every logged row in full
    trainer.add_callback(Progress(f"{out.parent.name}/{out.name}"))
    trainer.add_callback(Tracking())
    resume = checkpoint.newest_whole(unfinished)
    if resume:
        logger.warning("%s: going on from %s", out, resume.name)
    try:
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    except Exception as error:
        saving = unfinished / f"checkpoint-{trainer.state.global_step}"
        if saving.is_dir() and not (saving / checkpoint.MANIFEST).is_file():  # torch does not say that a disk is full
            free = shutil.disk_usage(saving).free / 2**30
            raise checkpoint.CheckpointError(
                f"{saving} could not be written ({error}); {free:.1f} GiB are free there: make room, then run it again"
            ) from error
        raise
    weights = trainer.accelerator.get_state_dict(trainer.model)  # whole ones, also where processes hold shards
    if trainer.is_world_process_zero():
        model: Any = trainer.accelerator.unwrap_model(trainer.model)
        if hasattr(model, "merge_and_unload"):  # LoRA: the next round starts from whole weights
            model = model.merge_and_unload()
            weights = None
        curve = _without_times(trainer.state.log_history)
        save_policy(model, tokenizer, out, input_hash, curve=curve, weights=weights)
    trainer.accelerator.wait_for_everyone()


class Progress(TrainerCallback):
    """One progress bar for a training, with its loss and rates."""

    WATCHED: ClassVar = {"loss": "loss", "rewards/valid/mean": "valid", "rewards/optimal/mean": "optimal"}

    def __init__(self, title: str) -> None:
        self.bar = tqdm(desc=title, unit="step", mininterval=1.0)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Shows where the training begins: not at 0 if it was interrupted."""
        self.bar.reset(total=state.max_steps)
        self.bar.update(state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Counts an optimizer step."""
        self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Shows the newest numbers."""
        logs = given.get("logs") or {}
        self.bar.set_postfix({name: f"{logs[key]:.3f}" for key, name in self.WATCHED.items() if key in logs})

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Closes the bar."""
        self.bar.close()


def _without_times(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the steps of a trainer's log without times, which differ at every run: results are compared by hash.

    Keys are in the order that they have after a resume.
    """
    timed = ("runtime", "per_second", "time", "total_flos")
    steps = [{k: row[k] for k in sorted(row) if not any(t in k for t in timed)} for row in history]
    return [row for row in steps if "loss" in row]


def _arguments(output: Path, params: WarmStartParams, seed: int) -> TrainingArguments:
    return TrainingArguments(
        output_dir=str(output),
        max_steps=params.steps,
        per_device_train_batch_size=params.microbatch,
        gradient_accumulation_steps=params.batch_size // params.microbatch,
        learning_rate=params.learning_rate,
        warmup_steps=params.warmup_steps,
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr_rate": params.final_share},
        adam_beta2=0.98,
        weight_decay=0.01,
        train_sampling_strategy="sequential",  # the order is ours, see _order
        remove_unused_columns=False,
        save_steps=params.save_every,
        save_total_limit=2,
        logging_steps=math.gcd(min(20, params.steps), params.save_every),  # a resume forgets the losses since the last
        seed=seed,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),
        report_to="none",  # see `tracking`
    )


def _encode(tokenizer: PreTrainedTokenizerBase, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
    """Returns input ids and labels; the loss is on the completion and its closing eos alone."""
    prompts = encode_prompts(tokenizer, [p for p, _ in pairs])
    completions = encode_prompts(tokenizer, [c for _, c in pairs])
    eos = tokenizer.eos_token_id
    return [
        {"input_ids": [*p, *c, eos], "labels": [-100] * len(p) + [*c, eos]}
        for p, c in zip(prompts, completions, strict=True)
    ]


def _order(lengths: list[int], params: WarmStartParams, rng: np.random.Generator) -> list[int]:
    """Returns the order of examples for all steps: shuffled epochs, sorted by length within each step's batch.

    A step is cut into microbatches, so each of these has like lengths and little padding, while the batch as a whole
    stays a fair draw (batches of one length learn far worse: reports/log.md).
    """
    need = params.steps * params.batch_size
    order: list[int] = []
    while len(order) < need:
        order += rng.permutation(len(lengths)).tolist()
    steps = [order[i : i + params.batch_size] for i in range(0, need, params.batch_size)]
    return [i for step in steps for i in sorted(step, key=lambda i: lengths[i])]


def _collate(rows: list[dict[str, list[int]]], pad: int) -> dict[str, torch.Tensor]:
    """Returns the rows as one batch, padded on the right: input ids with `pad`, labels with -100; `[B, T]`."""
    width = max(len(row["input_ids"]) for row in rows)

    def padded(lists: list[list[int]], fill: int) -> torch.Tensor:
        return torch.tensor([values + [fill] * (width - len(values)) for values in lists])

    ids, labels = ([row[key] for row in rows] for key in ("input_ids", "labels"))
    mask = [[1] * len(row) for row in ids]
    return {"input_ids": padded(ids, pad), "labels": padded(labels, -100), "attention_mask": padded(mask, 0)}
