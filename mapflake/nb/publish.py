"""The small files of a finished pipeline: copied to reports/, where they are committed, and shown at the end.

A published file holds no time, no machine and no path outside the repository, and is the same in every clone. The
records of finished cells are there already (reports/cells): their stages write them.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mapflake import repro
from mapflake.nb import params
from mapflake.nb.folders import NOTEBOOKS, REPORTS, require


def publish(root: Path) -> None:
    """Copies results.md, metrics, figures/ and notebooks/ of the active run to `reports`; of cells, the first seed's.

    What a stage that is recorded but not in this clone made (`dvc repro --allow-missing`) stays as it was published.
    Raises FileNotFoundError, and touches nothing, if there is no analysis. Figures and notebooks in `reports` with a
    stage's name at their beginning are the pipeline's: those that are published no more are removed.
    Of metrics.json there are two extracts for DVC: summary.json for its tables, validation.json for its plots.
    """
    run, target = params.load(root).run, root / REPORTS
    source, seed = root / "runs" / run.profile, run.seeds[0]
    results_path, metrics_path = (
        require(f"runs/{run.profile}", f"analysis/{name}") for name in ("results.md", "metrics.json")
    )
    stages = {"env_design": "env_design", "analysis": "analysis"}
    stages |= {f"{name}/{seed}": name for name in ("baseline_rl", "engineer_loop", "trained_engineer")}
    stages |= {f"ablations/{arm}-{seed}": f"ablations_{arm}" for arm in run.arms}
    copies: dict[Path, Path] = {}
    missing: tuple[str, ...] = ()
    for stage, name in stages.items():
        if not (source / stage / "notebook.ipynb").is_file():
            missing += (name,)
            continue
        number = NOTEBOOKS[stage.partition("/")[0]][:2]
        copies[source / stage / "notebook.ipynb"] = target / "notebooks" / f"{number}_{name}.ipynb"
        figures = sorted((source / stage / "figures").glob("*.[pg][ni][gf]"))
        copies |= {path: target / "figures" / f"{name}_{path.name}" for path in figures}
    copies[results_path] = target / "results.md"  # last: until then the old one is whole
    for folder in ("figures", "notebooks"):
        (target / folder).mkdir(parents=True, exist_ok=True)
    for path, copy in copies.items():
        shutil.copyfile(path, copy)
    for old in [*(target / "figures").iterdir(), *(target / "notebooks").iterdir()]:
        stem = old.stem.removeprefix(old.name[:3] if old.parent.name == "notebooks" else "")
        ours = stem.startswith((*NOTEBOOKS,)) and old.suffix in (".ipynb", ".png", ".gif")  # all others are the user's
        if old.is_file() and ours and old not in copies.values() and not stem.startswith(missing):
            old.unlink()
    metrics = {"profile": run.profile} | repro.read_json(metrics_path)
    repro.write_json(target / "metrics.json", metrics)
    repro.write_json(target / "summary.json", summary(metrics))
    repro.write_json(target / "validation.json", metrics["validation_by_round"])
    if run.profile == "llm":
        from mapflake.nb import page  # with what its figures take

        page.write(root)


def summary(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Returns an extract of metrics.json: by arm the rates on the benchmark and the gain over `fixed`."""
    extract = {}
    for arm, rates in metrics["benchmark"].items():
        extract[arm] = {metric: rates["all"][metric]["mean"] for metric in ("valid", "optimal")}
        if "valid" in rates["against_fixed"]:  # fixed itself is compared with nothing
            extract[arm]["valid_against_fixed"] = rates["against_fixed"]["valid"]["mean"]
    return extract
