"""params.yaml: what is legal, what is said about mistakes, and what `prepare` writes."""

from __future__ import annotations

import importlib.util
import re
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest
import yaml
from small_repo import ROOT, done, files, write_notebook

from mapflake.nb import notebooks, params, schema
from mapflake.nb.__main__ import main
from mapflake.nb.code import stage_code
from mapflake.nb.folders import NOTEBOOKS
from mapflake.repro import ParamError, read_json
from mapflake.study import controls


def edit(root: Path, old: str, new: str) -> None:
    """Replaces the first match of a pattern: the tests must outlive a change of the values."""
    path = root / "params.yaml"
    text, count = re.subn(old, new, path.read_text(), count=1, flags=re.MULTILINE)
    assert count == 1, old
    path.write_text(text)


def test_check_finds_the_repository_in_order() -> None:
    file, _ = params.check(ROOT)
    assert file.run == file.runs["default"]  # the committed one
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert stages["ablations"]["matrix"] == {"arm": "${run.arms}", "seed": "${run.seeds}"}


def test_no_profile_replaces_the_records_of_the_controls() -> None:
    assert {*controls.SETS} - {"study"} <= schema.TAKEN


def test_a_command_does_not_wait_for_what_others_import() -> None:
    """Each stage is a process of its own: these took it eight seconds, and only its kernel needs them."""
    code = "import sys; from mapflake.nb.__main__ import main; main(['check'])"
    code += "; print({'torch', 'matplotlib', 'pandas', 'scipy'} & {*sys.modules})"
    assert done(sys.executable, "-c", code, cwd=ROOT).splitlines()[-1] == "set()"


def test_parameters_cells_hold_the_smoke_profile() -> None:
    file = params.load(ROOT)
    run = file.runs["smoke"]
    taken = params.taken(run, params.effective(file, "smoke"))
    for section, name in NOTEBOOKS.items():
        expected = taken[section]
        cell = notebooks.defaults(notebooks.read(ROOT / "notebooks" / f"{name}.ipynb"), name)
        assert cell.pop("run") == "runs/interactive"
        for item in params.ITEMS.get(section, ()):
            assert cell.pop(item) in getattr(run, f"{item}s")
        if section == "analysis":  # by hand: the records that are there
            assert (cell.pop("arms"), cell.pop("seeds")) == (None, None)
            expected = {key: expected[key] for key in ("comparison", "ages")}
        if section == "ablations":  # `prepare` leaves out what other arms differ in
            expected = expected | {"designers": {}}
        kinds = {"warm_start": schema.BaseParams, "rl": schema.RLParams, "engineer": schema.EngineerParams}
        kinds |= {"before": schema.DesignRLParams, "bank_runs": schema.BankParams}
        for key in kinds.keys() & cell.keys():
            cell[key] = kinds[key].parse(cell[key], key).model_dump(mode="json")
        if section == "env_design":
            cell = schema.EnvDesign.parse(cell, name).model_dump(mode="json")
        assert cell == expected


DOCS = "".join(page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))])
TOLD = sorted({change for _, change in re.findall(r"-S\s('?)([^\s'`]+)\1", DOCS)})


def test_dvc_takes_what_the_docs_say(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dvc.utils.hydra import apply_overrides

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)  # as if vLLM were installed
    assert {"+profiles.smoke.ablations.redraws=2", "ablations.redraws=2", "run.arms=[heuristic]"} <= {*TOLD}
    params.choose(repo, "smoke")
    written, unchanged = (repo / "params.yaml").read_text(), params.check(ROOT)
    for change in TOLD:
        (repo / "params.yaml").write_text(written)
        apply_overrides(repo / "params.yaml", [change])
        assert params.check(repo) != unchanged
    params.choose(repo, "smoke")  # also in the layout that DVC writes
    assert params.load(repo).run == params.load(repo).runs["smoke"]
    (repo / "params.yaml").write_text(written)
    with pytest.raises(Exception, match=r"^Invalid `--set-param` value"):  # which is why there is a plus
        apply_overrides(repo / "params.yaml", ["profiles.smoke.ablations.redraws=2"])


def test_the_run_llm_takes_the_lessons_of_its_page(repo: Path) -> None:
    page = (ROOT / "docs/pretrained.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(lessons:\n.*?)```", page, flags=re.DOTALL)
    edit(repo, r"^(        rl: \{<<: \*llm_round,)", textwrap.indent(block, 8 * " ") + r"\1")
    before = params.effective(params.load(repo), "llm").trained_engineer.before
    assert before.lessons is not None
    shown = before.lessons.rows - before.lessons.boards
    assert shown == before.lessons.situations == 2880  # each is shown once


