"""What decides a result: the code, as a hash that stages, ledgers, checkpoints and records keep.

A result is decided by the module that makes it and by all that this module imports, except for the parts in `SHOWS`.
A name that a package passes on, such as `mapflake.env.generate`, stands for the module that defines it. Of Python,
comments, docstrings and layout do not count. A designer from outside the package is known by its own source
(`identity`). Not covered: the versions of other packages, which are recorded (`versions`), and computed imports.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import platform
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from importlib import metadata
from pathlib import Path, PurePath
from types import CodeType, EllipsisType
from typing import Any, get_origin

import numpy as np
from pydantic import BaseModel

from mapflake.repro import json_sha256, shown

PACKAGE = Path(__file__).parent

OUTSIDE = ("adapters", "explore.py", "nb")
"""Parts of the package that decide no result: doors for other tools, and what runs notebooks on parameters."""

SHOWS = (*OUTSIDE, "plots", "env/pictures.py")
"""And those that only draw: they decide figures, and nothing that is measured."""

READS = {
    "env/compiler.py": "env/csrc",
    "trainer/engine.py": "trainer/vllm_worker.py",
    "trainer/grpo.py": "trainer/accelerate",
}
"""Module -> the code that it uses without an import: in other languages, or in vLLM's processes."""

VALUES = str | int | float | tuple | list | dict | set | frozenset | np.ndarray | np.generic
"""The values in a module or a class that decide what its functions do (`identity`)."""

TOLD_BY_REPR = (
    str | int | float | complex | bytes | range | None | EllipsisType | np.generic | PurePath | re.Pattern | Enum
)
"""The values whose text says all of them."""


