"""Where things lie: the repository's root, the folder that a notebook writes, the inputs that it needs.

`runs/<name>/<stage>/` holds what one stage made; `<name>` is `interactive` when a notebook is run by hand and
`pipeline` under DVC. DVC empties a stage's folder before the stage runs, so a stage works in `runs/work/<stage>/`,
which survives a crash, and the runner moves it into place at the end.
"""

from __future__ import annotations

import shutil
from pathlib import Path

PIPELINE = "runs/pipeline"
WORK = "runs/work"
BUILD_PARAMS = "build/params"
BUILD_CODE = "build/code"
KEY_FILE = ".key"
MARKER = ".mapflake"

MADE_BY = {
    "env_design": "01_env_design",
    "baseline_rl": "02_baseline_rl",
    "engineer_loop": "03_engineer_loop",
    "ablations": "04_ablations",
    "analysis": "05_analysis",
}
"""Stage -> the notebook that makes it; also the order of the pipeline."""

SECTIONS = (*MADE_BY, "study")
"""The sections of params.yaml: one for each notebook, and the study."""


def root() -> Path:
    """Returns the repository's root: the nearest folder, from the working directory upwards, with mapflake in it.

    Raises:
        FileNotFoundError: The working directory is not inside the repository.
    """
    here = Path.cwd().resolve()
    for folder in (here, *here.parents):
        if (folder / "params.yaml").is_file() and (folder / "mapflake" / "nb").is_dir():
            return folder
    raise FileNotFoundError(f"{here} is not inside the mapflake repository (no params.yaml and mapflake/ above it)")


def start(run: str, stage: str) -> Path:
    """Returns the folder that this notebook writes, empty, or under DVC as an interrupted run left it.

    Args:
        run: The run's folder from the root, e.g. `runs/interactive` (the notebooks' parameter `run`).
        stage: The stage's name, e.g. `env_design`, or `ablations/heuristic`.

    Raises:
        ValueError: The run lies outside `runs/`, its folder holds files of somebody else, or it is the
            pipeline's, which only `dvc repro` writes.
    """
    base = root()
    if run == PIPELINE:
        work = base / WORK / stage
        if not (work / KEY_FILE).is_file():
            raise ValueError(f"{run} is written by `dvc repro`; by hand, use another run such as runs/interactive")
        return work
    folder = (base / run / stage).resolve()
    if (base / "runs") not in folder.parents or (base / PIPELINE) in folder.parents:
        raise ValueError(f"run: {run!r} is not legal: a run is a folder inside {base / 'runs'} and not the pipeline's")
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).is_file():
        raise ValueError(f"{folder} holds files that no notebook of ours wrote: move them, or choose another run")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()
    return folder


def require(run: str, path: str) -> Path:
    """Returns the path of an earlier stage's file or folder, e.g. `require(run, "env_design/validation.jsonl")`.

    Raises:
        FileNotFoundError: It is not there; says which notebook to run first.
        ValueError: The path leads out of the run.
    """
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise ValueError(f"{path}: leads out of {run}")
    found = root() / run / path
    if not found.exists():
        notebook = MADE_BY.get(path.split("/")[0], path)
        raise FileNotFoundError(f"{run}/{path} is missing: run {notebook} first (notebooks/{notebook}.ipynb)")
    return found
