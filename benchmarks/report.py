"""reports/bench.json, its tables in markdown, and the copy of them in docs/benchmarks.md.

A run replaces its own part and leaves the others, so parts may come from different machines.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import PARTS
from mapflake.repro import read_json, write_json, write_text

BENCH = Path("reports/bench.json")
PAGE = Path("docs/benchmarks.md")


def part(name: str) -> ModuleType:
    """Returns the module of a part of the benchmark, one of `PARTS`."""
    return importlib.import_module(PARTS[name])


def record(name: str) -> dict[str, Any]:
    """Returns the entry of a part in `BENCH`, measured anew and written there."""
    numbers = part(name).measure()
    entry = {"machine": machine(), "versions": versions(part(name).PACKAGES), "numbers": numbers}
    written = read_json(BENCH) | {name: entry}
    write_json(BENCH, {key: written[key] for key in PARTS if key in written})
    return entry


def machine() -> dict[str, Any]:
    """Returns the model of the CPU and the number of cores."""
    cpuinfo = Path("/proc/cpuinfo")  # platform.processor() is empty on many a Linux
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(), re.MULTILINE) if cpuinfo.is_file() else None
    return {"cpu": model[1] if model else platform.processor() or platform.machine(), "cores": os.cpu_count()}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Returns the versions of Python and of those of `packages` that are installed."""
    installed = {"python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[package] = metadata.version(package)
    return installed


def markdown(name: str, entry: Mapping[str, Any]) -> str:
    """Returns the tables of a part and a line that names their machine and versions."""
    host = entry["machine"]
    software = ", ".join(f"{package} {version}" for package, version in entry["versions"].items())
    cores = getattr(part(name), "CORES", "one of them used")
    origin = f"{host['cpu']}, {host['cores']} cores, {cores}; {software}."
    return f"{part(name).markdown(entry['numbers'])}\n\n{origin}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Returns a markdown table, columns padded to one width."""
    lines = [list(map(str, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |" for line in lines]
    return "\n".join([text[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *text[1:]])


def block(name: str) -> re.Pattern[str]:
    """Returns the pattern of the page's block for a part; its second group is the tables."""
    return re.compile(rf"(<!-- bench {name}: .*? -->\n)(.*?)(<!-- /bench {name} -->)", re.DOTALL)


def quote() -> list[str]:
    """Writes the tables of `BENCH` into the blocks of `PAGE` and returns the names of the parts it found there."""
    text = PAGE.read_text(encoding="utf-8")
    quoted = []
    for name, entry in read_json(BENCH).items():
        if match := block(name).search(text):
            text = f"{text[: match.start(2)]}{markdown(name, entry)}\n{text[match.end(2) :]}"
            quoted.append(name)
    write_text(PAGE, text)
    return quoted
