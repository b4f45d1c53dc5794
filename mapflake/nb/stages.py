"""The stages of the pipeline: notebooks, run by papermill, and those that have none.

Output is passed through as it comes. A failure keeps the notebook as far as it got and shows the cell. An interrupted
stage keeps its folder (`persist` in dvc.yaml), and its ledger and trainer go on from there.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mapflake import repro
from mapflake.nb import notebooks, params
from mapflake.nb.folders import NOTEBOOKS, REPORTS, STAGE_LOCK, require, single_writer, stage_lock


class StageError(RuntimeError):
    """A stage that did not end well; the message is for the reader of `dvc repro`."""


def run(root: Path, name: str, items: Mapping[str, Any]) -> None:
    """Runs `notebooks/<name>.ipynb` with the active parameters; its results are in `runs/<profile>/<stage>`.

    `items` is the entry of dvc.yaml's matrix that this run is for, e.g. `{"arm": "heuristic", "seed": 0}`. Raises
    StageError, and NotebookError or ParamError if the notebook does not fit its parameters.
    """
    section = next(section for section, notebook in NOTEBOOKS.items() if notebook == name)
    keys = params.ITEMS.get(section, ())
    if {*items} != {*keys}:
        takes = " ".join(f"{key}=..." for key in keys) or "nothing"
        raise StageError(f"{name}: takes {takes} after its name, not {' '.join(items) or 'nothing'}")
    items = {key: items[key] for key in keys}
    check_items(root, **items)
    values = {**items, **params.prepared(root, f"{section}/{items['arm']}" if "arm" in items else section)}
    stage = "/".join(filter(None, [section, "-".join(map(str, items.values()))]))
    with _stage(root, stage) as (run, folder):
        path = root / "notebooks" / f"{name}.ipynb"
        notebook = notebooks.read(path)
        notebooks.check(notebook, name, [*values, "run"])
        if notebooks.code_view(notebook, name) != (root / params.BUILD_CODE / f"{name}.py").read_text(encoding="utf-8"):
            raise StageError(f"{name}: its code changed since it was checked: run `dvc repro`")
        partial = root / run / "unfinished" / f"{stage.replace('/', '_')}.ipynb"
        executed = execute(path, {**values, "run": run}, root, partial)
        repro.write_text(folder / "notebook.ipynb", notebooks.normalise(executed, str(root)))


def check_items(root: Path, **items: Any) -> None:
    """Raises StageError for an item that the active run does not have: a `seed`, an `arm`, a `bank` run."""
    active = params.load(root).run
    legal: dict[str, list[Any]] = {"seed": [*active.seeds], "arm": [*active.arms], "bank": [*active.bank]}
    for key, value in items.items():
        if value not in legal[key]:
            shown = ", ".join(map(str, legal[key]))
            raise StageError(f"{key} {value}: the active run has {shown} (`run` in params.yaml)")


def warm_start(root: Path) -> None:
    """Trains the model that all seeds and arms branch from, in `runs/<profile>/warm_start` (see `base_model`)."""
    from mapflake.engineer.compact.base import BaseParams, base_model

    values = BaseParams.parse(params.prepared(root, "warm_start"), "warm_start")
    with _stage(root, "warm_start") as (run, folder):
        base_model(values, require(run, "env_design/settings.json").parent, folder)


def student(root: Path, seed: int) -> None:
    """Trains the student of a training seed, in `runs/<profile>/student/<seed>` (see `student_of`)."""
    from mapflake.engineer.compact.base import BaseParams, StudentParams, student_of

    check_items(root, seed=seed)
    values = params.prepared(root, "student")
    base = BaseParams.parse(values["warm_start"], "warm_start")
    students = StudentParams.parse(values["students"], "students")
    with _stage(root, f"student/{seed}") as (run, folder):
        warm_start = base.taken_as_it_is or require(run, "warm_start/checkpoint")
        student_of(base, students, warm_start, require(run, "env_design/settings.json").parent, folder, seed=seed)


def bank(root: Path, number: int) -> None:
    """Trains and measures one run of the bank of situations, in `runs/<profile>/bank/<number>` (see `bank_run`)."""
    from mapflake import env
    from mapflake.engineer import Grpo
    from mapflake.engineer.bank import BankParams, bank_run, bank_start
    from mapflake.engineer.compact.base import BaseParams, StudentParams
    from mapflake.engineer.situations import TableParams
    from mapflake.trainer.params import RLParams

    check_items(root, bank=number)
    values = params.prepared(root, "bank")
    base = BaseParams.parse(values["warm_start"], "warm_start")
    students = StudentParams.parse(values["students"], "students")
    runs = BankParams.parse(values["bank_runs"], "bank_runs")
    tables, trainer = TableParams.parse(values["tables"], "tables"), Grpo(RLParams.parse(values["rl"], "rl"))
    with _stage(root, f"bank/{number}") as (run, folder):
        warm_start = base.taken_as_it_is or require(run, "warm_start/checkpoint")
        boards = require(run, "env_design/settings.json").parent
        start = bank_start(base, students, runs, warm_start, boards, folder, number)
        validation = env.load_tasks(boards / "validation.jsonl")
        sizes = repro.read_json(boards / "settings.json")["sizes"]
        bank_run(folder, number, trainer, start, validation, sizes, runs, tables, samples=values["samples"])


def others(root: Path, seed: int) -> None:
    """Writes hashes of the reports that a training seed's arms can be told, in `runs/<profile>/others/<seed>`.

    So an arm's stage depends on the students of its group (`students.group_of`) and no other, by their records in git.
    """
    check_items(root, seed=seed)
    group = params.prepared(root, "others")["groups"][str(seed)]
    with _stage(root, f"others/{seed}") as (run, folder):
        cells = root / REPORTS / "cells" / Path(run).name
        hashes = {}
        for path in [cells / f"{arm}-{member}.json" for member in group for arm in ("round_0", "fixed")]:
            if path.is_file():
                hashes[path.stem] = repro.json_sha256([row["report"] for row in repro.read_json(path)["rounds"]])
        repro.write_json(folder / "reports.json", hashes)


@contextlib.contextmanager
def _stage(root: Path, stage: str) -> Iterator[tuple[str, Path]]:
    """Yields the active run's folder, from the root, and the stage's in it, while this process alone may write there.

    Sets what processes started meanwhile inherit: the package of this clone, wandb's mode, and the lock by which
    `folders.start` knows the stage's own notebook. Time and peak memory go to `times`, also after an interruption.
    Raises StageError if the stage is interrupted or fails with a message, or if another process runs it: perhaps one
    that outlived a killed `dvc repro`. Raises ParamError if the line `run` has changed since `prepare`.
    """
    params.check_run(root)
    file, began, params_sha256 = params.load(root), time.monotonic(), params.stage_sha256(root, stage)
    run = f"runs/{file.run.profile}"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    os.environ |= {"WANDB_MODE": file.wandb, "TOKENIZERS_PARALLELISM": "false"}
    lock = stage_lock(root, run, stage)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(single_writer(lock))
        except RuntimeError as error:
            raise StageError(f"[{stage}] another process runs this stage: {error}") from None
        os.environ[STAGE_LOCK] = str(lock)
        folder = root / run / stage
        folder.mkdir(parents=True, exist_ok=True)
        done = False
        try:
            yield run, folder
            done = True
        except (StageError, notebooks.NotebookError, repro.ParamError):
            raise
        except (ValueError, RuntimeError) as error:
            raise StageError(f"[{stage}] {error}") from error
        except KeyboardInterrupt:
            raise StageError(f"[{stage}] interrupted; the same command again goes on from here") from None
        finally:
            seconds = time.monotonic() - began
            usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            cpu = sum(usage.ru_utime + usage.ru_stime for usage in usages)
            peak = max(usage.ru_maxrss for usage in usages) / (2**30 if sys.platform == "darwin" else 2**20)
            row = {"stage": stage, "done": done, "seconds": round(seconds), "cpu_seconds": round(cpu)}
            row |= {"peak_gib": round(peak, 2), "params": params_sha256}
            repro.append_jsonl(root / run / "times" / f"{stage.replace('/', '_')}.jsonl", row)
    print(f"[{stage}] done in {seconds:.0f} s", flush=True)


def execute(notebook: Path, values: Mapping[str, Any], root: Path, partial: Path) -> Any:
    """Returns the executed notebook; `partial` holds it as far as it got while it runs and after a failure.

    Raises StageError if a cell failed or stopped the notebook, the kernel died, or the run was interrupted.
    """
    import papermill
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    partial.parent.mkdir(parents=True, exist_ok=True)
    name, hint = notebook.stem, f"; the notebook as far as it got: {partial.relative_to(root)}"
    # No port, and no warning about an open one; sockets of its own, or kernels that start at once would share theirs.
    long = len(tempfile.gettempdir()) > 80  # a socket's path has at most 107 characters
    sockets = tempfile.TemporaryDirectory(prefix="kernel-", dir="/tmp" if long else None)
    kernel = Config(KernelManager={"transport": "ipc", "ip": f"{sockets.name}/ipc"})
    try:
        executed = papermill.execute_notebook(
            notebook,
            partial,
            dict(values),
            kernel_name="python3",
            language="python",
            cwd=root,
            progress_bar=False,
            stdout_file=sys.stdout,
            stderr_file=sys.stderr,
            config=kernel,
        )
    except PapermillExecutionError as error:
        print(error, file=sys.stderr)
        raise StageError(f"{name}, cell {error.cell_index + 1}: {error.ename}: {error.evalue}{hint}") from None
    except (DeadKernelError, KeyboardInterrupt) as error:
        cells = notebooks.code_cells(notebooks.read(partial))
        started = [number for number, cell in cells if cell.metadata.get("papermill", {}).get("start_time")]
        cause = "interrupted" if isinstance(error, KeyboardInterrupt) else "the kernel died (killed, or out of memory?)"
        raise StageError(f"{name}, cell {max(started, default=0)}: {cause}{hint}") from None
    finally:
        sockets.cleanup()
    if any(cell.execution_count is None for _, cell in notebooks.code_cells(executed)):
        raise StageError(f"{name}: did not run to its end (a cell must not exit){hint}")
    partial.unlink()
    return executed
