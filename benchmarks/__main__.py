"""Runs benchmarks, prints their tables and writes reports/bench.json; see `python -m benchmarks --help`."""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks import ALL, PARTS


def main(arguments: list[str] | None = None) -> int:
    """Runs the parts asked for and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast is it.")
    parser.add_argument(
        "parts", nargs="*", choices=PARTS, metavar="part", help=f"{', '.join(PARTS)}; none: {' '.join(ALL)}"
    )
    parser.add_argument("--quote", action="store_true", help="then quote reports/bench.json in docs/benchmarks.md")
    chosen = parser.parse_args(arguments)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # before numpy and torch are imported

    from benchmarks import report

    for name in chosen.parts or ALL:
        print(f"\n{report.markdown(name, report.record(name))}", flush=True)
    if chosen.quote:
        print(f"\n{report.PAGE} quotes:", ", ".join(report.quote()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