@functools.cache
def package_files() -> dict[str, str]:
    """Returns the package's files of code: name in the package -> text."""
    paths = (path for path in sorted(PACKAGE.rglob("*")) if path.suffix in (".py", ".c", ".h", ".yaml"))
    return {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def code_sha256(*modules: str) -> str:
    """Returns one hash of the code that decides what modules do, e.g. `code_sha256("mapflake.engineer.rounds")`."""
    return json_sha256(deciding(modules))


def deciding(
    modules: Iterable[str] = (),
    source: str = "",
    shows: tuple[str, ...] = SHOWS,
    files: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Returns the code of the package that decides what modules, or Python source, do: name of a file -> what it says.

    Args:
        modules: Dotted names, as `__name__` has them.
        source: Python source from outside the package, such as a notebook's.
        shows: Parts of the package that do not count.
        files: The package, as `package_files` gives it; a module that it has not is a ValueError.
    """
    files = package_files() if files is None else files
    texts: dict[str, str] = {}
    queue = [file for name in (*modules, *_imported(source)) for file in _files(name, files)]
    while queue:
        name = queue.pop()
        if name in texts or any(name == part or name.startswith(f"{part}/") for part in shows):
            continue
        texts[name] = without_comments(files[name]) if name.endswith(".py") else files[name]
        if name.endswith(".py"):
            package = ".".join(("mapflake", *name.split("/")[:-1]))
            queue += [file for imported in _imported(files[name], package) for file in _files(imported, files)]
        if name in READS:
            queue += [file for file in files if file == READS[name] or file.startswith(f"{READS[name]}/")]
    return dict(sorted(texts.items()))


def _files(name: str, files: Mapping[str, str]) -> list[str]:
    """Returns the files of what a dotted name stands for: its module, and packages above it with code of their own."""
    folder, paths = "", ["__init__.py"]
    for part in name.split(".")[1:]:
        if f"{folder}{part}/__init__.py" in files:
            folder = f"{folder}{part}/"
            paths += [f"{folder}__init__.py"]
        elif f"{folder}{part}.py" in files:
            paths += [f"{folder}{part}.py"]
            break
        else:
            exports, has_code = _passed_on(files[f"{folder}__init__.py"])
            names = [*exports] if part == "*" else [part] if part in exports else []
            if not names and not has_code:
                raise ValueError(f"{name}: mapflake/{folder} has no {part!r}")
            paths += [file for export in names for file in _files(exports[export], files)]
            break
    return [file for file in paths if not file.endswith("__init__.py") or _passed_on(files[file])[1]]


@functools.lru_cache(maxsize=1024)
def _passed_on(text: str) -> tuple[dict[str, str], bool]:
    """Returns what a package passes on, name -> dotted name, and whether it has any other code, or other imports."""
    exports: dict[str, str] = {}
    has_code, public = False, set()
    for node in _tree(text).body:
        match node:
            case ast.ImportFrom(module=str(module), names=names, level=0):
                exports |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in names}
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                public = {*ast.literal_eval(value)}
            case ast.Expr(value=ast.Constant()):
                pass
            case _:
                has_code = True
    exports.pop("annotations", None)
    return exports, has_code or not {*exports} <= public


@functools.lru_cache(maxsize=1024)
def _imported(text: str, package: str = "") -> tuple[str, ...]:
    """Returns the dotted names of mapflake that Python source, in `package`, imports or takes from its imports."""
    names: dict[str, str] = {}
    imports: set[str] = set()

    def dotted(node: ast.AST) -> str | None:
        if isinstance(node, ast.Attribute):
            return f"{base}.{node.attr}" if (base := dotted(node.value)) else None
        return names.get(node.id) if isinstance(node, ast.Name) else None

    nodes = [*ast.walk(_tree(text))]
    guards = [node for node in nodes if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    guarded = {inner for node in guards for part in node.body for inner in ast.walk(part)}
    nodes = [node for node in nodes if node not in guarded]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            module = ".".join(filter(None, [*parents, node.module]))
            names |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                names |= {alias.asname: alias.name} if alias.asname else {first: first}
                imports.add(alias.name)
    imports |= {*names.values()} | {name for node in nodes if (name := dotted(node))}
    return tuple(sorted(name for name in imports if name.startswith("mapflake.")))


@functools.lru_cache(maxsize=1024)
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


@functools.lru_cache(maxsize=1024)
def without_comments(text: str) -> str:
    """Returns Python source without comments, docstrings and layout."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and type(first.value.value) is str:
                node.body[0] = ast.Pass()
    return ast.unparse(tree) + "\n"


def versions() -> dict[str, str]:
    """Returns the versions that a result depends on: Python and the packages that compute."""
    packages = ("mapflake", "numpy", "torch", "transformers", "trl", "peft", "accelerate")
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in packages}


def identity(thing: Callable[..., Any]) -> dict[str, str]:
    """Returns what decides what a function, or an object that can be called, does: its name and a hash.

    The hash is of the file or notebook cell that defines it, of the package's code that this imports, and of the values
    that it holds: closure, defaults, fields, and what it names in its module: constants and collections as they are
    now, functions and classes. Functions and classes that a file imports from elsewhere are not seen. A function with
    an attribute `version` is known by its name and that instead.

    Raises:
        ValueError: It has no source, or it holds or names a value whose text need not say all of it, such as a network;
            asks for a `version`.
    """
    named = inspect.isroutine(thing) or inspect.isclass(thing)
    kind = thing if named else type(thing)  # the text of an object may have an address, or a set in no order
    name = f"{kind.__module__}.{kind.__qualname__}"
    if (version := getattr(thing, "version", None)) is not None:
        return {"name": name, "version": str(version)}
    try:
        return {"name": name, "sha256": json_sha256(_said(thing, set()))}
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"{name}: cannot tell whether it has changed since a round was recorded ({error}): define it in a file,"
            " from plain values, or give it an attribute `version`, and change that whenever it changes"
        ) from None


