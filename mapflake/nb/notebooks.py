"""Notebooks as they are kept: what one may contain, its code alone, and an executed one made comparable."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from mapflake.extras import needs

# jsonschema, which nbformat imports, builds a grammar of addresses that no notebook holds: a second at every start.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
with needs("lab"):
    import nbformat

ADDRESS = re.compile(r" at 0x[0-9a-f]+")


class NotebookError(ValueError):
    """A notebook that the pipeline cannot run; the message names notebook, cell and what is legal."""


def read(path: Path) -> Any:
    """Returns the notebook in `path` (nbformat 4); NotebookError if it is not there or not a notebook."""
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises several unrelated types on a damaged file
        raise NotebookError(f"{path.name}: not a notebook ({type(error).__name__}: {error})") from None


def code_cells(notebook: Any) -> Iterator[tuple[int, Any]]:
    """Yields (number of the cell counted from 1, cell) of the code cells that are not empty."""
    for number, cell in enumerate(notebook.cells, start=1):
        if cell.cell_type == "code" and cell.source.strip():
            yield number, cell


def defaults(notebook: Any, name: str) -> dict[str, Any]:
    """Returns the names and literal values that the cell tagged `parameters` assigns, in order.

    Raises NotebookError if there is not exactly one such cell, or it holds more than plain assignments.
    """
    cells = [(n, cell) for n, cell in code_cells(notebook) if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise NotebookError(f"{name}: {len(cells)} cells are tagged 'parameters'; there must be exactly one")
    number, cell = cells[0]
    values: dict[str, Any] = {}
    for statement in _parse(cell.source, name, number).body:
        try:
            match statement:
                case ast.Assign(targets=[ast.Name(id=key)], value=value):
                    values[key] = ast.literal_eval(value)
                case _:
                    raise ValueError
        except ValueError:
            raise NotebookError(f"{name}, cell {number}: takes lines `name = literal` only") from None
    return values


def check(notebook: Any, name: str, parameters: Iterable[str]) -> None:
    """Raises NotebookError if the code does not compile, or the parameters cell has not exactly `parameters`."""
    for number, cell in code_cells(notebook):
        _parse(cell.source, name, number)
    if differing := {*defaults(notebook, name)} ^ {*parameters}:
        message = f"the parameters cell differs in {', '.join(sorted(differing))}; it takes {', '.join(parameters)}"
        raise NotebookError(f"{name}: {message}")


def code_view(notebook: Any, name: str) -> str:
    """Returns the notebook's code alone, by jupytext: no outputs, ids, markdown, nor default values of parameters."""
    import jupytext  # takes seconds, and only `prepare` needs it

    cells = []
    for _, cell in code_cells(notebook):
        tagged = "parameters" in cell.metadata.get("tags", [])
        source = f"# parameters: {', '.join(defaults(notebook, name))}" if tagged else cell.source
        cells.append(nbformat.v4.new_code_cell("\n".join(line.rstrip() for line in source.strip("\n").splitlines())))
    bare = nbformat.v4.new_notebook(cells=cells, metadata={"jupytext": {"notebook_metadata_filter": "-all"}})
    return str(jupytext.writes(bare, fmt="py:percent"))


def normalise(notebook: Any, root: str) -> str:
    """Returns an executed notebook as JSON text that is the same for the same results, in every clone.

    Left out: timestamps, random ids, versions, progress (stderr, carriage returns, HTML bars), memory addresses.
    """
    cells = []
    for number, cell in enumerate(notebook.cells, start=1):  # all anew: of the metadata the tags alone survive
        tags = [tag for tag in cell.metadata.get("tags", []) if tag in ("parameters", "injected-parameters")]
        clean = {"cell_type": cell.cell_type, "id": f"cell-{number}", "source": cell.source}
        clean["metadata"] = {"tags": tags} if tags else {}
        if cell.cell_type == "code":
            clean |= {"execution_count": cell.execution_count, "outputs": _clean_outputs(cell.outputs, root)}
        cells.append(nbformat.from_dict(clean))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = nbformat.from_dict({"kernelspec": kernel, "language_info": {"name": "python"}})
    result = nbformat.v4.new_notebook(cells=cells, metadata=metadata)
    nbformat.validate(result)
    return nbformat.writes(result).rstrip("\n") + "\n"


def _clean_outputs(outputs: list[Any], root: str) -> list[Any]:
    results: list[Any] = []
    for output in outputs:
        stream = output.output_type == "stream"
        if (stream and output.name != "stdout") or "<progress" in output.get("data", {}).get("text/html", ""):
            continue
        if stream and results and results[-1].output_type == "stream":  # how a stream was cut depends on the clock
            results[-1].text += output.text
        else:
            results.append(nbformat.from_dict(output))
    for output in results:
        if output.output_type == "stream":
            lines = [line for line in output.text.split("\n") if "\r" not in line]
            output.text = ADDRESS.sub("", "\n".join(lines).replace(root, "."))
        for mime, value in output.get("data", {}).items():
            if isinstance(value, str) and (mime.startswith("text/") or mime == "image/svg+xml"):
                output.data[mime] = ADDRESS.sub("", value.replace(root, "."))
    return [output for output in results if output.output_type != "stream" or output.text]


def _parse(source: str, name: str, number: int) -> ast.Module:
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise NotebookError(f"{name}, cell {number}, line {error.lineno}: not Python ({error.msg})") from None
