"""Weights of a checkpoint as a model: whole ones, or adapters (LoRA, Hu et al. 2021) with the weights they stand on.

A checkpoint may stand on another one of the kind, down to whole weights or a name on the hub: they are added up as the
policy is loaded. Not covered: adapters that were trained elsewhere.
"""

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
    from peft import LoraConfig, PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
    from transformers.utils.logging import disable_progress_bar

from mapflake import repro
from mapflake.trainer import checkpoint
from mapflake.trainer.params import LoraParams

disable_progress_bar()  # a bar for every file that is read or written would bury our own


def lora_config(params: LoraParams) -> LoraConfig:
    """Returns peft's configuration: adapters on all linear layers but the output head."""
    return LoraConfig(r=params.rank, lora_alpha=params.alpha, target_modules="all-linear", task_type="CAUSAL_LM")


def is_adapted(model: Any) -> bool:
    """Returns whether a model has adapters."""
    return hasattr(model, "merge_and_unload")


def write_adapter(model: PeftModel, parent: str | Path, folder: Path, at: Path) -> None:
    """Writes a model's adapters to `folder`, with the checkpoint that they change, or its name on the hub (`parent`).

    `at` is where the folder will be: the parent's path is relative to it, so that both can be moved together.
    """
    is_folder = Path(parent).is_dir()
    for config in model.peft_config.values():  # for peft alone; it would write a path of this machine
        config.base_model_name_or_path = "" if is_folder else str(parent)
    model.save_pretrained(folder, save_embedding_layers=False)  # to see whether they changed, it would ask the hub
    (folder / "README.md").unlink(missing_ok=True)  # peft's card, a form
    record = {
        "checkpoint": os.path.relpath(Path(parent).resolve(), at.resolve()) if is_folder else str(parent),
        "sha256": checkpoint.origin_of(parent),
    }
    repro.write_json(folder / checkpoint.PARENT, record)


def parent_of(folder: str | Path) -> str | Path | None:
    """Returns the checkpoint that an adapter stands on, or its name on the hub; None of whole weights.

    Raises:
        CheckpointError: It is not the one on which the adapter was trained, or is not there.
    """
    path = Path(folder) / checkpoint.PARENT
    if not path.is_file():
        return None
    record = repro.read_json(path)
    if record["checkpoint"] == record["sha256"]:
        return str(record["checkpoint"])
    parent = (Path(folder).resolve() / record["checkpoint"]).resolve()
    if not parent.is_dir():
        raise checkpoint.CheckpointError(f"{folder}: an adapter of {parent}, which is not there")
    if (parent_hash := checkpoint.weights_sha256(parent)) != record["sha256"]:
        raise checkpoint.CheckpointError(
            f"{folder}: an adapter of weights with the hash {record['sha256']}; those of {parent} have {parent_hash}"
        )
    return parent


def load_chain(path: str | Path, dtype: torch.dtype, **options: Any) -> PreTrainedModel:
    """Returns the model in a checkpoint: of an adapter, the sum of all that it stands on.

    The sum is rounded to `dtype` once: a change of less than half a unit of a bfloat16 weight counts with later ones.
    """
    parent = parent_of(path)
    if parent is None:
        return load_model(path, dtype, **options)
    if isinstance(parent, Path):
        checkpoint.verify(parent)
    base: Any = load_chain(parent, torch.float32, **options)
    model: Any = PeftModel.from_pretrained(base, str(path)).merge_and_unload().requires_grad_(True)
    for weight in model.parameters():  # buffers stay as they are, the frequencies of positions among them
        weight.data = weight.data.to(dtype)
    model.config.dtype = dtype
    return model  # type: ignore[no-any-return]


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
    problems: dict[str, Any] = {key: value for key, value in info.items() if value}
    if problems:  # a missing tensor would be a random one
        raise checkpoint.CheckpointError(f"{path}: the weights do not fit the configuration: {problems}")
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise checkpoint.CheckpointError(f"{path}: {name} holds values that are not finite")
    return model


@contextmanager
def whole(path: str | Path) -> Iterator[str]:
    """Gives a folder with whole weights for as long as it is needed, for programs that read no chain of adapters."""
    if parent_of(path) is None:
        yield str(path)
        return
    checkpoint.verify(Path(path))
    with tempfile.TemporaryDirectory() as folder:
        model = load_chain(path, torch.bfloat16 if torch.cuda.is_available() else torch.float32)
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(path, trust_remote_code=False).save_pretrained(folder)
        del model  # a GPU's memory is needed by what reads it
        yield folder
