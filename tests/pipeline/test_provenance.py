"""What is hashed is what decides: an edit of each module changes exactly the hashes of what it can change."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import nbformat
import pytest
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
SHOWN = "analysis publish"
CHANGES = {
    f"{TRAINED} {SHOWN} env_design grpo supervised": "__init__ repro",
    f"{TRAINED} {SHOWN} env_design grpo": """
        env/__init__ env/compiler env/instance env/kernel env/plain env/solver env/task env/text env/verifier
        env/csrc/board.h env/csrc/costs.h env/csrc/groups.h env/csrc/joint.h env/csrc/kernel.c env/csrc/memory.h
        env/csrc/pairs.h env/csrc/search.h env/csrc/splits.h""",
    f"{TRAINED} {SHOWN} env_design": "env/config env/generator env/shares env/splits",
    "env_design": "env/benchmark env/maps",
    f"{TRAINED} {SHOWN} grpo supervised": "extras provenance trainer/__init__",
    f"{TRAINED} grpo supervised": """
        trainer/checkpoint trainer/constrain trainer/decoding trainer/engine trainer/packing trainer/params
        trainer/policy trainer/precision trainer/training trainer/vllm_worker trainer/weights""",
    f"{CELLS} bank round record grpo": """
        env/dataset env/rewards trainer/dynamic_sampling trainer/grpo trainer/logps trainer/round_trainer
        trainer/accelerate/fsdp2.yaml""",
    f"{TRAINED} supervised": "trainer/warmstart",
    f"{TRAINED} {SHOWN}": """
        trainer/evaluate trainer/openai_client engineer/__init__ engineer/actions engineer/boards engineer/brief
        engineer/ledger engineer/prompt engineer/reply engineer/report engineer/variants engineer/words
        engineer/designers/__init__ engineer/designers/llm engineer/designers/rules engineer/designers/measured""",
    f"{CELLS} bank round record": "engineer/backend engineer/rounds",
    f"{CELLS} bank round record {SHOWN}": "engineer/students",
    "baseline_rl trained_engineer warm_start student bank record": "engineer/compact/base trainer/pretrained",
    f"{CELLS} warm_start student bank record": """
        engineer/compact/__init__ engineer/compact/demonstrations engineer/situations""",
    "trained_engineer bank record": "engineer/bank",
    "ablations trained_engineer record": "engineer/design_rl",
    "engineer_loop trained_engineer": "engineer/reading",
    f"env_design {CELLS} record {SHOWN}": "study/__init__ study/board_sets",
    f"{CELLS} record {SHOWN}": "study/records",
    SHOWN: """
        env/pictures study/cells study/comparisons study/designs study/engineers study/names study/statistics""",
    "analysis": "plots/__init__ plots/figures plots/study plots/style study/paper study/report",
    "publish": "nb/publish study/claims",
    "": """
        __main__ adapters/__init__ adapters/drawing adapters/inspect_task adapters/parallel_env
        adapters/reasoning adapters/taskset adapters/trl adapters/trl_tools explore nb/__init__ nb/__main__
        nb/cards nb/code nb/dry nb/floors nb/folders nb/notebooks nb/page nb/params nb/progress nb/report nb/schema
        nb/stages nb/transcript
        plots/boards plots/page plots/tables study/gate""",
}
EXPECTED = {
    name if "." in name else f"{name}.py": {*changed.split()}
    for changed, names in CHANGES.items()
    for name in names.split()
}


def hashes(files: dict[str, str]) -> dict[str, Any]:
    """Returns what each stage, a round's ledger, checkpoints and a record keep of the code."""
    kept = {
        "round": ["mapflake.engineer.rounds"],
        "grpo": ["mapflake.trainer.grpo"],
        "supervised": ["mapflake.trainer.warmstart"],
        "record": MAKERS,
    }
    return stage_code(ROOT, files) | {name: deciding(modules, files=files) for name, modules in kept.items()}


@functools.cache
def unedited() -> dict[str, Any]:
    return hashes(package_files())


def edited(name: str, text: str) -> set[str]:
    """Returns whose hash changes if a file of the package has this text."""
    now = hashes(package_files() | {name: text})
    return {what for what, said in unedited().items() if now[what] != said}


@pytest.mark.parametrize("name", package_files())
def test_an_edit_changes_exactly_what_the_module_decides(name: str) -> None:
    assert name in EXPECTED, f"{name} is new: say in CHANGES what an edit of it can change"
    assert edited(name, package_files()[name] + "\nEDITED = 1\n") == EXPECTED[name]


