"""What runs inside vLLM's own processes: grammars over words, and weights that a trainer sends. Imported by vLLM alone.

For vLLM's first model runner. Not covered: weights on CUDA, where TRL sends them in its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mapflake.extras import needs

with needs("gpu"):
    import torch
    from safetensors.torch import load_file
    from transformers import AutoTokenizer
    from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from mapflake.trainer.constrain import grammar_mask


class Grammar(AdapterLogitsProcessor):
    """Keeps a request to the grammar in its `extra_args`: vLLM's own grammars cannot name a word-level token."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        super().__init__(vllm_config, device, is_pin_memory)
        self.tokenizer = AutoTokenizer.from_pretrained(vllm_config.model_config.tokenizer, trust_remote_code=False)
        self.width = vllm_config.model_config.get_vocab_size()

    def is_argmax_invariant(self) -> bool:
        """Returns that the most likely token may change."""
        return False

    def new_req_logits_processor(self, params: Any) -> Callable[[list[int], torch.Tensor], torch.Tensor] | None:
        """Returns the function of the tokens so far and their logits `[V]`, None for a request without a grammar."""
        grammar = (params.extra_args or {}).get("grammar")
        if grammar is None:
            return None
        mask = grammar_mask(self.tokenizer, grammar, self.width)
        return lambda tokens, logits: logits.masked_fill(~mask([tokens])[0].to(logits.device), -torch.inf)


class Weights:
    """Extends vLLM's worker on a CPU by `take_weights`."""

    model_runner: Any

    def take_weights(self, path: str) -> None:
        """Loads the weights in a safetensors file, named as in a checkpoint, in place of those that it has.

        On a CPU vLLM multiplies by packed copies of the weights. `reload_weights` packs all anew but a tied output
        head, which belongs to the embedding's layer too: without the last line it would keep the old weights.
        """
        self.model_runner.reload_weights(weights_iterator=iter(load_file(path).items()))
        self.pack_head()

    def pack_head(self) -> None:
        """Packs the output head anew."""
        head = self.model_runner.get_model().lm_head
        head.quant_method.process_weights_after_loading(head)
