"""The benchmark of the paper's shape: its counts, and that it is the same everywhere."""

import re
from collections import Counter

import pytest

from mapflake.env import Task, benchmark_sets, check, split_of
from mapflake.repro import json_sha256

# Of the boards and their answers. A change of the generator or of the solver's costs changes this and every published
# result: put in what the failing test shows, and say so in CHANGELOG.md.
SMALL = "0d7ca8f66af4cc32"
PAPER = "7ca7370c4251ffc8"


def content(subsets: dict[str, list[Task]]) -> str:
    rows = {
        name: [[t.instance.key, t.solution.makespan, t.best_sum_of_costs, t.needs_wait] for t in tasks]
        for name, tasks in subsets.items()
    }
    return json_sha256(rows)[:16]


def test_a_small_one():
    kind = {"strata": {2: [3, 5], 3: [4]}, "wait_ratios": [0.0, 0.3], "hole_ratio": 0.1, "boards": 5}
    subsets = benchmark_sets(7, **kind)
    assert list(subsets) == ["wr000", "wr030"]
    for waits, tasks in zip((0, 2), subsets.values(), strict=True):
        cells = Counter((task.instance.num_agents, task.instance.size) for task in tasks)
        assert cells == {(2, 3): 5, (2, 5): 5, (3, 4): 5}
        waiting = Counter((task.instance.num_agents, task.instance.size) for task in tasks if task.needs_wait)
        assert all(waiting[cell] == waits for cell in cells)
    assert content(subsets) == SMALL
    for split, tasks in {"benchmark": subsets, "validation": benchmark_sets(7, **kind, split="validation")}.items():
        assert {split_of(task.instance) for subset in tasks.values() for task in subset} == {split}
    with pytest.raises(ValueError, match=re.escape("wait_ratios: [0.5, 0.501] give two subsets one name, of wr050")):
        benchmark_sets(strata={2: [3]}, wait_ratios=[0.5, 0.501])
    with pytest.raises(ValueError, match=r"strata: \[3, 3\], of 2 agents, has a size twice"):
        benchmark_sets(strata={2: [3, 3]})
    with pytest.raises(ValueError, match=r"^boards: must be at least 0, not -1"):
        benchmark_sets(strata={2: [3]}, boards=-1)


@pytest.mark.slow
def test_the_papers():
    subsets = benchmark_sets()
    assert {name: len(tasks) for name, tasks in subsets.items()} == {"wr025": 1050, "wr050": 1050, "wr075": 1050}
    strata = {(agents, size) for agents in (3, 4, 5) for size in range(agents, 11)}
    for waits, tasks in zip((13, 25, 38), subsets.values(), strict=True):
        waiting = Counter((task.instance.num_agents, task.instance.size) for task in tasks if task.needs_wait)
        assert waiting == dict.fromkeys(strata, waits)
        for task in tasks:
            verdict = check(task.instance, task.solution.plan)
            assert (verdict.makespan, verdict.sum_of_costs) == (task.solution.makespan, task.solution.sum_of_costs)
    assert content(subsets) == PAPER
