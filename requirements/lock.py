"""`make lock`: resolves all extras of pyproject.toml together, and writes `core.lock` and one lock for each extra.

A lock has exact versions with hashes, for Linux, macOS and Windows alike; that of an extra has what it adds to
`core.lock`. Versions stay as they are unless pyproject.toml asks for others, or `--upgrade` is given. Left out is
torch, whose build differs from platform to platform, with the CUDA libraries that only torch wants: pyproject.toml pins
torch, and torch pins them. Needs uv.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parent / "pyproject.toml"
ENTRY = re.compile(r"^\S.*(?:\n .*)*\n", re.MULTILINE)
HEADER = "# Made by `make lock` for pip install --require-hashes --no-deps; do not edit.\n"

# What torch needs without CUDA. With it as torch's metadata, what only its CUDA builds need drops out of a lock.
TORCH_ON_CPU = """\
[[dependency-metadata]]
name = "torch"
requires-dist = ["filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools"]
"""


def main(arguments: list[str]) -> None:
    """Writes the locks; `arguments` go to uv."""
    extras = list(tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"])
    with tempfile.TemporaryDirectory() as folder:
        together, config = Path(folder, "together.txt"), Path(folder, "uv.toml")
        config.write_text(TORCH_ON_CPU)
        together.write_text("".join(path.read_text() for path in sorted(HERE.glob("*.lock"))))  # what uv prefers
        compile_("--all-extras", "--output-file", str(together), "--quiet", *arguments)
        part = ["--generate-hashes", "--constraints", str(together), "--config-file", str(config)]
        part += ["--no-emit-package", "torch", "--no-annotate"]
        core = entries(compile_(*part))
        locks = {"core": core}
        for extra in extras:
            locks[extra] = [entry for entry in entries(compile_("--extra", extra, *part)) if entry not in core]
    for stale in HERE.glob("*.lock"):
        stale.unlink()
    for name, found in locks.items():
        (HERE / f"{name}.lock").write_text(HEADER + "".join(found))
        print(f"{name}.lock: {len(found)} packages")


def compile_(*arguments: str) -> str:
    """Returns what `uv pip compile` prints."""
    command = ["uv", "pip", "compile", str(PROJECT), "--universal", "--python-version=3.11", "--no-header", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def entries(lock: str) -> list[str]:
    """Returns the requirements of a lock, each with its hashes."""
    return [found for found in ENTRY.findall(lock) if not found.startswith("#")]


if __name__ == "__main__":
    main(sys.argv[1:])
