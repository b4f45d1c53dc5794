"""What is hashed is what decides: an edit of each module changes exactly the hashes of what it can change."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import nbformat
import pytest
import toy_learner
from nbclient import NotebookClient
from ruamel.yaml import YAML
from small_repo import ROOT

from mapflake import provenance
from mapflake.nb.code import stage_code
from mapflake.nb.folders import NOTEBOOKS
from mapflake.provenance import deciding, identity, package_files
from mapflake.study.records import MAKERS

# What an edit can change: stages, and the hashes that ledgers, checkpoints and records keep.
CELLS = "baseline_rl engineer_loop ablations trained_engineer"
TRAINED = f"{CELLS} warm_start student bank round record"
CHANGES = {  # a file of each kind: what an edit of it changes
    "env/csrc/costs.h": f"{TRAINED} analysis env_design grpo",
    "env/generator.py": f"{TRAINED} analysis env_design",
    "env/benchmark.py": "env_design",
    "env/rewards.py": f"{CELLS} bank round record grpo",
    "trainer/accelerate/fsdp2.yaml": f"{CELLS} bank round record grpo",
    "trainer/engine.py": f"{TRAINED} grpo supervised",
    "trainer/warmstart.py": f"{TRAINED} supervised",
    "engineer/prompt.py": f"{TRAINED} analysis",
    "engineer/rounds.py": f"{CELLS} bank round record",
    "engineer/bank.py": "trained_engineer bank record",
    "engineer/design_rl.py": "trained_engineer record",
    "engineer/reading.py": "engineer_loop trained_engineer",
    "study/records.py": f"{CELLS} record analysis",
    "study/statistics.py": "analysis",
    "plots/study.py": "analysis",
    "nb/publish.py": "publish",
}
LEARN = {"warm_start", "student", "bank", "round", "grpo", "supervised"}
SHOW = ("__main__.py", "explore.py", "adapters/", "nb/", "plots/", "study/")  # what comes after, or is for others


KEPT = {  # by a round's ledger, checkpoints and a record
    "round": ["mapflake.engineer.rounds"],
    "grpo": ["mapflake.trainer.grpo"],
    "supervised": ["mapflake.trainer.warmstart"],
    "record": MAKERS,
}


def hashes(files: dict[str, str]) -> dict[str, Any]:
    return stage_code(ROOT, files) | {name: deciding(modules, files=files) for name, modules in KEPT.items()}


@functools.cache
def unedited() -> dict[str, Any]:
    return hashes(package_files())


def edited(*names: str) -> set[str]:
    """Returns whose hash changes if these files of the package are edited."""
    after = hashes(package_files() | {name: package_files()[name] + "\nEDITED = 1\n" for name in names})
    return {name for name, value in unedited().items() if after[name] != value}


@pytest.mark.parametrize("name", CHANGES)
def test_an_edit_changes_exactly_what_the_module_decides(name: str) -> None:
    assert edited(name) == {*CHANGES[name].split()}


def test_edits_of_all_that_shows_results_train_nothing_again() -> None:
    changed = edited(*(name for name in package_files() if name.startswith(SHOW)))
    assert {"analysis", "publish", "record"} <= changed
    assert not changed & LEARN


def test_comments_docstrings_and_layout_change_nothing() -> None:
    python = {name: text for name, text in package_files().items() if name.endswith(".py")}
    reworded = {name: "# a comment\n\n\n" + text.replace('"""', '"""Other words. ', 1) for name, text in python.items()}
    assert hashes(package_files() | reworded) == unedited()


def test_each_stage_of_dvc_yaml_depends_on_its_own_code() -> None:
    stages = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
    assert {*stage_code(ROOT)} == stages.keys() - {"prepare"}
    for stage in stage_code(ROOT):
        notebook = {f"build/code/{NOTEBOOKS[stage]}.py"} if stage in NOTEBOOKS else set()
        code = {name for name in stages[stage]["deps"] if name.startswith("build/code/")}
        assert code == {f"build/code/mapflake/{stage}.txt", *notebook}, stage


def test_what_a_run_executes_is_hashed(tmp_path: Path) -> None:
    """The line is drawn by imports: here is what really runs, in rounds of every kind with a toy in place of GRPO."""
    files: set[str] = set()

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            files.add(frame.f_code.co_filename)

    sys.setprofile(watch)
    try:
        for arm in ("heuristic", "frontier"):
            toy_learner.run(arm, tmp_path / arm, sizes=(3,), rounds=1)
    finally:
        sys.setprofile(None)
    package = f"{provenance.PACKAGE}/"
    ran = {path.removeprefix(package) for path in files if path.startswith(package)}
    assert {"env/generator.py", "engineer/rounds.py", "engineer/designers/measured.py", "trainer/evaluate.py"} < ran
    assert ran <= {*deciding(["mapflake.engineer.rounds"])}


@pytest.mark.parametrize(
    "init", ["import mapflake.env.mine\n", "from . import mine\n", "from mapflake.env.mine import *\n"]
)
def test_a_module_of_ones_own_that_a_package_imports_is_hashed(init: str) -> None:
    files = package_files() | {"env/mine.py": "VALUE = 1\n"}
    assert "env/mine.py" not in deciding(["mapflake.engineer.rounds"], files=files)  # nothing imports it
    files["env/__init__.py"] += init
    assert deciding(["mapflake.engineer.rounds"], files=files)["env/mine.py"] == "VALUE = 1\n"


def test_imports_for_types_alone_do_not_decide_and_misspelled_modules_are_errors() -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mapflake.trainer.grpo import Boards\n"
    assert deciding(source=source) == {}
    assert "trainer/grpo.py" in deciding(source="import mapflake\nmapflake.trainer.grpo.Boards")
    with pytest.raises(ValueError, match=r"mapflake\.engineer\.round: mapflake/engineer/ has no 'round'"):
        deciding(["mapflake.engineer.round"])


class Said:
    """An object of which the text says nothing."""

    def __repr__(self) -> str:
        return "said"


DESIGNER = '''
"""Words."""
from mapflake.engineer import ruled

HOLES = 0.1

def helper(size):
    return {"data_ratio": 1.0, "hole_ratio": HOLES, "wait_ratio": None}

def design(report, history):  # a comment
    return ruled({3: helper(3)}, history, "mine")

def rule(inputs):
    return design

def holding(value):
    return lambda inputs: (lambda report, history: value)
'''


HOLDING = """
import dataclasses
import numpy

