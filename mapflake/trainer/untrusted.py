"""What is looked at in a checkpoint of unknown origin before anything of it is loaded or run.

A manifest says that a folder is whole, not who made it. Safetensors run no code, and code beside them is never
imported (`trust_remote_code=False`); left are files that lead elsewhere, a configuration that asks for more memory than
the files fill, and the chat template, a program. That one is tried in a process of its own with limits, once. Not
covered: a template that behaves with the message tried and not with others, the tokenizer's regular expressions.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import resource
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerBase

from mapflake.repro import read_json, shown
from mapflake.trainer.checkpoint import CheckpointError

MESSAGE = "\u241eprompt\u241e"
TEMPLATE_SECONDS, TEMPLATE_BYTES, TEMPLATE_CHARACTERS = 2, 512 * 2**20, 100_000


def check_weights(folder: Path) -> None:
    """Looks at names and shapes in the weight files of `folder`, and whether the configuration fits them.

    Raises:
        CheckpointError: There are no safetensors, an index or an adapter leads out of the folder, or the configuration
            describes more weights than the files hold (they would be random, and may fill the memory).
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise CheckpointError(f"{folder}: no *.safetensors file; other formats can run code and are not read")
    for index in folder.glob("*.index.json"):
        names = set(read_json(index)["weight_map"].values())
        if strangers := sorted(names - {file.name for file in files}):
            raise CheckpointError(f"{folder}: {index.name} names {shown(strangers[0])}, no weight file of this folder")
    if (folder / "adapter_config.json").is_file():
        base = read_json(folder / "adapter_config.json").get("base_model_name_or_path")
        if not (isinstance(base, str) and Path(base).is_dir()):
            raise CheckpointError(
                f"{folder}: an adapter for {shown(base)}, which is no folder here, and nothing is fetched for it: "
                "merge it into its base, or download the base and name its folder in adapter_config.json"
            )
        if not (folder / "adapter_model.safetensors").is_file() or (Path(base) / "adapter_config.json").is_file():
            raise CheckpointError(f"{folder}: an adapter has adapter_model.safetensors, and its base is a whole model")
        check_weights(Path(base))
        return
    shapes = [shape for file in files for shape in _shapes(file)]
    held = sum(math.prod(shape) for shape in shapes)
    raw = read_json(folder / "config.json")
    layers = (raw.get("text_config") or raw).get("num_hidden_layers")
    if isinstance(layers, int) and layers > len(shapes):  # before so many are made
        raise CheckpointError(
            f"{folder}: the weights do not fit the configuration: {shown(layers)} layers, {len(shapes)} tensors"
        )
    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    with torch.device("meta"):
        model: Any = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    described = sum(weight.numel() for weight in model.parameters())
    if described > held:
        raise CheckpointError(
            f"{folder}: the weights do not fit the configuration: it describes {described}, the files hold {held}"
        )


def _shapes(file: Path) -> list[list[int]]:
    with safe_open(file, framework="pt") as tensors:
        return [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118  no mapping


def check_template(tokenizer: PreTrainedTokenizerBase, name: object) -> None:
    """Tries the chat template, if there is one, with limits on its time, its memory and the length of its text.

    Raises:
        CheckpointError: It fails, grows past a limit, or does not show the message exactly once.
    """
    if not tokenizer.chat_template:
        return
    context: Any = multiprocessing.get_context("fork")  # at once, and it has the tokenizer
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_try_template, args=(tokenizer, theirs), daemon=True)
    process.start()
    theirs.close()
    said = f"took more than {TEMPLATE_SECONDS} s, or more memory than a template needs"
    with contextlib.suppress(EOFError):  # it was killed by a limit
        if ours.poll(10 * TEMPLATE_SECONDS):
            said = ours.recv()
    process.kill()
    process.join()
    if said:
        raise CheckpointError(f"{name}: its chat template {said}")


def _try_template(tokenizer: PreTrainedTokenizerBase, pipe: Connection) -> None:
    """Sends what is wrong with the template, or nothing."""
    used = 4096 * int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc").is_dir() else None
    if used:  # elsewhere than on Linux there is a limit on time alone
        resource.setrlimit(resource.RLIMIT_AS, (used + TEMPLATE_BYTES, used + TEMPLATE_BYTES))
    spent = math.ceil(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
    resource.setrlimit(resource.RLIMIT_CPU, (spent + TEMPLATE_SECONDS, spent + TEMPLATE_SECONDS))
    said = ""
    try:
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": MESSAGE}], tokenize=False, add_generation_prompt=True
        )
        if len(text) > TEMPLATE_CHARACTERS:
            said = f"writes {len(text)} characters around a message"
        elif text.count(MESSAGE) != 1:
            said = f"shows the message {text.count(MESSAGE)} times, not once"
    except Exception as error:  # whatever a program can do
        said = f"fails: {type(error).__name__}: {shown(str(error))}"
    pipe.send(said)
