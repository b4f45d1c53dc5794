"""params.yaml: what is legal, what is said about mistakes, and what `prepare` writes."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
import yaml

from mapflake.nb import notebooks, params, schema
from mapflake.nb.__main__ import main
from mapflake.nb.folders import NOTEBOOKS
from mapflake.repro import ParamError, read_json

ROOT = Path(__file__).resolve().parents[2]


def edit(root: Path, old: str, new: str) -> None:
    """Replaces the first match of a pattern: the tests must outlive a change of the values."""
    path = root / "params.yaml"
    text, count = re.subn(old, new, path.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1, old
    path.write_text(text)


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_check_finds_the_repository_in_order() -> None:
    run, sections = params.check(ROOT)
    assert tuple(sections) == params.SECTIONS == tuple(schema.SECTIONS)
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert stages["ablations"]["matrix"] == {"arm": "${run.arms}", "seed": "${run.seeds}"}
    assert run == params.load(ROOT)["runs"]["default"]  # the committed one


def test_parameters_cells_hold_the_smoke_profile() -> None:
    raw = params.load(ROOT)
    smoke, run = params.effective(raw, "smoke"), raw["runs"]["smoke"]
    for section, name in NOTEBOOKS.items():
        cell = notebooks.defaults(notebooks.read(ROOT / "notebooks" / f"{name}.ipynb"), name)
        assert cell.pop("run") == "runs/interactive"
        for item in params.ITEMS.get(section, ()):
            assert cell.pop(item) in run[f"{item}s"]
        expected = params.notebook_values(section, run, smoke)
        if section == "analysis":  # by hand: the records that are there
            assert (cell.pop("arms"), cell.pop("seeds")) == (None, None)
            expected = {"comparison": expected["comparison"]}
        for key, kind in (
            ("warm_start", schema.BaseParams),
            ("rl", schema.RLParams),
            ("engineer", schema.EngineerParams),
        ):
            if key in cell:
                cell[key] = kind.parse(cell[key], key).model_dump(mode="json")
        assert cell == expected if section != "env_design" else schema.EnvDesign.parse(cell, name)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("engineer_loop.engineer.temperature", 0.5),
        ("baseline_rl.rl.learning_rate", 1e-4),
        ("run.arms", ["uniform"]),
        ("run.seeds", [3, 4]),
    ],
)
def test_dvc_changes_what_it_is_told_to(repo: Path, key: str, value: object) -> None:
    from dvc.utils.hydra import apply_overrides  # what `dvc exp run -S` calls

    apply_overrides(repo / "params.yaml", [f"{key}={value}"])
    found: object = params.load(repo)
    for name in key.split("."):
        found = found[name]
    assert found == value
    assert params.check(repo) != params.check(ROOT)
    params.choose(repo, "default")  # also in the layout that DVC writes
    assert params.load(repo)["run"] == params.load(ROOT)["run"]


MISTAKES = [
    (
        r"^  seed:",
        "  sede:",
        r"^env_design\.seed: missing\nenv_design\.sede: unknown key; did you mean 'seed'\? legal keys: seed, sizes, ",
    ),
    (r"hard_share: \S+", "hard_share: .nan", r"^warm_start\.hard_share: nan is not legal: .*finite number"),
    (
        r"hole_ratios: .*",
        "hole_ratios: [0.0, 0.7]",
        r"^env_design\.hole_ratios\.1: 0\.7 is not legal: .*less than or equal to 0\.5$",
    ),
    (
        r"validation: .*",
        "validation: {agents: 2, boards: 481}",
        r"^env_design: validation\.boards: 481 is not a multiple of the \d+ hole_ratios$",
    ),
    (
        r"  hole_ratio: (?:.*\n)*?    strata:\n(?:      - .*\n)+",
        "  hole_ratio: 0.5\n    wait_ratios: [0.5]\n    strata:\n      - {agents: 5, sizes: [3]}\n",
        r"^env_design: benchmark\.strata: .*0\.5 leaves 4 free cells for 5 agents, which need 6; legal for this size",
    ),
    (
        r"      - \{agents: 2, sizes: .*",
        r"      - {agents: 2, sizes: [3]}\n      - {agents: 2, sizes: [4]}",
        r"^env_design\.benchmark: strata: each number of agents is there once, not \[2, 2, 3, 4, 5\]$",
    ),
    (
        r"    instances: .*",
        "    instances: 7",
        r"^baseline_rl\.rl: instances \(7\) must be a multiple of prompts \(\d+\)$",
    ),
    (r"variant: V6", "variant: V7", r"engineer_loop\.engineer\.variant: 'V7' is not legal: legal variants: V1, V2, "),
    (r"^(run: .*arms: \[)", r"\1orakel, ", r"^run\.arms: arm: 'orakel' is none of engineer, base_"),
    (r"^(run: .*seeds: \[)", r"\g<1>0, ", r"^run: seeds: each is there once, not \[0, 0"),
    (
        r"^(run: .*profile: )default",
        r"\1fast",
        r"^run\.profile: 'fast' is not legal: one of default, smoke, gpu, paper$",
    ),
    (r"^(  smoke: .*arms: \[)", r"\1fixed, ", r"^runs\.smoke\.arms: 'fixed' is in every run already"),
    (
        r"    v1: \{variant: V1\}",
        "    v1: {sample: 2}",
        r"designers\.v1\.sample: unknown key; did you mean 'samples'\?",
    ),
    (r"    v1: \{variant: V1\}", "    fixed: {}", r"designers: 'fixed' is the name of an arm already"),
    (r"^wandb: .*", "wandb: yes please", r"^wandb: 'yes please' is not legal: one of disabled, offline, online$"),
    (r"^analysis:", "analyses:", r"^params\.yaml: analyses: unknown key; analysis: missing; legal keys: run, wandb, "),
    (r"^  seed: (.*)", r"  seed: \1\n  seed: 1", r'^params\.yaml: .*found duplicate key "seed"'),
    (r"^wandb: .*", "wandb: [default", r"^params\.yaml: .*expected"),
    (
        r"^  default: \{\}",
        "  default: fast",
        r"^profiles\.default: 'fast' is not a profile, write \{\} for an empty one",
    ),
    (
        r"^  default: \{\}",
        "  default: {engineer: {variant: V1}}",
        r"^profiles\.default\.engineer: unknown key; legal keys: env_design, ",
    ),
    (
        r"^        steps:",
        "        step:",
        r"^profiles\.smoke\.warm_start\.training\.step: unknown key; did you mean 'steps'\?",
    ),
]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES, ids=[said[:40] for *_, said in MISTAKES])
def test_a_mistake_is_one_line_and_touches_nothing(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    monkeypatch.chdir(repo)
    (repo / "build/params").mkdir(parents=True)
    (repo / "build/params/env_design.json").write_text("of before")
    before = files(repo / "build")
    edit(repo, old, new)
    for command in ("check", "prepare"):
        assert main([command]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert re.search(said, err.strip(), re.DOTALL), err
        assert len(err.strip().splitlines()) <= 6
    assert files(repo / "build") == before


def test_check_names_a_notebook_that_does_not_fit(repo: Path, write_notebook) -> None:
    path = repo / "notebooks" / "05_analysis.ipynb"
    fits = "comparison = {}\narms = None\nseeds = None\nrun = ''"
    mistakes = [
        (
            (fits.replace("arms", "arm"),),
            r"^05_analysis: the parameters cell lacks arms and has unknown arm; legal: comp",
        ),
        (
            (fits, "x = 1", "def f():\n    return 1"),
            r"^05_analysis, cell 3: defines f; notebooks call, the package def",
        ),
        ((fits, "x = = 1"), r"^05_analysis, cell 2, line 1: not Python"),
        ((fits.replace("''", "open('x')"),), r"^05_analysis, cell 1: the value of run is not a literal$"),
    ]
    for sources, said in mistakes:
        write_notebook(path, *sources)
        with pytest.raises(notebooks.NotebookError, match=said):
            params.check(repo)
    path.write_text("{")
    with pytest.raises(notebooks.NotebookError, match=r"^05_analysis.ipynb: not a notebook"):
        params.check(repo)
    path.unlink()
    with pytest.raises(notebooks.NotebookError, match=r"^05_analysis.ipynb: there is no such notebook"):
        params.check(repo)


def test_choose_rewrites_one_line(repo: Path) -> None:
    path = repo / "params.yaml"
    before = path.read_text().splitlines()
    params.choose(repo, "smoke")
    after = path.read_text().splitlines()
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert [b for _, b in changed] == ["run: {profile: smoke, arms: [base_engineer, heuristic], seeds: [0]}"]
    with pytest.raises(ParamError, match=r"^'fast' is not legal: one of default, study, smoke, gpu, paper$"):
        params.choose(repo, "fast")
    params.choose(repo, "default")
    assert path.read_text().splitlines() == before


def test_prepare_writes_the_active_run_and_nothing_else_matters(repo: Path) -> None:
    params.prepare(repo)
    build = files(repo / "build")
    run = params.load(repo)["run"]
    assert sorted(build) == sorted(
        [f"params/{section}.json" for section in params.SECTIONS if section != "ablations"]
        + [f"params/ablations/{arm}.json" for arm in run["arms"]]
        + [f"code/{name}.py" for name in NOTEBOOKS.values()]
        + [f"code/mapflake/{part.removesuffix('.py')}.txt" for part in params.PARTS]
    )
    (repo / "build/params/left_over.json").write_text("{}")
    edit(repo, "^wandb: .*", "wandb: offline   # no part of any result")
    edit(repo, "^  gpu:   ", "  gpu:  # inactive ")
    edit(repo, r"sizes: \[3, 4, 5, 6, 7, 8, 9, 10\]", "sizes: [3, 4, 5]")
    edit(repo, r"    v1: \{variant: V1\}", "    v1: {variant: V2}")  # no arm of this run
    params.prepare(repo)
    assert files(repo / "build") == build

    params.choose(repo, "smoke")
    params.prepare(repo)
    changed = {name for name, content in files(repo / "build").items() if build.get(name) != content}
    assert changed == {
        f"params/{name}.json" for name in ("env_design", "warm_start", "baseline_rl", "analysis", "ablations/heuristic")
    }
    validation = read_json(repo / "build/params/env_design.json")["validation"]
    assert validation == {"agents": 2, "boards": 48}  # merged: one key from each


def test_a_notebook_saved_in_jupyter_has_the_same_code(repo: Path) -> None:
    path = repo / "notebooks" / "01_env_design.ipynb"
    notebook = notebooks.read(path)
    view = notebooks.code_view(notebook, "01_env_design")
    for i, cell in enumerate(notebook.cells):
        cell.id = f"other-{i}"
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("stream", text="seen")]
            cell.execution_count = 100 + i
        cell.metadata["scrolled"] = True
    notebook.cells[0].source += "\n\nReworded."
    notebook.cells.append(nbformat.v4.new_code_cell("  "))
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "mine"}
    assert notebooks.code_view(notebook, "01_env_design") == view
    next(cell for cell in notebook.cells if "import" in cell.source).source += "\nprint(1)"
    assert notebooks.code_view(notebook, "01_env_design") != view


def test_stage_values(repo: Path) -> None:
    with pytest.raises(
        ParamError, match=r"^build/params/ablations/base_engineer\.json is missing: `dvc repro prepare`"
    ):
        params.stage_values(repo, "ablations", {"arm": "base_engineer", "seed": 0})
    params.prepare(repo)
    values = params.stage_values(repo, "ablations", {"arm": "base_engineer", "seed": 0})
    assert list(values) == ["arm", "seed", "engineer", "designers"]
    assert values["designers"] == {}
    for items in ({"arm": "oracle", "seed": 0}, {"arm": "base_engineer", "seed": 99}, {"seed": 0}, {}):
        with pytest.raises(ParamError, match=r": ablations takes arm=<one of base_engineer.*> seed=<one of 0, .*>$"):
            params.stage_values(repo, "ablations", items)
