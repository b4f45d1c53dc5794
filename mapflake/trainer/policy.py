"""The policy: a causal language model, its tokenizer, and how it completes prompts.

A policy whose tokenizer has a chat template takes prompts in the format `chat` (or `brief`, if its settings say so),
which become user messages; one without takes `compact`. Completion is by `decoding.decode`, or by vLLM (engine.py).
Not covered: OpenAI-compatible servers (openai_client.py).
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mapflake.extras import needs

with needs("train"):
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from tqdm import tqdm
    from transformers import (
        AutoTokenizer,
        PreTrainedModel,
        PreTrainedTokenizerBase,
        PreTrainedTokenizerFast,
        Qwen3Config,
        Qwen3ForCausalLM,
    )

from mapflake.repro import rng_for, seed_for, write_jsonl
from mapflake.trainer import checkpoint
from mapflake.trainer.constrain import are_whole, grammar_mask, is_word_level
from mapflake.trainer.decoding import decode
from mapflake.trainer.engine import Engine
from mapflake.trainer.packing import read_packed
from mapflake.trainer.params import ModelParams, Precision, VllmParams, sampling
from mapflake.trainer.precision import compute_in_bfloat16, settle
from mapflake.trainer.weights import is_adapted, load_chain, parent_of, write_adapter

logger = logging.getLogger(__name__)

UNASKED = "so it cannot be asked in words; take an instruction-tuned model, or prompt_format compact"
MESSAGE = "\u241eprompt\u241e"  # stands for the prompt where a chat template is filled in


@dataclass(frozen=True)
class Policy:
    """A model in eval mode, None if `engine` completes; and its tokenizer.

    `template` is what the chat template takes in addition to the message, e.g. `{"enable_thinking": False}` of Qwen3's.
    """

    model: PreTrainedModel | None
    tokenizer: PreTrainedTokenizerBase
    max_new_tokens: int = 128
    engine: Engine | None = None
    template: Mapping[str, Any] = field(default_factory=dict)

    @property
    def prompt_format(self) -> str:
        """The prompt format of `mapflake.env` that this policy reads and writes: what its tokenizer's settings say."""
        setting: str | None = self.tokenizer.init_kwargs.get("prompt_format")
        return setting or ("chat" if self.tokenizer.chat_template else "compact")

    @property
    def context(self) -> int | None:
        """The most tokens of a prompt and its completion together; None if the model does not say."""
        return getattr(getattr(self.model, "config", None), "max_position_embeddings", None)

    def complete(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
        seed: int = 0,
        progress: str | None = None,
        grammar: str | None = None,
    ) -> list[list[str]]:
        """Returns n completions for each prompt (`evaluate.Completer`), under a `grammar` if given (`grammar_mask`).

        Raises:
            ValueError: The grammar cannot be read, the context has no room for a prompt, or as for `sampling`.
            EngineError: vLLM did not start, or ended.
        """
        model: Any = self.model
        ids = encode_prompts(self.tokenizer, prompts, self.template)
        settings = sampling(n, temperature, self.max_new_tokens if max_new_tokens is None else max_new_tokens)
        n, length, width = settings["n"], settings["max_new_tokens"], len(self.tokenizer)
        if model is not None:
            room, width = 1 + check_room(model, ids), model.config.vocab_size
            if room < length:  # of all completions of this call, for they are decoded together
                logger.warning("max_new_tokens: %d, but the longest prompt leaves room for %d tokens", length, room)
            length = min(length, room)
        settings["max_new_tokens"] = length
        # Made for vLLM too, which has its own: a grammar that cannot be read is found out here.
        mask = None if grammar is None else grammar_mask(self.tokenizer, grammar, width)
        if self.engine is not None:
            settings |= {"seed": seed_for(seed, "complete"), "progress": progress is not None}
            decoded = self.engine.sample(ids, **settings, grammar=grammar)
        else:
            with tqdm(total=len(prompts) * n, desc=progress, unit="row", disable=progress is None) as bar:
                settings |= {"rng": rng_for(seed, "complete"), "progress": bar.update}
                decoded = decode(model, ids, **settings, eos=self.tokenizer.eos_token_id, mask=mask)
        if grammar is not None:
            whole = are_whole(self.tokenizer, grammar, [d.ids for d in decoded])
            if cut := len(whole) - sum(whole):
                logger.warning("%d of %d completions under the grammar were cut off and are not whole", cut, len(whole))
        texts = completion_texts(self.tokenizer, [d.ids for d in decoded])
        return [texts[i * n : (i + 1) * n] for i in range(len(prompts))]


