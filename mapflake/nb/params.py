"""params.yaml: one section for each notebook, profiles laid over them, everything validated before anything runs.

The line `run` names what is active; dvc.yaml's matrices read it. A stage reads `build/params/<stage>.json`, written by
`prepare`, so that an edit of a comment, or of a profile that is not active, runs nothing again.
"""

from __future__ import annotations

import functools
import importlib.util
import operator
import re
import shutil
from pathlib import Path
from typing import Any

from mapflake.engineer.designers import DYNAMIC
from mapflake.engineer.students import group_of
from mapflake.extras import needs

with needs("lab"):
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

from mapflake import repro
from mapflake.nb import notebooks
from mapflake.nb.code import stage_code
from mapflake.nb.folders import NOTEBOOKS
from mapflake.nb.schema import ParamsFile, RunParams, Sections
from mapflake.repro import ParamError, shown

RUN_LINE = re.compile(r"^run:.*\n(?:[ \t].*\n)*", re.MULTILINE)  # one line, or as `dvc exp run -S` writes it
BUILD_PARAMS, BUILD_CODE = "build/params", "build/code"
RUN = "run.json"  # of `BUILD_PARAMS`: the line `run`

TAKES = {
    "env_design": "env_design.*",
    "warm_start": "warm_start.*",
    "student": "warm_start students",
    "baseline_rl": "baseline_rl.* warm_start students",
    "engineer_loop": "engineer_loop.*",
    "ablations": "engineer_loop.* ablations.* students.ages",
    "bank": """baseline_rl.rl baseline_rl.samples warm_start students trained_engineer.before.tables
        bank_runs=trained_engineer.bank""",
    "trained_engineer": """engineer_loop.* baseline_rl.rl baseline_rl.samples trained_engineer.before
        bank_runs=trained_engineer.bank run.bank warm_start students""",
    "analysis": "analysis.* run.arms run.seeds students.ages",
}
"""Stage -> the keys of params.yaml that it takes, named by their last part, or before `=`; `*` is all of a section."""

ITEMS = {
    "baseline_rl": ("seed",),
    "engineer_loop": ("seed",),
    "trained_engineer": ("seed",),
    "ablations": ("arm", "seed"),
}
"""What one run of a stage's notebook is for: entries of dvc.yaml's matrices, names in the parameters cell."""


