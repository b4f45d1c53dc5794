"""The table of hostile cases: what is done to which public function, and what has to come of it.

An action gets an empty folder, which is also the working directory, and the address of the hostile server. It raises
the error of its line, or returns how the input was counted: a rejection, a verdict, the failures of a client.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import shutil
import struct
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import torch
from datasets import Dataset
from harness import CANARY, CODE, PASSWORD, SECRETS, Case, run
from safetensors.torch import load_file, save_file
from starts import TASKS, byte_level_tokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM

from mapflake import repro
from mapflake.engineer import Ledger, LedgerError, read_reply, replay, reply_grammar
from mapflake.engineer.designers import EngineerParams, params_of
from mapflake.engineer.ledger import Round
from mapflake.engineer.report import FailureReport
from mapflake.env import EnvConfig, Instance, judge, load_tasks, save_tasks
from mapflake.env.dataset import tasks_of, to_dataset
from mapflake.env.maps import read_map, read_scenario
from mapflake.nb import runner, sections
from mapflake.nb.folders import require, start
from mapflake.nb.notebooks import NotebookError
from mapflake.nb.publish import publish
from mapflake.repro import ParamError
from mapflake.trainer import evaluate
from mapflake.trainer.checkpoint import CheckpointError, seal
from mapflake.trainer.constrain import grammar_mask
from mapflake.trainer.openai_client import OpenAIPolicy, ServerError
from mapflake.trainer.policy import ModelParams, compact_tokenizer, from_scratch, load_policy, save_policy
from mapflake.trainer.warmstart import WarmStartParams, warm_start

ROOT = Path(__file__).resolve().parents[2]
TASK = TASKS[0]
PICKLE = b"cbuiltins\nexec\n(V" + CODE.encode() + b"\ntR."  # unpickling it runs CODE
JINJA = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
SHELL = f"x; touch {CANARY} #"


def run_case(name: str, folder: Path, server: str, pipe: Connection) -> None:
    """Runs the case of this name, see `harness.run`."""
    run(next(case for case in CASES if case.id == name), folder, server, pipe)


# ---------------------------------------------------------------- replies and completions


def reply(text: str, prompt_format: str = "json") -> str:
    return str(read_reply(text, (3, 4), prompt_format).rejection)


def ratios(data: str) -> str:
    return f'{{"sizes": {{"3": {{"data_ratio": {data}, "hole_ratio": 0, "wait_ratio": 0}}}}}}'


def verdict(text: str, prompt_format: str = "chat") -> str:
    return ", ".join(judge(TASK, text, prompt_format).kinds)


REPLIES = {
    "reply: code for a ratio": (ratios(f"\"__import__('os').system('touch {CANARY}')\""), "not a number"),
    "reply: a template": (f"{{{{ cycler.__init__.__globals__.os.popen('touch {CANARY}') }}}}", "not JSON"),
    "reply: a YAML tag": (f'!!python/object/apply:os.system ["touch {CANARY}"]', "no JSON object"),
    "reply: a size that is a path": ('{"sizes": {"../../etc/passwd": {}}}', "unknown key '../../etc/passwd'"),
    "reply: a shell command as key": (f'{{"sizes": {{"$(touch {CANARY})": 1}}}}', "unknown key '$(touch"),
    "reply: a prototype": ('{"__proto__": {"sizes": {}}}', "unknown key '__proto__'"),
    "reply: 300 digits": (ratios("9" * 301), "is out of range"),
    "reply: 1e400": (ratios("1e400"), "'1e400' is out of range"),
    "reply: NaN": (ratios("NaN"), "NaN is not a number"),
    "reply: 10 MB of braces": ("{" * 10_000_000, "too long"),
    "reply: 10,000 objects within": ('{"a":' * 10_000 + "1" + "}" * 10_000, "the JSON object is too long"),
    "reply: a million thoughts": ("<think>" * 100_000, "the reasoning is not closed"),
    "reply: a lone surrogate": ("\ud800" + ratios("1"), "lone surrogate U+D800"),
    "reply: a terminal's escape": ("\x1b]0;x\x07" + ratios("1"), "control character"),
    "reply: the same key twice": (ratios('1, "data_ratio": 2'), "'data_ratio' is given twice"),
}
COMPLETIONS = {
    "completion: 10 MB of openings": ('{"plan":' * 1_250_000, "chat", "parse"),
    "completion: 100,000 brackets": ('{"plan": ' + "[" * 100_000, "chat", "parse"),
    "completion: a plan in a plan": ('{"plan": ["R", ["U", ["D"]]]}', "chat", "parse"),
    "completion: 5,000 digits": ('{"plan": [' + "9" * 5000 + "]}", "chat", "parse"),
    "completion: 5,000 agents": ('{"plan": [' + ", ".join(['""'] * 4900) + "]}", "chat", "agents"),
    "completion: 19,000 moves that are none": ('{"plan": ["' + "x" * 19_000 + '", "R"]}', "chat", "move"),
    "completion: a bracket and 10 MB of blanks": ("{" + " " * 10_000_000 + '"plan"', "chat", "parse"),
    "completion: steps without moves": ("; " * 50_000, "compact", "parse"),
    "completion: 12 MB of words": ("<> W a0 " * 1_500_000, "compact", "parse"),
    "completion: digits of another script": ("<> W a٠ <> W a0 ;", "compact", "parse"),
}


# ---------------------------------------------------------------- params.yaml


def parameters(folder: Path, old: str = "", new: str = "", text: str | bytes | None = None) -> Any:
    """Checks a copy of the repository's parameters with one change, or other text altogether."""
    changed = (ROOT / "params.yaml").read_text()
    assert old in changed
    content = changed.replace(old, new, 1) if text is None else text
    (folder / "params.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    shutil.copytree(ROOT / "notebooks", folder / "notebooks")
    (folder / "mapflake").symlink_to(ROOT / "mapflake")
    sections.prepare(folder)


def aliases(values: int, depth: int) -> str:
    """Returns YAML that writes out to values ** depth values."""
    lines = ["l0: &l0 x"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * values)}]" for i in range(1, depth + 1)]
    return "\n".join(lines)


