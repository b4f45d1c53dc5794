"""The extras of pyproject.toml: what to say where a package of one is missing (docs/install.md)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str = "", *, install: str = "") -> Iterator[None]:
    """Turns an import that fails within into an ImportError that names the package and the command that installs it.

    The garbage collector rests meanwhile and leaves out for good what there is after an import: going through the
    modules of TRL again and again would take a third of the time of importing them.

    Args:
        extra: The extra that has the package.
        install: The command, for a package that no extra has.
    """
    collects, loaded = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        command = install or f'pip install ".[{extra}]" in a clone of mapflake'
        raise ImportError(f"this needs {package}: {command}", name=error.name) from error
    finally:
        if len(sys.modules) > loaded:
            gc.freeze()
        if collects:
            gc.enable()
