"""The small files of a finished pipeline: copied to reports/, where they are committed, and shown at the end.

A published file holds no time, no machine and no path outside the repository, and is the same in every clone.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mapflake import repro
from mapflake.nb.folders import BUILD_PARAMS, MADE_BY, PIPELINE

REPORTS = "reports"
MAX_BYTES = 1_000_000


class PublishError(RuntimeError):
    """Something that must not be published."""


def publish(root: Path) -> None:
    """Copies results.md, study.md, metrics, figures/, notebooks/ and rounds/ from `runs/pipeline` to `reports`.

    Beside metrics.json, which has every number, there are two extracts for DVC: summary.json is what `dvc exp show` and
    `dvc metrics diff` compare, validation.json (rates by arm and round) what `dvc plots show` draws.

    Raises:
        PublishError: A file is larger than 1 MB, or names a folder of this machine.
    """
    source, target = root / PIPELINE, root / REPORTS
    copies = {source / "analysis" / name: target / name for name in ("results.md", "study.md")}
    for section, notebook in MADE_BY.items():
        for found in sorted((source / section).rglob("notebook.ipynb")):
            item = found.parent.relative_to(source / section).as_posix()
            copies[found] = target / "notebooks" / (f"{notebook}.ipynb" if item == "." else f"{notebook}_{item}.ipynb")
        for found in sorted(path for kind in ("png", "gif") for path in (source / section).rglob(f"figures/*.{kind}")):
            copies[found] = target / "figures" / f"{_prefix(source, found.parent.parent)}_{found.name}"
        for found in sorted((source / section).rglob("rounds.jsonl")):
            copies[found] = target / "rounds" / f"{_prefix(source, found.parent)}.jsonl"
    for path in copies:
        content = path.read_bytes()
        if len(content) > MAX_BYTES:
            raise PublishError(f"{path.relative_to(root)} has {len(content)} bytes; published are at most {MAX_BYTES}")
        if str(root).encode() in content:
            raise PublishError(f"{path.relative_to(root)} names the folder {root}")
    for folder in ("figures", "notebooks", "rounds"):
        shutil.rmtree(target / folder, ignore_errors=True)
        (target / folder).mkdir(parents=True)
    for path, copy in copies.items():
        shutil.copyfile(path, copy)
    metrics = repro.read_json(root / BUILD_PARAMS / "profile.json") | repro.read_json(source / "analysis/metrics.json")
    repro.write_json(target / "metrics.json", metrics)
    repro.write_json(target / "summary.json", summary(metrics))
    repro.write_json(target / "validation.json", metrics["validation_by_round"])


def summary(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Returns of metrics.json what fits on a screen: by arm the rates on the benchmark and the gain over fixed."""
    found = {}
    for arm, rates in metrics["benchmark"].items():
        found[arm] = {metric: rates["all"][metric]["mean"] for metric in ("valid", "optimal")}
        if "valid" in rates["against_fixed"]:  # fixed itself is compared with nothing
            found[arm]["valid_against_fixed"] = rates["against_fixed"]["valid"]["mean"]
    return found


def compare(mine: Any, theirs: Any, where: str = "metrics") -> list[str]:
    """Returns in what two metrics.json disagree: a line for each estimate whose 95% intervals do not overlap.

    On one machine files are equal to the byte. Another CPU rounds differently, trainings drift apart as with another
    seed, and this is what may be asked of them. Counts must be equal; numbers without an interval, lists, and what the
    engineers wrote, which all follow the training, are not compared.
    """
    if isinstance(mine, dict) and isinstance(theirs, dict):
        if {"mean", "low", "high"} <= mine.keys() & theirs.keys():
            apart = mine["low"] > theirs["high"] or theirs["low"] > mine["high"]
            shown = [f"{x['mean']} ({x['low']} to {x['high']})" for x in (mine, theirs)]
            return [f"{where}: {shown[0]} here, {shown[1]} there"] if apart else []
        keys = [key for key in [*mine, *(k for k in theirs if k not in mine)] if key != "designs"]
        return [line for key in keys for line in compare(mine.get(key), theirs.get(key), f"{where}.{key}")]
    if isinstance(mine, list | float) and type(mine) is type(theirs):
        return []
    return [] if mine == theirs else [f"{where}: {mine!r} here, {theirs!r} there"]


def results(root: Path) -> str:
    """Returns the published results table and where the reports are.

    Raises:
        PublishError: Nothing has been published yet.
    """
    target = root / REPORTS
    if not (target / "metrics.json").is_file():
        raise PublishError(f"{REPORTS}/metrics.json is missing: run `make repro` first")
    table = (target / "results.md").read_text(encoding="utf-8").strip()
    profile = repro.read_json(target / "metrics.json")["profile"]
    return "\n".join(
        [
            "",
            table,
            "",
            f"Profile {profile}. Written: {REPORTS}/results.md, {REPORTS}/metrics.json,",
            f"{REPORTS}/figures/, {REPORTS}/notebooks/ (executed), {REPORTS}/rounds/ (what the engineers were told)",
        ]
    )


def _prefix(source: Path, folder: Path) -> str:
    """Returns the name of a stage's folder: `ablations_heuristic` for `runs/pipeline/ablations/heuristic`."""
    return "_".join(folder.relative_to(source).parts)
