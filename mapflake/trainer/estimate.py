"""A rule of thumb for the memory, tokens and time of a GRPO round, printed before it begins.

Parameters, cache and tokens are counted from the model's configuration, for completions of full length. Activations are
our rule of thumb: 37 kB a token by it and by measurement for the default policy, not measured for real LLMs. Time
assumes a share of the measured matrix peak. Not covered: fragmentation, other work on the machine.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from mapflake.trainer.round_trainer import LARGE_VOCABULARY

if TYPE_CHECKING:
    from mapflake.trainer.params import RLParams

logger = logging.getLogger(__name__)

GIB = 2**30
UTILISATION = 0.3  # of the measured matrix peak, in training; sampling reads all weights for every token
VLLM_SHARE = 0.3  # of the GPU, TRL's default for colocated vLLM


class DoesNotFit(RuntimeError):
    """The round needs more memory than there is; the message has the estimate."""


@dataclass(frozen=True)
class Estimate:
    """The needs of one process of a round in bytes, and the length of the round.

    Attributes:
        parameters: Number of parameters of the model.
        trained: Number of parameters that have gradients.
        weights: Bytes of all weights, and of the gradients and moments of the trained ones.
        cache: Bytes of keys and values while sampling; with colocated vLLM, its share of the GPU.
        activations: Bytes of the activations of one microbatch in training.
        available: Bytes of the device's memory that are free now.
        tokens: Number of tokens read and written in the round if all completions have full length.
        seconds: Time for these at the measured matrix peak times `UTILISATION`.
    """

    parameters: int
    trained: int
    weights: int
    cache: int
    activations: int
    available: int
    tokens: int
    seconds: float

    def __str__(self) -> str:
        needed = self.weights + max(self.cache, self.activations)
        hours = self.seconds / 3600
        length = f"{hours:.1f} hours" if hours > 1.5 else f"{max(1, round(60 * hours))} minutes"
        return (
            f"by a rule of thumb, a round needs up to {needed / GIB:.2f} GiB a process (weights, gradients, moments "
            f"{self.weights / GIB:.2f}; then cache {self.cache / GIB:.2f} or activations "
            f"{self.activations / GIB:.2f}), {self.available / GIB:.2f} are free; {self.parameters / 1e6:.2f}M "
            f"parameters, {self.trained / 1e6:.2f}M of them trained; at most {self.tokens / 1e6:.2f}M tokens, "
            f"for so many about {length}"
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
    tokens = params.steps * params.prompts * params.generations * length
    return Estimate(
        parameters=parameters,
        trained=trained,
        weights=(parameters * width + trained * 12) // shards,
        cache=cache,
        activations=params.microbatch * length * per_token * value,
        available=available,
        tokens=tokens,
        seconds=tokens * parameters * (6 + 2) / params.processes / (_peak() * UTILISATION),  # training, and sampling
    )


def _memory() -> tuple[int, int]:
    """Returns (free, total) bytes of this process's device."""
    if torch.cuda.is_available():
        return torch.cuda.mem_get_info(int(os.environ.get("LOCAL_RANK", 0)))
    memory = psutil.virtual_memory()
    return memory.available, memory.total


@functools.cache
def _peak() -> float:
    """Returns the floating-point operations a second of a large matrix product, measured now."""
    cuda = torch.cuda.is_available()
    n, kind = (8192, torch.bfloat16) if cuda else (512, torch.float32)
    a = torch.ones(n, n, dtype=kind, device="cuda" if cuda else "cpu")
    best = float("inf")
    for _ in range(4):
        began = time.perf_counter()
        a @ a
        if cuda:
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - began)
    return 2 * n**3 / best
