"""Surveys: tables against counts made another way, and figures that show what is in them."""

from __future__ import annotations

import pytest
from drawn import texts

from mapflake import plots
from mapflake.env import BoardStatistics, EnvConfig, generate, solve
from mapflake.plots import tables


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, float, int, int]]:
    """Puts counts that are easy to reckon with in the place of random boards; returns the calls."""
    calls = []

    def board_statistics(size: int, num_agents: int, hole_ratio: float, *, boards: int, seed: int) -> BoardStatistics:
        calls.append((size, num_agents, hole_ratio, boards, seed))
        none = hole_ratio == 0.5
        solved, waits = (0, 0) if none else (boards // 4, boards // 20)
        return BoardStatistics(boards, connected=boards // 2, over_budget=1, solved=solved, waits=waits)

    monkeypatch.setattr(tables, "board_statistics", board_statistics)
    return calls


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


def test_feasibility_table_has_144_kinds(counted: list[tuple[int, int, float, int, int]]) -> None:
    table = tables.feasibility_table(boards=40, seed=7)
    assert len(table) == len(table.drop_duplicates(["agents", "size", "hole_ratio"])) == 144
    impossible = table[table["boards"] == 0]
    assert impossible[["agents", "size", "hole_ratio"]].values.tolist() == [[5, 3, 0.4], [5, 3, 0.5]]
    assert impossible[["connected", "solved", "over_budget", "needs_wait"]].isna().all(axis=None)
    assert len(counted) == 142
    assert {call[3:] for call in counted} == {(40, 7)}
    assert table["needs_wait"].isna().sum() == 3 * 8 + 1  # nothing solved at 0.5, and the other impossible cell
    shown = texts(plots.feasibility_map(table)).split("\n")
    assert shown.count("50%") == 142  # connected
    assert shown.count("·") == 3 * 8 - 1
    (note,) = (text for text in shown if text.startswith("n = "))
    assert note.startswith("n = 40 random boards a cell, 2% of all over budget; crossed out: impossible; a dot: ")
