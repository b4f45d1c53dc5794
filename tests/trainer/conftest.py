import pytest
import torch
from starts import SHAPE, TASKS, byte_level_model, demonstrations
from transformers import Qwen3ForCausalLM

from mapflake.env import VOCABULARY, Plan, format_plan
from mapflake.trainer.packing import ATTENTION, pack
from mapflake.trainer.params import ModelParams, WarmStartParams
from mapflake.trainer.policy import Policy, from_scratch, save_policy
from mapflake.trainer.warmstart import encode_pairs, warm_start

WORDS = [f"w{i}" for i in range(40)]


@pytest.fixture(scope="session")
def tiny() -> Policy:
    """An untrained policy over 40 words whose next-token distribution is far from uniform."""
    policy = from_scratch(ModelParams(hidden_size=32, layers=2, heads=2, intermediate_size=64), WORDS, seed=3)
    with torch.no_grad():
        policy.model.model.embed_tokens.weight.mul_(20)
    return policy


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """A compact policy that was shown the right plan of each board as often as a wrong one: it has much to gain."""
    right = demonstrations(TASKS, "compact")
    wrong = [(prompt, "<> W a0 <> W a0 ;") for prompt, _ in right]
    params = WarmStartParams(model=SHAPE, steps=140, batch_size=16, learning_rate=1e-2, warmup_steps=5)
    out = tmp_path_factory.mktemp("start") / "policy"
    warm_start(right + wrong, VOCABULARY, params, out, seed=0)
    return out


@pytest.fixture(scope="session")
def chat_start(tmp_path_factory):
    """A tiny Qwen3 with a byte-level BPE tokenizer and Qwen3's chat template that has seen answers, right and wrong."""
    model, tokenizer = byte_level_model(Qwen3ForCausalLM, 64, num_key_value_heads=1, head_dim=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    right = demonstrations(TASKS, "chat")
    wrong = [(prompt, format_plan(TASKS[0].instance, Plan(("W", "W")), "chat")) for prompt, _ in right]
    rows = encode_pairs(tokenizer, right + wrong)
    model.set_attn_implementation(ATTENTION)
    for step in range(160):
        model(**pack(rows[4 * step % 16 : 4 * step % 16 + 4])).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    out = tmp_path_factory.mktemp("chat") / "policy"
    save_policy(model, tokenizer, out)
    return out
