"""The small files of a finished pipeline: copied to reports/, where they are committed, and shown at the end.

A published file holds no time, no machine and no path outside the repository, and is the same in every clone. The
records of finished cells are there already (reports/cells): their stages write them.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mapflake import repro
from mapflake.nb import params
from mapflake.nb.folders import NOTEBOOKS, REPORTS

if TYPE_CHECKING:
    from mapflake.engineer.compact.base import BaseParams

BLOCK = "<!-- {name}: made by `python -m mapflake.nb readme` -->\n{text}\n<!-- /{name} -->"


def publish(root: Path) -> None:
    """Copies results.md, metrics, figures/ and notebooks/ of the active run to `reports`; of cells, the first seed's.

    What a stage that is recorded but not in this clone made (`dvc repro --allow-missing`) stays as it was published.
    Beside metrics.json, which has every number, there are two extracts for DVC: summary.json is what `dvc exp show` and
    `dvc metrics diff` compare, validation.json (rates by arm and round) what `dvc plots show` draws.
    """
    run, target = params.load(root).run, root / REPORTS
    source, seed = root / "runs" / run.profile, run.seeds[0]
    stages = {"env_design": "env_design", "analysis": "analysis"}
    stages |= {f"{name}/{seed}": name for name in ("baseline_rl", "engineer_loop", "trained_engineer")}
    stages |= {f"ablations/{arm}-{seed}": f"ablations_{arm}" for arm in [*run.arms, *run.trained]}
    copies = {source / "analysis/results.md": target / "results.md"}
    for stage, name in stages.items():
        if (source / stage / "notebook.ipynb").is_file():
            number = NOTEBOOKS[stage.partition("/")[0]][:2]
            copies[source / stage / "notebook.ipynb"] = target / "notebooks" / f"{number}_{name}.ipynb"
            figures = sorted((source / stage / "figures").glob("*.[pg][ni][gf]"))
            copies |= {path: target / "figures" / f"{name}_{path.name}" for path in figures}
    elsewhere = tuple(name for stage, name in stages.items() if not (source / stage / "notebook.ipynb").is_file())
    for folder in ("figures", "notebooks"):
        (target / folder).mkdir(parents=True, exist_ok=True)
        for old in (target / folder).iterdir():
            if not old.stem.removeprefix(old.name[:3] if folder == "notebooks" else "").startswith(elsewhere):
                old.unlink()
    for path, copy in copies.items():
        shutil.copyfile(path, copy)
    metrics = {"profile": run.profile} | repro.read_json(source / "analysis/metrics.json")
    repro.write_json(target / "metrics.json", metrics)
    repro.write_json(target / "summary.json", summary(metrics))
    repro.write_json(target / "validation.json", metrics["validation_by_round"])


def measure_training(root: Path) -> None:
    """Writes the record of the active run's training, of its first seed (`study.training`), beside its cells."""
    from mapflake.engineer import EngineerParams
    from mapflake.study import training

    asked = EngineerParams.parse(params.prepared(root, "engineer_loop")["engineer"], "engineer")
    run, base, seed, cells = _active(root)
    repro.write_json(cells / "training" / f"{seed}.json", training.measure(run, base, asked, seed=seed))


def measure_control(root: Path) -> None:
    """Writes the record of the active run's warm start as the control of one with the same parameters but `weights`."""
    from mapflake.study import training

    run, base, seed, cells = _active(root)
    repro.write_json(cells / "control" / f"{seed}.json", training.measure_control(run, base, seed=seed))


def _active(root: Path) -> tuple[Path, BaseParams, int, Path]:
    """Returns the active run's folder, how its model before RL is made, its first seed, and the folder of its cells."""
    from mapflake.engineer.compact.base import BaseParams

    run = params.load(root).run
    base = BaseParams.parse(params.prepared(root, "warm_start"), "warm_start")
    return root / "runs" / run.profile, base, run.seeds[0], root / REPORTS / "cells" / run.profile


def training_page(root: Path, profiles: Sequence[str]) -> None:
    """Writes reports/<first profile>.md, and each profile's figures, of the committed records of their training."""
    from mapflake import plots
    from mapflake.study import engineers, training

    found = [training.load(root / REPORTS / "cells" / profile) for profile in profiles]
    small, several = engineers.load(root / REPORTS / "cells/default"), len(found) > 1
    parts = []
    if several:
        table = training.beside(found).to_markdown(disable_numparse=True)
        parts = [f"# Training of {' and '.join(profiles)}", table, training.HOW_TO_READ]
    for one in found:
        out, steps = root / REPORTS / one.profile, training.curve(one.record)
        losses = training.losses(one.record, one.control)
        plots.show(plots.curves(losses, metrics=["loss"], xlabel="step of the warm start"), out / "loss.png")
        starts = steps.groupby("round")["step"].min().tolist()[1:]
        metrics = ["valid", "optimal", "entropy", "kl"]
        plots.show(plots.curves(steps, metrics=metrics, smooth=3, boundaries=starts), out / "grpo.png")
        parts.append(training.markdown(one, small, pictures=one.profile, level=1 + several))
    repro.write_text(root / REPORTS / f"{profiles[0]}.md", "\n\n".join(part.strip() for part in parts) + "\n")


def summary(metrics: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Returns an extract of metrics.json: by arm the rates on the benchmark and the gain over `fixed`."""
    found = {}
    for arm, rates in metrics["benchmark"].items():
        found[arm] = {metric: rates["all"][metric]["mean"] for metric in ("valid", "optimal")}
        if "valid" in rates["against_fixed"]:  # fixed itself is compared with nothing
            found[arm]["valid_against_fixed"] = rates["against_fixed"]["valid"]["mean"]
    return found


def write_readme(root: Path) -> None:
    """Writes the generated blocks of README.md anew from all records of the default profile; all else of it stays."""
    path, blocks = root / "README.md", readme_blocks(root, root / REPORTS / "cells/default")
    repro.write_text(path, with_blocks(path.read_text(encoding="utf-8"), blocks))


def readme_blocks(root: Path, cells: Path) -> dict[str, str]:
    """Returns the generated blocks of README.md, made of the records in `cells`."""
    from mapflake import study  # pandas and scipy, which no stage needs
    from mapflake.study import engineers

    comparison = params.load(root).analysis.comparison.model_dump()
    return study.readme_blocks(study.load(cells), comparison, engineers.sentence(engineers.load(cells)))


def with_blocks(text: str, blocks: Mapping[str, str]) -> str:
    """Returns `text` with what stands between the marks of each block replaced.

    Raises:
        ValueError: It has no marks of a block.
    """
    for name, block in blocks.items():
        marks = re.compile(rf"<!-- {name}: .*? -->\n.*?<!-- /{name} -->", re.DOTALL)
        if not marks.search(text):
            raise ValueError(f"README.md has no marks <!-- {name}: ... --> and <!-- /{name} -->")
        written = BLOCK.format(name=name, text=block.strip())
        text = marks.sub(written.replace("\\", r"\\"), text, count=1)
    return text