OWN = r"^  designers: (?:.*\n)+?    language_model_another: .*$"
STRATA = r"  hole_ratio: (?:.*\n)*?    strata:\n(?:      - .*\n)+"
CROWDED = "  hole_ratio: 0.5\n    wait_ratios: [0.5]\n    strata:\n      - {agents: 5, sizes: [3]}\n"
AGAINST = r"arm: engineer_trained, against: \[.*?\]"
CURRENT = r"^  engineer:( +# how.*)?$"
LORA = r"rl: \{<<: \*lora_round, instances: 128"
STUDY = r"^  study: \{\}"
SMOKE = r"^(  smoke: .*arms: \[)((?:.*\n)*?)    ablations: \{constant: null\}\n"
MISTAKES = [  # one of each kind
    (r"^  seed:", "  sede:", r"^env_design\.seed: missing\nenv_design\.sede: unknown key; did you mean 'seed'\?"),
    (r"hard_share: \S+", "hard_share: .nan", r"^warm_start\.hard_share: nan is not legal: .*finite number"),
    (STRATA, CROWDED, r"^env_design: benchmark: sizes\.3.*0\.5 leaves 4 free cells for 5 agents, which need 6; legal"),
    (r"^  sizes: \[3, ", "  sizes: [3, 3, ", r"^env_design\.sizes: .*each is there once, not 3, 3, 4"),
    (r"^(run: .*arms: \[)", r"\1orakel, ", r"^run\.arms: arm: 'orakel' is none of fixed, fixed_"),
    (r"^(run: .*arms: \[)", r"\1language_model, ", r"^run\.arms: 'language_model' .*runs/llm/.*, which is not "),
    (r"^(run: .*profile: )default", r"\1fast", r"^run\.profile: 'fast' is not legal: one of study, default, smoke, "),
    (r"^(  smoke: .*arms: \[)", r"\1constant_dynamic, ", r"^runs\.smoke\.arms: 'constant_dynamic' takes a config"),
    (r"^(run: .*bank: \[)", r"\g<1>7, ", r"^runs\.default\.bank: .*, but other runs of default have \[7, 0, 1"),
    (OWN, "  designers: {v1: {model: base, design_rl: before}} ", r"v1: design_rl: trains the current policy, but mo"),
    (OWN, "  designers: {round_0: {variant: V1}} ", r"designers: 'round_0' is the name of records"),
    (OWN, "  designers: {v1: {model: 'openai:'}} ", r"designers\.v1: model: openai:<name> lacks the name$"),
    (OWN, "  designers: {v1: {variant: V1, prompt_tokens: 9}} ", r"^profiles\.study: prompt_tokens .*budget is 9;"),
    (r"^  seed: (.*)", r"  seed: \1\n  seed: 1", r'^params\.yaml: .*found duplicate key "seed"'),
    # Each of these once passed, and ended a stage after a training, or gave two arms one name.
    (r"^  samples: 4  ", "  samples: 10  ", r"^baseline_rl\.samples: 10 is not legal: .*less than or equal to 9$"),
    (r"( own\n    wait_ratios: )\[0.25, 0.5", r"\1[0.25, 0.254", r"^env_design: benchmark: .*: .*wr025, wr025"),
    (r"(validation:  .*\n    agents: )2", r"\g<1>1", r"^env_design: validation: one agent waits for nobody: no board"),
    (r"boards_share: 0.25  ", "boards_share: 0.9995  ", r"boards_share: 0\.9995 of 640 prompts leaves no design"),
    (AGAINST, "arm: frontier, against: [fixed]", r"comparison\.arm: no run makes .*'frontier'"),
    (AGAINST, "arm: fixed, against: [fixed]", r"^analysis\.comparison: against: 'fixed' is the arm itself$"),
    (r"boards: 8, sizes", "boards: 1, sizes", r"env_design: validation\.boards: 6 boards in all, takes at least 8$"),
    (r"boards: 10000", "boards: 3", r"^env_design: demonstrations\.0\.boards: 3 boards are none for each of 4 hole_"),
    (r"bank: \{training: null, ages: \[0\]", "bank: {training: null, ages: [9]", r"^profiles\.paper: .*\.bank\.ages: "),
    (r"^    threads: 1  ", "    lora: {rank: 2}\n    threads: 1  ", r"^params\.yaml: warm_start\.training\.lora: adap"),
    (r"max_new_tokens: 200", "max_new_tokens: 1024", r"baseline_rl\.rl\.max_new_tokens: .*max_positions, 1024$"),
    (r"agents: \[2\]}", "agents: [3], sizes: [8]}", r"comparison\.sizes: no board of .* has size 8 and 3 agents$"),
    (r"- \{agents: 3, sizes: \[3, 4\]\}", "- {agents: 1, sizes: [3]}", r"benchmark: one agent waits for nobody: wait_"),
    (CURRENT, r"\g<0>\n    report: another", r"^run\.arms: engineer_loop\.engineer is the current policy"),
    (CURRENT, r"\g<0>\n    model: base", r"^run\.arms: engineer_loop\.engineer is the current policy"),
    (CURRENT, r"\g<0>\n    model: search", r"^run\.arms: engineer_loop\.engineer is the current policy"),
    (OWN, "  designers: {v1: {model: search, samples: 9}} ", r"designers\.v1: samples: the search asks no model$"),
    (r"^  weights: pretrained", "  weights: random", r"^warm_start: weights: a policy from scratch \(base null"),
    (LORA, r"\g<0>, lora: null, beta: 0.1", r"trained_engineer\.before\.rl\.beta: with whole weights"),
    (SMOKE, r"\1constant, \2", r"^runs\.smoke\.arms: 'constant' asks for size 5, which is not in env_design\.si"),
    (STUDY, r"\g<0>\n  ../long: {}", r"^profiles\.\.\./long.*: .*match pattern"),
    (STUDY, r"\g<0>\n  interactive: {}", r"^params\.yaml: profiles: 'interactive' is the folder of runs by hand"),
    (STUDY, r"\g<0>\n  log: {}", r"^params\.yaml: profiles: 'log' is the name of a page or of records in reports/"),
]


