"""The extras of pyproject.toml: what to say where a package of one is missing (docs/install.md)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str = "", *, install: str = "") -> Iterator[None]:
    """Turns an import that fails within into an ImportError that names the package and the command that installs it.

    Args:
        extra: The extra that has the package.
        install: The command, for a package that no extra has.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        command = install or f'pip install ".[{extra}]" in a clone of mapflake'
        raise ImportError(f"this needs {package}: {command}", name=error.name) from error
