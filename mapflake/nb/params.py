"""params.yaml: one section for each notebook, profiles laid over them, everything validated before anything runs.

The line `run` names what is active: a profile, arms and training seeds; dvc.yaml's matrices read it. A stage reads
`build/params/<section>.json`, written by `prepare`, so that an edit of a comment, or of a profile that is not active,
runs nothing again.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from mapflake import repro
from mapflake.nb import notebooks
from mapflake.nb.folders import NOTEBOOKS
from mapflake.repro import ParamError, shown

SECTIONS = ("env_design", "warm_start", "baseline_rl", "engineer_loop", "ablations", "analysis")
LEGAL = ("run", "wandb", *SECTIONS, "runs", "profiles")
WANDB_MODES = ("disabled", "offline", "online")
RUN_LINE = re.compile(r"^run:.*\n(?:[ \t].*\n)*", re.MULTILINE)  # one line, or as `dvc exp run -S` writes it
BUILD_PARAMS = "build/params"
BUILD_CODE = "build/code"
PARTS = ("repro.py", "env", "trainer", "engineer", "study", "plots")
"""Parts of the package that stages depend on, by what their code says: comments and docstrings run nothing again."""

ITEMS = {"baseline_rl": ("seed",), "engineer_loop": ("seed",), "ablations": ("arm", "seed")}
"""What one run of a section's notebook is for: entries of dvc.yaml's matrices, names in the parameters cell."""


def load(root: Path) -> dict[str, Any]:
    """Returns params.yaml as it is written.

    Raises:
        ParamError: It is not YAML, a key is repeated, or a top-level key is unknown or missing.
    """
    try:
        raw = YAML(typ="safe", pure=True).load((root / "params.yaml").read_text(encoding="utf-8"))
    except YAMLError as error:
        raise ParamError(f"params.yaml: {' '.join(str(error).split())[:400]}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:  # ruamel's, of `!!int ""`
        raise ParamError(f"params.yaml: cannot be read ({error!r})"[:400]) from None
    found = list(raw) if isinstance(raw, dict) else []
    if sorted(map(str, found)) != sorted(LEGAL):
        wrong = [f"{str(k)[:80]}: unknown key" for k in found if k not in LEGAL]
        wrong += [f"{k}: missing" for k in LEGAL if k not in found]
        raise ParamError(f"params.yaml: {'; '.join(wrong)}; legal keys: {', '.join(LEGAL)}")
    for key in ("runs", "profiles"):
        if not isinstance(raw[key], dict) or "default" not in raw[key]:
            raise ParamError(f"{key}: takes one entry for each name, `default` among them")
    if raw["wandb"] not in WANDB_MODES:
        raise ParamError(f"wandb: {shown(raw['wandb'])} is not legal: one of {', '.join(WANDB_MODES)}")
    return raw


def effective(raw: Mapping[str, Any], profile: str) -> dict[str, dict[str, Any]]:
    """Returns the validated sections of one profile as plain values, defaults of the classes filled in.

    Raises:
        ParamError: One line for each offending key, of all sections.
    """
    from mapflake.nb import schema

    overlay = raw["profiles"][profile]
    legal = f"legal keys: {', '.join(SECTIONS)}"
    if not isinstance(overlay, dict):
        raise ParamError(f"profiles.{profile}: {shown(overlay)} is not a profile, write {{}} for an empty one; {legal}")
    errors = [f"profiles.{profile}.{name}: unknown key; {legal}" for name in overlay if name not in SECTIONS]
    result: dict[str, dict[str, Any]] = {}
    for name, section in schema.SECTIONS.items():
        where = f"profiles.{profile}.{name}" if overlay.get(name) else name
        try:
            result[name] = section.parse(_merge(raw[name], overlay.get(name) or {}), where).model_dump(mode="json")
        except ParamError as error:
            errors.append(str(error))
    if errors:
        raise ParamError("\n".join(errors))
    return result


def _merge(base: Any, overlay: Any) -> Any:
    """Returns `base` with `overlay` laid over it, mappings merged key by key, everything else replaced."""
    if isinstance(base, dict) and isinstance(overlay, dict):
        return copy.deepcopy(base) | {k: _merge(base[k], v) if k in base else v for k, v in overlay.items()}
    return copy.deepcopy(overlay)


def check(root: Path) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Returns the active run and its sections after checking every profile, run and notebook; writes nothing.

    Raises:
        ParamError: One line for each offending key.
        NotebookError: A notebook does not fit its section.
    """
    from mapflake.nb import schema

    raw = load(root)
    profiles = {"default": effective(raw, "default")}  # first: errors there would come again in every profile
    profiles |= {name: effective(raw, name) for name in raw["profiles"]}
    errors = []
    for where, value in {"run": raw["run"], **{f"runs.{name}": value for name, value in raw["runs"].items()}}.items():
        try:
            run = schema.RunParams.parse(value, where)
            if run.profile not in profiles:
                raise ValueError(f"{where}.profile: {shown(run.profile)} is not legal: one of {', '.join(profiles)}")
            sections = profiles[run.profile]
            engineer = schema.EngineerParams.parse(sections["engineer_loop"]["engineer"], "engineer_loop.engineer")
            designers = sections["ablations"]["designers"]
            schema.check_arms("ablations", list(designers), engineer, designers)
            schema.check_arms(f"{where}.arms", run.arms, engineer, designers)
        except ValueError as error:
            errors.append(str(error))
    if errors:
        raise ParamError("\n".join(dict.fromkeys(errors)))
    active, sections = raw["run"], profiles[raw["run"]["profile"]]
    for section, name in NOTEBOOKS.items():
        notebook = notebooks.read(root / "notebooks" / f"{name}.ipynb")
        names = [*notebook_values(section, active, sections), *ITEMS.get(section, ()), "run"]
        notebooks.check(notebook, name, names)
    return active, sections


