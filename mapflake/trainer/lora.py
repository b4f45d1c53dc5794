"""Checkpoints of LoRA (Hu et al. 2021): an adapter, and where the checkpoint is that it was trained on.

The adapter of a round of Qwen3-1.7B takes a fiftieth of the room of its weights. A checkpoint may stand on another one
of the kind, down to whole weights or a name on the hub: they are added up as the policy is loaded. Not covered:
adapters that were trained elsewhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from mapflake.extras import needs

with needs("train"):
    from peft import LoraConfig, PeftModel, get_peft_model

from mapflake import repro
from mapflake.trainer import checkpoint
from mapflake.trainer.params import LoraParams

PARENT = checkpoint.PARENT


def configuration(params: LoraParams) -> LoraConfig:
    """Returns peft's configuration: adapters on all linear layers but the output head."""
    return LoraConfig(r=params.rank, lora_alpha=params.alpha, target_modules="all-linear", task_type="CAUSAL_LM")


def with_adapters(model: Any, params: LoraParams) -> PeftModel:
    """Returns the model with new adapters, which alone are trained."""
    return get_peft_model(model, configuration(params))


def is_adapted(model: Any) -> bool:
    """Returns whether a model has adapters."""
    return hasattr(model, "merge_and_unload")


def write_adapter(model: PeftModel, parent: str | Path, folder: Path, at: Path) -> None:
    """Writes a model's adapters to `folder`, with the checkpoint that they change, or its name on the hub (`parent`).

    `at` is where the folder will be: the parent's path is relative to it, so that both can be moved together.
    """
    here = Path(parent).is_dir()
    for config in model.peft_config.values():  # for peft alone; it would write a path of this machine
        config.base_model_name_or_path = "" if here else str(parent)
    model.save_pretrained(folder, save_embedding_layers=False)  # to see whether they changed, it would ask the hub
    (folder / "README.md").unlink(missing_ok=True)  # peft's card, a form
    about = {
        "checkpoint": os.path.relpath(Path(parent).resolve(), at.resolve()) if here else str(parent),
        "sha256": checkpoint.weights_sha256(parent) if here else str(parent),
    }
    repro.write_json(folder / PARENT, about)


def parent_of(folder: str | Path) -> str | Path | None:
    """Returns the checkpoint that an adapter stands on, or its name on the hub; None of whole weights.

    Raises:
        CheckpointError: It is not the one on which the adapter was trained, or is not there.
    """
    path = Path(folder) / PARENT
    if not path.is_file():
        return None
    about = repro.read_json(path)
    if about["checkpoint"] == about["sha256"]:
        return str(about["checkpoint"])
    parent = Path(os.path.normpath(Path(folder) / about["checkpoint"]))
    if not parent.is_dir():
        raise checkpoint.CheckpointError(f"{folder}: an adapter of {parent}, which is not there")
    if (found := checkpoint.weights_sha256(parent)) != about["sha256"]:
        raise checkpoint.CheckpointError(
            f"{folder}: an adapter of weights with the hash {about['sha256']}; those of {parent} have {found}"
        )
    return parent


def merged(model: Any, folder: str | Path) -> Any:
    """Returns the model of an adapter's parent with the adapter added to its weights."""
    return PeftModel.from_pretrained(model, str(folder)).merge_and_unload()
