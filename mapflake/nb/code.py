"""The code that decides each stage's results, as text: what DVC compares (see `provenance`)."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from mapflake.nb import notebooks
from mapflake.nb.folders import NOTEBOOKS
from mapflake.provenance import OUTSIDE, SHOWS, deciding, package_files, without_comments

FUNCTIONS = ("warm_start", "student", "bank", "others")  # stages that are functions of `stages`
DRAWS = ("analysis", "publish")  # figures are results of theirs


def stage_code(root: Path, files: Mapping[str, str] | None = None) -> dict[str, str]:
    """Returns stage -> the code of the package that decides its results; its notebook's own code is not in it."""
    files = package_files() if files is None else files
    sources, own_code = {}, {}
    for stage, name in NOTEBOOKS.items():
        cells = notebooks.code_cells(notebooks.read(root / "notebooks" / f"{name}.ipynb"))
        sources[stage] = "\n".join(cell.source for _, cell in cells)
    for stage in (*FUNCTIONS, "publish"):
        file = "nb/stages.py" if stage in FUNCTIONS else "nb/publish.py"
        tree = ast.parse(files[file])
        if stage in FUNCTIONS:
            tree.body = [node for node in tree.body if getattr(node, "name", None) == stage]
        sources[stage] = without_comments(ast.unparse(tree))
        own_code[stage] = {file: sources[stage]}
    texts = {}
    for stage, source in sources.items():
        code = own_code.get(stage, {}) | deciding((), source, OUTSIDE if stage in DRAWS else SHOWS, files)
        texts[stage] = "".join(f"# {name}\n{text}\n" for name, text in code.items())
    return texts