def check_room(model: Any, rows: Sequence[Sequence[int]], new_tokens: int = 1) -> int:
    """Returns how many tokens of the model's context are left by the longest row and `new_tokens` after it.

    Raises:
        ValueError: The context is too short; a model would go on beyond it, and answer worse.
    """
    longest = max(map(len, rows), default=0)
    context: int = getattr(model.config, "max_position_embeddings", None) or sys.maxsize
    if longest + new_tokens > context:
        raise ValueError(f"a text of {longest} tokens and {new_tokens} new ones: the model's context is {context}")
    return context - longest - new_tokens


def completion_texts(tokenizer: PreTrainedTokenizerBase, rows: Sequence[Sequence[int]]) -> list[str]:
    """Returns completions as text, without the eos at their end; other control tokens stay.

    Left out, as `skip_special_tokens` does, they would join what the model did not join: `["U<|im_start|>R"]`.
    """
    bodies = [row[:-1] if row and row[-1] == tokenizer.eos_token_id else row for row in map(list, rows)]
    return list(tokenizer.batch_decode(bodies, skip_special_tokens=False))


def encode_prompts(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence[str], template: Mapping[str, Any] | None = None
) -> list[list[int]]:
    """Returns the token ids of each prompt, control tokens inside it as text; `template` is as in `Policy`.

    Raises:
        ValueError: A compact prompt has a word outside the closed vocabulary (names the word), or the chat template
            does not show a message exactly once.
    """
    if tokenizer.chat_template:
        # The template's own control tokens are real, those inside a message are not: the message is encoded separately.
        options = {**(template or {}), "tokenize": False, "add_generation_prompt": True}
        parts = tokenizer.apply_chat_template([{"role": "user", "content": MESSAGE}], **options).split(MESSAGE)
        if len(parts) != 2:
            raise ValueError(f"the chat template shows the message {len(parts) - 1} times, not once")
        before, after = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in parts)
        bodies = [tokenizer(p, add_special_tokens=False, split_special_tokens=True)["input_ids"] for p in prompts]
        return [before + body + after for body in bodies]
    ids = tokenizer(list(prompts), add_special_tokens=False)["input_ids"] if prompts else []
    for text, row in zip(prompts, ids, strict=True):
        if tokenizer.unk_token_id in row:
            word = text.split()[row.index(tokenizer.unk_token_id)]
            raise ValueError(f"{word!r} is not in the policy's vocabulary (prompt: {text[:80]!r}...)")
    return ids


def closing_token(tokenizer: Any) -> str | None:
    """Returns the control token with which the chat template ends an answer: what the model stops at."""
    if not tokenizer.chat_template:
        return None
    messages = [{"role": "user", "content": "?"}, {"role": "assistant", "content": MESSAGE}]
    suffix = tokenizer.apply_chat_template(messages, tokenize=False).rpartition(MESSAGE)[2]
    first_ids = tokenizer(suffix, add_special_tokens=False)["input_ids"][:1]
    return next((token for token, i in tokenizer.get_added_vocab().items() if [i] == first_ids), None)


def from_scratch(params: ModelParams, vocabulary: Sequence[str], *, seed: int) -> Policy:
    """Returns an untrained policy of Qwen3's architecture, the same for the same seed; a token is a word.

    Raises:
        ValueError: The vocabulary repeats a word.
    """
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    words = {word: i for i, word in enumerate([*special.values(), *vocabulary])}
    if len(words) != len(special) + len(vocabulary):
        raise ValueError("the vocabulary repeats a word")
    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, padding_side="left", **special)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=params.hidden_size,
        num_hidden_layers=params.layers,
        num_attention_heads=params.heads,
        num_key_value_heads=params.heads,
        head_dim=params.hidden_size // params.heads,
        intermediate_size=params.intermediate_size,
        max_position_embeddings=params.max_positions,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_for(seed, "from_scratch"))
        model = Qwen3ForCausalLM(config)
    return Policy(model.eval(), tokenizer)


