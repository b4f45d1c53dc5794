"""Weights of a checkpoint as a model: each of them there and finite, those of adapters added to what they stand on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mapflake.extras import needs

with needs("train"):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
    from transformers.utils.logging import disable_progress_bar

from mapflake.trainer import checkpoint
from mapflake.trainer.lora import merged, parent_of

disable_progress_bar()  # a bar for every file that is read or written would bury our own


def load_chain(path: str | Path, parent: str | Path | None, dtype: torch.dtype, **options: Any) -> PreTrainedModel:
    """Returns the model in a checkpoint: of an adapter on `parent`, the sum of all that it stands on."""
    if parent is None:
        return load_model(path, dtype, **options)
    if isinstance(parent, Path):
        checkpoint.verify(parent)
    found: PreTrainedModel = merged(load_chain(parent, parent_of(parent), dtype, **options), path)
    return found


def load_model(path: str | Path, dtype: torch.dtype, **options: Any) -> PreTrainedModel:
    """Returns the causal LM at `path` on the best device, each of its weights there and finite.

    Raises:
        CheckpointError: One is missing, unexpected or not finite.
    """
    cuda = torch.cuda.is_available()
    model, info = AutoModelForCausalLM.from_pretrained(
        path,
        trust_remote_code=False,
        use_safetensors=True,
        dtype=dtype,
        device_map=f"cuda:{os.environ.get('LOCAL_RANK', 0)}" if cuda else None,
        output_loading_info=True,
        **{"attn_implementation": "sdpa", **options},
    )
    wrong: dict[str, Any] = {key: value for key, value in info.items() if value}
    if wrong:  # a missing tensor would be a random one
        raise checkpoint.CheckpointError(f"{path}: the weights do not fit the configuration: {wrong}")
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise checkpoint.CheckpointError(f"{path}: {name} holds values that are not finite")
    return model


@contextmanager
def whole(path: str | Path) -> Iterator[str]:
    """Gives a folder with whole weights for as long as it is needed, for programs that read no chain of adapters."""
    parent = parent_of(path)
    if parent is None:
        yield str(path)
        return
    checkpoint.verify(Path(path))
    with tempfile.TemporaryDirectory() as folder:
        model = load_chain(path, parent, torch.bfloat16 if torch.cuda.is_available() else torch.float32)
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(path, trust_remote_code=False).save_pretrained(folder)
        del model  # a GPU's memory is needed by what reads it
        yield folder
