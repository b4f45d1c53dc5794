"""The table of hostile cases: what is done to which public function, and what has to come of it.

An action gets an empty folder, which is also the working directory, and the address of the hostile server. It raises
the error of its line, or returns how the input was counted: a rejection, a verdict, the failures of a client. The
cases of the pipeline's stages (`mapflake.nb`) are apart, at the end.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from starts import TASKS

from mapflake import repro
from mapflake.engineer import read_reply, reply_grammar
from mapflake.engineer.designers import EngineerParams, params_of
from mapflake.env import judge, load_tasks, save_tasks
from mapflake.env.dataset import tasks_of, to_dataset
from mapflake.env.maps import read_map
from mapflake.nb import params, stages
from mapflake.nb.folders import start
from mapflake.nb.notebooks import NotebookError
from mapflake.repro import ParamError
from mapflake.trainer.checkpoint import CheckpointError, write_manifest
from mapflake.trainer.constrain import grammar_mask
from mapflake.trainer.openai_client import OpenAIPolicy, ServerError
from mapflake.trainer.params import ModelParams
from mapflake.trainer.policy import compact_tokenizer, from_scratch, load_policy, save_policy

ROOT = Path(__file__).resolve().parents[2]
TASK = TASKS[0]
CANARY = "canary.txt"
CODE = f"open({CANARY!r}, 'w').close()"  # the planted code
SECRETS = {name: f"canary-{name.lower()}-7f3a" for name in ("OPENAI_API_KEY", "WANDB_API_KEY", "HF_TOKEN")}
PASSWORD = "canary-password-7f3a"
PICKLE = b"cbuiltins\nexec\n(V" + CODE.encode() + b"\ntR."  # unpickling it runs CODE


@dataclass(frozen=True)
class Case:
    """Something hostile: `action(folder, server)` is to raise `error` with `text` in it, or to return `text`."""

    id: str
    action: Callable[[Path, str], Any]
    text: str
    error: type[Exception] | None = None


# ---------------------------------------------------------------- replies and completions


def reply(text: str) -> str:
    return str(read_reply(text, (3, 4), "json").rejection)


def ratios(data: str) -> str:
    return f'{{"sizes": {{"3": {{"data_ratio": {data}, "hole_ratio": 0, "wait_ratio": 0}}}}}}'


def verdict(text: str, prompt_format: str = "chat") -> str:
    return ", ".join(judge(TASK, text, prompt_format).kinds)


REPLIES = {
    "reply: code for a ratio": (ratios(f"\"__import__('os').system('touch {CANARY}')\""), "not a number"),
    "reply: a size that is a path": ('{"sizes": {"../../etc/passwd": {}}}', "unknown key '../../etc/passwd'"),
}
COMPLETIONS = {
    "completion: a plan in a plan": ('{"plan": ["R", ["U", ["D"]]]}', "chat", "parse"),
    "completion: steps without moves": ("; " * 50_000, "compact", "parse"),
    "completion: digits of another script": ("<> W a٠ <> W a0 ;", "compact", "parse"),
}


# ---------------------------------------------------------------- files of boards (wrong boards: tests/env)


def _file(name: str, content: bytes) -> Path:
    Path(name).write_bytes(content)
    return Path(name)


def tasks(line: bytes) -> Any:
    """Loads a file with this line in place of its first task."""
    save_tasks("tasks.jsonl", [TASK])
    schema, _ = Path("tasks.jsonl").read_bytes().splitlines()
    return load_tasks(_file("tasks.jsonl", b"\n".join([schema, line, b""])))


def two_files_in_one() -> Any:
    save_tasks("a.jsonl", [TASK])
    return load_tasks(_file("both.jsonl", 2 * Path("a.jsonl").read_bytes()))


def torn_parquet() -> Any:
    to_dataset([TASK]).to_parquet("a.parquet")
    _file("a.parquet", Path("a.parquet").read_bytes()[:-10])
    return tasks_of(Dataset.from_parquet("a.parquet", cache_dir="cache"))


DATASETS = {
    "tasks: two files in one": (two_files_in_one, "both.jsonl, line 3"),
    "tasks: half a line": (lambda: tasks(b'{"instance": {'), "line 2: not JSON"),
    "tasks: bytes": (lambda: tasks(b"\xff\xfe\xfd"), "not JSON ('utf-8' codec"),
    "tasks: a list for a task": (lambda: tasks(b"[1]"), "line 2: expected an object, found list"),
    "map: bytes": (lambda: read_map(_file("a.map", bytes(range(256)))), "a.map: not a text file"),
}


# ---------------------------------------------------------------- checkpoints


@functools.lru_cache
def _policy() -> Any:
    words = [f"w{i}" for i in range(40)]
    return from_scratch(ModelParams(hidden_size=32, layers=1, heads=2, intermediate_size=32), words, seed=0)


def checkpoint(spoil: Any, manifest: bool = True) -> Any:
    """Returns an action that spoils a checkpoint folder, writes its manifest again, and loads it."""

    def action() -> Any:
        folder = Path("policy")
        save_policy(_policy().model, _policy().tokenizer, folder)
        spoil(folder)
        if manifest:
            write_manifest(folder)
        return f"loaded, {len(load_policy(folder).complete(['w1'], max_new_tokens=2)[0])} completion"

    return action


def unlisted(spoil: Any) -> Any:
    return checkpoint(spoil, manifest=False)


def edit_json(name: str, **changes: Any) -> Any:
    def spoil(folder: Path) -> None:
        path = folder / name
        repro.write_json(path, (repro.read_json(path) if path.exists() else {}) | changes)

    return spoil


def tensors(change: Any) -> Any:
    def spoil(folder: Path) -> None:
        path = folder / "model.safetensors"
        held = load_file(path)
        change(held)
        save_file({k: v.contiguous() for k, v in held.items()}, path, {"format": "pt"})

    return spoil


def header(raw: bytes, size: int | None = None) -> Any:
    def spoil(folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(raw) if size is None else size) + raw)

    return spoil


def files_elsewhere(folder: Path) -> None:
    listed = repro.read_json(folder / "manifest.json")["files"]
    repro.write_json(folder / "manifest.json", {"files": listed | {"../../../etc/passwd": "0"}})


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(PICKLE)


def code(folder: Path) -> None:
    (folder / "evil.py").write_text(CODE + "\nfrom transformers import Qwen3ForCausalLM as M, Qwen3Config as C")
    auto = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M", "AutoTokenizer": ["evil.T", None]}
    edit_json("config.json", auto_map=auto)(folder)
    edit_json("tokenizer_config.json", auto_map={"AutoTokenizer": ["evil.T", "evil.T"]})(folder)


def code_of_an_unknown_model(folder: Path) -> None:
    code(folder)
    edit_json("config.json", model_type="evil")(folder)


def adapter(base: str, weights: bool = True) -> Any:
    def spoil(folder: Path) -> None:
        for name in ("config.json", "model.safetensors"):
            (folder / name).unlink()
        repro.write_json(folder / "adapter_config.json", {"peft_type": "LORA", "base_model_name_or_path": base, "r": 1})
        save_file({"x": torch.zeros(1)}, folder / ("adapter_model.safetensors" if weights else "other.safetensors"))
        (folder / "adapter_model.bin").write_bytes(PICKLE)

    return spoil


LAYER = "model.layers.0.mlp.up_proj.weight"
CHECKPOINTS = {
    "checkpoint: a pickle for weights": (checkpoint(pickled), "no file named model.safetensors"),
    "checkpoint: a pickle beside the weights": (
        unlisted(lambda f: (f / "pytorch_model.bin").write_bytes(PICKLE)), "is not in manifest.json"
    ),
    "checkpoint: code of its own for an unknown model": (checkpoint(code_of_an_unknown_model), "cannot be loaded"),
    "checkpoint: a header longer than the file": (checkpoint(header(b"{}", 10**6)), "cannot be loaded: Safetensor"),
    "checkpoint: no weights": (checkpoint(lambda f: (f / "model.safetensors").unlink()), "cannot be loaded"),
    "checkpoint: a tensor too many": (
        checkpoint(tensors(lambda t: t.update(evil=torch.zeros(1)))), "do not fit the configuration"
    ),
    "checkpoint: a tensor of another shape": (
        checkpoint(tensors(lambda t: t.update({LAYER: torch.zeros(64, 32)}))), "cannot be loaded"
    ),
    "checkpoint: a tensor with one infinity": (
        checkpoint(tensors(lambda t: t[LAYER][0].fill_(np.inf))), "are not finite"
    ),
    "checkpoint: a tokenizer cut off": (
        checkpoint(lambda f: (f / "tokenizer.json").write_text('{"version": "1.0", ')), "cannot be loaded"
    ),
    "checkpoint: a manifest of files elsewhere": (
        unlisted(files_elsewhere),
        "../../../etc/passwd is missing",
    ),
    "checkpoint: a manifest of nothing": (
        unlisted(lambda f: repro.write_json(f / "manifest.json", {"files": {}})), "is not in manifest"
    ),
    "checkpoint: a manifest that is a number": (
        unlisted(lambda f: repro.write_json(f / "manifest.json", 7)), "is not a list of files"
    ),
    "adapter: on a remote model": (checkpoint(adapter("evil/remote")), "evil/remote: no manifest.json"),
}  # fmt: skip


# ---------------------------------------------------------------- servers


def ask(path: str, **settings: Any) -> Any:
    """Returns an action that asks the hostile server for one completion: what the client counted."""

    def action(server: str) -> str:
        options = {"timeout": 5.0, "retries": 1} | settings
        policy = OpenAIPolicy("m", f"{server}/{path}/v1", **options)
        texts = policy.complete(["a"])
        return f"{dict(policy.failures)} {str(texts)[:100]}"

    return action


def with_environment(action: Any, **variables: str) -> Any:
    def changed(server: str) -> Any:
        os.environ.update(variables)
        return action(server)

    return changed


SERVERS = {
    "server: not JSON": (ask("not-json"), "{'unreadable reply"),
    "server: no choices": (ask("no-choices"), "{'unreadable reply (IndexError)': 1}"),
    "server: a choice that is null": (ask("null-choice"), "{'unreadable reply"),
    "server: a number for text": (ask("number"), "{'unreadable reply (ValueError)': 1}"),
    "server: lone surrogates": (ask("surrogates"), "{} [['??']]"),
    "server: not HTTP": (ask("garbage"), "{'no connection (RemoteProtocolError)': 1}"),
    "server: 429 and come back in thirty years": (ask("wait_for_ever", retries=0), "{'HTTP 429': 1}"),
    "server: 500 that shows the key": (ask("500"), "{'HTTP 500': 1}"),
    "server: a key of two lines": (
        with_environment(ask("401"), OPENAI_API_KEY=SECRETS["OPENAI_API_KEY"] + "\nX: y"),
        "holds characters that no key has",
    ),
    "server: a password in the environment's address": (
        with_environment(lambda _: OpenAIPolicy("m").complete(["a"]), OPENAI_BASE_URL=f"http://me:{PASSWORD}@[::1]/v1"),
        "OPENAI_BASE_URL: has a user, a password",
    ),
    "server: a password in the address": (
        lambda _: OpenAIPolicy("m", f"http://me:{PASSWORD}@127.0.0.1/v1"), "base_url: has a user, a password"
    ),
    "server: 401 that shows the key": (ask("401"), "refused: Bearer *** by"),
    "server: 403": (ask("403"), "(the key is read from OPENAI_API_KEY)"),
}  # fmt: skip
SERVER_ERRORS = {
    "server: 401 that shows the key": ServerError,
    "server: 403": ServerError,
    "server: a key of two lines": ServerError,
    "server: a password in the environment's address": ValueError,
    "server: a password in the address": ValueError,
}


# ---------------------------------------------------------------- grammars


def mask(grammar: str) -> Any:
    tokenizer = compact_tokenizer(["a", "b"])
    allowed = grammar_mask(tokenizer, grammar, len(tokenizer))
    return [allowed([[3] * n]).sum().item() for n in range(3)]


GRAMMARS = {
    "grammar: not one": (lambda: mask("start: ("), "grammar: "),
    "grammar: a word that is none": (lambda: mask("start: <nowhere>"), "grammar: "),
    "grammar: a rule that is not there": (lambda: mask("start: nothing"), "grammar: "),
    "grammar: sizes that are code": (lambda: reply_grammar([f"3}} {CODE}"], "json"), "is not an integer in 3..10"),
}


# ---------------------------------------------------------------- the pipeline's stages (mapflake.nb)


def parameters(folder: Path, old: str = "", new: str = "", text: str | bytes | None = None) -> Any:
    """Checks a copy of the repository's parameters with one change, or other text altogether."""
    changed = (ROOT / "params.yaml").read_text()
    assert old in changed
    content = changed.replace(old, new, 1) if text is None else text
    (folder / "params.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    (folder / "mapflake").symlink_to(ROOT / "mapflake")
    params.prepare(folder)


PARAMETERS = {
    "parameters: a Python object": (
        {"old": "seed: 0", "new": f"seed: !!python/object/apply:os.system ['touch {CANARY}']"},
        "could not determine a constructor",
    ),
    "parameters: a NUL": ({"text": "a: \x00"}, "special characters are not allowed"),
    "parameters: infinity": ({"old": "learning_rate: 2.0e-3", "new": "learning_rate: .inf"}, "inf is not legal"),
    "parameters: true for a number": ({"old": "samples: 2 ", "new": "samples: true "}, "True is not legal"),
    "parameters: a date for a number": ({"old": "seed: 0", "new": "seed: 2026-01-01"}, "not legal"),
    "parameters: an arm that is a path": (
        {"old": "    v1: {variant: V1}", "new": "    ../../../x: {variant: V1}"}, "'../../../x' is no name"
    ),
    "parameters: a password in an address": (
        {
            "old": "    v1: {variant: V1}",
            "new": f"    v1: {{model: 'openai:m', base_url: 'http://me:{PASSWORD}@127.0.0.1/v1'}}",
        },
        "base_url: has a user, a password or a query in it",
    ),
    "parameters: a profile of code": ({"old": "profile: default", "new": "profile: [default]"}, "is not legal"),
}  # fmt: skip


def stage(folder: Path, values: Any) -> Any:
    """Runs a notebook as a stage whose prepared parameters are `values`."""
    (folder / "mapflake").symlink_to(ROOT / "mapflake")
    shutil.copy(ROOT / "params.yaml", folder)
    cells = [nbformat.v4.new_code_cell(source) for source in ("arms = []\nrun = ''", "print(1)")]
    cells[0].metadata["tags"] = ["parameters"]
    (folder / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "notebooks/05_analysis.ipynb")
    (folder / "build/params").mkdir(parents=True)
    (folder / "build/params/analysis.json").write_text(json.dumps(values))
    return stages.run(folder, "05_analysis", {})


def in_repository(folder: Path, action: Any) -> Any:
    (folder / "mapflake").symlink_to(ROOT / "mapflake")
    shutil.copy(ROOT / "params.yaml", folder)
    return action()


def linked(folder: Path) -> None:
    (folder / "runs").mkdir()
    (folder / "runs/x").symlink_to("/tmp")


NOTEBOOKS = {
    "papermill: a name that is code": (
        lambda f: stage(f, {"arms": [], f"x = {CODE} #": 1}), f"differs in x = {CODE} #", NotebookError
    ),
    "run: a folder above": (
        lambda f: in_repository(f, lambda: start("runs/../..", "x")), "a run is a folder inside", ValueError
    ),
    "run: a link that leads out": (
        lambda f: in_repository(f, lambda: linked(f) or start("runs/x", "y")),
        "is a folder inside", ValueError,
    ),
}  # fmt: skip


STAGES = [
    *(
        Case(n, lambda f, s, options=options: parameters(f, **options), said, ParamError)
        for n, (options, said) in PARAMETERS.items()
    ),
    *(Case(n, lambda f, s, a=a: a(f), said, error) for n, (a, said, error) in NOTEBOOKS.items()),
]


# ---------------------------------------------------------------- all cases


def _calls() -> list[Case]:
    """Returns all cases; each action as `action(folder, server)`."""
    cases = [Case(n, lambda f, s, t=t: reply(t), said) for n, (t, said) in REPLIES.items()]
    cases += [Case(n, lambda f, s, t=t, d=d: verdict(t, d), said) for n, (t, d, said) in COMPLETIONS.items()]
    for table, error in (
        (DATASETS, ValueError), (CHECKPOINTS, CheckpointError),
        (GRAMMARS, ValueError),
    ):  # fmt: skip
        cases += [Case(n, lambda f, s, a=action: a(), said, error) for n, (action, said) in table.items()]
    cases += [Case(n, lambda f, s, a=a: a(s), said, SERVER_ERRORS.get(n)) for n, (a, said) in SERVERS.items()]
    cases += [
        Case("rows: a Parquet file cut off", lambda f, s: torn_parquet(), "magic bytes not found", Exception),
        Case("checkpoint: code of its own, known model", lambda f, s: checkpoint(code)(), "loaded, 1 completion"),
        Case("grammar: it begins with itself, for ever", lambda f, s: mask("start: start start"), "[1, 1, 1]"),
        Case(
            "arm: a name that is a path",
            lambda f, s: params_of("../x", EngineerParams(), {}), "arm: '../x' is none of", ValueError,
        ),
    ]  # fmt: skip
    return cases + STAGES


CASES = _calls()
