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
    queries, keys, values = (states[0].split(lengths, dim=1) for states in (query, key, value))
    rows = []
    for q, k, v, prefix in zip(queries, keys, values, prefixes, strict=True):
        if prefix is not None:
            k, v = torch.cat([keys[prefix], k], 1), torch.cat([values[prefix], v], 1)
        rows.append((q, k, v))
    attend = _products if query.is_cpu and query.dtype == torch.bfloat16 else _kernel
    return torch.cat(attend(rows, scaling), 1).transpose(0, 1)[None], None


Row = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""The queries `[H, n, D]` of a row, and the keys and values of all tokens up to its last, those of its prefix first."""


def _kernel(rows: Sequence[Row], scaling: float) -> list[torch.Tensor]:
    """Returns the attention of each row, `[H, n, D]`, by PyTorch's own kernel."""
    outputs = []
    for q, k, v in rows:
        begin, mask = k.size(1) - q.size(1), None
        if begin:
            mask = _seen(q.size(1), k.size(1), begin).to(q.device)
        options: dict[str, Any] = {"attn_mask": mask, "is_causal": not begin, "scale": scaling, "enable_gqa": True}
        outputs.append(scaled_dot_product_attention(q[None], k[None], v[None], **options)[0])
    return outputs


def _products(rows: Sequence[Row], scaling: float) -> list[torch.Tensor]:
    """Returns what `_kernel` returns, by products of matrices, which is faster in bfloat16 on a CPU.

    Rows that are padded to the same shape share a product.
    """
    shapes: dict[tuple[int, int, int], list[int]] = {}  # height and width of a row's scores, where it begins -> rows
    for i, (q, k, _) in enumerate(rows):
        height, width = (-(-states.size(1) // ROUNDED) * ROUNDED for states in (q, k))
        shapes.setdefault((height, width, k.size(1) - q.size(1)), []).append(i)
    outputs: dict[int, torch.Tensor] = {}
    for (height, width, begin), members in shapes.items():
        columns = zip(*(rows[i] for i in members), strict=True)
        q, k, v = (
            torch.cat([pad(states, (0, 0, 0, length - states.size(1))) for states in column])
            for column, length in zip(columns, (height, width, width), strict=True)
        )
        grouped = q.reshape(k.size(0), -1, q.size(2))  # the heads that share keys, one below the other
        penalties = _penalties(grouped.size(1) // height, height, width, begin)
        weights = torch.softmax(torch.baddbmm(penalties, grouped, k.transpose(1, 2), alpha=scaling), -1)
        outputs |= zip(members, (weights @ v).view(len(members), -1, height, q.size(2)), strict=True)
    return [outputs[i][:, : q.size(1)] for i, (q, _, _) in enumerate(rows)]


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
