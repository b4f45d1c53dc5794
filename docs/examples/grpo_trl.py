"""GRPO on mapflake's boards in a script of one's own: TRL's stock trainer, boards as rows, the reward as it is.

python docs/examples/grpo_trl.py Qwen/Qwen3-0.6B     # a model of the hub, or a folder
python docs/examples/grpo_trl.py                     # two steps of a tiny untrained one, made here
"""

import sys
import tempfile

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOConfig, GRPOTrainer

from mapflake.env import REWARD, EnvConfig, generate, reward_functions, to_dataset


def train(model, tokenizer=None, **settings):
    """Returns the log of a training run; these are the ten lines."""
    tasks = generate(EnvConfig.uniform([3, 4], hole_ratio=0.1, wait_ratio=0.2, num_agents=2), n=64, seed=0)
    trainer = GRPOTrainer(
        model=model,
        processing_class=tokenizer,
        train_dataset=to_dataset(tasks),
        reward_funcs=reward_functions(),
        args=GRPOConfig(reward_weights=list(REWARD.values()), **settings),
    )
    trainer.train()
    return trainer.state.log_history


def tiny():
    """Returns a random Qwen3 and a tokenizer of bytes: enough to see a script run, on any machine."""
    characters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<end>", *characters])}
    words = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<end>", pad_token="<end>")
    tokenizer.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, head_dim=16, bos_token_id=0, eos_token_id=0, pad_token_id=0,
    )  # fmt: skip
    return Qwen3ForCausalLM(config), tokenizer


def main(model=None):
    """Trains `model`, or two steps of a tiny one; returns the log."""
    if model:
        return train(model, output_dir="runs/grpo", num_generations=8, max_completion_length=1024)
    with tempfile.TemporaryDirectory() as folder:
        small = {"per_device_train_batch_size": 8, "num_generations": 4, "max_completion_length": 8, "max_steps": 2}
        cpu = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": "none"}
        return train(*tiny(), output_dir=folder, logging_steps=1, save_strategy="no", **small, **cpu)


if __name__ == "__main__":
    for row in main(*sys.argv[1:]):
        print({key: value for key, value in row.items() if key.startswith(("reward", "step", "loss"))})