def test_vllm_is_missed_before_anything_is_trained_and_by_the_active_profile_alone(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)  # as if vLLM were not installed
    params.check(repo)  # the profile `paper` asks for it
    edit(repo, r"^    schedule: constant_with_warmup", "    schedule: constant_with_warmup\n    vllm: colocate")
    with pytest.raises(ParamError, match=r"^profiles\.default\.baseline_rl\.rl\.vllm: colocate takes vLLM, which "):
        params.check(repo)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    params.check(repo)


def test_arms_told_other_reports_take_two_ages_and_whole_groups_of_seeds(repo: Path) -> None:
    edit(repo, OWN, "  designers: {other: {report: another}} ")
    params.choose(repo, "smoke")
    edit(repo, r"^(run: .*arms: \[)", r"\1other, ")
    with pytest.raises(ParamError, match=r"^run\.arms: 'other' is told another's report, and students\.ages has"):
        params.check(repo)
    edit(repo, r"ages: \[20\]", "ages: [2, 4, 8]")
    with pytest.raises(ParamError, match=r"^run\.arms: .*; seed 0 is of the group \[0, 1, 2\]$"):
        params.check(repo)
    edit(repo, r"^(run: .*seeds: )\[0\]", r"\1[0, 1, 2]")
    params.check(repo)


