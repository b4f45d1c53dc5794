"""Cells as files: written small, read back whole, refused when they do not belong together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mapflake import repro
from mapflake.engineer import FailureReport, Ledger, Round
from mapflake.engineer.report import SizeReport
from mapflake.env import EnvConfig, generate, judge
from mapflake.study import cells, changes, record
from mapflake.study.record import StudyError
from mapflake.trainer.evaluate import Rollout

TASKS = generate(EnvConfig.uniform([3, 4], 0.1), 4, seed=0, split="validation")
BOARDS = [*TASKS, TASKS[0]]  # a board may be there twice


def rollouts(valid: list[int], samples: int = 2) -> list[Rollout]:
    """Returns rollouts in which board i is solved in the first valid[i] samples."""
    from mapflake.env import format_plan

    found = []
    for task, n in zip(BOARDS, valid, strict=True):
        texts = [format_plan(task.instance, task.solution.plan, "chat") if i < n else "?" for i in range(samples)]
        found += [Rollout(task, i, text, judge(task, text, "chat")) for i, text in enumerate(texts)]
    return found


def test_outcomes_are_a_digit_a_board() -> None:
    found = cells.outcomes(rollouts([2, 0, 1, 2, 0]), BOARDS)
    assert (found["valid"], found["optimal"], found["samples"]) == ("20120", "20120", 2)
    with pytest.raises(ValueError, match="the same number of answers to each board"):
        cells.outcomes(rollouts([2, 0, 1, 2, 0])[1:], BOARDS)
    with pytest.raises(ValueError, match="at most 9"):
        cells.outcomes(rollouts([2, 0, 1, 2, 0], samples=10), BOARDS)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study of two arms: `engineer` under seeds 0 and 1, `fixed` under seed 0, and what they begin with."""
    inputs = cells.Inputs(tmp_path / "params", tmp_path / "boards", "base", tmp_path / "runs", tmp_path / "study/cells")
    from mapflake.env import save_tasks

    (tmp_path / "boards").mkdir()
    save_tasks(tmp_path / "boards/validation.jsonl", TASKS)
    save_tasks(tmp_path / "boards/benchmark_wr050.jsonl", BOARDS)
    repro.write_json(tmp_path / "boards/settings.json", {"sizes": [3, 4], "subsets": ["wr050"]})
    cells.write_boards(inputs)
    benchmark = {"wr050": cells.outcomes(rollouts([2, 0, 1, 2, 0]), BOARDS)}
    first = cells.outcomes(rollouts([1, 1, 1, 1, 0])[:8], TASKS)
    for arm, seed in (("warm_start", 0), ("round_0", 0), ("engineer", 0), ("engineer", 1), ("fixed", 0)):
        made = {"rl": {"instances": 4}, "samples": {"validation": 2, "benchmark": 2}, "cpu_minutes": 1.5}
        cell = {"schema": cells.SCHEMA, "arm": arm, "seed": seed, **made, "code_sha256": "c", "benchmark": benchmark}
        rounds = {"warm_start": 1, "round_0": 1}.get(arm, 2)
        repro.write_json(inputs.cells / f"{arm}-{seed}/cell.json", {**cell, "validation": [first] * rounds})
    assert len(record.seal(tmp_path / "study")) == 5
    return tmp_path / "study"


def edit(study: Path, cell: str, **changes: Any) -> None:
    path = study / "cells" / cell / "cell.json"
    repro.write_json(path, repro.read_json(path) | changes)


def test_what_is_sealed_is_read_back(study: Path) -> None:
    found = record.load(study)
    assert found.arms == ["engineer", "fixed"]
    own = found.benchmark[(found.benchmark["arm"] == "engineer") & (found.benchmark["seed"] == 1)]
    assert own["valid"].tolist() == [1.0, 0.0, 0.5, 1.0, 0.0]
    assert own["size"].tolist() == [t.instance.size for t in BOARDS]
    assert own["board"].tolist() == [0, 1, 2, 3, 0]  # the numbers that the validation boards have
    rounds = found.validation.groupby("arm")["round"].unique().map(list).to_dict()
    assert rounds == {"warm_start": [-1], "round_0": [0], "engineer": [1, 2], "fixed": [1, 2]}
    assert found.cells["cpu_minutes"].sum() == 7.5


