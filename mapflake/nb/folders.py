"""The folders of a run: what a notebook writes, and what it needs from earlier ones.

`runs/<run>/<stage>/` holds what one stage made. A stage of the pipeline goes on in the folder that an interrupted one
left; by hand (`runs/interactive`), a notebook begins in an empty folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from mapflake.repro import read_json

REPORTS = "reports"

STAGE_LOCK = "MAPFLAKE_STAGE_LOCK"  # the environment variable by which a stage tells its notebook which lock it holds

NOTEBOOKS = {  # stage -> the notebook that makes it
    "env_design": "01_env_design",
    "baseline_rl": "02_baseline_rl",
    "engineer_loop": "03_engineer_loop",
    "trained_engineer": "04_trained_engineer",
    "ablations": "05_ablations",
    "analysis": "06_analysis",
}


def root() -> Path:
    """Returns the repository's root, from the working directory upwards; FileNotFoundError if it is not inside one."""
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if (folder / "params.yaml").is_file() and (folder / "mapflake" / "nb").is_dir():
            return folder
    raise FileNotFoundError(f"{here} is not inside the mapflake repository (no params.yaml and mapflake/ above it)")


def stage_lock(base: Path, run: str, stage: str) -> Path:
    """Returns the lock file that a stage of the pipeline holds while it runs."""
    return base / run / "locks" / stage.replace("/", "_")


@contextlib.contextmanager
def single_writer(path: str | Path) -> Iterator[None]:
    """Holds the lock file `path` while the block runs; the lock goes with the process, also after kill -9.

    Raises RuntimeError, which names the process, if another one holds it.
    """
    import fcntl  # POSIX only, as is DVC's use of this pipeline

    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise RuntimeError(f"{path} is held by process {holder}: wait for it to end, or stop it") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield


def of_pipeline(base: Path, run: str) -> bool:
    """Returns whether the pipeline writes this run: whether a stage has ever taken a lock there."""
    return (base / run / "locks").is_dir()


def start(run: str, stage: str) -> Path:
    """Returns the folder that this notebook writes: in the pipeline as it was left, but for its figures.

    By hand it is empty; what was there is moved to `<stage>.old`, in place of what was moved there before.

    Args:
        run: The run's folder from the root, e.g. `runs/interactive` (the notebooks' parameter `run`).
        stage: The stage's name, e.g. `env_design`, or `ablations/heuristic-0`.

    Raises:
        ValueError: The run lies outside `runs/`, or it is the pipeline's, which only `dvc repro` writes.
    """
    base = root()
    folder = (base / run / stage).resolve()
    if (base / "runs").resolve() not in folder.parents:
        raise ValueError(f"run: {run!r} is not legal: a run is a folder inside {base / 'runs'}")
    if os.environ.get(STAGE_LOCK) == str(stage_lock(base, run, stage)):
        shutil.rmtree(folder / "figures", ignore_errors=True)  # drawn anew: none stays that is drawn no more
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    if of_pipeline(base, run) or (folder / "notebook.ipynb").is_file():  # `dvc pull` brings results without locks
        raise ValueError(f"{run} is written by `dvc repro`; by hand, use another run such as runs/interactive")
    if folder.is_dir() and any(folder.iterdir()):  # a wrong parameter is found out later
        old = folder.with_name(f"{folder.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cells(run: str) -> Path:
    """Returns the folder of a run's records of finished cells; the pipeline's are in reports/, where git keeps them."""
    base = root()
    return base / REPORTS / "cells" / Path(run).name if of_pipeline(base, run) else base / run / "cells"


def student(run: str, folder: str) -> str | Path:
    """Returns the checkpoint, or the name on the hub, of the student in a folder of the run, e.g. `bank/1/student`.

    Raises:
        FileNotFoundError: As for `require`.
    """
    path = require(run, f"{folder}/student.json")
    name = read_json(path)["checkpoint"]
    checkpoint = (path.parent / name).resolve()
    return checkpoint if checkpoint.exists() else str(name)


def require(run: str, path: str) -> Path:
    """Returns the path of an earlier stage's file or folder, e.g. `require(run, "env_design/validation.jsonl")`.

    Raises:
        FileNotFoundError: It is not there; says which stage or notebook makes it in this run.
    """
    base = root()
    target = base / run / path
    if target.exists():
        return target
    stage, *items = path.split("/")
    number = next((item for item in items[:1] if item.isdigit()), None)
    if of_pipeline(base, run):
        cell = items[0] if stage == "ablations" else number
        raise FileNotFoundError(
            f"{run}/{path} is missing: make it by `dvc repro {'@'.join(filter(None, [stage, cell]))}`"
        )
    notebook = NOTEBOOKS.get(stage, NOTEBOOKS["baseline_rl"])  # which makes the warm start too
    seed = f" with seed = {number}" if number else ""
    raise FileNotFoundError(f"{run}/{path} is missing: run notebooks/{notebook}.ipynb{seed} to its end first")
