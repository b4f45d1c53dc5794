"""In the terminal: a board to play, solve or draw, and the rounds of a recorded run. Needs the base install alone.

`python -m mapflake --help` has the commands. Agents are numbers, `G1` is the goal of agent 1, `H` a hole. Colours are
left out where the output is no terminal, and where the variable NO_COLOR is set.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from dataclasses import replace
from itertools import pairwise, zip_longest
from pathlib import Path

from mapflake import repro
from mapflake.engineer import Ledger, Round
from mapflake.env import (
    MOVES,
    BudgetExceeded,
    EnvConfig,
    Instance,
    Plan,
    Task,
    Unsolvable,
    check,
    execute,
    generate,
    judge_plan,
    read_board,
    solve,
)
from mapflake.env.instance import text_at

AGENTS = (36, 33, 32, 35, 34, 31)  # colours of a terminal
RECORD = "reports/cells/study/engineer_trained-0.json"
HELP = f"A step is a letter of {MOVES} for each agent; W waits. Or: hint, back, quit."


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m mapflake", description="MAPF-FrozenLake in the terminal.")
    parser.add_argument("command", nargs="?", choices=[*COMMANDS, "rounds"], default="play", help="default: play")
    about = f"a file with a board as `draw` prints it (default: drawn anew); for `rounds` a record (default: {RECORD})"
    parser.add_argument("file", nargs="?", help=about)
    parser.add_argument("--size", type=int, default=5, help="rows of the board (%(default)s)")
    parser.add_argument("--agents", type=int, default=2, help="number of agents (%(default)s)")
    parser.add_argument("--holes", type=float, default=0.2, help="share of the cells that are holes (%(default)s)")
    parser.add_argument("--wait", action="store_true", help="a board that has no best plan without a wait")
    parser.add_argument("--seed", type=int, default=0, help="another seed, another board (%(default)s)")
    args = parser.parse_args(arguments)
    options = ("size", "agents", "holes", "wait", "seed")
    draw_options = [key for key in options if getattr(args, key) != parser.get_default(key)]
    if draw_options and (args.file or args.command == "rounds"):
        parser.error(f"--{draw_options[0]} is of a board that is drawn; {args.file or RECORD} has its own")
    try:
        if args.command == "rounds":
            show_rounds(args.file or RECORD)
            return 0
        if args.file:
            task = Task.of(read_board(args.file))
        else:
            config = EnvConfig.uniform([args.size], args.holes, 1.0 if args.wait else None, args.agents)
            (task,) = generate(config, 1, seed=args.seed)
        COMMANDS[args.command](task)
    except (ValueError, OSError, Unsolvable, BudgetExceeded) as error:
        print(error, file=sys.stderr)
        return 1
    except (EOFError, KeyboardInterrupt):
        print()
    return 0


def draw_board(task: Task) -> None:
    """Prints the board, as `read_board` reads it."""
    print(painted(task.instance.to_text()))


def solve_board(task: Task) -> None:
    """Prints a plan of least makespan, a picture for each step."""
    board, plan = task.instance, task.solution.plan
    moves = ["start", *(joint_move(plan, time) for time in range(plan.horizon))]
    pictures = [f"{move}\n{text_at(board, cells)}" for move, cells in zip(moves, execute(board, plan), strict=True)]
    print(side_by_side(pictures))
    for agent, letters in enumerate(plan.moves, start=1):
        print(f"agent {agent}: {letters or '(stays)'}")
    waits = "a" if task.needs_wait else "no"
    print(f"makespan {task.solution.makespan}, sum of costs {task.solution.sum_of_costs}; the board needs {waits} wait")


def play_board(task: Task) -> None:
    """Asks for joint moves until all agents are on their goals; a move that breaks a rule is told and taken back."""
    board = task.instance
    played: list[str] = []  # joint moves
    print(HELP)
    while True:
        plan = Plan(tuple(map("".join, zip(*played, strict=True))) if played else ("",) * board.num_agents)
        cells = execute(board, plan)[-1]
        print(f"\n{painted(text_at(board, cells))}")
        verdict = judge_plan(task, plan)
        if verdict.valid:
            best = "that is optimal" if verdict.optimal else f"the optimum is {task.solution.makespan}"
            print(f"all on their goals after {verdict.makespan} steps: {best}")
            return
        answer = input(f"step {len(played) + 1}> ").strip()
        if answer == "quit":
            return
        if answer == "back":
            del played[-1:]
        elif answer == "hint":
            print(joint_move(solve(replace(board, starts=cells)).plan, 0))
        elif len(answer) != board.num_agents:
            print(f"{len(answer)} letters, and the board has {board.num_agents} agents. {HELP}")
        elif unknown := {*answer.upper()} - {*MOVES}:
            print(f"{', '.join(sorted(unknown))}: no move. {HELP}")
        elif broken := broken_rules(replace(board, starts=cells), answer.upper()):
            print("\n".join(broken))
        else:
            played.append(answer.upper())


COMMANDS = {"play": play_board, "solve": solve_board, "draw": draw_board}


def show_rounds(path: str) -> None:
    """Prints the rounds of a ledger or of a record in reports/cells: report, next configuration, boards, outcome."""
    rounds = recorded(Path(path))
    print(f"{rounds[-1].arm}, training seed {rounds[-1].seed}\n")
    for before, after in pairwise(rounds):
        print(f"{outcome(before)}\nBy size, and what the next configuration asks for:\n")
        print("       valid  with wait  without    boards  holes  waits")
        reports, parts = {size.size: size for size in before.report.sizes}, after.config.sizes
        for size in sorted({*reports, *(key for key, part in parts.items() if part.data_ratio)}):
            report, part = reports.get(size), parts.get(size)
            rates, ratios = [""] * 3, [""] * 3
            if report:
                with_wait = report.wait_valid, report.wait_rollouts
                counts = (report.valid, report.rollouts), with_wait, report.without_wait
                rates = [f"{valid / count:.0%}" if count else "" for valid, count in counts]
            if part and part.data_ratio:
                waits = "any" if part.wait_ratio is None else f"{part.wait_ratio:.0%}"
                ratios = [f"{part.data_ratio:.0%}", f"{part.hole_ratio:.0%}", waits]
            row = "{:>6}  {:>9}  {:>7}    {:>6}  {:>5}  {:>5}".format(*rates, *ratios)
            print(f"{size}x{size}".ljust(6) + row.rstrip())
        if after.proposal:
            print(f"\nThe reply: {after.proposal.rejection or after.proposal.reply}")
        boards = after.boards()
        first = {task.instance.size: task.instance.to_text() for task in reversed(boards)}
        pictures = side_by_side([first[size] for size in sorted(first)])
        print(f"\nThe first of its {len(boards)} boards of each size:\n\n{pictures}\n")
    print(outcome(rounds[-1]))


def recorded(path: Path) -> list[Round]:
    """Returns the rounds of a ledger, or of a record after the round 0 that all arms share, in a record beside it."""
    if not path.is_file():
        raise ValueError(
            f"{path}: no such file; name a record, or run this in a clone of the repository, which has some"
        )
    if path.suffix == ".jsonl":
        rounds = [*Ledger(path).rounds]
    else:
        record, shared = repro.read_json(path), path.with_name(f"round_0-{path.stem.rpartition('-')[2]}.json")
        rows = record.get("rounds") if isinstance(record, dict) else None
        rows = rows if isinstance(rows, list) else []
        if rows and isinstance(rows[0], dict) and rows[0].get("index") and shared.is_file():
            rows = repro.read_json(shared)["rounds"] + rows
        rounds = [repro.from_json(Round, row, str(path)) for row in rows]
    if not rounds:
        raise ValueError(f"{path}: has no rounds; takes a ledger, or the record of an arm, such as {RECORD}")
    return rounds


def outcome(one: Round) -> str:
    """Returns a sentence on the validation boards after a round."""
    return f"Round {one.index} is over: {one.report.valid_rate:.1%} of the answers to the validation boards are valid."


def broken_rules(board: Instance, move: str) -> list[str]:
    """Returns a line for each rule that a joint move breaks, an empty list if it breaks none."""
    return [
        f"{violation.kind}: agent {' and '.join(str(agent + 1) for agent in violation.agents)} at {violation.cell}"
        for violation in check(board, Plan(tuple(move))).violations
        if violation.kind != "goal"
    ]


def joint_move(plan: Plan, time: int) -> str:
    """Returns the letter of each agent in one step; who has arrived waits."""
    return "".join((moves + "W" * (time + 1))[time] for moves in plan.moves)


def side_by_side(pictures: list[str]) -> str:
    """Returns pictures in rows as wide as the terminal."""
    width = max(len(line) for picture in pictures for line in picture.splitlines()) + 3
    columns = max(1, shutil.get_terminal_size().columns // width)
    rows = []
    for first in range(0, len(pictures), columns):
        lines = zip_longest(*(picture.splitlines() for picture in pictures[first : first + columns]), fillvalue="")
        rows.append("\n".join("".join(part.ljust(width) for part in line).rstrip() for line in lines))
    return painted("\n\n".join(rows))


def painted(text: str) -> str:
    """Returns a board in colours, if the output is a terminal."""
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ:
        return text
    return re.sub(r"[SG]?(\d+)", lambda mark: f"\33[{AGENTS[(int(mark[1]) - 1) % len(AGENTS)]}m{mark[0]}\33[0m", text)


if __name__ == "__main__":
    sys.exit(main())
