"""The commands of the pipeline; see `python -m mapflake.nb --help`."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from mapflake.nb.folders import MADE_BY, root


def main(arguments: list[str] | None = None) -> int:
    """Runs one command and returns the exit status: 1, and one line a mistake, when something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m mapflake.nb", description="The commands behind dvc.yaml and make.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("check", help="check params.yaml, all profiles and all notebooks; writes nothing")
    commands.add_parser("prepare", help="check, then write the active parameters and the notebooks' code to build/")
    profile = commands.add_parser("profile", help="make a profile the active one: rewrites one line of params.yaml")
    profile.add_argument("name")
    run = commands.add_parser("run", help="run one notebook with the active parameters")
    run.add_argument("notebook", choices=MADE_BY.values(), metavar="notebook", help=", ".join(MADE_BY.values()))
    run.add_argument("-p", dest="item", metavar="key=value", help="the entry that this run is for, e.g. arm=heuristic")
    commands.add_parser("publish", help="copy metrics, figures and executed notebooks to reports/")
    other = commands.add_parser("compare", help="compare reports/metrics.json with that of another machine")
    other.add_argument("metrics", type=Path, metavar="metrics.json")
    commands.add_parser("results", help="print the results table and the paths of the reports")
    chosen = parser.parse_args(arguments)

    from mapflake import repro
    from mapflake.nb import notebooks, publish, runner, sections

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end: as by Ctrl-C
    known = (sections.ParamError, notebooks.NotebookError, runner.StageError, publish.PublishError, FileNotFoundError)
    try:
        base = root()
        if chosen.command == "check":
            sections.check(base)
        elif chosen.command == "prepare":
            with runner.pipeline_lock(base):
                sections.prepare(base)
        elif chosen.command == "profile":
            sections.set_profile(base, chosen.name)
        elif chosen.command == "run":
            runner.run(base, chosen.notebook, chosen.item)
        elif chosen.command == "publish":
            with runner.pipeline_lock(base):
                publish.publish(base)
                runner.forget_finished(base)
        elif chosen.command == "compare":
            differences = publish.compare(
                *map(repro.read_json, (base / publish.REPORTS / "metrics.json", chosen.metrics))
            )
            print("\n".join(differences) or "they agree: all 95% intervals overlap")
            return bool(differences)
        else:
            print(publish.results(base))
    except known as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command again goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
