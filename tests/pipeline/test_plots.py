"""Figures: the same bytes for the same data, everything that matters is in them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from drawn import texts

from mapflake import plots
from mapflake.env import KINDS, Instance, Plan, check
from mapflake.plots import boards

BOARD = Instance.from_text("S1 . H G2\n. . . .\nH . S2 .\nG1 . . .")
WRONG = Plan(("RRDDDL", "ULLURRR"))


def rows(groups: list[str], xs: list[int]) -> pd.DataFrame:
    records = []
    for i, group in enumerate(groups):
        for x in xs:
            values = {f"valid{end}": 0.4 + 0.05 * i + d for end, d in (("", 0), ("_low", -0.1), ("_high", 0.1))}
            values |= {f"optimal{end}": 0.3 + d for end, d in (("", 0), ("_low", -0.1), ("_high", 0.1))}
            records.append({"arm": group, "size": x, "boards": 10 * x, **values})
    return pd.DataFrame(records)


def test_a_board_shows_agents_and_violations() -> None:
    figure = plots.gallery([BOARD], [WRONG], ["wrong"])
    violations = check(BOARD, WRONG).violations
    shown = texts(figure).split("\n")
    assert sorted(t for t in shown if t.isdigit()) == sorted(["1", "1", "2", "2", *(str(v.time) for v in violations)])
    assert "wrong" in shown
    assert [t for t in shown if t.startswith("step")] == [plots.describe(v) for v in violations]
    crosses = [line for line in figure.axes[0].lines if line.get_marker() == "x" and line.get_color() == boards.ALARM]
    assert [(float(c.get_ydata()[0]), float(c.get_xdata()[0])) for c in crosses] == [
        (v.cell[0] + 0.5, v.cell[1] + 0.5) for v in violations if v.cell
    ]
    assert not list(plots.gallery([BOARD]).axes[0].lines)
    empty = plots.gallery([BOARD], [Plan(("",))])  # nothing to draw, but it says why
    assert not empty.axes[0].lines
    assert "not one move list for each agent" in texts(empty)
    with pytest.raises(ValueError, match="shorter"):
        plots.gallery([BOARD, BOARD], titles=["one"])
    with pytest.raises(ValueError, match="instances: no boards to draw"):
        plots.gallery([])
    with pytest.raises(ValueError, match="plans: none to play"):
        plots.animate(BOARD, {})
    assert set(boards.WORDS) == set(KINDS) - {"parse"}


def test_figures_say_n_names_and_panels_and_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    table = rows(["fixed", "new"], [3, 4])
    images = [plots.show(plots.rates(table, x="size", hue="arm"), tmp_path / f"{i}.png").data for i in range(2)]
    assert images[0] == images[1] == (tmp_path / "0.png").read_bytes()
    shown = texts(plots.rates(table, x="size", hue="arm"))
    for text in ("valid", "optimal", "fixed", "new", "3x3", "4x4", "n = 30 to 40 boards a point", "board size"):
        assert text in shown
    config = pd.DataFrame({"arm": "a", "round": [0, 1], "size": 3, "data_ratio": 1.0, "hole_ratio": 0.2})
    shown = texts(plots.configurations(config.assign(wait_ratio=[float("nan"), 0.5])))
    assert shown.split("\n").count("any") == 1
    assert "round 1" in shown
    steps = pd.DataFrame({"arm": ["a", "b"] * 5, "step": range(10), "valid": 0.5, "entropy": 1.5})
    curves = plots.curves(steps, metrics=["valid", "entropy"], smooth=3, boundaries=[5])
    assert curves.axes[1].get_ylim()[1] > 1.5
