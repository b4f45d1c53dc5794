"""params.yaml: one section for each notebook, profiles laid over them, everything validated before anything runs.

The classes here only put together the owners' classes (`WarmStartParams`, `RLParams`, ...). The active profile is the
one line `profile: ...`; what a stage reads is `build/params/<section>.json`, written by `prepare`, so that an edit of
a comment, or of a profile that is not active, runs nothing again.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from mapflake import repro
from mapflake.nb import notebooks
from mapflake.nb.folders import BUILD_CODE, BUILD_PARAMS, MADE_BY, SECTIONS
from mapflake.repro import ParamError, Params, shown

MAX_BYTES = 200_000  # of params.yaml; ours has 8,000
WANDB_MODES = ("disabled", "offline", "online")
PROFILE_LINE = re.compile(r"^profile:[ \t]*(\S+)", re.MULTILINE)

# A section's list that is split into one stage an entry, and the name of one entry in the notebook; dvc.yaml's matrix
# reads the list from the default profile.
ITEMS = {"ablations": ("arms", "arm")}

# Lists that dvc.yaml's matrices read: they stand in the default profile alone.
LISTS = {"ablations": ("arms",), "study": ("primary", "secondary")}

# What a section takes over from another where it says nothing itself. Not by aliases of YAML: `dvc exp run -S` changes
# one of two names for a value and writes the other one back over it.
TAKEN = {"ablations": {"engineer": "engineer_loop"}, "analysis": {"arms": "ablations"}}


def schemas() -> dict[str, type[Params]]:
    """Returns the class of each section. Imported late: the owners' modules are slow to import."""
    from mapflake.nb import schema

    return schema.SECTIONS


def load(root: Path) -> dict[str, Any]:
    """Returns params.yaml as it is written.

    Raises:
        ParamError: It is not YAML, too large, a key is repeated, or a top-level key is unknown or missing.
    """
    path = root / "params.yaml"
    if path.stat().st_size > MAX_BYTES:
        raise ParamError(f"params.yaml: {path.stat().st_size} bytes; at most {MAX_BYTES} are read")
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_UniqueKeys)
    except yaml.YAMLError as error:
        raise ParamError(f"params.yaml: {' '.join(str(error).split())[:400]}") from None
    except UnicodeDecodeError:
        raise ParamError("params.yaml: not UTF-8 text") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:  # PyYAML's, of `!!int ""` and the like
        raise ParamError(f"params.yaml: a value cannot be read: {error!r}"[:400]) from None
    except RecursionError:
        raise ParamError("params.yaml: nests too deep") from None
    legal = ["profile", "wandb", *SECTIONS, "profiles"]
    if not isinstance(raw, dict) or sorted(map(str, raw)) != sorted(legal):
        found = list(raw) if isinstance(raw, dict) else []
        wrong = [f"{str(k)[:80]}: unknown key" for k in found if k not in legal] + [
            f"{k}: missing" for k in legal if k not in found
        ]
        raise ParamError(f"params.yaml: {'; '.join(wrong)}; legal keys: {', '.join(legal)}")
    profiles = raw["profiles"]
    if not isinstance(profiles, dict) or "default" not in profiles:
        raise ParamError("profiles: takes one entry for each profile, `default: {}` among them")
    if not isinstance(raw["profile"], str) or raw["profile"] not in profiles:
        raise ParamError(f"profile: {shown(raw['profile'])} is not legal: one of {', '.join(map(str, profiles))}")
    if raw["wandb"] not in WANDB_MODES:
        raise ParamError(f"wandb: {shown(raw['wandb'])} is not legal: one of {', '.join(WANDB_MODES)}")
    return raw


