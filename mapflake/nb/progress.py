"""How much of the active run is done, and about how long the rest takes; `make repro` and `make study` print it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from mapflake import repro
from mapflake.nb import params
from mapflake.nb.folders import REPORTS
from mapflake.nb.schema import RunParams


def left(root: Path, jobs: int, *, published: bool = False) -> str:
    """Returns a sentence: how many cells of the active run are done, and how many minutes are left with `jobs` at once.

    A missing cell counts with the mean time of the finished cells of its stage on this machine, and not at all if its
    stage has none yet. A cell that was run with other parameters of its stage is not done. With `published`, a cell
    whose record is there is done although it was not run here.
    """
    run = params.load(root).run
    times, records = root / f"runs/{run.profile}/times", root / REPORTS / "cells" / run.profile
    seconds: dict[str, list[int]] = {}
    missing, stages = [], [*cells(run)]
    for stage, record in stages:
        path = times / f"{stage.replace('/', '_')}.jsonl"
        sha256 = params.stage_sha256(root, stage)
        rows = [row for row in repro.read_jsonl(path) if row.get("done")] if path.is_file() else []
        rows = [row for row in rows if row.get("params", sha256) == sha256]
        kind = stage.partition("/")[0]
        if rows:
            seconds.setdefault(kind, []).append(max(row["seconds"] for row in rows))
        elif not (published and record and (records / f"{record}.json").is_file()):
            missing.append(kind)
    text = f"{len(stages) - len(missing)} of {len(stages)} cells are done"
    timed = [kind for kind in missing if kind in seconds]
    if not timed:
        return text
    minutes = sum(sum(seconds[kind]) / len(seconds[kind]) for kind in timed) / 60 / jobs
    return f"{text}; {'about' if timed == missing else 'more than'} {minutes:.0f} minutes are left, {jobs} at once"


def cells(run: RunParams) -> Iterator[tuple[str, str | None]]:
    """Yields the stages of a run that have many cells, each with the name of its record; a run of the bank has none."""
    for number in run.bank:
        yield f"bank/{number}", None
    for seed in run.seeds:
        yield f"student/{seed}", f"base-{seed}"
        yield f"baseline_rl/{seed}", f"fixed-{seed}"
        yield f"engineer_loop/{seed}", f"engineer-{seed}"
        yield f"trained_engineer/{seed}", f"design_rl/{seed}"
        for arm in run.arms:
            yield f"ablations/{arm}-{seed}", f"{arm}-{seed}"
