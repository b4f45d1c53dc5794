import shutil

import pytest
import torch

from mapflake import repro
from mapflake.trainer import checkpoint
from mapflake.trainer.params import ModelParams
from mapflake.trainer.policy import from_scratch, load_policy, save_policy


def test_a_saved_policy_completes_as_before(tiny, tmp_path):
    save_policy(tiny.model, tiny.tokenizer, tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    prompts = ["w1 w2 w3", "w7"]
    assert loaded.complete(prompts, n=3, seed=1) == tiny.complete(prompts, n=3, seed=1)
    assert loaded.prompt_format == "compact"


def test_a_temperature_too_small_to_divide_by_is_greedy(tiny):
    (greedy,), (sampled,), (cold,) = (tiny.complete(["w1 w2"], temperature=t, seed=1) for t in (0.0, 1.0, 1e-39))
    assert cold == greedy != sampled


def test_completions_that_a_long_prompt_cuts_are_told_of(caplog):
    policy = from_scratch(ModelParams(hidden_size=16, layers=1, heads=2, max_positions=64), ["x"], seed=0)
    assert policy.context == 64
    policy.complete(["x", "x " * 40], max_new_tokens=20)
    assert "leaves room" not in caplog.text  # the control
    texts = policy.complete(["x", "x " * 60], n=8, max_new_tokens=20)
    assert "max_new_tokens: 20, but the longest prompt leaves room for 4 tokens" in caplog.text
    assert texts == policy.complete(["x", "x " * 60], n=8, max_new_tokens=4)


def test_from_scratch_depends_on_the_seed_and_leaves_the_global_generator_alone():
    params = ModelParams(hidden_size=16, layers=1, heads=2, intermediate_size=16)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    a, b, c = (from_scratch(params, ["x"], seed=s).model.state_dict() for s in (0, 0, 1))
    assert torch.rand(1) == expected
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not all(torch.equal(a[k], c[k]) for k in a)


def test_the_newest_whole_checkpoint_is_found(tmp_path, caplog):
    for step in (5, 10, 15):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "weights").write_text(str(step))
        checkpoint.write_manifest(folder)
    assert checkpoint.newest_whole(tmp_path).name == "checkpoint-15"
    (tmp_path / "checkpoint-15" / "weights").write_text("1")
    (tmp_path / "checkpoint-10" / checkpoint.MANIFEST).unlink()
    assert checkpoint.newest_whole(tmp_path).name == "checkpoint-5"
    assert "checkpoint-15: weights differs" in caplog.text
    assert "checkpoint-10: no manifest.json" in caplog.text
    (tmp_path / "checkpoint-5" / "weights").unlink()
    assert checkpoint.newest_whole(tmp_path) is None


def test_a_save_replaces_wholly_or_not_at_all(tiny, tmp_path):
    out = tmp_path / "out"
    save_policy(tiny.model, tiny.tokenizer, out, "first", curve=[{"step": 1}])
    with pytest.raises(TypeError):
        save_policy(tiny.model, tiny.tokenizer, out, "second", curve=[{"step": object()}])
    assert repro.read_jsonl(out / "curve.jsonl") == [{"step": 1}]
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert checkpoint.is_result_of(out, "first")
    assert not checkpoint.is_result_of(out, "second")
    (checkpoint.resumable(out, "one") / "save").write_text("x")
    assert (checkpoint.resumable(out, "one") / "save").exists()
    assert not (checkpoint.resumable(out, "two") / "save").exists()  # of another training


def test_a_save_that_is_killed_while_it_removes_the_old_one_leaves_a_whole_one(tiny, tmp_path, monkeypatch):
    out, remove = tmp_path / "out", shutil.rmtree

    def killed(path, **options):
        if (path / checkpoint.MANIFEST).exists():
            (path / "config.json").unlink()
            raise KeyboardInterrupt
        remove(path, **options)

    save_policy(tiny.model, tiny.tokenizer, out, "first")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            save_policy(tiny.model, tiny.tokenizer, out, "second")
    assert checkpoint.is_result_of(out, "second")
    save_policy(tiny.model, tiny.tokenizer, out, "third")
    assert checkpoint.is_result_of(out, "third")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
