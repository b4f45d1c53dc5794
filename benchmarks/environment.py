"""Speed of the environment: solving, generating rounds, starting up, judging; the part `env` of the benchmark.

Whatever takes seconds in one process is measured in CPU time, which the load of a shared machine does not change.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import cycle, islice
from statistics import mean
from typing import Any

from tqdm import tqdm

from benchmarks import solvers
from benchmarks.report import table
from mapflake.env import EnvConfig, Plan, SizeConfig, Task, execute, format_plan, generate, judge

PACKAGES = ("mapflake", "numpy", "w9-pathfinding")

ROUND, COMPLETIONS = 4000, 10_000
"""Tasks of a training round, and completions that are judged."""

PAPER = EnvConfig.uniform(range(3, 11), hole_ratio=0.2, wait_ratio=0.5)

MIXED = tuple(
    EnvConfig({n: SizeConfig(1 / 8, (n + agents) % 6 / 10, (n + 1) % 4 / 4) for n in range(3, 11)}, agents)
    for agents in (2, 3, 4, 5)
)
"""A quarter of the mixed round each: all sizes, hole ratios from 0 to 0.5, wait ratios from 0 to 0.75."""


def measure() -> dict[str, Any]:
    """Returns the numbers of all tables; takes some minutes. Raises `DisagreementError` as for `solvers.compare`."""
    limits = {"textbook_nodes": solvers.TEXTBOOK_NODES, "w9_seconds": solvers.W9_SECONDS}
    return {
        "start": start_up(),
        "solve": {"limits": limits, "cells": solvers.compare()},
        "draw": drawing(),
        "judge": judging(),
    }


def drawing() -> list[dict[str, Any]]:
    """Returns the CPU seconds of drawing a training round, after a few boards to warm up."""
    rows = []
    rounds = {"2 to 5 agents, holes 0 to 0.5, waits 0 to 0.75": MIXED, "2 agents, holes 0.2, waits 0.5": (PAPER,)}
    for name, configs in rounds.items():
        for config in configs:
            generate(config, 8, seed=1)
        begin = time.process_time()
        for config in tqdm(configs, desc=name, disable=None):
            generate(config, ROUND // len(configs), seed=0)
        rows.append({"round": name, "tasks": ROUND, "seconds": time.process_time() - begin})
    return rows


_FRESH = """
import time
begin = time.perf_counter()
from mapflake.env import Instance, solve
imported = time.perf_counter()
solve(Instance.from_text("S1 S2 G1\\n. H .\\nG2 . ."))
print(imported - begin, time.perf_counter() - imported)
"""


def start_up() -> dict[str, float]:
    """Returns the seconds of `import mapflake.env` and of the first solve, in fresh processes; the best of five.

    The first solve after an installation has an empty cache: it compiles the kernel.
    """
    with tempfile.TemporaryDirectory() as folder:
        _, cold = _fresh({"XDG_CACHE_HOME": folder})
    warm = [_fresh({}) for _ in range(5)]
    return {
        "import_seconds": min(imported for imported, _ in warm),
        "first_solve_empty_cache_seconds": cold,
        "first_solve_seconds": min(solved for _, solved in warm),
    }


def _fresh(environment: dict[str, str]) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-c", _FRESH], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    imported, solved = map(float, done.stdout.split())
    return imported, solved


def judging() -> list[dict[str, Any]]:
    """Returns the CPU seconds of parsing, checking and costing completions, some of them spoilt; the best of three."""
    configs = [EnvConfig.uniform(range(4, 11), 0.2, num_agents=agents) for agents in (2, 3, 4, 5)]
    tasks = [task for config in configs for task in generate(config, 63, seed=0)]
    rows = []
    for prompt_format, reasoning in (("compact", 0), ("chat", 300), ("chat", 2200)):
        rng = random.Random(0)
        answers = [(task, completion(task, prompt_format, reasoning, rng)) for task in tasks]
        seconds = []
        for _ in range(3):
            begin = time.process_time()
            for task, text in islice(cycle(answers), COMPLETIONS):
                judge(task, text, prompt_format)
            seconds.append(time.process_time() - begin)
        measured = {"seconds": min(seconds), "mean_characters": mean(len(text) for _, text in answers)}
        rows.append({"prompt_format": prompt_format, "completions": COMPLETIONS, **measured})
    return rows


def completion(task: Task, prompt_format: str, reasoning: int, rng: random.Random) -> str:
    """Returns a possible answer of a model: the optimal plan, in one case of two with one move drawn anew.

    If the move is the same, or an agent leaves the board, the plan stays: a third of the answers are not valid.

    Before it are so many characters of reasoning, in the format `chat`.
    """
    plan = task.solution.plan
    if rng.random() < 0.5:
        moves = list(plan.moves)
        agent = rng.randrange(len(moves))
        at = rng.randrange(len(moves[agent]))
        moves[agent] = moves[agent][:at] + rng.choice("UDLRW") + moves[agent][at + 1 :]
        spoilt = Plan(tuple(moves))
        coordinates = {x for cells in execute(task.instance, spoilt) for cell in cells for x in cell}
        if coordinates <= {*range(task.instance.size)}:  # compact has no words for cells off the board
            plan = spoilt
    thought = "Agent 1 goes right, then down around the hole, and agent 2 waits for one step. " * (reasoning // 80 + 1)
    before = f"<think>\n{thought[:reasoning]}\n</think>\n\n" if reasoning else ""
    return before + format_plan(task.instance, plan, prompt_format)


def markdown(numbers: Mapping[str, Any]) -> str:
    """Returns the tables of `measure`'s numbers."""
    return f"{_solve_table(**numbers['solve'])}\n\n{_other_table(numbers)}"