PARAMETERS = {
    "parameters: a billion laughs": ({"text": aliases(10, 9)}, "of an alias; write the value out"),
    "parameters: laughs in a designer": (
        {"old": "    v1: {variant: V1}", "new": "    " + aliases(9, 9).replace("\n", "\n    ")},
        "of an alias; write the value out",
    ),
    "parameters: an alias of itself": (
        {"old": "    v1: {variant: V1}", "new": "    v1: &d {x: *d}"},
        "of an alias; write the value out",
    ),
    "parameters: 30,000 brackets": ({"text": "a: " + "[" * 30_000}, "nests too deep"),
    "parameters: 1 MB": ({"text": "# " + "x" * 1_000_000}, "1000002 bytes"),
    "parameters: a Python object": (
        {"old": "seed: 0", "new": f"seed: !!python/object/apply:os.system ['touch {CANARY}']"},
        "could not determine a constructor",
    ),
    "parameters: not UTF-8": ({"text": b"\xff\xfe\x00"}, "not UTF-8"),
    "parameters: a NUL": ({"text": "a: \x00"}, "special characters are not allowed"),
    "parameters: a key twice": ({"old": "  seed: 0", "new": "  seed: 0\n  seed: 1"}, "'seed' is given twice"),
    "parameters: a merge key": ({"old": "  seed: 0", "new": "  <<: {seed: 0}"}, "tag:yaml.org,2002:merge"),
    "parameters: a list as key": ({"old": "  seed: 0", "new": "  [1, 2]: 0\n  seed: 0"}, "a key is a word"),
    "parameters: 5,000 digits": ({"old": "seed: 0", "new": "seed: " + "9" * 5000}, "a value cannot be read"),
    "parameters: 5,000 hexadecimal digits": ({"old": "seed: 0", "new": "seed: -0x" + "f" * 5000}, "too long to show"),
    "parameters: an integer of nothing": ({"old": "seed: 0", "new": "seed: !!int ''"}, "a value cannot be read"),
    "parameters: a truth of nothing": ({"old": "seed: 0", "new": "seed: !!bool never"}, "a value cannot be read"),
    "parameters: a time of nothing": ({"old": "seed: 0", "new": "seed: !!timestamp x"}, "a value cannot be read"),
    "parameters: NaN": ({"old": "hard_share: 0.6", "new": "hard_share: .nan"}, "hard_share: nan is not legal"),
    "parameters: infinity": ({"old": "learning_rate: 2.0e-3", "new": "learning_rate: .inf"}, "inf is not legal"),
    "parameters: 1e999": ({"old": "learning_rate: 2.0e-3", "new": "learning_rate: 1.0e+999"}, "inf is not legal"),
    "parameters: true for a number": ({"old": "samples: 2 ", "new": "samples: true "}, "True is not legal"),
    "parameters: a date for a number": ({"old": "seed: 0", "new": "seed: 2026-01-01"}, "not legal"),
    "parameters: a model of 10^12": (
        {"old": "hidden_size: 96", "new": "hidden_size: 1000000000000"}, "less than or equal to"
    ),
    "parameters: an arm that is a path": (
        {"old": "    v1: {variant: V1}", "new": "    ../../../x: {variant: V1}"}, "'../../../x' is no name"
    ),
    "parameters: an arm that is a command": (
        {"old": "    v1: {variant: V1}", "new": f"    '{SHELL}': {{}}"}, "is no name"
    ),
    "parameters: a password in an address": (
        {
            "old": "    v1: {variant: V1}",
            "new": f"    x: {{model: 'openai:m', base_url: 'http://me:{PASSWORD}@127.0.0.1/v1'}}",
        },
        "base_url: has a user, a password or a query in it",
    ),
    "parameters: a key in an address": (
        {
            "old": "    v1: {variant: V1}",
            "new": f"    x: {{model: 'openai:m', base_url: 'http://127.0.0.1/v1?key={PASSWORD}'}}",
        },
        "base_url: has a user, a password or a query in it",
    ),
    "parameters: a file as address": (
        {"old": "    v1: {variant: V1}", "new": "    x: {model: 'openai:m', base_url: 'file:///etc/passwd'}"},
        "base_url: not the address of a server",
    ),
    "parameters: a profile of code": ({"old": "profile: default", "new": "profile: [default]"}, "is not legal: one of"),
}  # fmt: skip


