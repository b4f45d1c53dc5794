"""A rule of thumb for the memory of a GRPO round, printed before it begins.

Parameters and cache are counted from the model's configuration, for completions of full length. Activations are our
rule of thumb: 37 kB a token by it and by measurement for the default policy, not measured for real LLMs. Not covered:
time, fragmentation, other work on the machine.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from mapflake.trainer.params import RLParams
from mapflake.trainer.round_trainer import LARGE_VOCABULARY

logger = logging.getLogger(__name__)

GIB = 2**30
VLLM_SHARE = 0.3  # of the GPU, TRL's default for colocated vLLM


class DoesNotFit(RuntimeError):
    """The round needs more memory than there is; the message has the estimate."""


@dataclass(frozen=True)
class Estimate:
    """The needs of one process of a round in bytes.

    Attributes:
        parameters: Number of parameters of the model.
        trained: Number of parameters that have gradients.
        weights: Bytes of all weights, and of the gradients and moments of the trained ones.
        cache: Bytes of keys and values while sampling; with colocated vLLM, its share of the GPU.
        activations: Bytes of the activations of one microbatch in training.
        available: Bytes of the device's memory that are free now.
    """

    parameters: int
    trained: int
    weights: int
    cache: int
    activations: int
    available: int

    def __str__(self) -> str:
        needed = self.weights + max(self.cache, self.activations)
        return (
            f"by a rule of thumb, a round needs up to {needed / GIB:.2f} GiB a process (weights, gradients, moments "
            f"{self.weights / GIB:.2f}; then cache {self.cache / GIB:.2f} or activations "
            f"{self.activations / GIB:.2f}), {self.available / GIB:.2f} are free; {self.parameters / 1e6:.2f}M "
            f"parameters, {self.trained / 1e6:.2f}M of them trained"
        )

    def checked(self) -> Estimate:
        """Returns the estimate itself; warns if completions of full length may not fit.

        Raises:
            DoesNotFit: Completions a quarter as long as they may be do not fit either.
        """
        turns = max(self.cache, self.activations)  # sampling and training take turns
        if self.weights + turns // 4 > self.available:
            raise DoesNotFit(f"{self}; it cannot fit: lower microbatch, max_new_tokens or prompts, or take LoRA")
        if self.weights + turns > self.available:
            logger.warning("the round may run out of memory if many completions get long")
        return self


def estimate_round(start: str | Path, params: RLParams, *, prompt_tokens: int = 128) -> Estimate:
    """Returns the estimate of a round from the checkpoint or hub model `start`; no weight is read.

    Args:
        start: Folder or name of the model, whose configuration is read.
        params: The parameters of the round.
        prompt_tokens: Length of a prompt, about.
    """
    config = AutoConfig.from_pretrained(start, trust_remote_code=False).get_text_config()
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)
    cuda, layers = torch.cuda.is_available(), config.num_hidden_layers
    parameters = trained = sum(p.numel() for p in model.parameters())
    if params.lora is not None:
        head_of = model.get_output_embeddings()
        linear = (m for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not head_of)
        trained = sum(params.lora.rank * (m.in_features + m.out_features) for m in linear)
    width = 2 if cuda and params.lora else 4  # bytes of a weight, see `load_model`
    shards = params.processes if params.sharding != "none" else 1
    length, value = prompt_tokens + params.max_new_tokens, 2 if cuda else 4  # bytes of an activation
    available, total = _memory()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = params.samples_a_process * length * 2 * layers * heads * head * value
    if params.vllm != "off":
        cache = int(VLLM_SHARE * total) if params.vllm == "colocate" else 0
    layer = 12 * config.hidden_size + 4 * config.intermediate_size
    per_token = layers * layer
    if config.vocab_size <= LARGE_VOCABULARY:
        per_token += 3 * config.vocab_size  # logits, which TRL's fused head does without
    elif cuda:  # checkpointed: one value a layer, and one layer in full
        per_token = layers * config.hidden_size + layer
    return Estimate(
        parameters=parameters,
        trained=trained,
        weights=(parameters * width + trained * 12) // shards,
        cache=cache,
        activations=params.microbatch * length * per_token * value,
        available=available,
    )


def _memory() -> tuple[int, int]:
    """Returns (free, total) bytes of this process's device."""
    if torch.cuda.is_available():
        return torch.cuda.mem_get_info(int(os.environ.get("LOCAL_RANK", 0)))
    memory = psutil.virtual_memory()
    return memory.available, memory.total
