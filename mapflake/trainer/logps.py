"""Log-probabilities of completions with their gradient, without reading anything twice or reading padding.

The numbers are those of a plain forward pass over `[prompt | completion]` (tests/trainer/test_logps.py). A prompt that
several completions share is read once; a completion without a token that counts is not read at all. A small model reads
completions in buckets of similar lengths; one that reads packed rows (`packing`) takes them all in one pass. Where
`logits_fit`; not covered: sliding windows, recurrent layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from mapflake.extras import needs

with needs("train"):
    import torch
    from torch.nn.functional import pad
    from transformers import DynamicCache

from mapflake.trainer.packing import has_full_attention, packed, reads_packed

BUCKET = 64  # completions of similar length in one forward pass
LOGITS = 2**28  # of a microbatch: 1 GiB in float32, held a few times over


def logits_fit(model: Any, rows: int, length: int) -> bool:
    """Returns whether `completion_logps` suits a model and microbatches of so many completions and tokens."""
    return has_full_attention(model) and rows * length * model.config.vocab_size <= LOGITS


def completion_logps(
    model: Any, ids: torch.Tensor, mask: torch.Tensor, length: int, temperature: float = 1.0
) -> torch.Tensor:
    """Returns the log-probability of the last `length` tokens of each row, 0 where `mask` is 0: `[B, length]`.

    Rows are `[prompt, left-padded | completion, right-padded]`; `ids` and `mask`, 0 at padding, are `[B, P + length]`.
    """
    split = ids.size(1) - length
    lengths = mask[:, split:].sum(1)
    rows = lengths.nonzero()[:, 0]
    if not len(rows):  # a gradient must be there, if only of zeros: data parallelism waits for it
        rows = lengths.new_zeros(1)
    rows = rows[lengths[rows].argsort(stable=True)]

    prompt_rows, prompt_of = torch.unique(
        ids[rows, :split].masked_fill(mask[rows, :split] == 0, -1), dim=0, return_inverse=True
    )
    if reads_packed(getattr(model, "module", model)):
        prompts = [row[row >= 0] for row in prompt_rows]
        completions = [ids[row, split : split + int(lengths[row].clamp_min(1))] for row in rows]
        logps = _packed_logps(model, prompts, prompt_of.tolist(), completions, temperature)
        table = torch.stack([pad(values, (0, length - len(values))) for values in logps]) * mask[rows, split:]
        return torch.zeros(len(ids), length, device=ids.device).index_copy(0, rows, table)
    prompt_rows = prompt_rows[:, int((prompt_rows == -1).sum(1).min()) :]  # columns that are padding in all
    prompt_mask = (prompt_rows >= 0).long()
    prefix = model(
        input_ids=prompt_rows.clamp_min(0),
        attention_mask=prompt_mask,
        past_key_values=DynamicCache(),
        use_cache=True,
        logits_to_keep=1,
    )
    parts = []
    for bucket, index in zip(rows.split(BUCKET), prompt_of.split(BUCKET), strict=True):
        width = max(1, int(lengths[bucket].max()))
        tokens, counts = ids[bucket, split : split + width], mask[bucket, split : split + width]
        logits = prefix.logits[index]
        if width > 1:
            output = model(
                input_ids=tokens[:, :-1],
                attention_mask=torch.cat([prompt_mask[index], counts[:, :-1]], 1),
                past_key_values=DynamicCache(
                    [(keys[index], values[index]) for keys, values, *_ in prefix.past_key_values]
                ),
                use_cache=True,
            )
            logits = torch.cat([logits, output.logits], 1)
        logps = torch.log_softmax(logits.float() / temperature, -1).gather(-1, tokens[..., None])[..., 0]
        parts.append(pad(logps * counts, (0, length - width)))
    return torch.zeros(len(ids), length, device=ids.device).index_copy(0, rows, torch.cat(parts))


def _packed_logps(
    model: Any,
    prompts: Sequence[torch.Tensor],
    prompt_of: Sequence[int],
    completions: Sequence[torch.Tensor],
    temperature: float,
) -> tuple[torch.Tensor, ...]:
    """Returns the log-probabilities of each completion's tokens, in one pass; `prompt_of`: number of its prompt."""
    indices = [i for i, tokens in enumerate(completions) if len(tokens) > 1]
    rows = [*prompts, *(completions[i][:-1] for i in indices)]  # nothing follows a last token
    lengths = [len(prompt) for prompt in prompts]
    positions = [end - 1 for end in accumulate(lengths)] + [*range(sum(lengths), sum(map(len, rows)))]
    places, next_place = [], len(prompts)  # for each token, which of the kept positions predicts it
    for prompt, tokens in zip(prompt_of, completions, strict=True):
        places += [prompt, *range(next_place, next_place + len(tokens) - 1)]
        next_place += len(tokens) - 1
    batch = packed(rows, [None] * len(prompts) + [prompt_of[i] for i in indices])
    targets = torch.cat([*completions])
    logits = model(**batch, logits_to_keep=torch.tensor(positions, device=targets.device)).logits[0].float()
    logps = torch.log_softmax(logits / temperature if temperature != 1 else logits, -1)
    return logps[torch.tensor(places, device=targets.device), targets].split([len(tokens) for tokens in completions])
