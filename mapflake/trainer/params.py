"""The parameters of the trainer, separate from the code that uses them: importing them imports no torch."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, model_validator

from mapflake.repro import Params, plain, shown, whole

Precision = Literal["float32", "bfloat16", "auto"]
"""The precision of a CPU's matrix products, in training and sampling; trained weights and the optimizer stay float32.
`auto` takes bfloat16 where the processor multiplies it faster (`precision.settle`), which pays for models of 100M
parameters, not for the small policy. A GPU takes bfloat16."""


class ModelParams(Params):
    """Shape of the from-scratch policy: Qwen3's architecture in small (0.46M parameters as given here)."""

    hidden_size: int = Field(default=96, ge=8, le=65_536)
    layers: int = Field(default=4, ge=1, le=1024)
    heads: int = Field(default=4, ge=1, le=1024)
    intermediate_size: int = Field(default=256, ge=8, le=262_144)
    max_positions: int = Field(default=1024, ge=64, le=1_048_576)

    @model_validator(mode="after")
    def _even_heads(self) -> ModelParams:
        if self.hidden_size % (2 * self.heads):  # rotary position embeddings turn pairs of a head's numbers
            raise ValueError(
                f"hidden_size ({self.hidden_size}) must be a multiple of 2 x heads ({2 * self.heads}): each head has "
                "hidden_size / heads numbers, an even count"
            )
        return self


class LoraParams(Params):
    """Low-rank adapters instead of full training (Hu et al. 2021); a checkpoint then holds these alone (`weights`)."""

    rank: int = Field(default=32, ge=1)
    alpha: int = Field(default=64, ge=1)


class WarmStartParams(Params):
    """Supervised training: AdamW, linear warm-up, cosine decay to `final_share` of the peak learning rate.

    A policy that was not cooled down samples worse than it knows, and gains much more from a short GRPO round. `model`
    is the shape of a policy from scratch; one that comes pretrained has its own.
    """

    model: ModelParams = ModelParams()
    steps: int = Field(default=900, ge=1)
    batch_size: int = Field(default=48, ge=1)
    microbatch: int = Field(default=16, ge=1)
    learning_rate: float = Field(default=2e-3, gt=0)
    warmup_steps: int = Field(default=50, ge=0)
    final_share: float = Field(default=0.1, gt=0, le=1)
    save_every: int = Field(default=100, ge=1)
    lora: LoraParams | None = Field(default=None, exclude_if=lambda value: value is None)
    threads: int = Field(default=1, ge=1)
    precision: Precision = "float32"

    @model_validator(mode="after")
    def _divisible(self) -> WarmStartParams:
        if self.batch_size % self.microbatch:
            raise ValueError(f"microbatch ({self.microbatch}) must divide batch_size ({self.batch_size})")
        return self


class VllmParams(Params):
    """What vLLM may take, under its own names. A server is told in its command line, and found by its port."""

    max_model_len: int | None = Field(default=None, ge=1)  # tokens of prompt and completion; None: the model's own
    tensor_parallel_size: int = Field(default=1, ge=1)
    gpu_memory_utilization: float = Field(default=0.3, gt=0, le=1)  # share of the device, also of a CPU's memory
    server_port: int = Field(default=8000, ge=1, le=65_535)


class RLParams(Params):
    """GRPO of one round. An instance is seen `epochs` times; a step takes `prompts` instances x `generations` samples.

    `prompts` counts over all processes, `microbatch` within one. A step's samples are used for `iterations` optimizer
    steps (mu of Shao et al. 2024), from the second on with clipped ratios; `save_every` counts steps, `warmup_steps`
    optimizer steps. Groups without signal are replaced up to `redraws` times (`dynamic_sampling`). The paper has 4000
    instances and 2 epochs a round; learning rate and group size, which it does not state, are our choice.
    """

    instances: int = Field(default=640, ge=1)
    epochs: int = Field(default=2, ge=1)
    prompts: int = Field(default=64, ge=1)
    generations: int = Field(default=8, ge=2)
    iterations: int = Field(default=1, ge=1, exclude_if=lambda value: value == 1)  # as vllm_engine
    redraws: int = Field(default=0, ge=0, exclude_if=lambda value: value == 0)
    microbatch: int = Field(default=512, ge=1)
    learning_rate: float = Field(default=2e-4, gt=0)
    schedule: Literal["linear", "constant_with_warmup"] = "linear"
    warmup_steps: int = Field(default=3, ge=0)
    beta: float = Field(default=0.0, ge=0)
    temperature: float = Field(default=1.0, gt=0)
    max_new_tokens: int = Field(default=128, ge=1)
    lora: LoraParams | None = None
    vllm: Literal["off", "colocate", "server"] = "off"
    # Recorded only if it was set: records from before it was there have the same parameters.
    vllm_engine: VllmParams = Field(default=VllmParams(), exclude_if=lambda value: value == VllmParams())
    processes: int = Field(default=1, ge=1)
    sharding: Literal["none", "fsdp2"] = "none"
    save_every: int = Field(default=5, ge=1)
    threads: int = Field(default=1, ge=1)
    precision: Precision = "float32"

    @model_validator(mode="after")
    def _fits_together(self) -> RLParams:
        if self.instances % self.prompts:
            raise ValueError(f"instances ({self.instances}) must be a multiple of prompts ({self.prompts})")
        if self.prompts % self.processes:
            raise ValueError(f"prompts ({self.prompts}) must be a multiple of processes ({self.processes})")
        if self.samples_a_process % self.microbatch:
            raise ValueError(
                f"microbatch ({self.microbatch}) must divide prompts x generations / processes "
                f"({self.samples_a_process})"
            )
        if self.sharding != "none" and (self.processes == 1 or self.lora or self.vllm == "off"):
            raise ValueError(
                f"sharding ({self.sharding}) is for full training on several processes that vllm samples for: "
                "processes above 1, lora null, vllm colocate or server"
            )
        return self

    @property
    def samples_a_process(self) -> int:
        """Completions that one process samples for a step, in whole groups."""
        return self.prompts * self.generations // self.processes


def sampling(n: Any, temperature: Any, max_new_tokens: Any) -> dict[str, Any]:
    """Returns how many completions of a prompt are drawn and how, as Python's numbers; no temperature means 1.

    A temperature below 1e-6 is 0: logits divided by less than that may not be finite.

    Raises:
        ValueError: There is to be no completion, or none of at least one token, or the temperature is below 0 or none.
    """
    temperature = 1.0 if temperature is None else plain(temperature)
    if not (isinstance(temperature, int | float) and 0 <= temperature < math.inf):
        raise ValueError(f"temperature: {shown(temperature)} is not a finite number from 0 on")
    tokens = whole(max_new_tokens, "max_new_tokens", 1)
    return {
        "n": whole(n, "n", 1),
        "temperature": float(temperature) if temperature >= 1e-6 else 0.0,
        "max_new_tokens": tokens,
    }
