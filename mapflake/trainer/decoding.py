"""Batched sampling with a KV cache for any `transformers` causal LM: the one generation path of this repo on CPU.

`generate` has the same greedy tokens at a fraction of the rate: it spends most of its time around a small model, not in
it. Prompts are read once, rows that have ended leave the batch, and a sample does not depend on its batch (up to
floating point). Not covered: beams, stop strings, logits processors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mapflake.extras import needs

with needs("train"):
    import torch
    from transformers import DynamicCache, PreTrainedModel
    from transformers.cache_utils import DynamicLayer

ROOM = 64  # positions that the cache grows by
CACHE = 2**29  # numbers in the keys and values of a batch: 2 GiB in float32


@dataclass(frozen=True)
class Decoded:
    """The tokens of one completion, the closing eos included if it was reached, and their log-probabilities."""

    ids: list[int]
    logps: list[float]


class _RoomyLayer(DynamicLayer):
    """Keys and values of a layer with room for more, so that a step writes its own and copies no others."""

    keys: torch.Tensor
    values: torch.Tensor
    room: tuple[torch.Tensor, torch.Tensor] | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns all keys and values `[B, H, T, D]`, those of this step at the end."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.get_seq_length()
        end = length + key_states.size(2)
        if self.room is None or self.keys.data_ptr() != self.room[0].data_ptr() or end > self.room[0].size(2):
            buffers = []  # at first, where rows were selected, and where there is no room left
            for cached, states in ((self.keys, key_states), (self.values, value_states)):
                buffer = states.new_empty(*states.shape[:2], end + ROOM, states.size(3))
                if length:
                    buffer[:, :, :length] = cached
                buffers.append(buffer)
            self.room = (buffers[0], buffers[1])
        for buffer, states in zip(self.room, (key_states, value_states), strict=True):
            buffer[:, :, length:end] = states
        self.keys, self.values = (buffer[:, :, :end] for buffer in self.room)
        return self.keys, self.values


@torch.no_grad()
def decode(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    *,
    n: int,
    temperature: float,
    max_new_tokens: int,
    eos: int,
    rng: np.random.Generator,
    batch_size: int = 256,
    progress: Callable[[int], object] = lambda rows: None,
    mask: Callable[[list[list[int]]], torch.Tensor] | None = None,
) -> list[Decoded]:
    """Returns n completions for each prompt, up to `eos` or cut off: prompt-major, `[len(prompts) * n]`.

    Temperature 0 takes the most likely token. `rng` gives one uniform number for each (row, position). A batch has
    `batch_size` rows, at least n, and fewer where their keys and values would take too much memory; `progress` gets the
    number of its rows as it ends. `mask` takes the tokens of each live row so far and gives those that may come next,
    bool `[B, V]`.
    """
    noise = torch.from_numpy(rng.random((len(prompts) * n, max_new_tokens))).float().clamp_max(1 - 2**-24)
    completions: dict[int, Decoded] = {}
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    config: Any = model.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token_size = 2 * config.num_hidden_layers * heads * width  # numbers in the keys and values of a token
    max_length = max(map(len, prompts), default=0) + max_new_tokens
    num_prompts = max(1, min(batch_size, CACHE // (max_length * token_size)) // n)
    was_training = model.training
    model.eval()
    try:
        for first in range(0, len(order), num_prompts):
            indices = order[first : first + num_prompts]
            rows = [i * n + j for i in indices for j in range(n)]
            batch, batch_noise = [prompts[i] for i in indices], noise[rows].to(model.device)
            decoded = _decode_batch(model, batch, n, temperature, max_new_tokens, eos, batch_noise, mask)
            completions.update(zip(rows, decoded, strict=True))
            progress(len(rows))
    finally:
        model.train(was_training)
    return [completions[row] for row in range(len(completions))]


def _decode_batch(
    model: PreTrainedModel,
    prompts: Sequence[Sequence[int]],
    n: int,
    temperature: float,
    max_new_tokens: int,
    eos: int,
    noise: torch.Tensor,
    allowed: Callable[[list[list[int]]], torch.Tensor] | None,
) -> list[Decoded]:
    device = model.device
    width = max(map(len, prompts))
    ids = torch.tensor([[eos] * (width - len(p)) + list(p) for p in prompts], device=device)  # left padding: [B, P]
    lengths = torch.tensor([len(p) for p in prompts], device=device)
    mask = (torch.arange(width, device=device) >= width - lengths[:, None]).long()
    cache = DynamicCache(config=model.config)
    cache.layers = [_RoomyLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    padded = bool((lengths < width).any())
    last = torch.tensor([width - 1], device=device)  # a number gives a view, for which PyTorch may copy the head
    logits = model(
        input_ids=ids,
        attention_mask=mask if padded else None,
        position_ids=(mask.cumsum(-1) - 1).clamp_min(0),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=last,
    ).logits[:, -1]
    if n > 1:
        cache.batch_repeat_interleave(n)
        logits, mask, lengths = (x.repeat_interleave(n, dim=0) for x in (logits, mask, lengths))

    total = len(prompts) * n
    tokens = torch.full((total, max_new_tokens), eos, device=device)
    logps = torch.zeros((total, max_new_tokens), device=device)
    ends = torch.full((total,), max_new_tokens, device=device)
    row_of = torch.arange(total, device=device)  # row of each line of the shrinking batch
    finished = torch.zeros(total, dtype=torch.bool, device=device)
    for step in range(max_new_tokens):
        if allowed is not None:
            logits = logits.masked_fill(~allowed(tokens[row_of, :step].tolist()).to(device), -torch.inf)
        token, logp = _pick(logits.float(), temperature, noise[row_of, step])
        tokens[row_of, step] = token
        logps[row_of, step] = logp
        stops = (token == eos) & ~finished
        ends[row_of[stops]] = step + 1
        finished = finished | stops
        num_live = int((~finished).sum())
        if num_live == 0 or step + 1 == max_new_tokens:
            break
        if num_live <= 0.75 * len(finished):  # copying the cache costs about one step: shrink only when it pays
            survivors = (~finished).nonzero()[:, 0]
            cache.batch_select_indices(survivors)
            row_of, token, mask, lengths, finished = (x[survivors] for x in (row_of, token, mask, lengths, finished))
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        logits = model(
            input_ids=token[:, None],
            attention_mask=mask if padded else None,
            position_ids=(lengths + step)[:, None],
            past_key_values=cache,
            use_cache=True,
        ).logits[:, -1]
    rows = zip(tokens.tolist(), logps.tolist(), ends.tolist(), strict=True)
    return [Decoded(t[:end], p[:end]) for t, p, end in rows]


def _pick(logits: torch.Tensor, temperature: float, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the next token of each row and its log-probability at the sampling temperature: `[B]`, `[B]`."""
    logp = torch.log_softmax(logits / temperature if temperature not in (0, 1) else logits, dim=-1)
    if temperature > 0:  # inverse transform sampling: the first token whose cumulated mass exceeds the noise
        mass = logp.exp().cumsum(-1)
        token = torch.searchsorted(mass, noise[:, None] * mass[:, -1:], right=True)[:, 0]
    else:
        token = logp.argmax(-1)
    return token, logp.gather(-1, token[:, None])[:, 0]
