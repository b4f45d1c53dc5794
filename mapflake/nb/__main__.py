"""The commands of the pipeline; see `python -m mapflake.nb --help`."""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from typing import Any

from mapflake.nb.folders import NOTEBOOKS, root


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns the exit status: 1, and one line a mistake, when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m mapflake.nb", description="The commands behind dvc.yaml and make.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("check", help="check params.yaml, all profiles and all notebooks; writes nothing")
    commands.add_parser("prepare", help="check, then write the active parameters and what the code says to build/")
    choose = commands.add_parser("choose", help="make one of `runs` the active one: rewrites one line of params.yaml")
    choose.add_argument("name")
    dry = commands.add_parser("dry", help="say what a run would take: stages, tokens, memory, GPU-hours, disk")
    dry.add_argument("name", nargs="?", help="an entry of `runs`; without one the active run")
    left = commands.add_parser("left", help="say how much of the active run is done, and how long the rest takes")
    left.add_argument("jobs", type=_jobs, help="how many run at once, 1 to 1024")
    left.add_argument("--published", action="store_true", help="cells whose records are there are done: make study")
    commands.add_parser("warm_start", help="train the model that all seeds and arms branch from")
    student = commands.add_parser("student", help="train the student of one training seed")
    student.add_argument("seed", type=int)
    others = commands.add_parser("others", help="note which reports of other students a training seed can be told")
    others.add_argument("seed", type=int)
    bank = commands.add_parser("bank", help="train and measure one run of the bank of situations")
    bank.add_argument("number", type=int)
    run = commands.add_parser("run", help="run one notebook with the active parameters")
    run.add_argument("notebook", choices=NOTEBOOKS.values(), metavar="notebook", help=", ".join(NOTEBOOKS.values()))
    cell = "the cell that it is for: arm=heuristic seed=0"
    run.add_argument("items", nargs="*", type=_item, metavar="key=value", help=cell)
    commands.add_parser("publish", help="copy metrics, figures and executed notebooks to reports/")
    commands.add_parser("readme", help="write the claims of README.md and docs/claims.md, and reports/controls.md")
    commands.add_parser("page", help="write reports/<profile>.md of the active run: a transcript, tables, what it took")
    commands.add_parser("report", help="write the active run as one HTML file, with its boards, designs and reports")
    cards = commands.add_parser(
        "cards", help="write folders for the Hugging Face hub: boards, an arm's last checkpoint"
    )
    cards.add_argument("arm", nargs="?", default="engineer")
    options = parser.parse_args(arguments)
    if len(dict(items := getattr(options, "items", []))) < len(items):
        parser.error("a key is given twice")

    from mapflake.nb import notebooks, params, progress, publish, stages

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end: as by Ctrl-C
    of_results = options.command in ("cards", "page", "report")
    errors: list[type[Exception]] = [params.ParamError, notebooks.NotebookError, stages.StageError, OSError]
    if of_results or options.command == "readme":
        # A record that is missing, a claim that does not hold; where it comes from a training, the traceback is wanted.
        errors.append(ValueError)
    try:
        base = root()
        actions = {
            "check": lambda: params.check(base),
            "prepare": lambda: params.prepare(base),
            "choose": lambda: params.choose(base, options.name),
            "dry": lambda: print(_module("dry").dry(base, options.name)),
            "left": lambda: print(progress.left(base, options.jobs, published=options.published), flush=True),
            "warm_start": lambda: stages.warm_start(base),
            "student": lambda: stages.student(base, options.seed),
            "others": lambda: stages.others(base, options.seed),
            "bank": lambda: stages.bank(base, options.number),
            "run": lambda: stages.run(base, options.notebook, dict(options.items)),
            "publish": lambda: publish.publish(base),
            "readme": lambda: _module("readme").write(base),
            "cards": lambda: print(*(p.relative_to(base) for p in _module("cards").cards(base, options.arm)), sep="\n"),
            "page": lambda: print(_module("page").write(base).relative_to(base)),
            "report": lambda: print(_module("report").report(base).relative_to(base)),
        }
        if of_results:
            profile = params.load(base).run.profile
            if not (base / "runs" / profile).is_dir():
                raise FileNotFoundError(f"runs/{profile} is missing: `make repro` makes the active run")
        actions[options.command]()
    except tuple(errors) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command again goes on from here", file=sys.stderr)
        return 130
    return 0


def _module(name: str) -> Any:
    """Returns a module that one command alone needs: these import torch and matplotlib, which takes seconds."""
    return importlib.import_module(f"mapflake.nb.{name}")


def _jobs(text: str) -> int:
    if not (text.isdecimal() and 1 <= int(text) <= 1024):
        raise argparse.ArgumentTypeError(f"takes a number from 1 to 1024, not {text!r}")
    return int(text)


def _item(text: str) -> tuple[str, str | int]:
    key, _, value = text.partition("=")
    return key, int(value) if value.isdigit() else value


if __name__ == "__main__":
    sys.exit(main())
