"""What a GRPO round will need, before it is begun: memory, tokens, floating-point operations, time.

Parameters, cache and tokens are counted from the model's configuration, for completions of full length. Activations are
our rule of thumb: 37 kB a token by it and by measurement for the default policy, not measured for real LLMs. Time is
rough. Not covered: fragmentation, what else runs on the machine.
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
    from mapflake.trainer.grpo import RLParams

logger = logging.getLogger(__name__)

GIB = 2**30
UTILISATION = 0.3  # of the measured matrix peak, in training; sampling reads all weights for every token
VLLM_SHARE = 0.3  # of the GPU, TRL's default for colocated vLLM


class DoesNotFit(RuntimeError):
    """The round needs more memory than there is; the message has the estimate."""


@dataclass(frozen=True)
class Estimate:
    """What one process of a round needs, in bytes, and what the round takes.

    Attributes:
        parameters: Of the model.
        trained: Parameters that have gradients.
        weights: With the gradients and moments of what is trained.
        cache: Keys and values while sampling; with colocated vLLM, the share of the GPU that it takes.
        activations: Of one microbatch in training.
        available: Memory of the device that is free now.
        tokens: Read and written in the round, at most: completions of full length.
        seconds: At the measured matrix peak times `UTILISATION`.
    """

    parameters: int
    trained: int
    weights: int
    cache: int
    activations: int
    available: int
    tokens: int
    seconds: float

    @property
    def needed(self) -> int:
        """Bytes at the worst moment, all completions at full length: sampling and training take turns."""
        return self.weights + max(self.cache, self.activations)

    @property
    def least(self) -> int:
        """Bytes without which it will not go: completions a quarter as long as they may be."""
        return self.weights + max(self.cache, self.activations) // 4

    def __str__(self) -> str:
        needed, weights, cache, activations, free = (
            f"{bytes / GIB:.2f}" for bytes in (self.needed, self.weights, self.cache, self.activations, self.available)
        )
        return (
            f"a round needs up to {needed} GiB a process (weights, gradients, moments {weights}; then cache {cache} or "
            f"activations {activations}), {free} are free; {self.parameters / 1e6:.2f}M parameters, "
            f"{self.trained / 1e6:.2f}M of them trained; at most {self.tokens / 1e6:.2f}M tokens, for so many "
            f"{_time(self.seconds)}"
        )

    def checked(self) -> Estimate:
        """Returns the estimate itself; warns if it may not fit.

        Raises:
            DoesNotFit: The least that is needed is more than is available.
        """
        if self.least > self.available:
            raise DoesNotFit(f"{self}; it cannot fit: lower microbatch, max_new_tokens or prompts, or take LoRA")
        if self.needed > self.available:
            logger.warning("the round may run out of memory if many completions get long")
        return self


def estimate_round(start: str | Path, params: RLParams, *, prompt_tokens: int = 128) -> Estimate:
    """Returns the estimate of a round from the checkpoint or hub model `start`; no weight is read.

    Args:
        start: Folder or name; its configuration decides.
        params: Of the round.
        prompt_tokens: Length of a prompt, about.
    """
    config = AutoConfig.from_pretrained(start, trust_remote_code=False).get_text_config()
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config)
    parameters = sum(p.numel() for p in model.parameters())
    trained = parameters if params.lora is None else _lora_parameters(model, params.lora.rank)
    shards = params.processes if params.sharding != "none" else 1
    width = 4 if params.lora is None or not torch.cuda.is_available() else 2  # bytes of a weight, see `load_model`
    length = prompt_tokens + params.max_new_tokens
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    activation = 2 if torch.cuda.is_available() else 4
    cache = params.samples_a_process * length * 2 * config.num_hidden_layers * heads * head * activation
    available, total = _memory()
    if params.vllm == "colocate":
        cache = int(VLLM_SHARE * total)
    elif params.vllm == "server":
        cache = 0
    layer = 12 * config.hidden_size + 4 * config.intermediate_size
    if config.vocab_size <= LARGE_VOCABULARY:
        per_token = config.num_hidden_layers * layer + 3 * config.vocab_size
    elif torch.cuda.is_available():  # checkpointed: one value a layer, and one layer in full
        per_token = config.num_hidden_layers * config.hidden_size + layer
    else:
        per_token = config.num_hidden_layers * layer
    tokens = params.steps * params.prompts * params.generations * length
    operations = tokens * parameters * (6 + 2) / params.processes  # training, and sampling
    return Estimate(
        parameters=parameters,
        trained=trained,
        weights=(parameters * width + trained * 12) // shards,
        cache=cache,
        activations=params.microbatch * length * per_token * activation,
        available=available,
        tokens=tokens,
        seconds=operations / (_peak() * UTILISATION),
    )


def _lora_parameters(model: Any, rank: int) -> int:
    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear) and m is not model.get_output_embeddings()]
    return sum(rank * (m.in_features + m.out_features) for m in linear)


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


def _time(seconds: float) -> str:
    return f"about {seconds / 3600:.1f} hours" if seconds > 5400 else f"about {max(1, round(seconds / 60))} minutes"
