"""Rows of different lengths as one row without padding: attention stays within each of them, and in its prefix.

The numbers are those of padded rows (tests/trainer/test_packing.py). Nothing is computed for padding, logits are those
of the tokens that count alone, and a prompt that several rows begin with is read once. That pays for large models; for
a small one the rows' own calls of attention cost more. Not covered: sliding windows, recurrent layers.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from mapflake.extras import needs

with needs("train"):
    import torch
    from torch.nn.functional import pad, scaled_dot_product_attention
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

ATTENTION = "packed"
"""The attention implementation of models that read packed rows; other input they read as with `sdpa`."""

ROUNDED = 64  # oneDNN compiles the products of each new shape, so rows are padded to multiples of this


def has_full_attention(model: Any) -> bool:
    """Returns whether every layer of a model attends to all tokens before."""
    return {*(getattr(model.config, "layer_types", None) or ["full_attention"])} == {"full_attention"}


def reads_packed(model: Any) -> bool:
    """Returns whether a model can read packed rows."""
    return model.config._attn_implementation == ATTENTION and has_full_attention(model)


def packed(rows: Sequence[torch.Tensor], prefixes: Sequence[int | None]) -> dict[str, Any]:
    """Returns rows of tokens, `[L]` each and none empty, as the arguments of one forward pass, `[1, T]`.

    A prefix is the number of the row before that a row goes on from, None if it stands for itself.
    """
    begins = [0 if prefix is None else len(rows[prefix]) for prefix in prefixes]
    positions = [
        torch.arange(begin, begin + len(row), device=row.device) for row, begin in zip(rows, begins, strict=True)
    ]
    return {
        "input_ids": torch.cat([*rows])[None],
        "position_ids": torch.cat(positions)[None],
        "lengths": [len(row) for row in rows],
        "prefixes": prefixes,
        "use_cache": False,
    }


def pack(rows: Sequence[dict[str, list[int]]]) -> dict[str, Any]:
    """Returns rows of `input_ids` and `labels` as the arguments of one forward pass with its loss."""
    targets = [label for row in rows for label in (*row["labels"][1:], -100)]  # the label that each position predicts
    positions = [i for i, label in enumerate(targets) if label != -100]
    labels = torch.tensor([[targets[i] for i in positions]])
    arguments = packed([torch.tensor(row["input_ids"]) for row in rows], [None] * len(rows))
    return arguments | {"logits_to_keep": torch.tensor(positions), "labels": labels, "shift_labels": labels}


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    *,
    scaling: float,
    lengths: Sequence[int] | None = None,
    prefixes: Sequence[int | None] = (),
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Returns causal attention within each row and its prefix, `[1, T, H, D]`; the states are `[1, H, T, D]`."""
    if lengths is None and query.size(2) > 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    if lengths is None:  # one token of each row, as in sampling: heads that share keys are read as tokens, not copied
        grouped = query.reshape(key.size(0), key.size(1), -1, key.size(3))
        output = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
        return output.reshape(query.size(0), 1, -1, key.size(3)), None
    attend = _products if query.is_cpu and query.dtype == torch.bfloat16 else _kernel
    queries, keys, values = (states.split(lengths, dim=2) for states in (query, key, value))
    outputs = []
    for q, k, v, prefix in zip(queries, keys, values, prefixes, strict=True):
        if prefix is not None:
            k, v = torch.cat([keys[prefix], k], 2), torch.cat([values[prefix], v], 2)
        outputs.append(attend(q, k, v, scaling))
    return torch.cat(outputs, 2).transpose(1, 2), None


def _kernel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scaling: float) -> torch.Tensor:
    """Returns the attention of a row that ends where its keys end, `[1, H, n, D]`."""
    begin, mask = k.size(2) - q.size(2), None
    if begin:
        mask = _seen(q.size(2), k.size(2), begin).to(q.device)
    return scaled_dot_product_attention(q, k, v, mask, is_causal=not begin, scale=scaling, enable_gqa=True)


def _products(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scaling: float) -> torch.Tensor:
    """Returns what `_kernel` returns, by products of matrices, which is faster in bfloat16 on a CPU."""
    heads, length, begin = k.size(1), q.size(2), k.size(2) - q.size(2)
    q, k, v = (pad(states[0], (0, 0, 0, -states.size(2) % ROUNDED)) for states in (q, k, v))
    grouped = q.reshape(heads, -1, q.size(2))  # the heads that share keys, one below the other
    penalties = _penalties(grouped.size(1) // q.size(1), q.size(1), k.size(1), begin)
    weights = torch.softmax(torch.baddbmm(penalties, grouped, k.transpose(1, 2), alpha=scaling), -1)
    return (weights @ v).view(q.shape)[None, :, :length]


@functools.lru_cache(maxsize=64)
def _seen(rows: int, columns: int, begin: int) -> torch.Tensor:
    """Returns which keys each query sees, `[rows, columns]`, of queries that begin at a key."""
    return torch.ones(rows, columns, dtype=torch.bool).tril(begin)


@functools.lru_cache(maxsize=64)
def _penalties(heads: int, rows: int, columns: int, begin: int) -> torch.Tensor:
    """Returns what is added to the scores of several heads: nothing where a key is `_seen`, else minus infinity."""
    penalties = torch.zeros(rows, columns, dtype=torch.bfloat16)
    return penalties.masked_fill(~_seen(rows, columns, begin), -torch.inf).repeat(heads, 1)


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
