"""Runs the kernel under AddressSanitizer and UndefinedBehaviorSanitizer: `python tests/env/sanitize.py`.

Compiles csrc/ with both sanitizers into a folder of its own, in a process with their runtime preloaded, and then solves
and samples random boards of all sizes with small and large budgets, so that every way out of a search is taken. The
first error ends it, with the sanitizer's report. Needs gcc.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

RUNTIMES = ("libasan.so", "libubsan.so")


def exercise() -> None:
    """Prints how the searches ended; the sanitizers end the process at the first error."""
    sys.path.append(str(Path(__file__).parents[1]))
    from boards import random_board

    from mapflake.env import compiler, kernel

    flags = ("-DSANITIZE", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    compiler.FLAGS = (*compiler.FLAGS, "-O0", "-g", *flags)  # compiles in a fifth of the time of -O2
    rng, ends, count = random.Random(0), Counter(), 0
    for size in range(1, 11):
        for agents in range(1, 11):
            for holes in range(0, size * size - agents, max(1, size * size // 5)):
                for question in range(4):
                    board = random_board(rng, size, holes, agents)
                    ends[kernel.search(board, question, rng.choice([0, 100, 3_000, 20_000])).status] += 1
                if agents < size * size - holes and size > 1:
                    arguments = size, holes, agents, rng.choice([None, True, False]), rng.choice([1023, 255, 256])
                    count += kernel.sample(rng.getrandbits(64), *arguments, 4, 2_000).found is not None
    print(f"{sum(ends.values())} searches ended {dict(sorted(ends.items()))}, {count} boards were sampled: no error")


def main() -> int:
    """Returns the exit status of `exercise` in a process with the sanitizers preloaded."""
    if "--inside" in sys.argv:
        exercise()
        return 0
    paths = [subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
             for name in RUNTIMES]  # fmt: skip
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {
            "LD_PRELOAD": " ".join(path.strip() for path in paths),
            "ASAN_OPTIONS": "detect_leaks=0",  # of the interpreter
            "XDG_CACHE_HOME": cache,
        }
        return subprocess.run([sys.executable, __file__, "--inside"], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
