"""The base install: an environment that has the package's wheel and `BASE`, and nothing else.

The wheel is built here, and the packages are linked from the environment of the tests, so that no network is needed.
`python -m benchmarks install` has pip fetch them.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from small_repo import ROOT, done

from mapflake import repro
from mapflake.__main__ import RECORD, joint_move, main
from mapflake.engineer import Round
from mapflake.env import EnvConfig, Instance, generate

BASE = ("numpy", "pydantic", "pydantic_core", "annotated-types", "typing_extensions", "typing-inspection")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of the fresh environment."""
    folder = tmp_path_factory.mktemp("base")
    shutil.copytree(ROOT / "mapflake", folder / "source/mapflake", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "source")
    offline = ["--no-deps", "--no-index"]
    done(*PIP, "wheel", "--no-build-isolation", *offline, "-w", folder, folder / "source")
    done(sys.executable, "-m", "venv", "--without-pip", folder / "environment")
    done(*PIP, "--python", folder / "environment", "install", *offline, next(folder.glob("*.whl")))
    site = next((folder / "environment").glob("lib/python*/site-packages"))
    for needed in map(metadata.distribution, BASE):
        for name in {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            (site / name).symlink_to(needed.locate_file(name))
    return folder / "environment/bin/python"


def test_it_is_numpy_and_pydantic(python: Path) -> None:
    done(*PIP, "--python", python, "check")  # nothing that is asked for is missing
    code = "from mapflake.env import Instance; print(Instance.from_text('S1 .\\nG1 .')._repr_png_())"
    assert done(python, "-I", "-c", code) == "None\n"  # a notebook shows text where it cannot draw


USE = """
import json, sys
from mapflake.engineer import Round, build_prompt, diagnose
from mapflake.engineer.designers import RULES, RuleInputs
from mapflake.env import EnvConfig, benchmark_sets, format_plan, generate, kernel, load_tasks, render_prompt
from mapflake.env import reward, save_tasks
from mapflake.trainer.evaluate import rollout

class Solver:
    prompt_format = "compact"

    def complete(self, prompts, **asked):
        return [[answers.get(prompt, "")] for prompt in prompts]

config = EnvConfig.uniform([3, 4, 5], 0.15, 0.5)
tasks = generate(config, 60, seed=0, split="validation")
save_tasks(sys.argv[1], tasks)
assert load_tasks(sys.argv[1]) == tasks
for task in tasks:
    print(task.instance.key, task.solution.makespan, task.best_sum_of_costs, task.needs_wait)
print([task.instance.key for task in benchmark_sets(strata={2: [4]}, wait_ratios=[0.5], boards=4)["wr050"]])
answers = {
    render_prompt(task.instance, "compact"): format_plan(task.instance, task.solution.plan, "compact")
    for task in tasks
    if task.instance.key < "8"  # half of the boards
}
rollouts = rollout(Solver(), tasks, seed=0)
print(sum(reward(one.verdict) for one in rollouts))
report = diagnose(rollouts)
history = (Round("shared", 0, config, report),)
print(report.to_text())
for rule in ("heuristic", "learnability", "uniform", "domain_randomisation"):
    proposal = RULES[rule](RuleInputs((3, 4, 5), 0, None, None))(report, history)
    print(rule, json.dumps(proposal.requested), proposal.config)
print(build_prompt(report, history, (3, 4, 5)))
print("compiled", kernel.library(True) is not None)
"""


def test_environment_and_rules_do_as_in_a_full_install(python: Path, tmp_path: Path) -> None:
    ours = done(sys.executable, "-c", USE, tmp_path / "ours", env=os.environ | {"PYTHONPATH": str(ROOT)}).splitlines()
    assert len(ours) > 100
    assert done(python, "-I", "-c", USE, tmp_path / "base").splitlines() == ours
    without = os.environ | {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}  # no compiler, no library
    plain = done(python, "-I", "-c", USE, tmp_path / "base", env=without).splitlines()
    assert plain == [*ours[:-1], "compiled False"]


IMPORT = """
import importlib, json, pkgutil, mapflake
said = {}
for module in pkgutil.walk_packages(mapflake.__path__, "mapflake.", onerror=lambda name: None):
    try:
        importlib.import_module(module.name)
        said[module.name] = ""
    except ImportError as error:
        said[module.name] = str(error)
print(json.dumps(said))
"""


def test_a_module_imports_or_names_the_command(python: Path) -> None:
    errors = json.loads(done(python, "-I", "-c", IMPORT))
    in_base = {name for name, error in errors.items() if not error}
    command = r'pip install (?:"\.\[([\w-]+)\]" in a clone of mapflake|-.+requirements/.+)'
    for name, error in errors.items():
        match = re.fullmatch(rf"(?:this needs \w+: {command})?", error)
        assert match is not None, (name, error)
        assert match[1] in (None, *EXTRAS), (name, error)
    rules = ("actions", "boards", "designers.rules", "prompt", "report", "rounds")
    assert in_base >= {f"mapflake.engineer.{name}" for name in rules}
    assert in_base >= {"mapflake.repro", "mapflake.provenance", "mapflake.trainer.evaluate", "mapflake.__main__"}
    assert {name for name in errors if name.startswith("mapflake.env")} - in_base == {"mapflake.env.pictures"}
    assert "this needs torch" in errors["mapflake.trainer.policy"]


NEEDS = {
    "from mapflake.engineer import Grpo; Grpo(None).train('', [], '', seed=0)": "[train]",
    "from mapflake.trainer.openai_client import OpenAIPolicy": "[openai]",
    "from mapflake.env import to_dataset; to_dataset([])": "[train]",
    "import mapflake.study": "[lab]",
}


def test_what_an_extra_does_names_it(python: Path) -> None:
    tries = "".join(f"try: {code}\nexcept ImportError as error: print(error)\n" for code in NEEDS)
    lines = done(python, "-I", "-c", tries).splitlines()
    for line, command in zip(lines, NEEDS.values(), strict=True):
        assert re.fullmatch(rf'this needs \w+: pip install "\.{re.escape(command)}" in a clone of mapflake', line)


def test_an_example_runs_or_names_its_extra(python: Path) -> None:
    examples = ROOT / "docs/examples"
    output = done(python, "-E", examples / "own_loop.py")  # not -I: it imports another example
    assert output in re.sub(r" +\n", "\n", (ROOT / "docs/bring_your_own.md").read_text(encoding="utf-8"))
    command = [python, "-E", examples / "compare_designers.py"]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.stderr.endswith('ImportError: this needs pandas: pip install ".[lab]" in a clone of mapflake\n')


# ---------------------------------------------------------------- python -m mapflake


def test_a_board_in_the_terminal(python: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (task,) = generate(EnvConfig.uniform([4], 0.2, 1.0, 3), 1, seed=5)
    chosen = ["--size", "4", "--agents", "3", "--wait", "--seed", "5"]
    assert main(["draw", *chosen]) == 0
    drawn, best = capsys.readouterr().out, task.solution
    assert Instance.from_text(drawn) == task.instance
    (tmp_path / "board.txt").write_text(drawn)
    assert main(["solve", str(tmp_path / "board.txt")]) == 0
    with pytest.raises(SystemExit):  # it would say nothing of the size that was asked for
        main(["solve", str(tmp_path / "board.txt"), "--size", "8"])
    solved = capsys.readouterr().out
    assert f"makespan {best.makespan}, sum of costs {best.sum_of_costs}; the board needs a wait\n" in solved
    moves = "\n".join(joint_move(best.plan, time) for time in range(best.makespan))
    played = done(python, "-I", "-m", "mapflake", "play", *chosen, input=moves)
    assert f"all on their goals after {best.makespan} steps: that is optimal" in played


def test_the_rounds_of_a_record(python: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With numpy and pydantic alone, against the record; a rule's record begins after the round 0 that arms share."""
    output = done(python, "-I", "-m", "mapflake", "rounds", cwd=ROOT)
    rows = json.loads((ROOT / RECORD).read_text())["rounds"]
    rounds = [repro.from_json(Round, row, RECORD) for row in rows]
    for round_ in rounds:
        assert f"Round {round_.index} is over: {round_.report.valid_rate:.1%} of" in output
        assert not round_.proposal or round_.proposal.reply in output
    part, size_report = rounds[1].config.sizes[4], rounds[0].report.at(4)
    assert size_report is not None
    (row, *_) = (line.split() for line in output.splitlines() if line.startswith("4x4"))
    shares = (
        size_report.valid_rate,
        size_report.wait_valid / size_report.wait_rollouts,
        part.data_ratio,
        part.hole_ratio,
        part.wait_ratio,
    )
    assert [row[1], row[2], *row[4:]] == [f"{share:.0%}" for share in shares]
    four = next(task.instance.to_text() for task in rounds[1].boards() if task.instance.size == 4)
    assert all(line in output for line in four.splitlines())
    assert main(["rounds", str(ROOT / "reports/cells/study/fixed-0.json")]) == 0
    assert capsys.readouterr().out.startswith("fixed, training seed 0\n\nRound 0 is over: ")
    for other in ("cells/study/boards.json", "llm/gain-0.json"):  # the latter has a number of rounds
        assert main(["rounds", str(ROOT / "reports" / other)]) == 1
        assert f"{Path(other).name}: has no rounds; takes a ledger, or the record of an arm" in capsys.readouterr().err
    (tmp_path / "numbers.json").write_text('{"rounds": [1]}')
    assert main(["rounds", str(tmp_path / "numbers.json")]) == 1
    assert "numbers.json" in capsys.readouterr().err


BOARD = "S1 .  .\nG2 H  .\nS2 .  G1\n"


def test_a_game(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "board.txt").write_text(BOARD)
    for answers, text in {
        "ru RW DW DW": "after 4 steps: that is optimal",
        "WW RU RW DW DW": "after 5 steps: the optimum is 4",
        "RU back back RU RW DW DW": "after 4 steps: that is optimal",
        "RU DW quit": "hole: agent 1 at (1, 1)",
        "RX quit": "X: no move. A step is a letter of UDLRW for each agent",
        "RUD quit": "3 letters, and the board has 2 agents. A step is a letter of UDLRW for each agent",
    }.items():
        monkeypatch.setattr("sys.stdin", io.StringIO(answers.replace(" ", "\n")))
        assert main(["play", str(tmp_path / "board.txt")]) == 0
        assert text in capsys.readouterr().out.partition("\n")[2]  # its first line says how to play


def test_a_wrong_wish_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, message in (
        ("--holes 0.9", "hole_ratio: 0.9 is not in"),
        ("draw nowhere.txt", "nowhere.txt"),
        ("rounds nowhere.json", "nowhere.json: no such file; name a record, or run this in a clone"),
    ):
        assert main(arguments.split()) == 1
        output = capsys.readouterr()
        assert message in output.err
        assert len(output.err.splitlines()) == 1
        assert output.out == ""