def notebook_values(
    section: str, run: Mapping[str, Any], sections: Mapping[str, Any], arm: str | None = None
) -> dict[str, Any]:
    """Returns what the section's notebook takes, of the arm's own parameters only if it is one of `ablations`."""
    values = dict(sections[section])
    if section == "baseline_rl":
        values |= {"warm_start": sections["warm_start"]}
    elif section == "ablations":
        own = {name: changes for name, changes in values["designers"].items() if arm in (None, name)}
        values = {"engineer": sections["engineer_loop"]["engineer"], "designers": own}
    elif section == "analysis":
        values |= {"arms": ["fixed", "engineer", *run["arms"]], "seeds": run["seeds"]}
    return values


def prepare(root: Path) -> None:
    """Checks everything, then writes the active parameters and what the code says, which the stages depend on."""
    run, sections = check(root)
    values = {section: notebook_values(section, run, sections) for section in NOTEBOOKS if section != "ablations"}
    values |= {f"ablations/{arm}": notebook_values("ablations", run, sections, arm) for arm in run["arms"]}
    values["warm_start"] = sections["warm_start"]
    files = {f"{BUILD_PARAMS}/{name}.json": repro.dumps(value, indent=2) + "\n" for name, value in values.items()}
    for name in NOTEBOOKS.values():
        files[f"{BUILD_CODE}/{name}.py"] = notebooks.code_view(
            notebooks.read(root / "notebooks" / f"{name}.ipynb"), name
        )
    for part in PARTS:
        said = {name: repro.code_text(path) for name, path in repro.code_files(part).items()}
        files[f"{BUILD_CODE}/mapflake/{part.removesuffix('.py')}.txt"] = "\n".join(
            f"# {n}\n{t}" for n, t in said.items()
        )
    for folder in (BUILD_PARAMS, BUILD_CODE):
        for stranger in (root / folder).rglob("*"):
            if stranger.is_file() and stranger.relative_to(root).as_posix() not in files:
                stranger.unlink()
    for path, text in files.items():
        repro.write_text(root / path, text)
    print(f"profile {run['profile']}: parameters and notebooks are in order", flush=True)


def stage_values(root: Path, section: str, items: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is injected into the section's notebook: the prepared values and the entry that this run is for.

    Args:
        root: The repository.
        section: The notebook's section.
        items: The entry: `{"arm": ..., "seed": ...}`, `{"seed": ...}` or `{}`, see `ITEMS`.

    Raises:
        ParamError: They were not prepared, or the entry is none of the active run.
    """
    names, run = ITEMS.get(section, ()), load(root)["run"]
    legal = {"arm": run["arms"], "seed": run["seeds"]}
    if tuple(items) != names or any(value not in legal[name] for name, value in items.items()):
        asked = " ".join(f"{name}={value}" for name, value in items.items())
        takes = " ".join(f"{name}=<one of {', '.join(map(str, legal[name]))}>" for name in names) or "nothing more"
        raise ParamError(f"{asked or 'run'}: {section} takes {takes}")
    path = prepared(root, section, items)
    if not path.is_file():
        raise ParamError(f"{path.relative_to(root)} is missing: `dvc repro prepare` makes it")
    return {**items, **repro.read_json(path)}


def prepared(root: Path, section: str, items: Mapping[str, Any]) -> Path:
    """Returns the file of the prepared parameters of a section, or of its arm."""
    return root / BUILD_PARAMS / (f"{section}/{items['arm']}.json" if "arm" in items else f"{section}.json")


def choose(root: Path, name: str) -> None:
    """Makes one of `runs` the active one: rewrites the line `run` of params.yaml and nothing else.

    Raises:
        ParamError: There is no such run.
    """
    from mapflake.nb.schema import RunParams

    raw = load(root)
    if name not in raw["runs"]:
        raise ParamError(f"{shown(name)} is not legal: one of {', '.join(raw['runs'])}")
    run = RunParams.parse(raw["runs"][name], f"runs.{name}")
    if raw["run"] == run.model_dump():
        return
    line = f"run: {{profile: {run.profile}, arms: [{', '.join(run.arms)}], seeds: {run.seeds}}}\n"
    path = root / "params.yaml"
    repro.write_text(path, RUN_LINE.sub(lambda _: line, path.read_text(encoding="utf-8"), count=1))


def section_of(notebook: str) -> str:
    """Returns the section of a notebook, e.g. `ablations` of `04_ablations`.

    Raises:
        ParamError: No stage runs a notebook of this name.
    """
    for section, name in NOTEBOOKS.items():
        if name == notebook:
            return section
    raise ParamError(f"{notebook}: no such notebook; one of {', '.join(NOTEBOOKS.values())}")
