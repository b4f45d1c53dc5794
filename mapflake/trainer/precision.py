"""The precision of matrix products on a CPU: which one a training takes, and bfloat16 products with float32 weights.

Not covered: GPUs, which train in bfloat16 through accelerate's autocast.
"""

from __future__ import annotations

import copy
import functools
import os
import time
from pathlib import Path
from typing import Any, Literal

from mapflake.extras import needs

with needs("train"):
    import torch
    from torch import nn
    from torch.optim.optimizer import register_optimizer_step_post_hook
    from transformers import PreTrainedModel

from mapflake import repro
from mapflake.trainer import checkpoint
from mapflake.trainer.params import Precision

# oneDNN keeps what it compiled for the last 1,024 shapes, and each step has new ones: 10 GiB with AMX (reports/log.md).
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")


@functools.cache
def of_processor() -> Literal["float32", "bfloat16"]:
    """Returns bfloat16 if this processor multiplies it in less than 0.8 of float32's time, which is worth its rounding.

    Both are timed, in less than a second: with avx512_bf16, AMD's processors multiply bfloat16 in half the time of
    float32, and some of Intel's in twice the time.
    """
    capabilities = torch.cpu.get_capabilities()
    if not (capabilities.get("avx512_bf16") or capabilities.get("amx_bf16")):
        return "float32"
    return "bfloat16" if product_seconds(torch.bfloat16) < 0.8 * product_seconds(torch.float32) else "float32"


def product_seconds(dtype: torch.dtype) -> float:
    """Returns the least CPU seconds that the products of a layer take: forward, for the inputs, for the weights.

    On one thread: where other work holds the cores, threads wait for one another, and waiting counts as CPU time.
    """
    sizes = (512, 576), (1536, 576), (512, 1536)  # 512 tokens, the largest layer of a model of 135M parameters
    x, weight, gradient = (torch.ones(size, dtype=dtype) for size in sizes)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times = []
    for _ in range(6):
        start = time.process_time()
        x @ weight.t(), gradient @ weight, gradient.t() @ x
        times.append(time.process_time() - start)
    torch.set_num_threads(threads)
    return min(times)


def settle(
    asked: Precision, start: str | Path | None = None, saves: Path | None = None
) -> Literal["float32", "bfloat16"]:
    """Returns the precision of a training or of sampling.

    `auto` is that in which an unfinished training in `saves` (`checkpoint.resumable`) began, else that in which `start`
    was trained, else the processor's: a run that moves to another machine keeps its precision.
    """
    path = saves and saves / "precision.txt"
    saved = path.read_text() if path and path.is_file() else None
    precision: Any = asked
    if asked == "auto":
        precision = saved or (start and checkpoint.precision_of(Path(start))) or of_processor()
    if path and saved != precision:  # of several processes each finds it written by the process that started them
        repro.write_text(path, precision)
    return precision  # type: ignore[no-any-return]


_STEPS = [0]  # of all optimizers: a fused one changes weights and leaves their version as it was


def _count(*_: object) -> None:
    _STEPS[0] += 1


register_optimizer_step_post_hook(_count)


class _Rounded(torch.autograd.Function):
    """A weight's bfloat16 copy, whose gradient goes to the weight in float32."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
        return copy.view_as(copy)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0].float(), None


def compute_in_bfloat16(model: PreTrainedModel) -> None:
    """Makes a float32 model compute in bfloat16, whatever calls it; its weights and their gradients stay float32.

    The copies are made once after each change of the weights. Autocast makes them anew for each microbatch and, without
    gradients, for each decoded token, and it casts the activations before each product.
    """
    model_forward = model.forward
    copies: dict[nn.Parameter, tuple[tuple[int, int], torch.Tensor]] = {}

    def rounded(weight: nn.Parameter) -> torch.Tensor:
        new_version = (weight._version, _STEPS[0])
        version, half = copies.get(weight, (None, None))
        if half is None:
            half = weight.detach().bfloat16()
        elif version != new_version:
            half.copy_(weight.detach())
        copies[weight] = (new_version, half)
        result: torch.Tensor = _Rounded.apply(weight, half)  # type: ignore[no-untyped-call]
        return result

    @functools.wraps(model_forward)  # trainers look at its signature
    def forward(*args: Any, **kwargs: Any) -> Any:
        places = [(m, n, w) for m in model.modules() for n, w in m._parameters.items() if w is not None]
        by_weight = {weight: rounded(weight) for *_, weight in places}
        try:
            for module, name, weight in places:
                module._parameters[name] = by_weight[weight]  # type: ignore[assignment]
            return model_forward(*args, **kwargs)
        finally:
            for module, name, weight in places:
                module._parameters[name] = weight

    model.forward = forward  # type: ignore[method-assign]


def frozen_copy(model: PreTrainedModel) -> PreTrainedModel:
    """Returns a copy that computes as `model` does now and is not trained."""
    frozen = copy.deepcopy(model).requires_grad_(False)
    if "forward" in vars(frozen):  # of `compute_in_bfloat16`: it would compute with the weights of `model`
        del frozen.forward
        for weight in frozen.parameters():  # buffers stay as they are, the frequencies of positions among them
            weight.data = weight.data.bfloat16()
    return frozen
