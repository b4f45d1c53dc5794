"""Rows of different lengths as one row without padding: attention stays within each of them, and in its prefix.

The numbers are those of padded rows (tests/trainer/test_packing.py). Nothing is computed for padding, logits are those
of the tokens that count alone, and a prompt that several rows begin with is read once. That pays for large models; for
a small one the rows' own calls of attention cost more. Not covered: sliding windows, recurrent layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mapflake.extras import needs

with needs("train"):
    import torch
    from torch.nn.functional import scaled_dot_product_attention
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

ATTENTION = "packed"
"""The attention implementation of models that read packed rows; other input they read as with `sdpa`."""


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
    device = rows[0].device
    masks = [
        None if prefix is None else torch.ones(len(row), begin + len(row), dtype=torch.bool, device=device).tril(begin)
        for row, prefix, begin in zip(rows, prefixes, begins, strict=True)
    ]
    positions = [torch.arange(begin, begin + len(row), device=device) for row, begin in zip(rows, begins, strict=True)]
    return {
        "input_ids": torch.cat([*rows])[None],
        "position_ids": torch.cat(positions)[None],
        "lengths": [len(row) for row in rows],
        "prefixes": prefixes,
        "masks": masks,
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
    masks: Sequence[torch.Tensor | None] = (),
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """Returns causal attention within each row and its prefix, `[1, T, H, D]`; the states are `[1, H, T, D]`."""
    if lengths is None and query.size(2) > 1:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    if lengths is None:  # one token of each row, as in sampling: heads that share keys are read as tokens, not copied
        grouped = query.reshape(key.size(0), key.size(1), -1, key.size(3))
        output = scaled_dot_product_attention(grouped, key, value, attn_mask=attention_mask, scale=scaling)
        return output.reshape(query.size(0), 1, -1, key.size(3)), None
    dtype = torch.float32 if query.is_cpu else query.dtype  # in bfloat16 its backward pass is slow on a CPU
    queries, keys, values = (states.to(dtype).split(lengths, dim=2) for states in (query, key, value))
    outputs = []
    for q, k, v, prefix, mask in zip(queries, keys, values, prefixes, masks, strict=True):
        if prefix is not None:
            k, v = torch.cat([keys[prefix], k], 2), torch.cat([values[prefix], v], 2)
        mask_options = {"is_causal": True} if mask is None else {"attn_mask": mask}
        outputs.append(scaled_dot_product_attention(q, k, v, scale=scaling, enable_gqa=True, **mask_options))
    return torch.cat(outputs, 2).transpose(1, 2).to(query.dtype), None


AttentionInterface.register(ATTENTION, _attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
