"""Hostile input ends in a clear error or a counted rejection; it runs no code and prints no secret.

Replies are in tests/engineer, boards in tests/env, servers in tests/trainer/test_openai_client.py.
"""

import functools
import shutil
from pathlib import Path

import numpy as np
import pytest
import small_repo
import torch
from safetensors.torch import load_file, save_file
from starts import SHAPE
from test_secrets import SECRETS

from mapflake import repro
from mapflake.nb import params, stages
from mapflake.nb.folders import start
from mapflake.nb.notebooks import NotebookError
from mapflake.repro import ParamError
from mapflake.trainer.checkpoint import CheckpointError, write_manifest
from mapflake.trainer.openai_client import OpenAIPolicy, ServerError
from mapflake.trainer.policy import from_scratch, load_policy, save_policy

CANARY = "canary.txt"
CODE = f"open({CANARY!r}, 'w').close()"  # the planted code
PASSWORD = "canary-password-7f3a"
PICKLE = b"cbuiltins\nexec\n(V" + CODE.encode() + b"\ntR."  # unpickling it runs CODE
LONGEST = 2000  # characters of a message


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, capfd, caplog):
    """An empty folder to work in, with secrets in the environment; afterwards no code has run and none was printed."""
    monkeypatch.chdir(tmp_path)
    for name, value in (SECRETS | {"OPENAI_BASE_URL": ""}).items():
        monkeypatch.setenv(name, value)
    yield tmp_path
    assert not list(tmp_path.rglob(CANARY))
    printed = "".join(capfd.readouterr()) + caplog.text
    assert [secret for secret in (*SECRETS.values(), PASSWORD) if secret in printed] == []


def fails(error, text, action, *args):
    """Runs the action, which is to raise `error` with `text` in a message that is short and shows no secret."""
    with pytest.raises(error) as caught:
        action(*args)
    message = str(caught.value)
    assert text in message
    assert len(message) <= LONGEST
    assert [secret for secret in (*SECRETS.values(), PASSWORD) if secret in message] == []


@functools.lru_cache
def _policy():
    words = [f"w{i}" for i in range(40)]
    return from_scratch(SHAPE, words, seed=0)


def load_spoiled(spoil, manifest=True):
    """Spoils a checkpoint's folder, writes its manifest again, and loads it."""
    folder = Path("policy")
    save_policy(_policy().model, _policy().tokenizer, folder)
    spoil(folder)
    if manifest:
        write_manifest(folder)
    return load_policy(folder).complete(["w1"], max_new_tokens=2)


def edit_json(path, **changes):
    repro.write_json(path, repro.read_json(path) | changes)


def tensors(change):
    def spoil(folder):
        path = folder / "model.safetensors"
        weights = load_file(path)
        change(weights)
        save_file(weights, path, {"format": "pt"})

    return spoil


def files_elsewhere(folder):
    listed = repro.read_json(folder / "manifest.json")["files"]
    edit_json(folder / "manifest.json", files=listed | {"../../../etc/passwd": "0"})


def pickled(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(PICKLE)


def code(folder):
    (folder / "evil.py").write_text(CODE + "\nfrom transformers import Qwen3ForCausalLM as M, Qwen3Config as C")
    auto = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M", "AutoTokenizer": ["evil.T", None]}
    edit_json(folder / "config.json", auto_map=auto)
    edit_json(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", "evil.T"]})


def code_of_an_unknown_model(folder):
    code(folder)
    edit_json(folder / "config.json", model_type="evil")


def adapter_on_a_remote_model(folder):
    for name in ("config.json", "model.safetensors"):
        (folder / name).unlink()
    config = {"peft_type": "LORA", "base_model_name_or_path": "evil/remote", "r": 1}
    repro.write_json(folder / "adapter_config.json", config)
    save_file({"x": torch.zeros(1)}, folder / "adapter_model.safetensors")
    (folder / "adapter_model.bin").write_bytes(PICKLE)


LAYER = "model.layers.0.mlp.up_proj.weight"


@pytest.mark.parametrize(
    ("spoil", "manifest", "text"),
    [
        (pickled, True, "no file named model.safetensors"),
        (lambda f: (f / "pytorch_model.bin").write_bytes(PICKLE), False, "is not in manifest.json"),
        (code_of_an_unknown_model, True, "cannot be loaded"),
        (tensors(lambda t: t[LAYER][0].fill_(np.inf)), True, "are not finite"),
        (files_elsewhere, False, "../../../etc/passwd is missing"),
        (adapter_on_a_remote_model, True, "an adapter; merge it into its model"),
        (tensors(lambda t: t.pop(LAYER)), True, "do not fit the configuration"),  # it is no random one
        (lambda f: (f / "chat_template.jinja").write_text("{% for %}"), True, "TemplateSyntaxError"),
        (lambda f: (f / "chat_template.jinja").write_text("hello"), True, "shows the message 0 times, not once"),
    ],
)
def test_checkpoints(spoil, manifest, text):
    fails(CheckpointError, text, load_spoiled, spoil, manifest)


def test_a_checkpoint_of_a_known_model_with_code_of_its_own_is_loaded_without_it():
    assert len(load_spoiled(code)) == 1


def test_keys_and_addresses(monkeypatch):
    fails(ValueError, "base_url: has a user, a password", OpenAIPolicy, "m", f"http://me:{PASSWORD}@127.0.0.1/v1")
    fails(ValueError, "concurrency: must be at least 1, not 0", lambda: OpenAIPolicy("m", concurrency=0))
    monkeypatch.setenv("OPENAI_API_KEY", SECRETS["OPENAI_API_KEY"] + "\nX: y")
    policy = OpenAIPolicy("m", "http://127.0.0.1:9/v1")
    fails(ServerError, "holds characters that no key has", policy.complete, ["a"])
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://me:{PASSWORD}@[::1]/v1")
    fails(ValueError, "OPENAI_BASE_URL: has a user, a password", lambda: OpenAIPolicy("m").complete(["a"]))


ARM = "    language_model: {"


@pytest.fixture
def repository(folder):
    return small_repo.repository(folder, "params.yaml")


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("seed: 0", f"seed: !!python/object/apply:os.system ['touch {CANARY}']", "could not determine a constructor"),
        (ARM, "    ../../../x: {variant: V1, ", "'../../../x' is no name"),
        (
            ARM,
            f"    own: {{model: 'openai:m', base_url: 'http://me:{PASSWORD}@127.0.0.1/v1'}}\n{ARM}",
            "base_url: has a user",
        ),
    ],
)
def test_parameters(repository, old, new, text):
    path = repository / "params.yaml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    shutil.copytree(small_repo.ROOT / "notebooks", repository / "notebooks")
    fails(ParamError, text, params.prepare, repository)


def test_a_parameter_whose_name_is_code(repository):
    values = {"arms": [], f"x = {CODE} #": 1}
    name = small_repo.prepared_stage(repository, "analysis", values, "arms = []\nrun = ''", "print(1)")
    fails(NotebookError, f"differs in x = {CODE} #", stages.run, repository, name, {})


def test_runs_outside_of_the_repository(repository):
    Path("runs").mkdir()
    Path("runs/x").symlink_to("/tmp")
    fails(ValueError, "a run is a folder inside", start, "runs/../..", "x")
    fails(ValueError, "is a folder inside", start, "runs/x", "y")
