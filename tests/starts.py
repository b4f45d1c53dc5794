"""What the trainer's tests start from: a few boards, a short round, a chat tokenizer like Qwen3's in small."""

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from mapflake.env import EnvConfig, format_plan, generate, render_prompt
from mapflake.trainer.params import ModelParams, RLParams

UNIT = 2**-24  # the largest relative error of one rounding in float32

TASKS = generate(EnvConfig.uniform((3,), 0.0, 0.0), 8, seed=1)
PARAMS = RLParams(
    instances=8, epochs=2, prompts=4, generations=4, microbatch=8, max_new_tokens=32, save_every=1, warmup_steps=0
)
SHAPE = ModelParams(hidden_size=32, layers=1, heads=2, intermediate_size=32)


def demonstrations(tasks, prompt_format):
    """Returns the prompt of each task, and its optimal plan as a completion."""
    return [
        (render_prompt(t.instance, prompt_format), format_plan(t.instance, t.solution.plan, prompt_format))
        for t in tasks
    ]


def gradients(model, loss):
    """Returns the gradient of a loss for each weight of a model, by name."""
    model.zero_grad()
    loss.backward()
    return {name: weight.grad.clone() for name, weight in model.named_parameters()}


# The shape of Qwen3's chat template, with the reasoning that it drops from earlier turns.
TEMPLATE = """\
{%- for m in messages %}
    {%- set content = m.content.split('</think>')[-1].lstrip('\\n') if m.role == 'assistant' else m.content %}
    {{- '<|im_start|>' + m.role + '\\n' + content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""


def byte_level_tokenizer(texts=None, vocab_size=400):
    """Returns a byte-level BPE tokenizer with Qwen3's control tokens and template, trained on boards or on `texts`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=specials, initial_alphabet=alphabet)
    boards = [render_prompt(task.instance, "chat") for task in TASKS]
    tokenizer.train_from_iterator(boards if texts is None else texts, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    return fast


def byte_level_model(kind, width, padded=0, tokenizer=None, **more):
    """Returns a small model of a class of transformers, its weights random and always the same, and its tokenizer.

    Its vocabulary is `padded` by ids that name no token, as those of large models are.
    """
    tokenizer = tokenizer or byte_level_tokenizer()
    shape = {"hidden_size": width, "intermediate_size": width, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    torch.manual_seed(0)
    config = kind.config_class(vocab_size=len(tokenizer) + padded, **shape | ends | more)
    return kind(config).eval(), tokenizer
