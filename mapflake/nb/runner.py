"""Runs one notebook as a pipeline stage: papermill, with what papermill leaves open.

Only names that the parameters cell has are injected; output is passed through as it comes (live progress under
`dvc repro`); a failure keeps the notebook as far as it got and shows the cell; `sys.exit(0)` in a cell is a failure,
and so is an input that changed meanwhile: DVC hashes inputs after the run and would record new code against old
results. A stage works in `runs/work/<stage>`, keyed by a hash of its inputs: what a crash left there is gone on from
if the key is the same, and thrown away if not. DVC deletes a stage's results before it runs it again, so they stay in
`runs/work` too (hard links) until a later command shows that DVC has recorded them.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from mapflake import repro
from mapflake.nb import notebooks, sections
from mapflake.nb.folders import BUILD_CODE, KEY_FILE, PIPELINE, WORK

IGNORED = ("__pycache__", ".ipynb_checkpoints")
PARTIAL = "runs/work/partial"
NOTEBOOK = "notebook.ipynb"  # written last: a stage that has it is finished
ANSI = re.compile(r"\x1b\[[0-9;]*m")


class StageError(RuntimeError):
    """A stage that did not end well; the message is for the reader of `dvc repro`."""


@contextlib.contextmanager
def pipeline_lock(root: Path) -> Iterator[None]:
    """Holds the clone's one right to write `runs/pipeline`: a stage that outlived a killed `dvc repro` still has it.

    Raises:
        StageError: Another process holds it.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(repro.single_writer(root / "runs" / "pipeline.lock"))
        except RuntimeError as error:
            raise StageError(f"another pipeline is writing in this clone: {error}") from None
        yield


def inputs_sha256(root: Path, section: str) -> str:
    """Returns one hash of everything that the stage `section` depends on according to dvc.yaml, and of Python."""
    stage = yaml.safe_load((root / "dvc.yaml").read_text(encoding="utf-8"))["stages"][section]
    hashes: dict[str, str] = {"python": repro.versions()["python"]}
    for dep in stage["deps"]:
        path = root / dep
        if not path.exists():
            raise StageError(f"{dep} is missing: run `dvc repro`, which makes it first")
        files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        for file in files:
            if not any(part in IGNORED for part in file.parts):
                hashes[file.relative_to(root).as_posix()] = repro.file_sha256(file)
    return repro.json_sha256(hashes)


def run(root: Path, name: str, item: str | None = None) -> None:
    """Runs `notebooks/<name>.ipynb` with the active parameters; leaves its results in `runs/pipeline/<stage>`.

    Args:
        root: The repository.
        name: The notebook, e.g. `04_ablations`.
        item: `key=value`: the one entry of a list in params.yaml that this run is for, e.g. `arm=heuristic`.

    Raises:
        StageError: The notebook failed, or an input changed while it ran.
        NotebookError, ParamError: It does not fit its parameters.
    """
    with pipeline_lock(root):
        section = sections.of_notebook(name)
        values = {**sections.stage_values(root, section, item), "run": PIPELINE}
        notebook = notebooks.read(root / "notebooks" / f"{name}.ipynb")
        notebooks.check(notebook, name, list(values))
        if notebooks.code_view(notebook, name) != (root / BUILD_CODE / f"{name}.py").read_text(encoding="utf-8"):
            raise StageError(f"{name}: its code changed since it was checked: run `dvc repro`")
        stage = f"{section}/{item.split('=', 1)[1]}" if item else section
        work, final = root / WORK / stage, root / PIPELINE / stage
        key, began, parent = inputs_sha256(root, section), time.monotonic(), os.getppid()
        forget_finished(root, but=work)
        if (work / KEY_FILE).is_file() and (work / KEY_FILE).read_text() == key:
            how = "was finished already" if (work / NOTEBOOK).is_file() else "goes on from an interrupted run"
            print(f"[{stage}] {how}", flush=True)
        else:
            shutil.rmtree(work, ignore_errors=True)
            repro.write_text(work / KEY_FILE, key)
        if not (work / NOTEBOOK).is_file():
            partial = root / PARTIAL / f"{stage.replace('/', '_')}.ipynb"
            with kernel_environment(root, sections.load(root)["wandb"]):
                executed = execute(root, notebook, name, values, partial)
            if inputs_sha256(root, section) != key:
                raise StageError(f"{name}: its parameters or code changed while it ran; run it again")
            repro.write_text(work / NOTEBOOK, notebooks.normalise(executed, {str(root): "."}))
        if os.getppid() != parent:
            raise StageError(f"{name}: `dvc repro` is gone; the next one will take over what is in {WORK}/{stage}")
        shutil.rmtree(final, ignore_errors=True)
        shutil.copytree(work, final, copy_function=os.link, ignore=shutil.ignore_patterns(KEY_FILE))
    print(f"[{stage}] done in {time.monotonic() - began:.0f} s", flush=True)


def forget_finished(root: Path, but: Path | None = None) -> None:
    """Removes from `runs/work` the stages that ended: DVC has recorded them, since it came to run something else."""
    for key in list((root / WORK).rglob(KEY_FILE)):
        if key.parent != but and (key.parent / NOTEBOOK).is_file():
            shutil.rmtree(key.parent)


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


def execute(root: Path, notebook: Any, name: str, values: dict[str, Any], partial: Path) -> Any:
    """Returns the executed notebook; `partial` holds it as far as it got while it runs and after a failure.

    Raises:
        StageError: A cell failed or stopped the notebook, the kernel died, or the run was interrupted.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    partial.parent.mkdir(parents=True, exist_ok=True)
    seen = f"; the notebook as far as it got: {partial.relative_to(root)}"
    injected = notebooks.inject(notebook, values)
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
