"""Supervised warm start on (prompt, completion) pairs: the "pretraining" of a from-scratch policy, a start for others.

The recipe is our choice; the ones tried are in reports/log.md. A large LLM needs no warm start, a small pretrained one
does: it solves no board at first, and RL finds nothing to reinforce.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mapflake.extras import needs

with needs("train"):
    import torch
    from peft import get_peft_model
    from torch.nn.utils.rnn import pad_sequence
    from transformers import PreTrainedTokenizerBase, Trainer, TrainingArguments

from mapflake import repro
from mapflake.repro import rng_for, seed_for, shown, whole
from mapflake.trainer import checkpoint, packing
from mapflake.trainer.params import WarmStartParams
from mapflake.trainer.policy import check_room, encode_prompts, from_scratch, load_policy
from mapflake.trainer.precision import compute_in_bfloat16, settle
from mapflake.trainer.training import run
from mapflake.trainer.weights import lora_config


def warm_start(
    pairs: Sequence[tuple[str, str]],
    start: Sequence[str] | str | Path,
    params: WarmStartParams,
    out: str | Path,
    *,
    seed: int,
) -> list[dict[str, float]]:
    """Trains a policy on pairs of prompt and completion, writes it to `out`, returns its curve, a row every few steps.

    `start` is the vocabulary of a new policy, or the checkpoint of one, or its name on the hub. Continues from its last
    save if it was interrupted; does nothing if `out` is the result of the same input, and replaces that of another.

    Raises:
        ValueError: A compact text has a word outside the vocabulary, there are no pairs, one is none, the model's
            context is too short for one, or a new policy is to have adapters.
        CheckpointError: The checkpoint cannot be read, or `out` is something else, or `start` itself.
    """
    pairs, seed, out = [*pairs], whole(seed, "seed", 0), Path(out)
    if not pairs:
        raise ValueError("warm_start needs at least one (prompt, completion) pair")
    for pair in pairs:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)):
            raise ValueError(f"pairs: {shown(pair)} is not (prompt, completion), two texts")
    base, words = (start, []) if isinstance(start, str | Path) else (None, list(start))
    if base is None and params.lora:
        raise ValueError("lora: adapters stand on a model, and a new policy is asked for")
    origin = words if base is None else checkpoint.origin_of(base)
    made_from = [pairs, origin, params.model_dump(), seed]
    input_hash = checkpoint.input_hash_of("mapflake.trainer.warmstart", *made_from)
    if not checkpoint.is_result_of(out, input_hash):
        checkpoint.check_out(out, base)
        torch.set_num_threads(params.threads)
        saves = checkpoint.resumable(out, input_hash)
        precision = settle(params.precision, base, saves)
        if base is not None:
            policy = load_policy(base, full_precision=params.lora is None, precision=precision)
        else:
            policy = from_scratch(params.model, words, seed=seed)
            if precision == "bfloat16" and policy.model is not None and not torch.cuda.is_available():
                compute_in_bfloat16(policy.model)
        data = encode_pairs(policy.tokenizer, pairs)
        check_room(policy.model, [row["input_ids"] for row in data], 0)
        packed = packing.reads_packed(policy.model)
        order = _order([len(row["input_ids"]) for row in data], params, rng_for(seed, "warm_start", "order"))
        trainer = Trainer(
            model=policy.model if params.lora is None else get_peft_model(policy.model, lora_config(params.lora)),
            args=_arguments(saves, params, seed_for(seed, "warm_start"), count=packed),
            train_dataset=[data[i] for i in order],
            data_collator=packing.pack if packed else functools.partial(_pad, pad=policy.tokenizer.pad_token_id),
        )
        run(trainer, base, out, input_hash, policy.tokenizer, precision)
    checkpoint.drop_resumable(out)
    return repro.read_jsonl(out / "curve.jsonl")


def encode_pairs(tokenizer: PreTrainedTokenizerBase, pairs: Sequence[tuple[str, str]]) -> list[dict[str, list[int]]]:
    """Returns input ids and labels; the loss is on the completion and its closing eos alone."""
    prompts = encode_prompts(tokenizer, [p for p, _ in pairs])
    texts = [c for _, c in pairs]
    if tokenizer.chat_template:  # the prompt opens the answer, eos closes it
        completions = tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    else:
        completions = encode_prompts(tokenizer, texts)
    eos = tokenizer.eos_token_id
    return [
        {"input_ids": [*p, *c, eos], "labels": [-100] * len(p) + [*c, eos]}
        for p, c in zip(prompts, completions, strict=True)
    ]


def _arguments(output: Path, params: WarmStartParams, seed: int, count: bool) -> TrainingArguments:
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
        include_num_input_tokens_seen="all" if count else "no",
        seed=seed,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),  # on a CPU: `precision.compute_in_bfloat16`
        report_to="none",  # see `training.Tracking`
    )


def _order(lengths: list[int], params: WarmStartParams, rng: np.random.Generator) -> list[int]:
    """Returns the order of examples for all steps: shuffled epochs, sorted by length within each step's batch.

    Microbatches then have little padding, while the batch as a whole stays a fair draw (batches of one length learn far
    worse: reports/log.md).
    """
    num_rows = params.steps * params.batch_size
    order: list[int] = []
    while len(order) < num_rows:
        order += rng.permutation(len(lengths)).tolist()
    steps = [order[i : i + params.batch_size] for i in range(0, num_rows, params.batch_size)]
    return [i for step in steps for i in sorted(step, key=lambda i: lengths[i])]


def _pad(rows: list[dict[str, list[int]]], pad: int) -> dict[str, torch.Tensor]:
    """Returns the rows as one batch, padded on the right: input ids with `pad`, labels with -100; `[B, T]`."""
    ids, labels = ([torch.tensor(row[key]) for row in rows] for key in ("input_ids", "labels"))
    return {
        "input_ids": pad_sequence(ids, batch_first=True, padding_value=pad),
        "labels": pad_sequence(labels, batch_first=True, padding_value=-100),
        "attention_mask": pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
    }
