"""Runs one notebook as a stage of the pipeline: papermill, with what papermill leaves open.

Output is passed through as it comes (live progress under `dvc repro`). A failure keeps the notebook as far as it got
and shows the cell; `sys.exit(0)` in a cell is a failure, and so is an input that changed meanwhile: DVC hashes inputs
after the run and would record new code against old results. An interrupted stage keeps its folder (`persist` in
dvc.yaml), and its ledger and trainer go on from there.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat

from mapflake import repro
from mapflake.nb import notebooks, params
from mapflake.nb.folders import stage_lock

ANSI = re.compile(r"\x1b\[[0-9;]*m")


class StageError(RuntimeError):
    """A stage that did not end well; the message is for the reader of `dvc repro`."""


def run(root: Path, name: str, items: Mapping[str, Any]) -> None:
    """Runs `notebooks/<name>.ipynb` with the active parameters; its results are in `runs/<profile>/<stage>`.

    Args:
        root: The repository.
        name: The notebook, e.g. `04_ablations`.
        items: The entry of dvc.yaml's matrix that this run is for, e.g. `{"arm": "heuristic", "seed": 0}`.

    Raises:
        StageError: The notebook failed, an input changed while it ran, or another process runs this stage.
        NotebookError, ParamError: It does not fit its parameters.
    """
    section = params.section_of(name)
    values = params.stage_values(root, section, items)
    stage = "/".join(filter(None, [section, "-".join(map(str, items.values()))]))
    with _stage(root, stage) as (run, folder):
        notebook = notebooks.read(root / "notebooks" / f"{name}.ipynb")
        notebooks.check(notebook, name, [*values, "run"])
        inputs = (params.prepared(root, section, items), root / params.BUILD_CODE / f"{name}.py")
        before = [path.read_text(encoding="utf-8") for path in inputs]
        if notebooks.code_view(notebook, name) != before[1]:
            raise StageError(f"{name}: its code changed since it was checked: run `dvc repro`")
        partial = root / run / "unfinished" / f"{stage.replace('/', '_')}.ipynb"
        with kernel_environment(root, params.load(root)["wandb"]):
            executed = execute(root, notebook, name, {**values, "run": run}, partial)
        if [path.read_text(encoding="utf-8") for path in inputs] != before:
            raise StageError(f"{name}: its parameters or code changed while it ran; run it again")
        repro.write_text(folder / "notebook.ipynb", notebooks.normalise(executed, {str(root): "."}))


def warm_start(root: Path) -> None:
    """Trains the model that all seeds and arms branch from, in `runs/<profile>/warm_start` (see `base_model`)."""
    from mapflake.engineer.compact.base import BaseParams, base_model

    values = BaseParams.parse(params.stage_values(root, "warm_start", {}), "warm_start")
    with _stage(root, "warm_start") as (run, folder):
        base_model(values, root / run / "env_design", folder)


@contextlib.contextmanager
def _stage(root: Path, stage: str) -> Iterator[tuple[str, Path]]:
    """Yields the active run's folder, from the root, and the stage's in it, while this process alone may write there.

    Raises:
        StageError: Another process runs this stage: perhaps one that outlived a killed `dvc repro`.
    """
    run, began = f"runs/{params.load(root)['run']['profile']}", time.monotonic()
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(repro.single_writer(stage_lock(root, run, stage)))
        except RuntimeError as error:
            raise StageError(f"[{stage}] another process runs this stage: {error}") from None
        folder = root / run / stage
        folder.mkdir(parents=True, exist_ok=True)
        yield run, folder
    print(f"[{stage}] done in {time.monotonic() - began:.0f} s", flush=True)


@contextlib.contextmanager
def kernel_environment(root: Path, wandb: str) -> Iterator[None]:
    """Sets what kernels started in the block inherit: the package of this clone, whichever one is installed; wandb."""
    ours = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")])),
        "WANDB_MODE": wandb,
        "TOKENIZERS_PARALLELISM": "false",
    }
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def execute(root: Path, notebook: Any, name: str, values: Mapping[str, Any], partial: Path) -> Any:
    """Returns the executed notebook; `partial` holds it as far as it got while it runs and after a failure.

    Raises:
        StageError: A cell failed or stopped the notebook, the kernel died, or the run was interrupted.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from papermill.parameterize import parameterize_notebook
    from traitlets.config import Config

    partial.parent.mkdir(parents=True, exist_ok=True)
    seen = f"; the notebook as far as it got: {partial.relative_to(root)}"
    notebook.metadata["papermill"] = nbformat.NotebookNode()  # what papermill expects of notebooks that it reads
    for cell in notebook.cells:
        cell.metadata.setdefault("tags", [])
    injected = parameterize_notebook(notebook, dict(values), kernel_name="python3", language="python")
    try:
        executed = papermill.execute_notebook(
            injected,
            partial,
            kernel_name="python3",
            language="python",
            cwd=root,
            progress_bar=False,
            stdout_file=sys.stdout,
            stderr_file=sys.stderr,
            config=Config(KernelManager={"transport": "ipc"}),  # no port, and no warning about an open one
        )
    except PapermillExecutionError as error:
        where = f"{name}, {_named(injected, error.cell_index + 1)}"
        frames = "\n".join(error.traceback)
        print(f"\n{where} failed:\n\n{error.source}\n", file=sys.stderr)
        print(frames if sys.stderr.isatty() else ANSI.sub("", frames), file=sys.stderr)
        raise StageError(f"{where}: {error.ename}: {error.evalue}{seen}") from None
    except DeadKernelError:
        where = _named(injected, _last_started(partial))
        raise StageError(f"{name}, {where}: the kernel died (killed, or out of memory?){seen}") from None
    except KeyboardInterrupt:
        raise StageError(f"{name}, {_named(injected, _last_started(partial))}: interrupted{seen}") from None
    for number, cell in notebooks.code_cells(executed):
        if cell.metadata.get("papermill", {}).get("status") != "completed" or cell.execution_count is None:
            where = f"{name}, {_named(injected, number)}"
            raise StageError(f"{where}: did not run to its end (a cell must not exit){seen}")
    partial.unlink()
    return executed


def _named(notebook: Any, number: int) -> str:
    """Returns what a cell is called in messages: its number, the injected one counted, and its id."""
    return f"cell {number} ({notebook.cells[number - 1].id})" if number else "no cell"


def _last_started(partial: Path) -> int:
    """Returns the number of the cell that was running when the notebook was last saved, 0 if none was."""
    cells = notebooks.code_cells(notebooks.read(partial))
    return max((n for n, cell in cells if cell.metadata.get("papermill", {}).get("start_time")), default=0)
