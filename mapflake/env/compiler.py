"""Builds, checks and loads the C library of kernel.py: at its first use, by the machine's own C compiler.

A library stays in `$XDG_CACHE_HOME/mapflake` (`~/.cache/mapflake`) under two hashes: that of its source and flags, and
that of its own bytes. A file whose bytes do not have the hash in its name (one that was cut off, say) is removed and
built again: loading it could end the interpreter. Where the cache cannot be used, the library is built in a temporary
folder, for this process alone. Not covered: cross-compiling, and compilers other than cc, gcc and clang.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("csrc")
FLAGS = ("-O2", "-shared", "-fPIC")

FAILURES = (OSError, subprocess.SubprocessError)  # what `load` raises where there can be no library


def load(*options: str) -> ctypes.CDLL:
    """Returns the library built with these options of the compiler. Calls of its functions release the GIL.

    Raises:
        OSError: No compiler, no folder to build in, or a library that cannot be loaded.
        subprocess.SubprocessError: The compiler failed; `reason` says why.
    """
    source = [(path.name, path.read_bytes()) for path in sorted(SOURCE.iterdir())]
    name = _hash(repr((source, FLAGS, options, sys.platform, platform.machine())).encode())
    cache = _cache()
    if cache is not None:
        for path in _cached(cache, name):
            with contextlib.suppress(OSError):  # not for this machine: several may share a disk
                return ctypes.CDLL(str(path))
        with contextlib.suppress(*FAILURES):  # no permission, no room, or a disk from which nothing may be executed
            return _build(name, options, cache)
    return _build(name, options, None)


def reason(error: Exception) -> str:
    """Returns why there is no library, on one line: of a compiler's output, the first line that tells of an error."""
    output = getattr(error, "stderr", None) or b""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)]
    return (errors + lines + [" ".join(str(error).split())])[0]


def _hash(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def _cache() -> Path | None:
    """Returns the folder for libraries, which need not exist; None for a user without a home directory."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mapflake"
    except RuntimeError:
        return None


def _cached(cache: Path, name: str) -> list[Path]:
    """Returns the whole libraries of this name in the cache, and removes broken ones."""
    libraries = []
    with contextlib.suppress(OSError):  # it cannot be read, or the broken one cannot be removed: build another
        for path in sorted(cache.glob(f"kernel-{name}-*.so")):
            if path.stem.endswith(_hash(path.read_bytes())):
                libraries.append(path)
            else:
                path.unlink()
    return libraries


def _build(name: str, options: tuple[str, ...], cache: Path | None) -> ctypes.CDLL:
    """Returns the library after compiling it, into the cache, or for None into a folder that is removed at once."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if compiler is None:
        raise OSError("none of cc, gcc, clang is installed")
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as folder:
        library = Path(folder) / "kernel.so"
        command = [compiler, *FLAGS, *options, "-o", str(library), str(SOURCE / "kernel.c")]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"LC_ALL": "C"})
        if cache is not None:  # in one step: other processes may be doing the same
            library = library.replace(cache / f"kernel-{name}-{_hash(library.read_bytes())}.so")
        return ctypes.CDLL(str(library))
