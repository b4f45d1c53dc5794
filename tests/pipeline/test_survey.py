"""Surveys: tables against counts made another way, and figures that show what is in them."""

from __future__ import annotations

import pytest
from drawn import texts

from mapflake import plots
from mapflake.env import EnvConfig, SizeConfig, generate, solve
from mapflake.plots import tables


def test_tasks_are_compared_with_single_agents() -> None:
    tasks = generate(EnvConfig.uniform([3, 4], 0.2, 0.5), 40, seed=0)
    table = tables.tasks(tasks)
    assert table.groupby("size").size().to_dict() == {3: 20, 4: 20}
    assert table["needs_wait"].mean() == 0.5
    assert ((table["excess"] > 0) >= (table["needs_wait"] > 0)).all()
    for task, row in zip(tasks[:10], table.itertuples(), strict=False):
        alone = [
            solve(type(task.instance)(row.size, task.instance.holes, (start,), (goal,))).makespan
            for start, goal in zip(task.instance.starts, task.instance.goals, strict=True)
        ]
        assert (max(alone), task.best_sum_of_costs - sum(alone)) == (row.distance, row.excess)


def test_acceptance_agrees_with_generated_boards() -> None:
    config = EnvConfig.uniform([3], 0.3, 1.0)
    (row,) = tables.acceptance(config, boards=1600, seed=0).itertuples()
    assert row.attempts == pytest.approx(1 / (row.solved * row.needs_wait), rel=1e-3)  # shares are shown to four digits
    holes, none = (
        tables.tasks(generate(EnvConfig.uniform([3], h), 1600, seed=1))["needs_wait"].mean() for h in (0.3, 0.0)
    )
    variance = row.needs_wait * (1 - row.needs_wait)
    error = (variance / (1600 * row.solved) + variance / 1600) ** 0.5
    assert abs(row.needs_wait - holes) < 4 * error < abs(row.needs_wait - none)  # the control: other boards
    free = tables.acceptance(EnvConfig.uniform([3, 5], 0.0), boards=50, seed=0)
    assert free[["connected", "solved", "attempts"]].eq(1).all(axis=None)
    full = EnvConfig({3: SizeConfig(0.0, 0.5), 10: SizeConfig(1.0, 0.0)}, 9)  # no room on 3x3, and no boards of it
    assert tables.acceptance(full, boards=2, seed=0)["size"].tolist() == [10]


def test_feasibility_table_has_144_kinds() -> None:
    table = tables.feasibility_table(boards=2, seed=7)
    assert len(table) == len(table.drop_duplicates(["agents", "size", "hole_ratio"])) == 144
    impossible = table[table["boards"] == 0]
    assert impossible[["agents", "size", "hole_ratio"]].values.tolist() == [[5, 3, 0.4], [5, 3, 0.5]]
    assert impossible[["connected", "solved", "over_budget", "needs_wait"]].isna().all(axis=None)
    assert "n = 2 random boards a cell" in texts(plots.feasibility_map(table))
