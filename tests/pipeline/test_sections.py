"""params.yaml: what is legal, what is said about what is not, and what `prepare` writes."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
import yaml

from mapflake.nb import notebooks, sections
from mapflake.nb.__main__ import main
from mapflake.nb.folders import MADE_BY, SECTIONS
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


def test_the_repository_is_in_order() -> None:
    profiles = sections.check(ROOT)
    assert list(profiles) == ["default", "smoke", "gpu", "paper"]
    assert all(list(values) == list(SECTIONS) for values in profiles.values())


def test_parameters_cells_hold_the_smoke_profile() -> None:
    smoke = sections.effective(sections.load(ROOT), "smoke")
    for section, name in MADE_BY.items():
        cell = notebooks.defaults(notebooks.read(ROOT / "notebooks" / f"{name}.ipynb"), name)
        assert cell.pop("run") == "runs/interactive"
        if section in sections.ITEMS:
            listed, item = sections.ITEMS[section]
            assert cell.pop(item) in smoke[section][listed]
            cell[listed] = smoke[section][listed]
        parsed = sections.schemas()[section].parse(cell, name).model_dump(mode="json")
        assert parsed == smoke[section], name


def test_sections_take_over_what_they_do_not_say() -> None:
    raw = sections.load(ROOT)
    assert "engineer" not in raw["ablations"]
    raw["profiles"]["smoke"]["engineer_loop"] = {"engineer": {"samples": 9}}
    smoke = sections.effective(raw, "smoke")
    assert smoke["ablations"]["engineer"] == smoke["engineer_loop"]["engineer"]
    assert smoke["ablations"]["engineer"]["samples"] == 9
    raw["ablations"]["engineer"] = {"samples": 1}
    raw["analysis"]["arms"] = ["heuristic"]
    default = sections.effective(raw, "default")
    assert default["ablations"]["engineer"]["samples"] == 1
    assert default["engineer_loop"]["engineer"]["samples"] == 4
    assert default["analysis"]["arms"] == ["heuristic"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("engineer_loop.engineer.temperature", 0.5),
        ("baseline_rl.rl.learning_rate", 1e-4),
        ("ablations.arms", ["uniform"]),
    ],
)
def test_dvc_changes_what_it_is_told_to(repo: Path, key: str, value: object) -> None:
    from dvc.utils.hydra import apply_overrides  # what `dvc exp run -S` calls

    apply_overrides(repo / "params.yaml", [f"{key}={value}"])
    found: object = sections.load(repo)
    for name in key.split("."):
        found = found[name]
    assert found == value
    changed = sections.check(repo)
    before = sections.check(ROOT)
    assert changed["default"] != before["default"]


def test_one_list_of_arms() -> None:
    values = sections.check(ROOT)
    assert all(profile["ablations"]["arms"] == profile["analysis"]["arms"] for profile in values.values())
    stage = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]["ablations"]
    assert stage["matrix"] == {"arm": "${ablations.arms}"}


STUDIED = [arm for group in ("primary", "secondary") for arm in sections.load(ROOT)["study"][group]["arms"]]

MISTAKES = [
    (
        r"^  seed:",
        "  sede:",
        r"^env_design\.seed: missing\nenv_design\.sede: unknown key; did you mean 'seed'\? legal keys: seed, sizes, ",
    ),
    (r"hard_share: \S+", "hard_share: often", r"^baseline_rl\.hard_share: 'often' is not legal: .*valid number$"),
    (r"hard_share: \S+", "hard_share: 1.6", r"^baseline_rl\.hard_share: 1\.6 is not legal: .*less than or equal to 1$"),
    (r"hard_share: \S+", "hard_share: .nan", r"^baseline_rl\.hard_share: nan is not legal: .*finite number"),
    (
        r"    learning_rate: \S+",
        "    learning_rate: 2e-3",
        r"^baseline_rl\.warm_start\.learning_rate: '2e-3' is not legal: .*YAML reads 2e-3 as a text: write a point",
    ),
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
        r"  hole_ratio: (?:.*\n)*?    cells:\n(?:      - .*\n)+",
        "  hole_ratio: 0.5\n    wait_ratios: [0.5]\n    cells:\n      - {agents: 5, sizes: [3]}\n",
        r"^env_design: benchmark\.cells: .*0\.5 leaves 4 free cells for 5 agents, which need 6; legal for this size",
    ),
    (
        r"      - \{agents: 2, sizes: .*",
        r"      - {agents: 2, sizes: [3]}\n      - {agents: 2, sizes: [4]}",
        r"^env_design\.benchmark: cells: each number of agents is there once, not \[2, 2, 3, 4, 5\]$",
    ),
    (
        r"    instances: .*",
        "    instances: 7",
        r"^baseline_rl\.rl: instances \(7\) must be a multiple of prompts \(\d+\)$",
    ),
    (r"variant: V6", "variant: V7", r"engineer_loop\.engineer\.variant: 'V7' is not legal: legal variants: V1, V2, "),
    (
        r"  arms: \[",
        "  arms: [orakel, ",
        r"^ablations: .*arm: 'orakel' is none of engineer, base_",
    ),
    (r"    v1: \{variant: V1\}", "    x: {sample: 2}", r"designers\.x\.sample: unknown key; did you mean 'samples'\?"),
    (r"    v1: \{variant: V1\}", "    fixed: {}", r"designers: 'fixed' is the name of an arm already"),
    (
        r"^analysis: .*",
        "analysis:\n  arms: [fixed]",
        r"^analysis\.arms: \['fixed'\] are not run; legal: those of ablations\.arms",
    ),
    (r"^wandb: .*", "wandb: yes please", r"^wandb: 'yes please' is not legal: one of disabled, offline, online$"),
    (r"^profile: .*", "profile: fast", r"^profile: 'fast' is not legal: one of default, smoke, gpu, paper$"),
    (
        r"^analysis:",
        "analyses:",
        r"^params\.yaml: analyses: unknown key; analysis: missing; legal keys: profile, wandb, ",
    ),
    (r"^  seed: (.*)", r"  seed: \1\n  seed: 1", r"^params\.yaml: line \d+: 'seed' is given twice$"),
    (
        r"^analysis: .*",
        "another: &a {arms: [heuristic]}\nanalysis: *a",
        r"^params\.yaml: line \d+: \*a: `dvc exp run -S` would lose changes of an alias; write the value out$",
    ),
    (r"^profile: .*", "profile: [default", r"^params\.yaml: .*expected"),
    (r"^  default: .*", "  default: fast", r"^profiles\.default: 'fast' is not a profile, write \{\} for an empty one"),
    (
        r"^  smoke:",
        "  smoke:\n    engineer: {variant: V1} ",
        r"^profiles\.smoke\.engineer: unknown key; legal keys: env_design, ",
    ),
    (
        r"^        steps:",
        "        step:",
        r"^profiles\.smoke\.baseline_rl\.warm_start\.step: unknown key; did you mean 'steps'\?",
    ),
    (
        r"^  smoke:",
        "  smoke:\n    ablations: {arms: [heuristic]} ",
        r"^profiles\.smoke\.ablations\.arms: not legal in a profile: dvc\.yaml reads it; change ablations\.arms",
    ),
    (r"seeds: \[0, 1, 2\]$", "seeds: [0, 7]", r"^study: .*secondary\.seeds: \[7\] are no seeds of primary"),
    (r"    arms: \[v1, v2", "    arms: [v1, v22", r"^study\.secondary\.arms: arm: 'v22' is none of engineer, "),
    (r"    arms: \[v1, v2", "    arms: [fixed, v2", r"^study: .*secondary\.arms: \['fixed'\] are primary already"),
    (
        r"arm: engineer, against: fixed",
        "arm: engineer, against: v0",
        r"^analysis\.comparison\.against: 'v0' is not run",
    ),
]


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES, ids=[new.split("\n")[-1].strip() for _, new, _ in MISTAKES])
def test_a_mistake_is_one_line_and_touches_nothing(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    monkeypatch.chdir(repo)
    assert main(["prepare"]) == 0
    before = files(repo / "build")
    capsys.readouterr()
    edit(repo, old, new)
    for command in ("check", "prepare"):
        assert main([command]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert re.search(said, err.strip(), re.DOTALL), err
        assert len(err.strip().splitlines()) <= 3
    assert files(repo / "build") == before


def test_a_notebook_that_does_not_fit_is_named(repo: Path, write_notebook) -> None:
    path = repo / "notebooks" / "05_analysis.ipynb"
    write_notebook(path, "arm = []\nrun = ''")
    with pytest.raises(
        notebooks.NotebookError,
        match=r"^05_analysis: the parameters cell lacks arms, comparison and has unknown arm; legal: arms, comparison",
    ):
        sections.check(repo)
    write_notebook(path, "arms = []\ncomparison = {}\nrun = ''", "x = 1", "def f():\n    return 1")
    with pytest.raises(
        notebooks.NotebookError, match=r"^05_analysis, cell 3: defines f; notebooks call, the package def"
    ):
        sections.check(repo)
    write_notebook(path, "arms = []\ncomparison = {}\nrun = ''", "x = = 1")
    with pytest.raises(notebooks.NotebookError, match=r"^05_analysis, cell 2, line 1: not Python"):
        sections.check(repo)
    write_notebook(path, "arms = []\ncomparison = {}\nrun = open('x')")
    with pytest.raises(notebooks.NotebookError, match=r"^05_analysis, cell 1: the value of run is not a literal$"):
        sections.check(repo)
    path.write_text("{")
    with pytest.raises(notebooks.NotebookError, match=r"^05_analysis.ipynb: not a notebook"):
        sections.check(repo)
    path.unlink()
    with pytest.raises(notebooks.NotebookError, match=r"^05_analysis.ipynb: there is no such notebook"):
        sections.check(repo)


def test_a_profile_is_one_line(repo: Path) -> None:
    path = repo / "params.yaml"
    edit(repo, "^profile: .*", "profile: default   # mine")
    before = path.read_text().splitlines()
    sections.set_profile(repo, "smoke")
    after = path.read_text().splitlines()
    assert [(a, b) for a, b in zip(before, after, strict=True) if a != b] == [
        ("profile: default   # mine", "profile: smoke   # mine")
    ]
    with pytest.raises(ParamError, match=r"^profile: 'fast' is not legal: one of default, smoke, gpu, paper$"):
        sections.set_profile(repo, "fast")
    assert path.read_text().splitlines() == after


def test_prepare_writes_the_active_profile_and_nothing_else_matters(repo: Path) -> None:
    sections.prepare(repo)
    build = files(repo / "build")
    assert sorted(build) == sorted(
        ["params/profile.json"]
        + [f"params/{section}.json" for section in MADE_BY]
        + [f"params/study/{arm}.json" for arm in ("round_0", *STUDIED)]
        + [f"code/{name}.py" for name in MADE_BY.values()]
    )
    (repo / "build/params/left_over.json").write_text("{}")
    edit(repo, "^wandb: .*", "wandb: offline   # says nothing about results")
    edit(repo, "^  gpu: ", "  gpu:  # inactive ")
    edit(repo, r"sizes: \[3, 4, 5, 6, 7, 8, 9, 10\]", "sizes: [3, 4, 5]")
    sections.prepare(repo)
    assert files(repo / "build") == build

    sections.set_profile(repo, "smoke")
    sections.prepare(repo)
    changed = {name for name, content in files(repo / "build").items() if build[name] != content}
    cells = {f"params/study/{arm}.json" for arm in ("round_0", *STUDIED)}
    assert changed == {"params/profile.json", "params/env_design.json", "params/baseline_rl.json"} | cells
    design = read_json(repo / "build/params/env_design.json")
    assert design["validation"] == {"agents": 2, "boards": 48}  # merged: one key from each


def test_a_notebook_saved_in_jupyter_has_the_same_code(repo: Path) -> None:
    sections.prepare(repo)
    build = files(repo / "build")
    path = repo / "notebooks" / "01_env_design.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for i, cell in enumerate(notebook.cells):
        cell.id = f"other-{i}"
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("stream", text="seen")]
            cell.execution_count = 100 + i
        cell.metadata["scrolled"] = True
    notebook.cells[0].source += "\n\nReworded."
    notebook.cells.append(nbformat.v4.new_code_cell("  "))
    notebook.metadata["kernelspec"]["display_name"] = "mine"
    nbformat.write(notebook, path)
    sections.prepare(repo)
    assert files(repo / "build") == build

    next(c for c in notebook.cells if c.cell_type == "code" and "draw" in c.source).source += "\nprint(1)"
    nbformat.write(notebook, path)
    sections.prepare(repo)
    changed = {name for name, content in files(repo / "build").items() if build[name] != content}
    assert changed == {"code/01_env_design.py"}


def test_the_item_of_a_list(repo: Path) -> None:
    with pytest.raises(ParamError, match=r"^build/params/ablations\.json is missing: run `dvc repro`"):
        sections.stage_values(repo, "ablations", "arm=heuristic")
    sections.prepare(repo)
    values = sections.stage_values(repo, "ablations", "arm=heuristic")
    assert values["arm"] == "heuristic"
    assert "arms" not in values
    legal = "base_engineer, heuristic, domain_randomisation"
    for item in ("arm=oracle", "leg=heuristic", "heuristic", None):
        with pytest.raises(ParamError, match=f"^-p {item or ''}: ablations takes -p arm=<one of {legal}>$"):
            sections.stage_values(repo, "ablations", item)
    with pytest.raises(ParamError, match=r"^-p arm=heuristic: analysis takes no such parameter"):
        sections.stage_values(repo, "analysis", "arm=heuristic")