def test_comments_docstrings_and_layout_change_nothing() -> None:
    python = {name: text for name, text in package_files().items() if name.endswith(".py")}
    said = {name: "# a comment\n\n\n" + text.replace('"""', '"""Other words. ', 1) for name, text in python.items()}
    files = package_files() | said
    assert hashes(files) == unedited()
    assert {*EXPECTED} == {*package_files()}  # no file is listed that is not there


def test_each_stage_of_dvc_yaml_depends_on_its_own_code() -> None:
    stages = YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"]
    for stage, given in stages.items():
        code = {name for name in given["deps"] if name.startswith("build/code/")}
        name = stage.removesuffix("_trained").removesuffix("_told")
        notebook = {f"build/code/{NOTEBOOKS[name]}.py"} if name in NOTEBOOKS else set()
        assert code == (set() if stage == "prepare" else {f"build/code/mapflake/{name}.txt", *notebook}), stage
    assert {*stage_code(ROOT)} == {stage.removesuffix("_trained").removesuffix("_told") for stage in stages} - {
        "prepare"
    }


def test_what_a_run_executes_is_hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is drawn by imports: here is what really runs, in rounds of every kind with a toy in place of GRPO."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/examples"))
    import toy_learner

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
    assert "env/mine.py" not in deciding(["mapflake.env.generator"], files=files)  # nothing imports it
    files["env/__init__.py"] += init
    found = deciding(["mapflake.engineer.rounds"], files=files)
    assert found["env/mine.py"] == "VALUE = 1\n"


def test_imports_for_types_alone_do_not_decide_and_misspelled_modules_are_errors() -> None:
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from mapflake.trainer.grpo import Boards\n"
    assert deciding(source=source) == {}
    assert "trainer/grpo.py" in deciding(source="import mapflake\nmapflake.trainer.grpo.Boards")
    with pytest.raises(ValueError, match=r"mapflake\.engineer\.round: mapflake/engineer/ has no 'round'"):
        deciding(["mapflake.engineer.round"])


# ---------------------------------------------------------------- what comes from outside the package

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


def module(folder: Path, text: str) -> ModuleType:
    """Returns a module of its own with this text."""
    path = folder / f"mine{len(list(folder.iterdir()))}.py"
    path.write_text(text)
    made = ModuleType("mine")
    made.__file__ = str(path)
    exec(compile(text, str(path), "exec"), vars(made))
    return made


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("Words", "Other words", True),
        ("HOLES = 0.1", "HOLES = 0.4", False),
        ('"mine"', '"another"', False),
        ("return design", "return lambda report, history: design(report, history)", False),
    ],
)
def test_a_designer_from_outside_is_known_by_its_file(tmp_path: Path, old: str, new: str, same: bool) -> None:
    before, after = (module(tmp_path, text).rule for text in (DESIGNER, DESIGNER.replace(old, new)))
    assert before.__qualname__ == after.__qualname__
    assert (identity(before) == identity(after)) is same
    assert identity(before) == identity(module(tmp_path, DESIGNER).rule)


def test_and_by_the_values_that_it_holds(tmp_path: Path) -> None:
    mine = module(tmp_path, DESIGNER)
    functions: list[Callable[..., Any]] = [mine.holding(value) for value in (0.1, 0.4, [1, 2], {"a": mine.helper})]
    functions += [functools.partial(mine.holding, value) for value in (0.1, 0.4)]
    assert len({str(identity(one)) for one in functions}) == len(functions)
    before = identity(mine.rule)
    mine.HOLES = 0.4  # as a cell of a notebook may
    assert identity(mine.rule) != before
    for address in (mine.holding(object()), functools.partial(mine.holding, object())):
        with pytest.raises(ValueError, match=r"cannot tell whether it has changed.* give it an attribute `version`"):
            identity(address)


def test_what_has_no_source_is_refused_unless_it_has_a_version() -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec("def rule(inputs): ...", space)
    with pytest.raises(ValueError, match=r"__main__\.rule: cannot tell whether it has changed since a round was"):
        identity(space["rule"])
    space["rule"].version = 1
    assert identity(space["rule"]) == {"name": "__main__.rule", "version": "1"}


def test_a_designer_in_cells_of_a_notebook_is_known_by_them(tmp_path: Path) -> None:
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
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, resources={"metadata": {"path": str(ROOT)}}).execute()
