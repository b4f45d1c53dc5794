import json

import pytest
from starts import PARAMS, TASKS
from transformers import Qwen3Config

from mapflake.trainer import estimate
from mapflake.trainer.estimate import DoesNotFit, estimate_round
from mapflake.trainer.grpo import train_round
from mapflake.trainer.params import RLParams
from mapflake.trainer.policy import load_policy


@pytest.fixture(scope="module")
def qwen3_4b(tmp_path_factory):
    """A folder with the configuration of Qwen3-4B and no weights."""
    config = Qwen3Config(
        vocab_size=151936, hidden_size=2560, intermediate_size=9728, num_hidden_layers=36, num_attention_heads=32,
        num_key_value_heads=8, head_dim=128, tie_word_embeddings=True,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("qwen3")
    config.architectures = ["Qwen3ForCausalLM"]
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    return folder


def test_parameters_are_counted_without_weights(start, qwen3_4b):
    assert estimate_round(start, PARAMS).parameters == load_policy(start).model.num_parameters()
    assert estimate_round(qwen3_4b, PARAMS).parameters == pytest.approx(4.02e9, rel=0.01)  # as its model card says


def test_full_training_keeps_weights_gradients_and_two_moments(qwen3_4b):
    full = estimate_round(qwen3_4b, PARAMS)
    assert full.weights == 16 * full.parameters
    sharded = RLParams.parse(
        PARAMS.model_dump() | {"processes": 4, "microbatch": 4, "sharding": "fsdp2", "vllm": "server"}, "rl"
    )
    assert estimate_round(qwen3_4b, sharded).weights == pytest.approx(full.weights / 4)


def test_lora_trains_few_parameters(chat_start, qwen3_4b):
    params = PARAMS.model_copy(update={"lora": RLParams.parse({"lora": {"rank": 4}}, "rl").lora})
    assert estimate_round(qwen3_4b, params).trained < 0.003 * estimate_round(qwen3_4b, params).parameters
    from peft import get_peft_model

    from mapflake.trainer.grpo import lora_config

    adapted = get_peft_model(load_policy(chat_start).model, lora_config(params))
    assert estimate_round(chat_start, params).trained == sum(p.numel() for p in adapted.parameters() if p.requires_grad)


def test_the_cache_is_that_of_all_samples_at_full_length(qwen3_4b):
    one = 2 * 36 * 8 * 128 * 4  # keys and values, layers, heads, width, bytes
    found = estimate_round(qwen3_4b, PARAMS, prompt_tokens=100)
    assert found.cache == PARAMS.samples_a_process * (100 + PARAMS.max_new_tokens) * one


def test_a_round_that_cannot_fit_says_so_before_it_begins(start, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(estimate, "_memory", lambda: (1000, 2000))
    with pytest.raises(
        DoesNotFit,
        match=r"^by a rule of thumb, a round needs up to .* it cannot fit: lower microbatch",
    ):
        train_round(start, TASKS, PARAMS, tmp_path / "x", seed=0)
    monkeypatch.undo()
    train_round(start, TASKS, PARAMS, tmp_path / "x", seed=0)
    assert "are free; 0.0" in capsys.readouterr().err
