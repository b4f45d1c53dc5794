"""`make report` shows every arm from the round on that it goes on from, with a learner of milliseconds."""

import re
from pathlib import Path

import pytest
import vl_convert
from small_repo import repository
from toy_learner import ToyLearner

from mapflake import study
from mapflake.engineer import RoundSettings, Start, run_arm, run_round
from mapflake.env import EnvConfig, generate
from mapflake.nb import params, report
from mapflake.plots import page

ROOT = Path(__file__).parents[2]
SIZES = (3, 4)


def test_an_arm_is_shown_from_its_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = repository(tmp_path / "repo", "params.yaml")
    text = (root / "params.yaml").read_text(encoding="utf-8")
    line = "run: {profile: default, arms: [fixed_longer, heuristic, frontier], seeds: [0], bank: [0, 1]}\n"
    (root / "params.yaml").write_text(params.RUN_LINE.sub(line, text, count=1), encoding="utf-8")
    validation = generate(EnvConfig.uniform(SIZES, 0.15), 6, seed=0, split="validation")

    def settings(stage: str) -> RoundSettings:
        return RoundSettings(root / "runs/default" / stage, ToyLearner(), validation, seed=0)

    first = run_round(settings("baseline_rl/0"), (), start=Start("none", EnvConfig.uniform(SIZES, 0.15)))
    fixed = run_arm("fixed", settings("baseline_rl/0"), (first,), rounds=2, sizes=SIZES)
    longer = run_arm("fixed_longer", settings("ablations/fixed_longer-0"), fixed, rounds=1, sizes=SIZES)
    rule = run_arm("heuristic", settings("ablations/heuristic-0"), (first,), rounds=1, sizes=SIZES)
    shown: dict[str, object] = {}
    monkeypatch.setattr(report, "page", lambda arms, **_: shown.update(arms) or "")
    monkeypatch.chdir(root)
    assert report.report(root).read_text() == ""
    assert [*shown.values()] == [longer, rule, fixed]  # and `frontier` has no round


def test_sizes_are_in_the_order_of_numbers() -> None:
    """10x10 is not the smallest board, in the legend, in colours or in stacks."""
    cells = study.load(ROOT / "reports/cells/study")
    history = next(cells.history(*cell) for cell in cells.records if cells.records[cell].rounds)
    assert {3, 9, 10} <= {*history[0].config.sizes}
    drawn = vl_convert.vegalite_to_svg(page.charts({"fixed": history})["design"].to_dict())
    labels = [int(size) for size in re.findall(r">(\d+)x\d+<", drawn)]
    assert labels == sorted(labels)
    assert labels[-1] == 10