def effective(raw: Mapping[str, Any], profile: str) -> dict[str, dict[str, Any]]:
    """Returns the validated sections of one profile as plain values, defaults of the classes filled in.

    Raises:
        ParamError: One line for each offending key, of all sections.
    """
    overlay = raw["profiles"][profile]
    legal = f"legal keys: {', '.join(SECTIONS)}"
    if not isinstance(overlay, dict):
        raise ParamError(f"profiles.{profile}: {shown(overlay)} is not a profile, write {{}} for an empty one; {legal}")
    errors = [f"profiles.{profile}.{name}: unknown key; {legal}" for name in overlay if name not in SECTIONS]
    result: dict[str, dict[str, Any]] = {}
    for name, schema in schemas().items():
        where = f"profiles.{profile}.{name}" if overlay.get(name) else name
        for listed in LISTS.get(name, ()):
            if listed in (overlay.get(name) or {}):
                errors.append(f"{where}.{listed}: not legal in a profile: dvc.yaml reads it; change {name}.{listed}")
        merged, taken = _merge(raw[name], overlay.get(name) or {}, where), TAKEN.get(name, {})
        if not set(taken.values()) <= set(result):
            continue  # errors there are enough
        if isinstance(merged, dict):
            merged = {key: result[other][key] for key, other in taken.items()} | merged
        try:
            section = schema.parse(merged, where)
            result[name] = section.model_dump(mode="json")
        except ParamError as error:
            errors += [_readable(line) for line in str(error).splitlines()]
    if not errors and (strangers := set(result["analysis"]["arms"]) - set(result["ablations"]["arms"])):
        errors.append(f"analysis.arms: {sorted(strangers)} are not run; legal: those of ablations.arms")
    errors += [] if errors else _study_errors(result)
    if errors:
        raise ParamError("\n".join(errors))
    return result


def _study_errors(sections: Mapping[str, Any]) -> list[str]:
    """Returns what of the study is no arm of the pipeline; all else was checked section by section."""
    study = sections["study"]
    asked = {f"study.{group}.arms": study[group]["arms"] for group in ("primary", "secondary")}
    errors = []
    for where, names in asked.items():
        for name in names:
            try:
                study_parameters(sections, name)
            except ValueError as error:
                errors.append(f"{where}: {error}")
    comparison, run = sections["analysis"]["comparison"], [*study["primary"]["arms"], *study["secondary"]["arms"]]
    for key in ("arm", "against"):
        if comparison[key] not in run:
            errors.append(f"analysis.comparison.{key}: {comparison[key]!r} is not run; legal: {', '.join(run)}")
    return errors


def study_parameters(sections: Mapping[str, Any], arm: str) -> dict[str, Any]:
    """Returns what decides the study's cells of an arm.

    Raises:
        ValueError: It is no arm.
    """
    from mapflake.engineer import EngineerParams
    from mapflake.study import plan
    from mapflake.trainer.grpo import RLParams

    return plan.parameters(
        arm,
        plan.StudyParams.parse(sections["study"], "study"),
        RLParams.parse(sections["baseline_rl"]["rl"], "baseline_rl.rl"),
        sections["baseline_rl"]["samples"],
        EngineerParams.parse(sections["engineer_loop"]["engineer"], "engineer_loop.engineer"),
        sections["ablations"]["designers"],
    )