def load(root: Path) -> ParamsFile:
    """Returns params.yaml, each key checked; ParamError has one line for each offending key."""
    try:
        raw = YAML(typ="safe", pure=True).load((root / "params.yaml").read_text(encoding="utf-8"))
    except (YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:  # of `!!int ""`
        raise ParamError(f"params.yaml: cannot be read: {' '.join(repr(error).split())}"[:400]) from None
    return ParamsFile.parse(raw, "")


def effective(file: ParamsFile, profile: str) -> Sections:
    """Returns the sections with the changes of a profile; ParamError has one line for each offending key."""
    if profile not in file.profiles:
        raise ParamError(f"profile: {shown(profile)} is not legal: one of {', '.join(file.profiles)}")
    base = {name: getattr(file, name).model_dump(mode="json") for name in Sections.model_fields}
    return Sections.parse(_merge(base, file.profiles[profile]), f"profiles.{profile}")


def _merge(base: Any, overlay: Any) -> Any:
    """Returns `base` with `overlay` laid over it, mappings by name merged key by key, everything else replaced.

    A mapping by size is one configuration: a part of it alone would be another one.
    """
    if isinstance(base, dict) and isinstance(overlay, dict) and all(isinstance(key, str) for key in overlay):
        return base | {key: _merge(base.get(key), value) for key, value in overlay.items()}
    return overlay


def check(root: Path) -> tuple[ParamsFile, Sections]:
    """Returns the file and the active sections after checking all profiles, runs and notebooks; writes nothing.

    Raises ParamError, or NotebookError if a notebook does not fit its section.
    """
    file = load(root)
    profiles = {name: effective(file, name) for name in file.profiles}
    banks: dict[str, list[int]] = {}
    arms = {name: {"fixed", "engineer"} for name in profiles}
    for prefix, run in {"run": file.run, **{f"runs.{name}": run for name, run in file.runs.items()}}.items():
        if run.profile not in profiles:
            raise ParamError(f"{prefix}.profile: {shown(run.profile)} is not legal: one of {', '.join(profiles)}")
        profiles[run.profile].check_arms(f"{prefix}.arms", run)
        if run.bank != (first_bank := banks.setdefault(run.profile, run.bank)):  # its cells would be others
            raise ParamError(f"{prefix}.bank: {run.bank}, but other runs of {run.profile} have {first_bank}")
        arms[run.profile] |= {*run.arms}
    for name, sections in profiles.items():
        sections.check_engineers(f"profiles.{name}", arms[name])
        # A comparison that the profile does not set itself may be for the runs of other profiles.
        own_analysis = not file.profiles[name] or "analysis" in file.profiles[name]
        sections.check_comparison(f"profiles.{name}", arms[name] if own_analysis else set.union(*arms.values()))
    active = profiles[file.run.profile]
    for arm in file.run.arms:
        engineer = active.asked("run.arms", arm)
        if engineer and engineer.model.startswith("runs/") and not (root / engineer.model).is_dir():
            raise ParamError(f"run.arms: {arm!r} is designed by the model in {engineer.model}, which is not there")
    for key in ("baseline_rl", "trained_engineer.before"):
        vllm = operator.attrgetter(f"{key}.rl.vllm")(active)
        if vllm != "off" and importlib.util.find_spec("vllm") is None:
            prefix = f"profiles.{file.run.profile}.{key}.rl.vllm"
            raise ParamError(f"{prefix}: {vllm} takes vLLM, which is not installed (the extra `gpu`)")
    values = taken(file.run, active)
    for stage, name in NOTEBOOKS.items():
        notebook = notebooks.read(root / "notebooks" / f"{name}.ipynb")
        notebooks.check(notebook, name, [*values[stage], *ITEMS.get(stage, ()), "run"])
    return file, active


def taken(run: RunParams, sections: Sections) -> dict[str, dict[str, Any]]:
    """Returns what each stage of `TAKES` takes of a run and the sections of its profile."""
    everything = sections.model_dump(mode="json")
    everything["run"] = run.model_dump(mode="json") | {"arms": ["fixed", "engineer", *run.arms]}
    values: dict[str, dict[str, Any]] = {}
    for stage, keys in TAKES.items():
        values[stage] = {}
        for key in keys.split():
            name, _, path = key.rpartition("=")
            *above, last = path.split(".")
            section = functools.reduce(operator.getitem, above, everything)
            values[stage] |= section if last == "*" else {name or last: section[last]}
    return values


def prepare(root: Path) -> None:
    """Checks everything, then writes the active parameters and what the code says, which the stages depend on."""
    file, sections = check(root)
    values = taken(file.run, sections)
    shared = values.pop("ablations")
    for arm in file.run.arms:  # without what other arms differ in, which changes nothing for it
        designer = arm.removesuffix(DYNAMIC)
        designers = {name: changes for name, changes in shared["designers"].items() if name == designer}
        owners = {"constant": "constant", "longer": "fixed_longer"}  # parameters that one arm alone has
        blanks = {key: None for key, owner in owners.items() if owner != designer}
        if not arm.endswith(DYNAMIC):
            blanks["redraws"] = None
        values[f"ablations/{arm}"] = shared | {"designers": designers} | blanks
    ages = len(sections.students.ages)
    values["others"] = {"groups": {str(seed): group_of(seed, ages) if ages > 1 else [] for seed in file.run.seeds}}
    for folder in (BUILD_PARAMS, BUILD_CODE):
        shutil.rmtree(root / folder, ignore_errors=True)
    for name, value in values.items():
        repro.write_json(root / BUILD_PARAMS / f"{name}.json", value)
    repro.write_json(root / BUILD_PARAMS / RUN, file.run.model_dump(mode="json"))
    for name in NOTEBOOKS.values():
        code = notebooks.code_view(notebooks.read(root / "notebooks" / f"{name}.ipynb"), name)
        repro.write_text(root / BUILD_CODE / f"{name}.py", code)
    for stage, code in stage_code(root).items():
        repro.write_text(root / BUILD_CODE / "mapflake" / f"{stage}.txt", code)
    print(f"profile {file.run.profile}: parameters and notebooks are in order", flush=True)


def check_run(root: Path) -> None:
    """Raises ParamError if the line `run` is not the one for which parameters were prepared."""
    path = root / BUILD_PARAMS / RUN
    if path.is_file() and repro.read_json(path) != load(root).run.model_dump(mode="json"):
        raise ParamError("run: the line has changed since the parameters were prepared: `dvc repro prepare`")


def prepared(root: Path, name: str) -> dict[str, Any]:
    """Returns the prepared parameters of a section, or of an arm (`ablations/heuristic`); ParamError without any."""
    path = root / BUILD_PARAMS / f"{name}.json"
    if not path.is_file():
        raise ParamError(f"{path.relative_to(root)} is missing: `dvc repro prepare` makes it for what is in `run`")
    return dict(repro.read_json(path))


def stage_sha256(root: Path, stage: str) -> str | None:
    """Returns a hash of the prepared parameters of a stage, such as `ablations/heuristic-0`; None without any."""
    kind, _, cell = stage.partition("/")
    name = f"{kind}/{cell.rpartition('-')[0]}" if kind == "ablations" else kind
    path = root / BUILD_PARAMS / f"{name}.json"
    return repro.file_sha256(path) if path.is_file() else None


def choose(root: Path, name: str) -> None:
    """Makes one of `runs` the active one: rewrites the line `run` of params.yaml and nothing else."""
    file = load(root)
    run = file.named(name)
    effective(file, run.profile)
    if run != file.run:
        arms = ", ".join(run.arms)
        line = f"run: {{profile: {run.profile}, arms: [{arms}], seeds: {run.seeds}, bank: {run.bank}}}\n"
        path = root / "params.yaml"
        before = path.read_text(encoding="utf-8")
        repro.write_text(path, RUN_LINE.sub(lambda _: line, before, count=1))
        try:
            chosen = load(root).run == run
        except ParamError:
            chosen = False
        if not chosen:
            repro.write_text(path, before)
            raise ParamError("run: must be one line of params.yaml, `run: {...}`, without an anchor, to be replaced")