class Settings:
    holes = VALUE

    @staticmethod
    def read():
        return NUMBER

@dataclasses.dataclass
class Rule:
    sizes: list = dataclasses.field(default_factory=list)

    def __call__(self, inputs):
        return NUMBER

@dataclasses.dataclass
class Hidden:
    holes: object = dataclasses.field(repr=False)

    def design(self, report, history):
        return self.holes

NUMBER, KEPT = VALUE, {"holes": [numpy.array([VALUE]), {VALUE}]}
by_class = lambda inputs: Settings.holes
by_method = lambda inputs: Settings.read()
by_object = Rule()
by_collection = lambda inputs: KEPT
by_default = lambda inputs, kept=Hidden(VALUE): kept
by_hidden_field = Hidden(VALUE).design
by_array = Hidden(numpy.array([0.1, VALUE])).design
"""
BY = re.findall(r"^by_\w+", HOLDING, re.MULTILINE)


@pytest.mark.parametrize("rule", BY)
def test_a_value_that_the_file_does_not_show_is_seen_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(HOLDING)
    identities = []
    for value in (0.2, 0.2, 0.2 + 1e-12):  # as from a command line; more digits than numpy shows
        made = ModuleType("mine")
        vars(made).update(VALUE=value, __file__=str(path))
        monkeypatch.setitem(sys.modules, "mine", made)
        exec(compile(HOLDING, str(path), "exec"), vars(made))
        identities.append(identity(vars(made)[rule]))
    assert identities[0] == identities[1] != identities[2]


def test_a_set_is_the_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import dataclasses\n"
        "CHECKS = frozenset({'edge', 'vertex', 'goal', 'wait'})\n"
        "def rule(inputs, checks=CHECKS): ...\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Rule:\n"
        "    checks: frozenset = CHECKS\n"
        "    def __call__(self, inputs): ...\n"
        "short = lambda report: report[..., 0] in {'edge', 'vertex', 'goal', 'wait'}\n"
    )
    command = [
        sys.executable,
        "-c",
        "import mine, mapflake.provenance as p; print(*map(p.identity, (mine.rule, mine.Rule(), mine.short)))",
    ]
    path = os.pathsep.join([str(tmp_path), *sys.path])
    outputs = {
        subprocess.check_output(command, env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed})
        for seed in ("1", "2", "3")
    }
    assert len(outputs) == 1


def module(folder: Path, text: str) -> ModuleType:
    """Returns a module of its own with this text."""
    path = folder / f"mine{len(list(folder.iterdir()))}.py"
    path.write_text(text)
    made = ModuleType("mine")
    made.__file__ = str(path)
    exec(compile(text, str(path), "exec"), vars(made))
    return made


def test_a_designer_from_outside_is_known_by_its_file_and_the_values_that_it_holds(tmp_path: Path) -> None:
    mine = module(tmp_path, DESIGNER)
    before = identity(mine.rule)
    assert identity(module(tmp_path, DESIGNER.replace("Words", "Other words")).rule) == before
    functions: list[Callable[..., Any]] = [mine.rule]
    for old, new in (("= 0.1", "= 0.4"), ('"mine"', '"another"'), ("return design", "return lambda *said: design")):
        functions.append(module(tmp_path, DESIGNER.replace(old, new)).rule)
    functions += [mine.holding(value) for value in (0.1, 0.4, [1, 2], range(2), range(3), {"a": mine.helper})]
    functions += [functools.partial(mine.holding, value) for value in (0.1, 0.4)]
    functions += [*module(tmp_path, "rules = [lambda report: 1, lambda report: 2, lambda report: lambda: 2]\n").rules]
    assert len({str(identity(function)) for function in functions}) == len(functions)
    name = identity(functools.partial(mine.holding, mine.helper))["name"]
    assert name == identity(functools.partial(mine.holding, module(tmp_path, DESIGNER).helper))["name"]  # no address
    mine.HOLES = 0.4  # as a cell of a notebook may
    assert identity(mine.rule) != before
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def rule(inputs): ...", space)  # without source
    for unknown in (
        mine.holding(Said()),
        mine.holding(object()),
        functools.partial(mine.holding, object()),
        space["rule"],
    ):
        with pytest.raises(ValueError, match=r"cannot tell whether it has changed.* give it an attribute `version`"):
            identity(unknown)
    network = module(tmp_path, "class Network: ...\nnetwork = Network()\nrule = lambda inputs: network.holes\n")
    with pytest.raises(ValueError, match=r"it holds <.*Network object.*give it an attribute `version`"):
        identity(network.rule)  # what it has learned is in no file
    space["rule"].version = 1
    assert identity(space["rule"]) == {"name": "__main__.rule", "version": "1"}


def test_a_designer_in_cells_of_a_notebook_is_known_by_them() -> None:
    cells = [
        "from mapflake.provenance import identity",
        "holes = 0.1",
        "def design(report, history):\n    return holes",
        "rule = lambda inputs: design",
        "first = identity(rule)\nassert identity(rule) == first",
        "holes = 0.4",
        "second = identity(rule)\nassert second != first",
        "def design(report, history):\n    return holes / 2",
        "assert identity(rule) not in (first, second)",
        "from mapflake.env import EnvConfig\nasked = EnvConfig.uniform([4], 0.1)",
        "def design(report, history):\n    return asked",
        "first = identity(rule)\nassert identity(rule) == first",
        "asked = EnvConfig.uniform([4], 0.4)\nassert identity(rule) != first",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, resources={"metadata": {"path": str(ROOT)}}).execute()
