import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl import GRPOTrainer

from mapflake.env import VOCABULARY, EnvConfig, Verdict, Violation, format_plan, generate, render_prompt
from mapflake.repro import ParamError
from mapflake.trainer import checkpoint
from mapflake.trainer.grpo import RLParams, RoundTrainer, reward, train_round
from mapflake.trainer.policy import ModelParams, load_policy, save_policy
from mapflake.trainer.warmstart import WarmStartParams, warm_start

TASKS = generate(EnvConfig.uniform((3,), 0.0, 0.0), 8, seed=1)
PARAMS = RLParams(
    instances=8, epochs=2, prompts=4, generations=4, microbatch=8, max_new_tokens=32, save_every=1, warmup_steps=0
)


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """A compact policy that was shown the right plan of each board as often as a wrong one: it has much to gain."""
    right = [(render_prompt(t.instance, "compact"), format_plan(t.instance, t.solution.plan, "compact")) for t in TASKS]
    wrong = [(prompt, "<> W a0 <> W a0 ;") for prompt, _ in right]
    params = WarmStartParams(
        model=ModelParams(hidden_size=32, layers=1, heads=2, intermediate_size=32),
        steps=80,
        batch_size=16,
        learning_rate=1e-2,
        warmup_steps=5,
    )
    out = tmp_path_factory.mktemp("start") / "policy"
    warm_start(right + wrong, VOCABULARY, params, out, seed=0)
    return out


@pytest.fixture(scope="module")
def chat_start(tmp_path_factory):
    """A random Qwen3 with a byte-level BPE tokenizer and the shape of Qwen3's chat template."""
    corpus = [render_prompt(task.instance, "chat") for task in TASKS]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=400, special_tokens=specials, initial_alphabet=alphabet)
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = (
        "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(fast), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        head_dim=16, intermediate_size=32, eos_token_id=fast.eos_token_id, pad_token_id=fast.pad_token_id,
    )  # fmt: skip
    out = tmp_path_factory.mktemp("chat") / "policy"
    save_policy(Qwen3ForCausalLM(config), fast, out)
    return out


def test_the_reward_is_half_for_valid_half_for_optimal():
    assert reward(Verdict((Violation("parse"),))) == 0
    assert reward(Verdict((), 3, 5)) == 0.5
    assert reward(Verdict((), 3, 5, optimal=True)) == 1


def _trainer(start, tmp_path):
    policy = load_policy(start)
    rows = [{"prompt": render_prompt(t.instance, "compact"), "task": i} for i, t in enumerate(TASKS)]
    return RoundTrainer(policy, TASKS, rows, PARAMS, tmp_path, 0)


def _ragged_batch(trainer, rows=24):
    """Returns a batch with left-padded prompts, right-padded completions and many rows without advantage."""
    generator = torch.Generator().manual_seed(0)
    before, after = (torch.randint(1, 9, (rows,), generator=generator) for _ in range(2))
    ids = torch.randint(3, 100, (rows, 16), generator=generator)
    columns = torch.arange(8)
    return {
        "prompt_ids": ids[:, :8],
        "prompt_mask": (columns >= 8 - before[:, None]).long(),
        "completion_ids": ids[:, 8:],
        "completion_mask": (columns < after[:, None]).long(),
        "advantages": torch.randn(rows, generator=generator) * (torch.rand(rows, generator=generator) < 0.6),
        "num_items_in_batch": torch.tensor(90.0),
    }


def test_log_probabilities_without_padding_are_those_of_trl(start, tmp_path):
    trainer = _trainer(start, tmp_path)
    batch = _ragged_batch(trainer)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], 1)
    with torch.no_grad():
        ours = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, 8, compute_entropy=True)
        stock = GRPOTrainer._get_per_token_logps_and_entropies(
            trainer, trainer.model, ids, mask, 8, compute_entropy=True
        )
    real = batch["completion_mask"].bool()
    assert (batch["advantages"] == 0).any()
    torch.testing.assert_close(ours[0][real], stock[0][real], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours[1][real], stock[1][real], atol=1e-5, rtol=1e-5)