def load_policy(
    path: str | Path,
    *,
    max_new_tokens: int = 128,
    vllm: VllmParams | None = None,
    full_precision: bool = False,
    precision: Precision = "float32",
    sealed: bool = True,
    template: Mapping[str, Any] | None = None,
) -> Policy:
    """Returns the policy in a checkpoint folder, or one named on the Hugging Face hub (e.g. `Qwen/Qwen3-4B`).

    Safetensors only, no code from the checkpoint. Weights have `precision` on a CPU and are bfloat16 on a GPU. With
    `full_precision` they are float32, to be trained, and on a CPU their products have `precision`; with `vllm` its
    engine reads them. A folder must have a valid manifest, unless it was not written here (`sealed`). `template` is as
    in `Policy`.

    Raises:
        CheckpointError: The folder is torn or holds an adapter of unknown origin, the weights do not fit or are not
            finite, or a sealed model has neither a chat template that works nor a closed vocabulary.
    """
    folder = Path(path)
    if folder.is_dir():
        if sealed:
            checkpoint.verify(folder)
    elif folder.is_absolute() or str(path).count("/") > 1 or str(path).startswith((".", "~")):
        raise checkpoint.CheckpointError(f"{path}: no such folder")
    if parent_of(folder) is None and (folder / "adapter_config.json").is_file():  # transformers would fetch its model
        raise checkpoint.CheckpointError(f"{path}: an adapter; merge it into its model")
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        encode_prompts(tokenizer, [])  # tries the chat template
        tokenizer.eos_token = closing_token(tokenizer) or tokenizer.eos_token
        if sealed and not tokenizer.chat_template and not is_word_level(tokenizer):
            raise checkpoint.CheckpointError(f"{path}: the tokenizer has no chat template: {UNASKED}")
        cuda = torch.cuda.is_available()
        halved = cuda or settle(precision, folder) == "bfloat16"
        dtype = torch.bfloat16 if halved and not full_precision else torch.float32
        model = None if vllm else load_chain(path, dtype).eval()
        if model is not None and not is_word_level(tokenizer):  # of no use to a small model
            read_packed(model)
        if model is not None and full_precision and halved and not cuda:
            compute_in_bfloat16(model)
    except checkpoint.CheckpointError:
        raise
    except Exception as error:  # a damaged file makes three libraries raise errors of all kinds
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        problem = "cannot be loaded" if folder.is_dir() else "no such folder, and not loaded as a model of the hub"
        raise checkpoint.CheckpointError(f"{path}: {problem}: {reason}") from error
    engine = Engine(folder, vllm, words=is_word_level(tokenizer)) if vllm else None
    return Policy(model, tokenizer, max_new_tokens, engine, template or {})


def save_policy(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    out: str | Path,
    input_hash: str | None = None,
    curve: Sequence[Mapping[str, Any]] = (),
    weights: Mapping[str, torch.Tensor] | None = None,
    precision: str | None = None,
    parent: str | Path | None = None,
) -> None:
    """Writes a checkpoint folder with its manifest at `out`, and `curve` in it.

    If the process is killed, `out` is the old one, the new one or missing, never a part of one. `weights` replace the
    model's own, where processes hold shards of these. Of a model with adapters these alone are written, and `parent`.
    """
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary, old = (out.with_name(f".{out.name}.{suffix}") for suffix in ("tmp", "old"))
    for leftover in (temporary, old):  # by a writer that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        write_jsonl(temporary / "curve.jsonl", curve)
        if is_adapted(model):
            write_adapter(model, parent or "", temporary, out)
        else:
            model.save_pretrained(temporary, state_dict=weights)
        tokenizer.save_pretrained(temporary)
        checkpoint.write_manifest(temporary, input_hash, precision)
        if out.exists():
            out.replace(old)
        temporary.replace(out)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
