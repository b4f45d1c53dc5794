"""The commands behind `make study`: `python -m mapflake.study arm engineer 3`; see `--help`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

STUDY = Path("reports/study")


def main(arguments: list[str] | None = None) -> int:
    """Runs one command in the repository's root and returns the exit status: 1, and one line, when it cannot."""
    parser = argparse.ArgumentParser(prog="python -m mapflake.study", description="Measures one cell of the study.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("boards", help="write what is behind the digits of a cell")
    commands.add_parser("seal", help="write the hashes of all finished cells to manifest.json, which notebook 05 reads")
    beginning = commands.add_parser("round_0", help="train and measure round 0 of a seed, from which all arms branch")
    arm = commands.add_parser("arm", help="train and measure an arm under a seed")
    arm.add_argument("arm")
    for command in (beginning, arm):
        command.add_argument("seed", type=int)
    chosen = parser.parse_args(arguments)

    from mapflake import repro
    from mapflake.study import cells, record

    try:
        if chosen.command == "seal":
            names = record.seal(STUDY)
            print(f"{len(names)} cells are sealed in {STUDY}/manifest.json")
            return 0
        inputs = _inputs()
        if chosen.command == "boards":
            cells.write_boards(inputs)
        elif chosen.command == "round_0":
            cells.measure_round_0(inputs, chosen.seed)
        else:
            cells.measure_arm(inputs, chosen.arm, chosen.seed)
    except (repro.ParamError, cells.StudyError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _inputs() -> Any:
    """Returns where the pipeline leaves what a study starts from."""
    from mapflake import repro
    from mapflake.study.cells import Inputs

    pipeline = Path("runs/pipeline")
    if not (pipeline / "baseline_rl/base.json").is_file():
        raise FileNotFoundError(f"{pipeline}/baseline_rl/base.json is missing: `make study` in the root makes it first")
    return Inputs(
        parameters=Path("build/params/study"),
        boards=pipeline / "env_design",
        base=repro.read_json(pipeline / "baseline_rl/base.json")["name"] or pipeline / "baseline_rl/warm_start",
        runs=Path("runs/study"),
        cells=STUDY / "cells",
    )


if __name__ == "__main__":
    sys.exit(main())