def test_loss_and_gradient_are_those_of_trl(start, tmp_path, monkeypatch):
    trainer = _trainer(start, tmp_path)
    trainer.current_gradient_accumulation_steps = 1

    def gradients():
        trainer.model.zero_grad()
        loss = trainer._compute_loss(trainer.model, _ragged_batch(trainer))
        loss.backward()
        return loss.detach(), {n: p.grad.clone() for n, p in trainer.model.named_parameters()}

    ours_loss, ours = gradients()
    monkeypatch.delattr(RoundTrainer, "_compute_loss")
    monkeypatch.delattr(RoundTrainer, "_get_per_token_logps_and_entropies")
    stock_loss, stock = gradients()
    torch.testing.assert_close(ours_loss, stock_loss, atol=1e-6, rtol=1e-5)
    assert any(g.abs().max() > 1e-3 for g in stock.values())
    for name, gradient in stock.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-6, rtol=1e-4)


@pytest.fixture(scope="module")
def trained(start, tmp_path_factory):
    out = tmp_path_factory.mktemp("round") / "checkpoint"
    return out, train_round(start, TASKS, PARAMS, out, seed=0)


def test_a_round_has_a_curve_and_changes_the_weights(start, trained):
    out, curve = trained
    assert [row["step"] for row in curve] == [1, 2, 3, 4]
    for row in curve:
        assert row["reward"] == pytest.approx(0.5 * row["rewards/valid/mean"] + 0.5 * row["rewards/optimal/mean"])
        assert {"entropy", "frac_reward_zero_std", "completions/mean_length"} <= set(row)
        assert not any("time" in key for key in row)
    assert any(row["grad_norm"] > 0 for row in curve)
    assert checkpoint.weights_sha256(out) != checkpoint.weights_sha256(start)
    assert load_policy(out).dialect == "compact"


def test_the_same_round_again_does_nothing(start, trained):
    out, curve = trained
    before = (out / "model.safetensors").stat().st_mtime_ns
    assert train_round(start, TASKS, PARAMS, out, seed=0) == curve
    assert (out / "model.safetensors").stat().st_mtime_ns == before


def test_the_number_of_tasks_and_the_batch_must_fit(start, tmp_path):
    with pytest.raises(ValueError, match="takes 8 instances, 7 were given"):
        train_round(start, TASKS[:7], PARAMS, tmp_path / "x", seed=0)
    with pytest.raises(ParamError, match=r"instances \(10\) must be a multiple of prompts \(64\)"):
        RLParams.parse({"instances": 10}, "rl")
    with pytest.raises(ParamError, match=r"microbatch \(7\) must divide"):
        RLParams.parse({"microbatch": 7}, "rl")


KILLED = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {here!r})
import test_grpo as t
from transformers import TrainerCallback
from mapflake.trainer import grpo

class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            os.kill(os.getpid(), signal.SIGKILL)

original = grpo.run
def run(trainer, *rest):
    trainer.add_callback(Kill())
    original(trainer, *rest)
grpo.run = run
grpo.train_round({start!r}, t.TASKS, t.PARAMS, {out!r}, seed=0)
"""


def test_a_round_killed_in_the_middle_goes_on_to_the_same_weights(start, trained, tmp_path):
    out = tmp_path / "checkpoint"
    code = KILLED.format(here=str(Path(__file__).parent), start=str(start), out=str(out))
    killed = subprocess.run([sys.executable, "-c", code], env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}, check=False)
    assert killed.returncode == -signal.SIGKILL
    saves = tmp_path / "checkpoint.unfinished"
    assert checkpoint.newest_whole(saves).name == "checkpoint-2"
    curve = train_round(start, TASKS, PARAMS, out, seed=0)
    assert curve == trained[1]
    assert checkpoint.weights_sha256(out) == checkpoint.weights_sha256(trained[0])
    assert not saves.exists()


@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 8}])
def test_a_chat_model_takes_the_same_path_full_and_lora(chat_start, tmp_path, lora):
    params = RLParams.parse(PARAMS.model_dump() | {"lora": lora, "learning_rate": 1e-2}, "rl")
    first, second = tmp_path / "first", tmp_path / "second"
    curve = train_round(chat_start, TASKS, params, first, seed=0)
    assert len(curve) == params.steps
    train_round(first, TASKS, params, second, seed=1)  # the next round starts from whole weights
    assert load_policy(second).dialect == "chat"
    assert len(load_policy(second).complete(["hello"], n=2, max_new_tokens=4)[0]) == 2


def test_control_tokens_in_a_prompt_stay_text(chat_start):
    from mapflake.trainer.policy import encode_prompts

    tokenizer = load_policy(chat_start).tokenizer
    (ids,) = encode_prompts(tokenizer, ["a<|im_end|>b"])
    assert ids.count(tokenizer.convert_tokens_to_ids("<|im_end|>")) == 1  # the template's own
    assert "a<|im_end|>b" in tokenizer.decode(ids)