def check(root: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns {profile: {section: values}} after checking every profile and every notebook; writes nothing.

    Raises:
        ParamError: One line for each offending key.
        NotebookError: A notebook does not fit its section.
    """
    raw = load(root)
    profiles = {"default": effective(raw, "default")}  # first: errors there would come again in every profile
    profiles |= {name: effective(raw, name) for name in raw["profiles"]}
    for section, name in MADE_BY.items():
        notebook = notebooks.read(root / "notebooks" / f"{name}.ipynb")
        notebooks.check(notebook, name, notebook_parameters(section, profiles["default"][section]))
    return profiles


def notebook_parameters(section: str, values: Mapping[str, Any]) -> list[str]:
    """Returns the names that the parameters cell of the section's notebook must have."""
    listed, item = ITEMS.get(section, ("", ""))
    return [*(item if name == listed else name for name in values), "run"]


def prepare(root: Path) -> None:
    """Checks everything, then writes the active parameters and the notebooks' code, which the stages depend on."""
    raw = load(root)
    values = check(root)[raw["profile"]]
    files = {f"{BUILD_PARAMS}/profile.json": repro.dumps({"profile": raw["profile"]}) + "\n"}
    for section, name in MADE_BY.items():
        files[f"{BUILD_PARAMS}/{section}.json"] = repro.dumps(values[section], indent=2) + "\n"
        notebook = notebooks.read(root / "notebooks" / f"{name}.ipynb")
        files[f"{BUILD_CODE}/{name}.py"] = notebooks.code_view(notebook, name)
    for arm in ("round_0", *values["study"]["primary"]["arms"], *values["study"]["secondary"]["arms"]):
        files[f"{BUILD_PARAMS}/study/{arm}.json"] = repro.dumps(study_parameters(values, arm), indent=2) + "\n"
    for folder in (BUILD_PARAMS, BUILD_CODE):
        for stranger in (root / folder).rglob("*"):
            if stranger.is_file() and stranger.relative_to(root).as_posix() not in files:
                stranger.unlink()
    for path, text in files.items():
        repro.write_text(root / path, text)
    print(f"profile {raw['profile']}: parameters and notebooks are in order", flush=True)


def stage_values(root: Path, section: str, item: str | None) -> dict[str, Any]:
    """Returns what is injected into the section's notebook: the prepared values, one entry of its list picked.

    Raises:
        ParamError: They were not prepared, or `item` is not `key=value` with a value of the list.
    """
    path = root / BUILD_PARAMS / f"{section}.json"
    if not path.is_file():
        raise ParamError(
            f"{path.relative_to(root)} is missing: run `dvc repro`, or `python -m mapflake.nb prepare` first"
        )
    try:
        values = repro.read_json(path)
    except ValueError as error:
        raise ParamError(f"{error}; run `python -m mapflake.nb prepare`") from None
    if not isinstance(values, dict):
        raise ParamError(f"{path.relative_to(root)}: {shown(values)} is not a section")
    if section not in ITEMS:
        if item is not None:
            raise ParamError(f"-p {item}: {section} takes no such parameter; change params.yaml")
        return values
    listed, key = ITEMS[section]
    legal = values.pop(listed)
    name, _, value = (item or "").partition("=")
    if name != key or value not in legal:
        raise ParamError(f"-p {item or ''}: {section} takes -p {key}=<one of {', '.join(legal)}>")
    return {key: value} | values


def set_profile(root: Path, profile: str) -> None:
    """Rewrites the line `profile: ...` of params.yaml and nothing else; an unknown profile changes nothing.

    Raises:
        ParamError: There is no such profile.
    """
    raw = load(root)
    if profile not in raw["profiles"]:
        raise ParamError(f"profile: {profile!r} is not legal: one of {', '.join(raw['profiles'])}")
    path = root / "params.yaml"
    text = path.read_text(encoding="utf-8")
    changed = PROFILE_LINE.sub(lambda _: f"profile: {profile}", text, count=1)
    if changed != text:
        repro.write_text(path, changed)


def of_notebook(name: str) -> str:
    """Returns the section of a notebook.

    Raises:
        ParamError: No stage runs a notebook of this name.
    """
    for section, notebook in MADE_BY.items():
        if notebook == name:
            return section
    raise ParamError(f"{name}: no such notebook; one of {', '.join(MADE_BY.values())}")


class _UniqueKeys(yaml.SafeLoader):
    """PyYAML keeps the last of two equal keys silently; here they are an error, and so is an alias (see `TAKEN`)."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            alias = self.peek_event()
            where = f"line {alias.start_mark.line + 1}: *{alias.anchor}"
            raise yaml.YAMLError(f"{where}: `dvc exp run -S` would lose changes of an alias; write the value out")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | bool | None):
                raise yaml.YAMLError(f"line {key_node.start_mark.line + 1}: a key is a word, not {shown(key)}")
            if key in seen:
                raise yaml.YAMLError(f"line {key_node.start_mark.line + 1}: {key!r} is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


def _merge(base: Any, overlay: Any, where: str) -> Any:
    """Returns `base` with `overlay` laid over it, mappings merged key by key, everything else replaced."""
    if isinstance(base, dict) and isinstance(overlay, dict):
        merged = copy.deepcopy(base)
        for key, value in overlay.items():
            merged[key] = _merge(base[key], value, f"{where}.{key}") if key in base else value
        return merged
    return copy.deepcopy(overlay)


def _readable(line: str) -> str:
    """Returns a message that also says what to write for 1e-5, a text to YAML."""
    text = re.search(r": '([0-9.+-]+e[0-9+-]+)' is not legal", line)
    return f"{line}; YAML reads {text[1]} as a text: write a point, as in 1.0e-5" if text else line
