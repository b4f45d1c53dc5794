"""What is left of a run, from the times of its stages and the records that there are."""

from __future__ import annotations

from pathlib import Path

from ruamel.yaml import YAML

from mapflake import repro
from mapflake.nb import params, progress

ROOT = Path(__file__).parents[2]


def timed(root: Path, stage: str, *rows: tuple[bool, int]) -> None:
    path = root / "runs/default/times" / f"{stage.replace('/', '_')}.jsonl"
    for done, seconds in rows:
        repro.append_jsonl(path, {"stage": stage, "done": done, "seconds": seconds, "cpu_seconds": 1, "peak_gib": 1.0})


def test_a_missing_cell_takes_as_long_as_the_finished_ones_of_its_stage(tmp_path: Path) -> None:
    yaml = YAML()
    written = yaml.load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    written["run"] |= {"arms": ["engineer_trained", "uniform"], "seeds": [0, 1], "bank": [0, 1]}
    with open(tmp_path / "params.yaml", "w", encoding="utf-8") as file:
        yaml.dump(written, file)
    assert len([*progress.cells(params.load(tmp_path).run)]) == 14
    assert progress.left(tmp_path, 2) == "0 of 14 cells are done"  # of nothing it knows no time
    timed(tmp_path, "bank/0", (False, 1000), (True, 120))  # the interrupted execution does not count
    assert progress.left(tmp_path, 2) == "1 of 14 cells are done; more than 1 minutes are left, 2 at once"
    timed(tmp_path, "baseline_rl/0", (True, 600))
    assert progress.left(tmp_path, 1) == "2 of 14 cells are done; more than 12 minutes are left, 1 at once"
    repro.write_json(tmp_path / "reports/cells/default/fixed-1.json", {})  # published, not trained here
    assert progress.left(tmp_path, 1) == "2 of 14 cells are done; more than 12 minutes are left, 1 at once"
    said = "3 of 14 cells are done; more than 2 minutes are left, 1 at once"
    assert progress.left(tmp_path, 1, published=True) == said
    for stage, _ in progress.cells(params.load(tmp_path).run):
        if stage != "bank/1":
            timed(tmp_path, stage, (True, 1))
    assert progress.left(tmp_path, 1) == "13 of 14 cells are done; about 2 minutes are left, 1 at once"
    for stage, _ in progress.cells(params.load(tmp_path).run):
        timed(tmp_path, stage, (True, 1))
    assert progress.left(tmp_path, 1) == "14 of 14 cells are done"
