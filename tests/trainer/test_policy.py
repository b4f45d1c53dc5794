import contextlib
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from mapflake import repro
from mapflake.trainer import checkpoint
from mapflake.trainer.params import ModelParams
from mapflake.trainer.policy import from_scratch, load_policy, save_policy


@pytest.fixture
def saved(tiny, tmp_path):
    save_policy(tiny.model, tiny.tokenizer, tmp_path / "policy")
    return tmp_path / "policy"


def test_a_saved_policy_completes_as_before(tiny, saved):
    loaded = load_policy(saved)
    prompts = ["w1 w2 w3", "w7"]
    assert loaded.complete(prompts, n=3, seed=1) == tiny.complete(prompts, n=3, seed=1)
    assert loaded.prompt_format == "compact"


def test_saving_twice_gives_the_same_bytes(tiny, saved, tmp_path):
    save_policy(tiny.model, tiny.tokenizer, tmp_path / "again")
    assert (saved / checkpoint.MANIFEST).read_text() == (tmp_path / "again" / checkpoint.MANIFEST).read_text()


def test_from_scratch_depends_on_the_seed_and_leaves_the_global_generator_alone():
    params = ModelParams(hidden_size=16, layers=1, heads=2, intermediate_size=16)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    a, b, c = (from_scratch(params, ["x"], seed=s).model.state_dict() for s in (0, 0, 1))
    assert torch.rand(1) == expected
    assert all(torch.equal(a[k], b[k]) for k in a)
    assert not all(torch.equal(a[k], c[k]) for k in a)


def test_an_unknown_word_is_named(tiny):
    with pytest.raises(ValueError, match="'banana' is not in the policy's vocabulary"):
        tiny.complete(["w1 banana"])


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_truncated_or_missing_file_is_refused_by_name(saved, name):
    content = (saved / name).read_bytes()
    (saved / name).write_bytes(content[:-1])
    with pytest.raises(checkpoint.CheckpointError, match=f"{name} differs"):
        load_policy(saved)
    (saved / name).unlink()
    with pytest.raises(checkpoint.CheckpointError, match=f"{name} is missing"):
        load_policy(saved)


def test_a_checkpoint_without_manifest_was_not_finished(saved):
    (saved / checkpoint.MANIFEST).unlink()
    with pytest.raises(checkpoint.CheckpointError, match="not written to its end"):
        load_policy(saved)


def test_weights_that_are_missing_or_not_finite_are_refused(saved):
    weights = load_file(saved / "model.safetensors")
    name = next(k for k in weights if "q_proj" in k)
    save_file(weights | {name: weights[name] * float("nan")}, saved / "model.safetensors", {"format": "pt"})
    checkpoint.write_manifest(saved)
    with pytest.raises(checkpoint.CheckpointError, match=f"{name} holds values that are not finite"):
        load_policy(saved)
    save_file({k: v for k, v in weights.items() if k != name}, saved / "model.safetensors", {"format": "pt"})
    checkpoint.write_manifest(saved)
    with pytest.raises(checkpoint.CheckpointError, match="do not fit the configuration"):
        load_policy(saved)


def test_a_path_that_does_not_exist_is_not_looked_up_on_the_hub(tmp_path):
    with pytest.raises(checkpoint.CheckpointError, match="no such folder"):
        load_policy(tmp_path / "nowhere")


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


def test_publish_replaces_in_one_step_or_not_at_all(tmp_path):
    out = tmp_path / "out"
    with checkpoint.publish(out, "first") as folder:
        (folder / "a").write_text("1")
    with contextlib.suppress(RuntimeError), checkpoint.publish(out, "second") as folder:
        (folder / "a").write_text("2")
        raise RuntimeError("stop")
    assert (out / "a").read_text() == "1"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert checkpoint.is_result_of(out, "first")
    assert not checkpoint.is_result_of(out, "second")
    assert json.loads((out / checkpoint.MANIFEST).read_text())["input_hash"] == "first"


def test_unfinished_saves_of_another_training_are_dropped(tmp_path):
    out = tmp_path / "out"
    folder = checkpoint.resumable(out, "one")
    (folder / "save").write_text("x")
    assert (checkpoint.resumable(out, "one") / "save").exists()
    assert not (checkpoint.resumable(out, "two") / "save").exists()


def test_a_checkpoint_is_hashed_once_when_it_is_loaded(saved, monkeypatch):
    hashed, original = [], repro.file_sha256
    monkeypatch.setattr(repro, "file_sha256", lambda path: hashed.append(path.name) or original(path))
    load_policy(saved)
    identity = checkpoint.weights_sha256(saved)
    assert hashed.count("model.safetensors") == 1
    assert identity == repro.json_sha256({"model.safetensors": original(saved / "model.safetensors")})


@pytest.mark.parametrize(
    ("template", "said"),
    [("{% for %}", "TemplateSyntaxError"), ("hello", "shows the message 0 times, not once")],
)
def test_a_chat_template_that_fails_is_refused(saved, template, said):
    (saved / "chat_template.jinja").write_text(template)
    checkpoint.write_manifest(saved)
    with pytest.raises(checkpoint.CheckpointError, match=f"cannot be loaded: .*{said}"):
        load_policy(saved)
