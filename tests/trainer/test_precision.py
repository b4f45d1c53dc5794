"""bfloat16 products with float32 weights, and which precision a training takes."""

import copy
import os
import sys
from unittest import mock

import pytest
import torch
from small_repo import done
from starts import SHAPE

from mapflake.repro import read_json
from mapflake.trainer import checkpoint, precision, training
from mapflake.trainer.params import WarmStartParams
from mapflake.trainer.policy import load_policy
from mapflake.trainer.precision import compute_in_bfloat16, frozen_copy, of_processor, settle
from mapflake.trainer.warmstart import warm_start

IDS = torch.arange(2, 26).reshape(3, 8)


def _loss(model):
    return model(input_ids=IDS, labels=IDS).loss


def test_products_are_those_of_rounded_weights_and_gradients_are_float32(tiny):
    model, half = copy.deepcopy(tiny.model), copy.deepcopy(tiny.model)
    for weight in half.parameters():
        weight.data = weight.data.bfloat16()
    compute_in_bfloat16(model)
    assert torch.equal(model(IDS).logits, half(IDS).logits)
    assert not torch.equal(model(IDS).logits.float(), tiny.model(IDS).logits)  # the control: float32 differs
    for part in range(2):  # two microbatches: the sum is kept in float32
        for net in (model, half):
            (_loss(net) / (1 + part)).backward()
    rounded = dict(half.named_parameters())
    for name, weight in model.named_parameters():
        assert weight.dtype == weight.grad.dtype == torch.float32
        torch.testing.assert_close(weight.grad.bfloat16(), rounded[name].grad, rtol=0.02, atol=1e-4)
    assert model.lm_head.weight is model.model.embed_tokens.weight  # all weights are in their places again


def test_a_step_of_the_optimizer_is_seen_and_a_frozen_copy_stays(tiny):
    model = copy.deepcopy(tiny.model)
    compute_in_bfloat16(model)
    frozen, before = frozen_copy(model), model(IDS).logits
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)  # leaves the weights' version as it was
    _loss(model).backward()
    optimizer.step()
    with torch.no_grad():
        assert torch.equal(frozen(IDS).logits, before)
        assert not torch.equal(model(IDS).logits, before)
        assert torch.equal(model(IDS).logits, frozen_copy(model)(IDS).logits)


@pytest.mark.parametrize(
    ("capabilities", "halved", "taken"),
    [
        ({"avx512_bf16": True}, 0.5, "bfloat16"),
        ({"amx_bf16": True}, 0.9, "float32"),  # not worth the rounding
        ({"avx512_f": True}, 0.5, "float32"),  # not timed
    ],
)
def test_the_processor_decides(monkeypatch, capabilities, halved, taken):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities)
    monkeypatch.setattr(precision, "product_seconds", lambda dtype: halved if dtype == torch.bfloat16 else 1.0)
    of_processor.cache_clear()
    try:
        assert of_processor() == settle("auto") == taken
        assert [settle(name) for name in ("float32", "bfloat16")] == ["float32", "bfloat16"]
    finally:
        of_processor.cache_clear()


def test_products_are_timed_on_one_thread(monkeypatch):
    """Threads that wait for each other on a busy machine cost CPU time: one with AMX was then taken for a slow one."""
    clock, used, threads = precision.time.process_time, set(), torch.get_num_threads()
    monkeypatch.setattr(precision.time, "process_time", lambda: used.add(torch.get_num_threads()) or clock())
    torch.set_num_threads(2)
    try:
        assert precision.product_seconds(torch.float32) > 0
        assert used == {1}
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


PRODUCTS = """
import torch, mapflake.trainer.precision
weights = torch.ones(8, 8).bfloat16()
for rows in (*range(100, 200), 100):
    torch.ones(rows, 8).bfloat16() @ weights
"""


@pytest.mark.skipif(not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="oneDNN multiplies no bfloat16 here")
@pytest.mark.parametrize(
    ("capacity", "last"), [({}, "cache_miss"), ({"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "999"}, "cache_hit")]
)
def test_what_was_compiled_for_a_hundred_shapes_is_not_all_kept(capacity, last):
    """At 1,024 shapes a supervised start of 135M parameters took 16 GiB after 160 steps. A user's number stays."""
    environment = os.environ | {"ONEDNN_VERBOSE": "profile_create", "OMP_NUM_THREADS": "1"}
    environment.pop("ONEDNN_PRIMITIVE_CACHE_CAPACITY", None)
    output = done(sys.executable, "-c", PRODUCTS, env=environment | capacity)
    products = [line for line in output.splitlines() if "create:" in line]
    assert len(products) == 101
    assert last in products[-1]


def test_a_run_keeps_the_precision_it_began_with(tmp_path, monkeypatch):
    """Also when it is killed and goes on elsewhere, to the same bytes; and what continues its result keeps it too."""
    params = WarmStartParams(
        model=SHAPE, steps=8, batch_size=4, microbatch=2, warmup_steps=1, save_every=4, precision="auto"
    )
    pairs, words = [(f"w{i}", f"w{i + 1} w{i}") for i in range(8)], [f"w{i}" for i in range(9)]

    def train(name, processor):
        monkeypatch.setattr(precision, "of_processor", lambda: processor)
        warm_start(pairs, words, params, tmp_path / name, seed=0)
        return tmp_path / name

    whole = train("whole", "bfloat16")
    killed = mock.patch.object(training, "save_policy", side_effect=KeyboardInterrupt)  # after the last save
    with killed, pytest.raises(KeyboardInterrupt):
        train("moved", "bfloat16")
    newest = tmp_path / "moved.unfinished/checkpoint-8"
    (newest / checkpoint.MANIFEST).unlink()  # torn: it goes on from step 4
    moved = train("moved", "float32")
    assert checkpoint.weights_sha256(moved) == checkpoint.weights_sha256(whole)
    assert read_json(moved / checkpoint.MANIFEST)["precision"] == settle("auto", moved) == "bfloat16"
    assert load_policy(moved, precision="auto").model.dtype == torch.bfloat16
    assert load_policy(moved).model.lm_head.weight.frexp().mantissa.mul(2**8).frac().any()  # written unrounded
    control = train("control", "float32")
    assert checkpoint.weights_sha256(control) != checkpoint.weights_sha256(whole)
    assert settle("auto", control) == "float32"