@pytest.mark.parametrize(("old", "new", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_one_line_and_touches_nothing(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], old: str, new: str, said: str
) -> None:
    monkeypatch.chdir(repo)
    (repo / "build/params").mkdir(parents=True)
    (repo / "build/params/env_design.json").write_text("of before")
    before = files(repo / "build")
    edit(repo, old, new)
    assert main(["prepare"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert re.search(said, err.strip(), re.DOTALL), err
    assert len(err.strip().splitlines()) <= 6
    assert files(repo / "build") == before


def test_check_names_a_notebook_that_does_not_fit(repo: Path) -> None:
    path = repo / "notebooks" / "06_analysis.ipynb"
    fits = "comparison = {}\narms = None\nseeds = None\nages = []\nrun = ''"
    for sources, message in [
        ((fits.replace("arms", "arm"),), r": the parameters cell differs in arm, arms; it takes comparison, "),
        ((fits, "x = = 1"), r", cell 2, line 1: not Python"),
        ((fits.replace("''", "open('x')"),), r", cell 1: takes lines `name = literal` only$"),
    ]:
        write_notebook(path, *sources)
        with pytest.raises(notebooks.NotebookError, match="^06_analysis" + message):
            params.check(repo)
    path.write_text("{")
    with pytest.raises(notebooks.NotebookError, match=r"^06_analysis.ipynb: not a notebook"):
        params.check(repo)


def test_choose_rewrites_one_line(repo: Path) -> None:
    path = repo / "params.yaml"
    before = path.read_text().splitlines()
    params.choose(repo, "smoke")
    after = path.read_text().splitlines()
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    lists = "arms: [engineer_trained, engineer_base, heuristic], seeds: [0], bank: [0, 1]"
    assert [b for _, b in changed] == [f"run: {{profile: smoke, {lists}}}"]
    names = "default, study, smoke, llm, qwen_1gpu, paper"
    with pytest.raises(ParamError, match=rf"^runs: 'fast' is not legal: one of {names}$"):
        params.choose(repo, "fast")
    params.choose(repo, "default")
    assert path.read_text().splitlines() == before
    edit(repo, r"smoke: \{profile: smoke", "smoke: {profile: smok")
    with pytest.raises(ParamError, match=r"^profile: 'smok' is not legal: one of study, default, smoke"):
        params.choose(repo, "smoke")
    path.write_text("\n".join(before) + "\n")
    for line in (r"run : \1", r"run:\n# ours\n  \1"):  # legal, and not the line that is rewritten
        edit(repo, "^run: (.*)$", line)
        odd = path.read_text()
        params.load(repo)
        with pytest.raises(ParamError, match=r"run: must be one line of params\.yaml"):
            params.choose(repo, "smoke")
        assert path.read_text() == odd
        path.write_text("\n".join(before) + "\n")


def test_a_profile_has_a_constant_of_its_own(repo: Path) -> None:
    """A configuration is one value: with the sizes of another one its shares would not sum to 1."""
    file = params.load(repo)
    ratios = {"data_ratio": 1.0, "hole_ratio": 0.3, "wait_ratio": 0.5}
    constant = {"sizes": {4: ratios}}
    file.profiles["mine"] = {"ablations": {"constant": constant}, "baseline_rl": {"samples": 3}}
    mine, as_written = (params.effective(file, profile) for profile in ("mine", "study"))
    assert mine.ablations.constant is not None
    assert [*mine.ablations.constant["sizes"].values()] == [ratios]
    assert as_written.ablations.constant is not None
    assert len(as_written.ablations.constant["sizes"]) > 1
    assert mine.baseline_rl == as_written.baseline_rl.model_copy(update={"samples": 3})  # other keys are kept


def test_prepare_writes_the_active_run_and_nothing_else_matters(repo: Path) -> None:
    with pytest.raises(ParamError, match=r"^build/params/ablations/heuristic\.json is missing: `dvc repro prepare`"):
        params.prepared(repo, "ablations/heuristic")
    params.prepare(repo)
    build = files(repo / "build")
    sections = ["env_design", "warm_start", "student", "baseline_rl", "bank", "trained_engineer"]
    sections += ["ablations/engineer_trained", "ablations/engineer_trained_another"]
    made = {f"params/{section}.json" for section in (*sections, "engineer_loop", "analysis", "others", "run")}
    made |= {f"code/{name}.py" for name in NOTEBOOKS.values()}
    assert {*build} == made | {f"code/mapflake/{stage}.txt" for stage in stage_code(repo)}
    (repo / "build/params/left_over.json").write_text("{}")
    edit(repo, "^wandb: .*", "wandb: offline   # no part of any result")
    edit(repo, "^      feasibility_boards: 4$", "      feasibility_boards: 3")  # of an inactive profile
    edit(repo, OWN, "  designers: {mine: {variant: V2}} ")  # no arm of this run
    edit(repo, "3: {data_ratio: 0.34, hole_ratio: 0.15", "3: {data_ratio: 0.34, hole_ratio: 0.2")
    edit(repo, "^  redraws: 4", "  redraws: 3")
    params.prepare(repo)
    assert files(repo / "build") == build
    params.check_run(repo)

    edit(repo, r"^(run: .*arms: \[)", r"\1mine_dynamic, constant_dynamic, ")  # which take what `mine` and `constant` do
    params.prepare(repo)
    dynamic = params.prepared(repo, "ablations/constant_dynamic")
    assert (dynamic["constant"]["num_agents"], dynamic["redraws"]) == (2, 3)
    assert params.prepared(repo, "ablations/mine_dynamic")["designers"] == {"mine": {"variant": "V2"}}

    params.choose(repo, "smoke")
    with pytest.raises(ParamError, match="run: the line has changed since the parameters were prepared"):
        params.check_run(repo)
    params.prepare(repo)
    changed = {name for name, content in files(repo / "build").items() if build.get(name) != content}
    ours = ("analysis", "others", "run", "ablations/engineer_base", "ablations/heuristic")
    assert changed == {f"params/{name}.json" for name in (*sections[:7], *ours)}
    validation = read_json(repo / "build/params/env_design.json")["validation"]
    assert validation == {"agents": 2, "boards": 8, "wait_ratios": [0.25, 0.5, 0.75], "sizes": None}  # merged


def test_the_code_of_a_notebook_is_neither_its_text_nor_its_outputs() -> None:
    notebook = notebooks.read(ROOT / "notebooks" / "01_env_design.ipynb")
    view = notebooks.code_view(notebook, "01_env_design")
    for cell in notebook.cells:  # as Jupyter saves it
        cell |= {"id": f"other-{cell.id}", "metadata": cell.metadata | {"scrolled": True}}
        if cell.cell_type == "code":
            cell |= {"outputs": [nbformat.v4.new_output("stream", text="seen")], "execution_count": 100}
    notebook.cells[0].source += "\n\nReworded."
    assert notebooks.code_view(notebook, "01_env_design") == view
    next(cell for cell in notebook.cells if "import" in cell.source).source += "\nprint(1)"
    assert notebooks.code_view(notebook, "01_env_design") != view
