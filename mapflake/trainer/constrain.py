"""Decoding under a grammar: which tokens may come next, by llguidance. The texts are validated afterwards in any case.

vLLM's engine takes the same mask for a word-level tokenizer (vllm_worker.py), else its own. Not covered: the grammars
(whoever asks brings one), jump-ahead decoding, servers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from mapflake.extras import needs

with needs("train"):
    import llguidance
    import llguidance.hf
    import torch
    from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerBase

Mask = Callable[[Sequence[Sequence[int]]], torch.Tensor]
"""Takes the tokens that each row has so far; gives the tokens that may come next: bool `[B, V]`."""


def is_word_level(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Returns whether a token is a whole word, as in the compact vocabulary."""
    return isinstance(tokenizer.backend_tokenizer.model, WordLevel)


def grammar_mask(tokenizer: PreTrainedTokenizerBase, grammar: str, width: int) -> Mask:
    """Returns the mask of a grammar in llguidance's Lark; a completion that is whole may only end.

    With a word-level tokenizer the grammar names the word w as `<w>`. `width` is V, the columns of the model's logits:
    a model may have more than its tokenizer has tokens.

    Raises:
        ValueError: The grammar cannot be read.
    """
    prototype, size = _matcher(tokenizer, grammar, width)
    bits = allocate_token_bitmask(1, size)

    def mask(prefixes: Sequence[Sequence[int]]) -> torch.Tensor:
        allowed = np.zeros((len(prefixes), width), dtype=bool)
        for row, prefix in zip(allowed, prefixes, strict=True):
            if tokenizer.eos_token_id in prefix:  # it has ended and waits to leave the batch
                row[tokenizer.eos_token_id] = True
                continue
            matcher = prototype.deep_copy()  # one that has failed cannot be reset
            matcher.consume_tokens(list(prefix))
            fill_next_token_bitmask(matcher, bits, 0)  # the end alone if the matcher has failed, see `are_whole`
            row[:size] = np.unpackbits(bits[0].view(np.uint8), bitorder="little")[:size]
        return torch.from_numpy(allowed)

    return mask


def are_whole(tokenizer: PreTrainedTokenizerBase, grammar: str, completions: Iterable[Sequence[int]]) -> list[bool]:
    """Returns whether each completion, as token ids, is a text of the grammar up to its end.

    Others were cut off: by their length, or because the matcher failed (it has limits), which looks like an end.
    """
    prototype, _ = _matcher(tokenizer, grammar, len(tokenizer))

    def whole(completion: Sequence[int]) -> bool:
        matcher = prototype.deep_copy()
        *tokens, last = completion
        return last == tokenizer.eos_token_id and matcher.consume_tokens(tokens) and matcher.is_accepting()

    return [bool(completion) and whole(completion) for completion in completions]


def _matcher(tokenizer: PreTrainedTokenizerBase, grammar: str, width: int) -> tuple[llguidance.LLMatcher, int]:
    """Returns a matcher, and the number of tokens that it knows."""
    if is_word_level(tokenizer):
        ll_tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(_Words(tokenizer)))
    else:
        ll_tokenizer = llguidance.hf.from_tokenizer(tokenizer, n_vocab=width)
    matcher = llguidance.LLMatcher(ll_tokenizer, grammar)
    if matcher.is_error():
        raise ValueError(f"grammar: {matcher.get_error()}")
    return matcher, ll_tokenizer.vocab_size


class _Words:
    """A word-level tokenizer as llguidance wants one: every token is special, `<word>`, so none is spelled out."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.eos_token_id = tokenizer.eos_token_id
        self.bos_token_id = None
        self.tokens = [f"<{word}>".encode() for word in tokenizer.convert_ids_to_tokens(range(len(tokenizer)))]
        self.special_token_ids = list(range(len(tokenizer)))

    def __call__(self, text: str) -> list[int]:
        """Returns no token: a grammar over words forces no text."""
        return []