def _said(thing: Any, seen: set[Any]) -> Any:
    """Returns what decides what `thing` does, as a JSON value; functions and classes in `seen` are only named."""
    if isinstance(thing, functools.partial):
        return [_said(part, seen) for part in (thing.func, thing.args, thing.keywords)]
    if inspect.ismethod(thing):
        return [_said(thing.__func__, seen), _said(thing.__self__, seen)]
    if isinstance(thing, list | tuple):
        return [_said(part, seen) for part in thing]
    if isinstance(thing, Mapping):
        return [[_said(key, seen), _said(value, seen)] for key, value in thing.items()]
    if isinstance(thing, set | frozenset):  # in no order, and each part as if it were the first
        return sorted(json_sha256(_said(part, {*seen})) for part in thing)
    if isinstance(thing, np.ndarray):
        return [str(thing.dtype), _said(thing.tolist(), seen)]
    if inspect.isfunction(thing) or inspect.isclass(thing):
        if thing in seen:
            return thing.__qualname__
        seen.add(thing)
        if inspect.isclass(thing):
            return [_source(thing), _inside(thing, seen) or None]
        is_lambda = thing.__name__ == "<lambda>"  # its line may have others
        return [_source(thing), _held(thing, seen), *([_instructions(thing.__code__, seen)] if is_lambda else [])]
    content: Any
    if isinstance(thing, BaseModel):
        content = [type(thing).__qualname__, _said(dict(thing), seen)]
    elif dataclasses.is_dataclass(thing):
        fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
        content = [type(thing).__qualname__, _said(fields, seen)]
    elif isinstance(thing, TOLD_BY_REPR) or inspect.isbuiltin(thing):
        content = repr(thing)
    else:  # a memory address, or a repr that need not say all
        raise ValueError(f"it holds {shown(thing)}")
    return [content, _source(type(thing)), *_inside(type(thing), seen)] if callable(thing) else content


def _source(thing: Any) -> list[Any]:
    """Returns the source of a function or a class and of its module; of the package's own, the hash of its code."""
    if thing.__module__.split(".")[0] == "mapflake":
        return [thing.__qualname__, code_sha256(thing.__module__)]
    text, module_text = textwrap.dedent(inspect.getsource(thing)), "".join(inspect.findsource(thing)[0])
    with contextlib.suppress(SyntaxError):  # of a lambda there is a part of a line
        text = without_comments(text)
    return [text, without_comments(module_text), deciding(source=module_text)]


def _inside(kind: type, seen: set[Any]) -> list[Any]:
    """Returns what a class from outside the package has apart from its source: values, and what its methods hold."""
    parts = []
    for base in kind.__mro__ if kind.__module__.split(".")[0] != "mapflake" else ():
        for name, member in vars(base).items() if base.__module__ == kind.__module__ else ():
            method = getattr(member, "__func__", member)  # of a static or a class method
            own_method = inspect.isfunction(method) and method.__module__ == kind.__module__
            if (own_method or isinstance(member, VALUES)) and (name == "__call__" or name[:2] != "__"):
                parts.append([name, _said(method, seen)])
    return parts


def _held(function: Any, seen: set[Any]) -> Any:
    """Returns what a function has apart from its source: closure, defaults, and what it names in its module."""
    code = function.__code__
    cells = {name: cell.cell_contents for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True)}
    used = {name: function.__globals__[name] for name in _names(code) if name in function.__globals__}
    plain = {}
    for name, value in used.items():
        is_local = getattr(value, "__module__", None) == function.__module__
        named = hasattr(value, "__name__") or get_origin(value)  # a module, class, function or type
        if not named or (is_local and inspect.isfunction(value)):
            plain[name] = value
        elif is_local and inspect.isclass(value):  # in a notebook it has no source of its own, but its methods have
            plain[name] = _inside(value, seen)
    return _said([cells, function.__defaults__, function.__kwdefaults__, plain], seen)


def _instructions(code: CodeType, seen: set[Any]) -> list[Any]:
    """Returns what a function does, as the interpreter has it."""
    consts = [_instructions(c, seen) if isinstance(c, CodeType) else _said(c, seen) for c in code.co_consts]
    return [code.co_code.hex(), code.co_names, code.co_varnames, consts]


def _names(code: CodeType) -> list[str]:
    inner = [name for const in code.co_consts if isinstance(const, CodeType) for name in _names(const)]
    return sorted({*code.co_names, *inner})