def test_without_a_finished_cell_it_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no finished cell; `make study` makes them"):
        record.load(tmp_path)


def test_a_cell_that_changed_or_went_away_is_named(study: Path) -> None:
    edit(study, "engineer-1", cpu_minutes=2.0)
    with pytest.raises(StudyError, match=r"cells/engineer-1: not as in manifest.json; if it is right, `python -m"):
        record.load(study)
    (study / "cells/engineer-1/cell.json").unlink()
    with pytest.raises(StudyError, match="cells/engineer-1: not as in"):
        record.load(study)
    record.seal(study)
    assert set(record.load(study).cells["seed"]) == {0}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"schema": 7}, "not a cell of schema 1"),
        ({"samples": {"validation": 9, "benchmark": 2}}, "samples .* is not that of"),
        ({"rl": {"instances": 5}}, "rl .* is not that of"),
    ],
)
def test_cells_that_do_not_belong_together_are_refused(study: Path, changes: dict[str, Any], said: str) -> None:
    edit(study, "fixed-0", **changes)
    record.seal(study)
    with pytest.raises(StudyError, match=f"cells/fixed-0/cell.json: {said}"):
        record.load(study)


def test_cells_of_other_boards_are_refused(study: Path) -> None:
    text = (study / "cells/fixed-0/cell.json").read_text()
    sha256 = json.loads(text)["benchmark"]["wr050"]["boards_sha256"]
    (study / "cells/fixed-0/cell.json").write_text(text.replace(sha256, "0" * 64))
    record.seal(study)
    with pytest.raises(StudyError, match=r"fixed-0/cell\.json: was measured on other wr050 boards"):
        record.load(study)


def test_changes_say_what_a_design_did(study: Path) -> None:
    from mapflake.engineer import project

    def report(*valid: int) -> FailureReport:
        sizes = zip((3, 4), valid, strict=True)
        return FailureReport(tuple(SizeReport(s, 10, v, v, 0, 0, 0, (10 - v, *[0] * 7)) for s, v in sizes))

    def config(data: float, holes: float, waits: float | None) -> EnvConfig:
        part = {"hole_ratio": holes, "wait_ratio": waits}
        return project({3: {"data_ratio": data, **part}, 4: {"data_ratio": 1 - data, **part}}, [3, 4])

    from mapflake.engineer import Proposal

    first = Round("shared", 0, config(0.5, 0.1, 0.5), report(9, 5))
    after = [
        Round("engineer", 1, c := config(0.75, 0.1, 0.5), report(9, 4), proposal=Proposal("", c, None)),
        Round("engineer", 2, c, report(2, 1), proposal=Proposal("", None, "no JSON")),
    ]
    kept = [Round("fixed", 1, first.config, report(9, 4), proposal=Proposal("", first.config, None))]
    for cell, rounds in (("round_0-0", [first]), ("engineer-0", after), ("fixed-0", kept)):
        for one in rounds:
            Ledger(study / "cells" / cell / "rounds.jsonl").append(
                Round(**{**vars(one), "checkpoint": study / "cells" / cell / "x"})
            )
    record.seal(study)
    found = changes(record.load(study)).set_index("arm")
    assert (found.loc["fixed", "unlike"], found.loc["fixed", "moved"]) == pytest.approx((0.25, 0.0))
    table = found.loc["engineer"].set_index("round")
    assert table["unlike"].to_dict() == {1: 0.0, 2: 0.0}
    assert table["below_frontier"].to_dict() == pytest.approx({1: 4 - 3.25, 2: 3 - 3.25})
    assert table["moved"].to_dict() == pytest.approx({1: 0.25, 2: 0.0})
    assert table["kept"].to_dict() == {1: 1.0, 2: 1.0}
    assert table["rejected"].to_dict() == {1: 0.0, 2: 1.0}
    assert table["wait_ratio"].to_dict() == {1: 0.5, 2: 0.5}
