"""The code that decides each stage's results, as text: what DVC compares (see `provenance`)."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from mapflake.nb import notebooks
from mapflake.nb.folders import NOTEBOOKS
from mapflake.provenance import OUTSIDE, SHOWS, deciding, package_files, without_comments

FUNCTIONS = {
    "warm_start": ("nb/stages.py", "warm_start"),
    "student": ("nb/stages.py", "student"),
    "bank": ("nb/stages.py", "bank"),
    "others": ("nb/stages.py", "others"),
    "publish": ("nb/publish.py",),
}
"""Stage that is no notebook -> the file that runs it and the functions in it, or the whole file."""

DRAWS = ("analysis", "publish")  # figures are results of theirs


def stage_code(root: Path, files: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns stage -> the code of the package that decides its results; its notebook's own code is not in it."""
    files = package_files() if files is None else files
    sources, own = {}, {}
    for stage, name in NOTEBOOKS.items():
        cells = notebooks.code_cells(notebooks.read(root / "notebooks" / f"{name}.ipynb"))
        sources[stage] = "\n".join(cell.source for _, cell in cells)
    for stage, (file, *functions) in FUNCTIONS.items():
        tree = ast.parse(files[file])
        tree.body = [node for node in tree.body if not functions or getattr(node, "name", None) in functions]
        sources[stage] = without_comments(ast.unparse(tree))
        own[stage] = {file: sources[stage]}
    found = {}
    for stage, source in sources.items():
        code = own.get(stage, {}) | deciding((), source, OUTSIDE if stage in DRAWS else SHOWS, files)
        found[stage] = "".join(f"# {name}\n{text}\n" for name, text in code.items())
    return found
