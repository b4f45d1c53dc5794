"""Checkpoints of LoRA: small, equal to merged weights when read, and of no use on other weights than their own."""

import itertools
import shutil
from pathlib import Path

import pytest
import torch
from starts import PARAMS, TASKS, UNIT, demonstrations

from mapflake import repro
from mapflake.trainer import checkpoint, weights
from mapflake.trainer.grpo import Boards, train_round
from mapflake.trainer.params import RLParams, WarmStartParams
from mapflake.trainer.policy import load_policy
from mapflake.trainer.warmstart import warm_start

ADAPTERS = {"rank": 2, "alpha": 8}


@pytest.fixture(scope="module")
def chain(chat_start, tmp_path_factory):
    """A folder with a model, the adapter of a supervised start on it, and that of a GRPO round on both."""
    folder = tmp_path_factory.mktemp("chain")
    shutil.copytree(chat_start, folder / "model")
    taught = WarmStartParams.parse(
        {"steps": 4, "batch_size": 4, "microbatch": 4, "learning_rate": 1e-2, "warmup_steps": 1, "lora": ADAPTERS}, ""
    )
    warm_start(demonstrations(TASKS, "chat"), folder / "model", taught, folder / "student", seed=0)
    round_params = RLParams.parse(PARAMS.model_dump() | {"lora": ADAPTERS, "learning_rate": 1e-2}, "rl")
    curve = train_round(folder / "student", Boards(TASKS), round_params, folder / "run/round-0", seed=0)
    assert all(row["kl"] >= -8 * UNIT for row in curve)  # exp(x) - x - 1, with some roundings of 1
    return folder


def logits(path):
    with torch.no_grad():
        return load_policy(path).model(torch.arange(5, 25)[None]).logits


def test_an_adapter_is_small_and_names_no_machine(chain):
    assert (chain / "student/adapter_model.safetensors").stat().st_size < 60_000
    assert not list(chain.glob("*/model.safetensors"))[1:]  # whole weights are in the model's folder alone
    about = repro.read_json(chain / "run/round-0/parent.json")
    assert about == {"checkpoint": "../../student", "sha256": checkpoint.weights_sha256(chain / "student")}
    for path in chain.rglob("*"):
        if path.suffix in (".json", ".md", ".txt", ".jinja"):
            assert str(chain) not in path.read_text(encoding="utf-8"), path


def test_a_chain_is_the_sum_of_its_adapters(chain):
    steps = [logits(chain / name) for name in ("model", "student", "run/round-0")]
    for before, after in itertools.pairwise(steps):
        assert (before - after).abs().max() > 1e-3  # each of them taught something
    state = {name: weight.clone() for name, weight in load_policy(chain / "model").model.state_dict().items()}
    for name in ("student", "run/round-0"):
        model = weights.PeftModel.from_pretrained(load_policy(chain / "model").model, str(chain / name))
        for key, part in model.named_modules():
            if hasattr(part, "get_delta_weight"):
                state[key.removeprefix("base_model.model.") + ".weight"] += part.get_delta_weight("default")
    by_hand = load_policy(chain / "model").model
    by_hand.load_state_dict(state)
    with torch.no_grad():
        torch.testing.assert_close(by_hand(torch.arange(5, 25)[None]).logits, steps[2], atol=1e-5, rtol=1e-4)
    with weights.whole(chain / "run/round-0") as folder:
        assert (Path(folder) / "model.safetensors").is_file()
        with torch.no_grad():
            read = load_policy(folder, sealed=False).model(torch.arange(5, 25)[None]).logits
        torch.testing.assert_close(read, steps[2])
    assert not Path(folder).exists()
    with weights.whole(chain / "model") as folder:
        assert folder == str(chain / "model")


def test_a_chain_is_rounded_once(chain, tmp_path):
    """Adapters that change weights by less than half a unit of bfloat16 change them together."""
    steps, below = 10, chain / "model"
    model = weights.load_chain(below, torch.float32)
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(1.0)
    model.save_pretrained(tmp_path / "0")
    checkpoint.write_manifest(tmp_path / "0")
    config = weights.lora_config(weights.LoraParams(rank=1, alpha=1))
    for number in range(1, steps + 1):
        adapted = weights.PeftModel(load_policy(chain / "model").model, config)
        with torch.no_grad():
            for name, weight in adapted.named_parameters():
                if "lora_" in name:
                    weight.fill_(2**-10 if "lora_A" in name else 1.0)  # half a unit above 1 is 2**-8
        below = tmp_path / str(number)
        weights.write_adapter(adapted, tmp_path / str(number - 1), below, below)
        checkpoint.write_manifest(below)
    summed = weights.load_chain(below, torch.bfloat16)
    assert {weight.dtype for weight in summed.parameters()} == {torch.bfloat16}
    assert summed.model.layers[0].mlp.up_proj.weight.unique().tolist() == [1 + 2**-7]  # 10 / 1,024, rounded
    assert summed.model.rotary_emb.inv_freq.dtype == torch.float32


def test_whole_weights_go_on_from_adapters_but_not_with_a_kl_term(chain, tmp_path):
    """TRL reads the reference of the term from the folder of the model, which has adapters alone."""
    params = RLParams.parse(PARAMS.model_dump() | {"learning_rate": 1e-2}, "rl")
    assert load_policy(chain / "student").model.num_parameters(only_trainable=True) > 0
    with pytest.raises(
        ValueError, match=r"^beta: 0\.1 with whole weights takes a start without adapters, and .*student"
    ):
        train_round(chain / "student", Boards(TASKS), params.model_copy(update={"beta": 0.1}), tmp_path / "kl", seed=0)
    train_round(chain / "student", Boards(TASKS), params, tmp_path / "whole", seed=0)
    assert (tmp_path / "whole/model.safetensors").is_file()
    assert (logits(tmp_path / "whole") - logits(chain / "student")).abs().max() > 1e-3


def test_a_chain_moves_as_a_whole_and_not_in_parts(chain, tmp_path):
    shutil.copytree(chain, tmp_path / "moved")
    torch.testing.assert_close(logits(tmp_path / "moved/run/round-0"), logits(chain / "run/round-0"))
    (tmp_path / "elsewhere").symlink_to(tmp_path / "moved/run/round-0")
    torch.testing.assert_close(logits(tmp_path / "elsewhere"), logits(chain / "run/round-0"))
    shutil.rmtree(tmp_path / "moved/student")
    with pytest.raises(checkpoint.CheckpointError, match=r"an adapter of .*student, which is not there"):
        load_policy(tmp_path / "moved/run/round-0")
    shutil.copytree(tmp_path / "moved/model", tmp_path / "moved/student")
    with pytest.raises(checkpoint.CheckpointError, match=r"an adapter of weights with the hash .*; those of .* have"):
        load_policy(tmp_path / "moved/run/round-0")


def test_the_same_adapter_on_other_weights_is_another_policy(chain, tmp_path):
    hashes = set()
    for parent in ("Qwen/Qwen3-1.7B", "Qwen/Qwen3-0.6B", chain / "model"):
        model = weights.PeftModel.from_pretrained(load_policy(chain / "model").model, str(chain / "student"))
        weights.write_adapter(model, parent, tmp_path / "one", tmp_path / "one")
        checkpoint.write_manifest(tmp_path / "one")
        hashes.add(checkpoint.weights_sha256(tmp_path / "one"))
        assert weights.parent_of(tmp_path / "one") == parent
    assert len(hashes) == 3