# ---------------------------------------------------------------- boards


def instance(**changes: Any) -> Instance:
    return Instance.from_dict(TASK.instance.to_dict() | changes)


BOARDS = {
    "board: an agent of 5,000 digits": (lambda: Instance.from_text("S" + "9" * 5000), "row 0, column 0: 'S999"),
    "board: agent 999999": (lambda: Instance.from_text("S999999G1"), "agent 1 has no start"),
    "board: 10 MB in one cell": (lambda: Instance.from_text("x" * 10_000_000), "row 0, column 0: 'xxx"),
    "board: 5,000 rows": (lambda: Instance.from_text(". \n" * 5000), "5000 rows are more than 2048"),
    "board: two million cells in a row": (
        lambda: Instance.from_text(". " * 2_000_000),
        "2000000 cells on a board of 1",
    ),
    "board: a size of 10^9": (lambda: instance(size=10**9), "size: 1000000000 is more than 2048"),
    "board: a size of 4,000 digits": (lambda: instance(size=10**3999), "is more than 2048"),
    "board: a size that is true": (lambda: instance(size=True), "size: True is not a positive integer"),
    "board: a size that is NaN": (lambda: instance(size=float("nan")), "size: nan is not a positive integer"),
    "board: a hole of a million numbers": (lambda: instance(holes=[[0] * 10**6]), "hole: [0, 0, 0"),
    "board: a hole that is a word": (lambda: instance(holes=["ab"]), "hole: 'ab' is not a cell of two integers"),
    "board: starts that are a word": (lambda: instance(starts="ab"), "starts: 'ab' is not a list of cells"),
    "map: padded to 10^10 cells": (
        lambda: read_scenario(
            read_map("type octile\nheight 1\nwidth 99999\nmap\n" + "." * 99_999),
            "version 1\n0\tm\t99999\t1\t0\t0\t1\t0\t1", 1),
        "size: 99999 is more than 2048",
    ),
    "map: a height it does not have": (
        lambda: read_map("type octile\nheight 99999\nwidth 99999\nmap\n."), "1 rows, but its header says height 99999"
    ),
    "map: a height of 5,000 digits": (lambda: read_map("type octile\nheight " + "9" * 5000 + "\n"), "line 2: expected"),
    "map: bytes": (lambda: read_map(_file("a.map", bytes(range(256)))), "a.map: not a text file"),
    "scenario: off the map": (
        lambda: read_scenario(read_map("type octile\nheight 1\nwidth 2\nmap\n.."),
                              "version 1\n0\t../../../etc/passwd\t2\t1\t99999\t0\t1\t0\t1", 1),
        "start in row 0, column 99999 is not on the map",
    ),
}  # fmt: skip


def _file(name: str, content: bytes) -> Path:
    Path(name).write_bytes(content)
    return Path(name)


# ---------------------------------------------------------------- task sets and rollouts


def tasks(*lines: str | bytes, edit: Any = None) -> Any:
    """Loads a file of the schema's line and these, or of one task with an edit."""
    if edit is not None:
        row = TASK.to_dict()
        edit(row)
        lines = (json.dumps({"schema": "mapflake.tasks/1"}), json.dumps(row))
    content = b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines)
    return load_tasks(_file("tasks.jsonl", content))


def rollouts(**changes: Any) -> Any:
    row = {"schema": 1, "prompt_format": "chat", "task": TASK.to_dict(), "sample": 0, "completion": "x"} | changes
    row = {key: value for key, value in row.items() if value is not None}
    return evaluate.load_rollouts(_file("rollouts.jsonl", (json.dumps(row) + "\n").encode()))


def rows(**changes: Any) -> Any:
    row = dict(to_dataset([TASK])[0]) | changes
    return tasks_of([row])


def mixed() -> Any:
    save_tasks("a.jsonl", [TASK])
    parts = [Path("a.jsonl").read_text(), json.dumps({"schema": "mapflake.tasks/2"}), json.dumps(TASK.to_dict())]
    return load_tasks(_file("both.jsonl", ("".join(parts[:1]) + "\n".join(parts[1:]) + "\n").encode()))