def _solve_table(limits: Mapping[str, Any], cells: list[dict[str, Any]]) -> str:
    titles = {"textbook": "CBS in Python", "w9": "CBS in C++"}
    titles = {name: title for name, title in titles.items() if name in cells[0]}
    header = ["agents, size, holes", "sum of costs, µs", "makespan, µs", "solved"]
    for title in titles.values():
        header += [f"{title}: both solve", "all", "solved"]
    header += ["C++, search alone"] if "w9" in titles else []
    lines = []
    for row in cells:
        line = [f"{row['agents']}, {row['size']}x{row['size']}, {row['hole_ratio']:g}"]
        for times in (row["mapflake"], row["makespan"]):
            line.append(f"{times['mean_us']:.0f} ({times['p50_us']:.0f}; {times['max_us']:.0f})")
        line.append(row["mapflake"]["solved"])
        for name in titles:
            line += [f"{row[name]['ratio_both']:.1f}x", f"{row[name]['ratio_all']:.1f}x", row[name]["solved"]]
        line += [f"{row['w9']['ratio_both_search']:.1f}x"] if "w9" in titles else []
        lines.append(line)
    alone = sum(row[name]["solved_by_it_alone"] for row in cells for name in titles)
    boards, nodes, seconds = cells[0]["boards"], limits["textbook_nodes"], limits["w9_seconds"]
    return (
        f"Solving {boards} random connected boards a line: mean time (median; maximum), and how many times as long\n"
        f"others take, on boards that both solve and on all. CBS in Python gives up after {nodes} nodes of its tree,\n"
        f"CBS in C++ after {seconds:g} s. Boards that only another solver solved: {alone}.\n\n{table(header, lines)}"
    )


def _other_table(numbers: Mapping[str, Any]) -> str:
    start = numbers["start"]
    lines = {
        "`import mapflake.env`": f"{start['import_seconds']:.2f}",
        "first solve of a process": f"{start['first_solve_seconds']:.4f}",
        "first solve after installation": f"{start['first_solve_empty_cache_seconds']:.2f}",
    }
    for row in numbers["draw"]:
        lines[f"drawing {row['tasks']} tasks, sizes 3 to 10, {row['round']}"] = f"{row['seconds']:.1f}"
    for row in numbers["judge"]:
        work = f"{row['completions']} completions, {row['prompt_format']}, {row['mean_characters']:.0f} characters"
        lines[f"judging {work}"] = f"{row['seconds']:.2f}"
    return table(["", "seconds"], lines.items())
