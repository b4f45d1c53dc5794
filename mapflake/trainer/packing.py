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
    from torch.nn.attention.bias import causal_lower_right
    from torch.nn.functional import pad, scaled_dot_product_attention
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

ATTENTION = "packed"
"""The attention implementation of models that read packed rows; other input they read as with `sdpa`."""

ROUNDED = 64  # oneDNN compiles the products of each new shape, so rows are padded to multiples of this


def has_full_attention(model: Any) -> bool:
    """Returns whether every layer of a model attends to all tokens before."""
    if layer_types := getattr(model.config, "layer_types", None):
        return {*layer_types} == {"full_attention"}
    window = getattr(model.config, "sliding_window", None)
    return not window or window >= getattr(model.config, "max_position_embeddings", torch.inf)


def reads_packed(model: Any) -> bool:
    """Returns whether a model can read packed rows."""
    return model.config._attn_implementation == ATTENTION and has_full_attention(model)


def read_packed(model: Any) -> None:
    """Makes a model read packed rows if it can: if it gives them the logits of a plain row, tried on four tokens.

    Some models do not hand on to their attention what it needs for this.
    """
    if not has_full_attention(model):
        return
    before, ids = model.config._attn_implementation, torch.tensor([0, 1, 2, 3], device=model.device)
    with torch.no_grad():
        plain = model(input_ids=ids[None]).logits
        try:
            model.set_attn_implementation(ATTENTION)
            difference = (model(**packed([ids[:2], ids[2:]], [None, 0])).logits - plain).abs().max()
        except Exception:  # each model that cannot read them fails in its own way
            difference = torch.inf
    if not difference <= (1e-4 if plain.dtype == torch.float32 else 0.05) * plain.abs().max():  # NaN is no success
        model.set_attn_implementation(before)


def packed(rows: Sequence[torch.Tensor], prefixes: Sequence[int | None]) -> dict[str, Any]:
    """Returns rows of tokens, `[L]` each and none empty, as the arguments of one forward pass, `[1, T]`.

    A prefix is the number of a row, itself without one, that a row goes on from; None if it stands for itself.
    """
    begins = [0 if prefix is None else len(rows[prefix]) for prefix in prefixes]
    positions = [
        torch.arange(begin, begin + len(row), device=row.device) for row, begin in zip(rows, begins, strict=True)
    ]
    return {
        "input_ids": torch.cat([*rows])[None],
        "attention_mask": torch.empty(1, 1, 0, 0),  # has four dimensions, so transformers makes none for all tokens
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
        return output.reshape(query.size(0), 1, -1, value.size(3)), None
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
    return [
        scaled_dot_product_attention(
            q[None], k[None], v[None], causal_lower_right(q.size(1), k.size(1)), scale=scaling, enable_gqa=True
        )[0]
        for q, k, v in rows
    ]


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
        outputs |= zip(members, (weights @ v).view(len(members), -1, height, v.size(2)), strict=True)
    return [outputs[i][:, : q.size(1)] for i, (q, _, _) in enumerate(rows)]


@functools.lru_cache(maxsize=16)
def _penalties(heads: int, rows: int, columns: int, begin: int) -> torch.Tensor:
    """Returns what is added to scores of several heads whose queries begin at a key: minus infinity for keys beyond."""
    beyond = torch.ones(rows, columns, dtype=torch.bool).triu(begin + 1)
    return torch.zeros(rows, columns, dtype=torch.bfloat16).masked_fill(beyond, -torch.inf).repeat(heads, 1)


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