def torn_parquet() -> Any:
    to_dataset([TASK]).to_parquet("a.parquet")
    _file("a.parquet", Path("a.parquet").read_bytes()[:-10])
    return tasks_of(Dataset.from_parquet("a.parquet", cache_dir="cache"))


SQUARE = [[i // 50, i % 50] for i in range(2500)]
SCHEMA = '{"schema": "mapflake.tasks/1"}'
DATASETS = {
    "tasks: of a later schema": (lambda: tasks('{"schema": "mapflake.tasks/9"}'), "expected schema 'mapflake.tasks/1'"),
    "tasks: no schema": (lambda: tasks("{}"), "line 1: expected schema"),
    "tasks: nothing": (lambda: tasks(), "found 'nothing'"),
    "tasks: two schemas in one file": (mixed, "both.jsonl, line 3: task: unknown key 'schema'"),
    "tasks: half a line": (lambda: tasks(SCHEMA, '{"instance": {'), "line 2: not JSON"),
    "tasks: 100,000 brackets": (lambda: tasks(SCHEMA, "[" * 100_000 + "]" * 100_000), "line 2: not JSON that can be"),
    "tasks: 10,000 digits": (lambda: tasks(SCHEMA, '{"makespan": ' + "9" * 10_000 + "}"), "a number is too long"),
    "tasks: bytes": (lambda: tasks(SCHEMA, b"\xff\xfe\xfd"), "line 2: not UTF-8"),
    "tasks: a list for a task": (lambda: tasks(SCHEMA, "[1]"), "line 2: expected an object, found list"),
    "tasks: a plan through a hole": (lambda: tasks(edit=lambda r: r.update(plan=["UUUUUU", "W"])), "is not valid"),
    "tasks: a plan of 10^8 moves": (lambda: tasks(edit=lambda r: r.update(plan=["W" * 10**8, ""])), "are more than"),
    "tasks: a board of 10^9": (lambda: tasks(edit=lambda r: r["instance"].update(size=10**9)), "is more than 2048"),
    "tasks: 2,500 agents": (
        lambda: tasks(edit=lambda r: r.update(
            instance={"size": 50, "holes": [], "starts": SQUARE, "goals": SQUARE},
            plan=["D"] * 1250 + ["U"] * 1250)),
        "is not valid",
    ),
    "tasks: a makespan that is no number": (lambda: tasks(edit=lambda r: r.update(makespan="1e9")), "is not a count"),
    "tasks: a makespan too good": (lambda: tasks(edit=lambda r: r.update(makespan=0)), "makespan: 0 but the plan has"),
    "tasks: a key too many": (
        lambda: tasks(edit=lambda r: r.update({"__class__": "x" * 10**6})),
        "unknown key '__class",
    ),
    "rows: an instance that is none": (lambda: rows(instance=None), "row 0: instance: None is not JSON text"),
    "rows: an instance 100,000 deep": (lambda: rows(instance="[" * 100_000), "row 0: not JSON that can be read"),
    "rows: a pickle for an instance": (lambda: rows(instance=PICKLE), "is not JSON text"),
    "rows: a plan that is none": (lambda: rows(plan=None), "row 0: plan: None is not a list of strings"),
    "rollouts: without a task": (lambda: rollouts(task=None), "line 1: task: missing"),
    "rollouts: of an unknown prompt_format": (lambda: rollouts(prompt_format="../x"), "line 1: prompt_format: '../x' is none of"),
    "rollouts: a completion that is a number": (lambda: rollouts(completion=7), "line 1: completion: int is not a"),
    "rollouts: of a later schema": (lambda: rollouts(schema=2), "line 1: schema 2, this version reads 1"),
}  # fmt: skip


# ---------------------------------------------------------------- checkpoints


@functools.lru_cache
def _models() -> tuple[Any, Any, Any]:
    """Returns a compact policy, a chat model and its tokenizer, all tiny."""
    words = [f"w{i}" for i in range(40)]
    compact = from_scratch(ModelParams(hidden_size=32, layers=1, heads=2, intermediate_size=32), words, seed=0)
    tokenizer = byte_level_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
        head_dim=16, intermediate_size=32, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    return compact, Qwen3ForCausalLM(config), tokenizer


_models()  # before the processes of the cases are forked
platform.processor()  # asks a program, `uname`, once


def checkpoint(*, chat: bool = False, sealed: bool = True) -> Any:
    """Returns what makes an action of a function that spoils a checkpoint folder: it is sealed again, and loaded."""

    def decorate(spoil: Any) -> Any:
        def action() -> Any:
            compact, model, tokenizer = _models()
            folder = Path("policy")
            save_policy(*((model, tokenizer) if chat else (compact.model, compact.tokenizer)), folder)
            spoil(folder)
            if sealed:
                seal(folder)
            policy = load_policy(folder)
            return f"loaded, {len(policy.complete(['w1'], max_new_tokens=2)[0])} completion"

        return action

    return decorate


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
    names = [path.name for path in folder.iterdir()]
    repro.write_json(folder / "manifest.json", {"files": dict.fromkeys([*names, "../../../etc/passwd"], "0")})


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


def template(text: str) -> Any:
    def spoil(folder: Path) -> None:
        (folder / "chat_template.jinja").write_text(text)

    return spoil


def adapter(base: str, weights: bool = True) -> Any:
    def spoil(folder: Path) -> None:
        for name in ("config.json", "model.safetensors"):
            (folder / name).unlink()
        repro.write_json(folder / "adapter_config.json", {"peft_type": "LORA", "base_model_name_or_path": base, "r": 1})
        save_file({"x": torch.zeros(1)}, folder / ("adapter_model.safetensors" if weights else "other.safetensors"))
        (folder / "adapter_model.bin").write_bytes(PICKLE)

    return spoil


def adapter_of_an_adapter(folder: Path) -> None:
    shutil.copytree(folder, "base")
    adapter("evil/remote")(Path("base"))
    seal(Path("base"))
    adapter("base")(folder)


def shards(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00001.safetensors")
    edit_json("model.safetensors.index.json", metadata={}, weight_map={"x": "../../evil.bin"})(folder)


def resumed(name: str) -> Any:
    """Returns an action that goes on with a training whose save has a pickle of code in place of one of its files."""

    def action() -> Any:
        pairs, words = [("w1", "w2 w3")] * 4, [f"w{i}" for i in range(5)]
        shape = ModelParams(hidden_size=16, layers=1, heads=2, intermediate_size=16)
        params = WarmStartParams(model=shape, steps=2, batch_size=2, microbatch=2, warmup_steps=0, save_every=1)
        out = Path("out")
        from mapflake.trainer import warmstart

        saved, warmstart.save_policy = warmstart.save_policy, _interrupt
        try:
            warm_start(pairs, words, params, out, seed=0)
        except KeyboardInterrupt:
            warmstart.save_policy = saved
        (save,) = Path("out.unfinished").glob("checkpoint-1")
        shutil.rmtree("out.unfinished/checkpoint-2")
        (save / name).write_bytes(PICKLE)
        seal(save)
        return warm_start(pairs, words, params, out, seed=0)

    return action


def _interrupt(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


NOT_THERE = b'{"x": {"dtype": "F32", "shape": [1000000, 1000000], "data_offsets": [0, 4000000000000]}}'
LAYER = "model.layers.0.mlp.up_proj.weight"
CHECKPOINTS = {
    "checkpoint: a pickle for weights": (checkpoint()(pickled), "no *.safetensors file; other formats can run code"),
    "checkpoint: a pickle beside the weights": (
        checkpoint(sealed=False)(lambda f: (f / "pytorch_model.bin").write_bytes(PICKLE)), "is not in manifest.json"
    ),
    "checkpoint: code of its own for an unknown model": (checkpoint()(code_of_an_unknown_model), "cannot be loaded"),
    "checkpoint: a header of 2^63 bytes": (checkpoint()(header(b"{}", 2**63)), "cannot be loaded: SafetensorError"),
    "checkpoint: a header longer than the file": (checkpoint()(header(b"{}", 10**6)), "cannot be loaded: Safetensor"),
    "checkpoint: a header 100,000 deep": (checkpoint()(header(b'{"a":' * 10**5)), "cannot be loaded: SafetensorError"),
    "checkpoint: a tensor of 10^12 that is not there": (
        checkpoint()(header(NOT_THERE)),
        "cannot be loaded: SafetensorError",
    ),
    "checkpoint: no weights": (checkpoint()(lambda f: (f / "model.safetensors").unlink()), "no *.safetensors file"),
    "checkpoint: a tensor missing": (checkpoint()(tensors(lambda t: t.pop(LAYER))), "do not fit the configuration"),
    "checkpoint: a tensor too many": (
        checkpoint()(tensors(lambda t: t.update(evil=torch.zeros(1)))), "do not fit the configuration"
    ),
    "checkpoint: a tensor of another shape": (
        checkpoint()(tensors(lambda t: t.update({LAYER: torch.zeros(64, 32)}))), "Error"
    ),
    "checkpoint: a tensor that is NaN": (checkpoint()(tensors(lambda t: t[LAYER].fill_(np.nan))), "are not finite"),
    "checkpoint: a tensor with one infinity": (
        checkpoint()(tensors(lambda t: t[LAYER][0].fill_(np.inf))), "are not finite"
    ),
    "checkpoint: a configuration of 10^12 numbers": (
        checkpoint()(edit_json("config.json", hidden_size=10**6, vocab_size=10**6)), "the files hold"
    ),
    "checkpoint: a configuration of 10^9 layers": (
        checkpoint()(edit_json("config.json", num_hidden_layers=10**9, layer_types=None)), "1000000000 layers, "
    ),
    "checkpoint: a configuration 100,000 deep": (
        checkpoint()(lambda f: (f / "config.json").write_text('{"a":' * 10**5)), "cannot be loaded"
    ),
    "checkpoint: a tokenizer cut off": (
        checkpoint()(lambda f: (f / "tokenizer.json").write_text('{"version": "1.0", ')), "cannot be loaded"
    ),
    "checkpoint: a manifest of files elsewhere": (
        checkpoint(sealed=False)(files_elsewhere),
        "manifest.json names '../../../etc/passwd', a file elsewhere",
    ),
    "checkpoint: a manifest of nothing": (
        checkpoint(sealed=False)(lambda f: repro.write_json(f / "manifest.json", {"files": {}})), "is not in manifest"
    ),
    "checkpoint: a manifest that is a number": (
        checkpoint(sealed=False)(lambda f: repro.write_json(f / "manifest.json", 7)), "is not a list of files"
    ),
    "checkpoint: a manifest 100,000 deep": (
        checkpoint(sealed=False)(lambda f: (f / "manifest.json").write_text("[" * 10**5)), "is not a list of files"
    ),
    "checkpoint: shards elsewhere": (checkpoint()(shards), "names '../../evil.bin', no weight file of this folder"),
    "template: it reaches for classes": (checkpoint(chat=True)(template(JINJA)), "its chat template fails: Security"),
    "template: it never ends": (
        checkpoint(chat=True)(template("{% for i in range(99999) %}" * 2 + "{% endfor %}" * 2)),
        "its chat template took more than 2 s",
    ),
    "template: 100 GB of text": (checkpoint(chat=True)(template("{{ 'x' * 10**11 }}")), "its chat template fails: Mem"),
    "template: 10 MB of text": (checkpoint(chat=True)(template("{{ 'x' * 10**7 }}")), "writes 10000000 characters"),
    "template: it hides the message": (checkpoint(chat=True)(template("hello")), "shows the message 0 times, not once"),
    "template: it repeats the message": (
        checkpoint(chat=True)(template("{{ messages[0].content * 3 }}")), "shows the message 3 times, not once"
    ),
    "template: not Jinja": (checkpoint(chat=True)(template("{% for %}")), "its chat template fails: TemplateSyntax"),
    "adapter: on a remote model": (checkpoint()(adapter("evil/remote")), "an adapter for 'evil/remote', which is no"),
    "adapter: on a folder that is not there": (checkpoint()(adapter("/nowhere/x")), "'/nowhere/x', which is no folder"),
    "adapter: on an adapter": (checkpoint()(adapter_of_an_adapter), "its base is a whole model"),
    "adapter: a pickle for weights": (
        checkpoint()(adapter(".", weights=False)),
        "an adapter has adapter_model.safeten",
    ),
    "checkpoint: a name that is none": (lambda: load_policy("../../no/such/folder"), "no such folder"),
    "resume: a pickle for the optimizer": (resumed("optimizer.pt"), "holds more than tensors and is not read"),
    "resume: a pickle for the random numbers": (resumed("rng_state.pth"), "holds more than tensors and is not read"),
    "resume: a pickle for the schedule": (resumed("scheduler.pt"), "holds more than tensors and is not read"),
}  # fmt: skip


# ---------------------------------------------------------------- servers


def ask(path: str, **settings: Any) -> Any:
    """Returns an action that asks the hostile server for one completion: what the client counted."""

    def action(server: str) -> str:
        options = {"timeout": 5.0, "retries": 1, "pause": 0.01} | settings
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
    "server: half a reply": (ask("half"), "{'unreadable reply"),
    "server: a list": (ask("list"), "{'unreadable reply"),
    "server: no choices": (ask("no-choices"), "{'unreadable reply (IndexError)': 1}"),
    "server: a choice that is null": (ask("null-choice"), "{'unreadable reply"),
    "server: a number for text": (ask("number"), "{'unreadable reply (ValueError)': 1}"),
    "server: an object for text": (ask("object"), "{'unreadable reply (ValueError)': 1}"),
    "server: 200,000 brackets": (ask("deep"), "{'unreadable reply"),
    "server: 10,000 digits": (ask("digits"), "{'unreadable reply"),
    "server: lone surrogates": (ask("surrogates"), "{} [['\\ud800\\ud800']]"),
    "server: a body without end": (ask("endless"), "{'unreadable reply (more than 8000000 bytes)': 1}"),
    "server: an error without end": (ask("endless_error"), "{'unreadable reply (more than 8000000 bytes)': 1}"),
    "server: a gigabyte packed small": (ask("packed"), "{'unreadable reply (it is compressed"),
    "server: one byte at a time": (ask("drip", timeout=0.5), "{'no answer within 0.5 s': 1}"),
    "server: headers without end": (ask("headers_without_end"), "{'no connection (RemoteProtocolError)': 1}"),
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
    "server: a redirect to elsewhere": (ask("redirect"), "it redirects to http://169.254.169.254/latest"),
    "server: a redirect to itself": (ask("loop"), "which is not followed"),
}  # fmt: skip
SERVER_ERRORS = dict.fromkeys(list(SERVERS)[-4:], ServerError) | {
    "server: a key of two lines": ServerError,
    "server: a password in the environment's address": ValueError,
    "server: a password in the address": ValueError,
}


# ---------------------------------------------------------------- notebooks, ledgers, grammars


def stage(folder: Path, values: Any, item: str | None = None, name: str = "05_analysis") -> Any:
    """Runs a notebook as a stage whose prepared parameters are `values`."""
    (folder / "mapflake").symlink_to(ROOT / "mapflake")
    shutil.copy(ROOT / "params.yaml", folder)
    cells = [nbformat.v4.new_code_cell(source) for source in ("arms = []\nrun = ''", "print(1)")]
    cells[0].metadata["tags"] = ["parameters"]
    (folder / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "notebooks" / f"{name}.ipynb")
    section = name[3:]
    (folder / "build/params").mkdir(parents=True)
    (folder / f"build/params/{section}.json").write_text(values if isinstance(values, str) else json.dumps(values))
    return runner.run(folder, name, item)


def in_repository(folder: Path, action: Any) -> Any:
    (folder / "mapflake").symlink_to(ROOT / "mapflake")
    shutil.copy(ROOT / "params.yaml", folder)
    return action()


def linked(folder: Path) -> None:
    (folder / "runs").mkdir()
    (folder / "runs/x").symlink_to("/tmp")


NOTEBOOKS = {
    "papermill: a name that is code": (
        lambda f: stage(f, {"arms": [], f"x = {CODE} #": 1}), f"lacks x = {CODE} #", NotebookError
    ),
    "papermill: a name of two lines": (lambda f: stage(f, {"arms": [], "x\nimport os": 1}), "lacks x", NotebookError),
    "papermill: a name that is a builtin": (lambda f: stage(f, {"arms": [], "print": 1}), "lacks print", NotebookError),
    "papermill: parameters 100,000 deep": (lambda f: stage(f, "[" * 100_000), "it nests too deep", ParamError),
    "papermill: parameters that are a list": (lambda f: stage(f, [1]), "is not a section", ParamError),
    "papermill: an item that is a path": (
        lambda f: stage(f, {"arms": ["fixed"]}, "arm=../../x", "04_ablations"), "takes -p arm=<one of fixed>", ParamError
    ),
    "papermill: an item that is a command": (
        lambda f: stage(f, {"arms": ["fixed"]}, f"arm={SHELL}", "04_ablations"), "takes -p arm=<one of", ParamError
    ),
    "papermill: a notebook elsewhere": (
        lambda f: runner.run(f, "../../../etc/passwd"), "no such notebook; one of", ParamError
    ),
    "run: a folder above": (
        lambda f: in_repository(f, lambda: start("runs/../..", "x")), "a run is a folder inside", ValueError
    ),
    "run: an absolute folder": (
        lambda f: in_repository(f, lambda: start("/etc", "x")),
        "is a folder inside", ValueError,
    ),
    "run: a stage that leads out": (
        lambda f: in_repository(f, lambda: start("runs/interactive", "../../../x")), "is a folder inside", ValueError
    ),
    "run: a link that leads out": (
        lambda f: in_repository(f, lambda: linked(f) or start("runs/x", "y")),
        "is a folder inside", ValueError,
    ),
    "run: an input that leads out": (
        lambda f: in_repository(f, lambda: require("runs/x", "../../../etc/passwd")), "leads out of", ValueError
    ),
}  # fmt: skip


def ledger(edit: Any = None, line: str | None = None) -> Any:
    """Opens a ledger of one round with an edit, or of one line."""
    config = EnvConfig.uniform((3,), 0.1)
    row = Round("shared", 0, config, FailureReport(()), Path("round-0")).to_dict(Path())
    if edit:
        edit(row)
    Path("rounds.jsonl").write_text((line or json.dumps(row)) + "\n")
    return Ledger("rounds.jsonl").rounds


def changed_reply() -> Any:
    proposal = read_reply(ratios("1"), (3,)).to_dict() | {"reply": "no", "replies": ["no"]}
    ledger(lambda r: r.update(proposal=proposal))
    return replay("rounds.jsonl")


LEDGERS = {
    "ledger: a checkpoint elsewhere": (
        lambda: ledger(lambda r: r.update(checkpoint="../../../etc")),
        "'../../../etc' leads out of the ledger's folder",
    ),
    "ledger: a file by its full name": (
        lambda: ledger(lambda r: r.update(files={"rollouts": "/etc/passwd"})),
        "'/etc/passwd' leads out of",
    ),
    "ledger: a round that is a word": (lambda: ledger(lambda r: r.update(index="0")), "index: '0' is not int"),
    "ledger: a round that is true": (lambda: ledger(lambda r: r.update(index=True)), "index: True is not int"),
    "ledger: a round of -1": (lambda: ledger(lambda r: r.update(index=-1)), "index: -1 is not a number of a round"),
    "ledger: a report that is a list": (lambda: ledger(lambda r: r.update(report=[])), "line 1: "),
    "ledger: a size that is a path": (lambda: ledger(lambda r: r.update(relaxed={"../x": {}})), "line 1: invalid lit"),
    "ledger: a configuration that is NaN": (
        lambda: ledger(lambda r: r["config"]["sizes"]["3"].update(hole_ratio=float("nan"))),
        "hole_ratio: nan is not in",
    ),
    "ledger: a field that is code": (lambda: ledger(lambda r: r.update({"__init__": CODE})), "'__init__'"),
    "ledger: 100,000 brackets": (lambda: ledger(line='{"a": ' + "[" * 100_000), "line 1: not JSON"),
    "ledger: of a later schema": (lambda: ledger(lambda r: r.update(schema="x" * 10**6)), "of a round is unknown"),
    "ledger: another reply than was read": (changed_reply, "the reply now reads as (None, 'no JSON object')"),
}


def mask(grammar: str) -> Any:
    tokenizer = compact_tokenizer(["a", "b"])
    allowed = grammar_mask(tokenizer, grammar, len(tokenizer))
    return [allowed([[3] * n]).sum().item() for n in range(3)]


GRAMMARS = {
    "grammar: not one": (lambda: mask("start: ("), "grammar: "),
    "grammar: a word that is none": (lambda: mask("start: <nowhere>"), "grammar: "),
    "grammar: a rule that is not there": (lambda: mask("start: nothing"), "grammar: "),
    "grammar: sizes that are code": (lambda: reply_grammar([f"3}} {CODE}"], "json"), "is not an integer in 3..10"),
    "grammar: sizes of 10^9": (lambda: reply_grammar([10**9]), "1000000000 is not an integer in 3..10"),
}


# ---------------------------------------------------------------- the rest


def too_large_to_publish(folder: Path) -> Any:
    big = folder / "runs/pipeline/analysis/figures/x.png"
    big.parent.mkdir(parents=True)
    big.write_bytes(b"x" * 1_000_001)
    for name in ("results.md", "study.md"):
        (folder / "runs/pipeline/analysis" / name).write_text("x")
    return publish(folder)


def _calls() -> list[Case]:
    """Returns all cases; each action as `action(folder, server)`."""
    cases = [Case(n, lambda f, s, t=t: reply(t), said) for n, (t, said) in REPLIES.items()]
    cases += [Case(n, lambda f, s, t=t, d=d: verdict(t, d), said) for n, (t, d, said) in COMPLETIONS.items()]
    cases += [
        Case(n, lambda f, s, options=options: parameters(f, **options), said, ParamError)
        for n, (options, said) in PARAMETERS.items()
    ]
    for table, error in (
        (BOARDS, ValueError), (DATASETS, ValueError), (CHECKPOINTS, CheckpointError), (LEDGERS, LedgerError),
        (GRAMMARS, ValueError),
    ):  # fmt: skip
        cases += [Case(n, lambda f, s, a=action: a(), said, error) for n, (action, said) in table.items()]
    cases += [Case(n, lambda f, s, a=a: a(s), said, SERVER_ERRORS.get(n)) for n, (a, said) in SERVERS.items()]
    cases += [Case(n, lambda f, s, a=a: a(f), said, error) for n, (a, said, error) in NOTEBOOKS.items()]
    cases += [
        Case("rows: a Parquet file cut off", lambda f, s: torn_parquet(), "magic bytes not found", Exception),
        Case("checkpoint: code of its own, known model", lambda f, s: checkpoint()(code)(), "loaded, 1 completion"),
        Case("grammar: it begins with itself, for ever", lambda f, s: mask("start: start start"), "[1, 1, 1]"),
        Case("grammar: a billion letters", lambda f, s: mask("start: <a> /((a{1,999}){1,999}){1,999}/"), "[1, 1, 1]"),
        Case("publish: a megabyte", lambda f, s: too_large_to_publish(f), "at most 1000000", RuntimeError),
        Case(
            "arm: a name that is a path",
            lambda f, s: params_of("../x", EngineerParams(), {}), "arm: '../x' is none of", ValueError,
        ),
    ]  # fmt: skip
    return cases


CASES = _calls()
