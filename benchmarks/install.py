"""What the base install takes: seconds, bytes, packages; the part `install` of the benchmark. Asks the package index.

pip installs the working tree into a fresh virtual environment without its cache, so that all is fetched and unpacked.
The seconds depend on the network and on whatever else the machine does.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

from benchmarks.report import table

PACKAGES = ("mapflake", "pip")

ROOT = Path(__file__).parents[1]
FIRST = "from mapflake.env import EnvConfig, generate; generate(EnvConfig.uniform([5], 0.2), 1, seed=0)"


def measure() -> dict[str, Any]:
    """Returns seconds and megabytes of the base install, and megabytes of the environment that this runs in."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    with tempfile.TemporaryDirectory() as folder:
        unwanted = ignore_patterns(".*", "build", "runs", "reports", "__pycache__", "*.egg-info")
        copytree(ROOT, f"{folder}/source", ignore=unwanted)  # a build writes beside its source
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", f"{folder}/env"], check=True)
        begun = time.perf_counter()
        subprocess.run([*pip, "--python", f"{folder}/env", "install", "--no-cache-dir", f"{folder}/source"], check=True)
        seconds = time.perf_counter() - begun
        begun = time.perf_counter()
        environment = os.environ | {"XDG_CACHE_HOME": folder}  # an empty cache of compiled solvers
        subprocess.run([f"{folder}/env/bin/python", "-I", "-c", FIRST], check=True, env=environment)
        (site,) = Path(folder, "env").glob("lib/python*/site-packages")
        return {
            "seconds": seconds,
            "first_board_seconds": time.perf_counter() - begun,
            "megabytes": megabytes(site),
            "packages": dict(sorted((p.name, p.version) for p in metadata.distributions(path=[str(site)]))),
            "lab_megabytes": megabytes(Path(sysconfig.get_path("purelib"))),
        }


def megabytes(folder: Path) -> float:
    """Returns the size of all files in a folder, in 10^6 bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


def markdown(numbers: Mapping[str, Any]) -> str:
    """Returns the table and a line that names the packages."""
    rows = [
        ("`pip install .`, everything fetched", f"{numbers['seconds']:.0f} s"),
        ("then the first board, for which the solver is compiled", f"{numbers['first_board_seconds']:.1f} s"),
        ("size of the installed packages", f"{numbers['megabytes']:.0f} MB"),
        ("size of an environment of `make install`", f"{numbers['lab_megabytes']:.0f} MB"),
    ]
    packages = ", ".join(f"{name} {version}" for name, version in numbers["packages"].items())
    return f"{table(('base install', ''), rows)}\n\nInstalled: {packages}."
