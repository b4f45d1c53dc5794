"""A run that is killed at any point: the same call again ends with the same bytes and leaves nothing behind."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from outcome import assert_as_undisturbed

FAULTS = {
    "warm_start": [  # 60 steps, saved at 20, 40 and 60
        ("step", 10), ("step", 45), ("step", 60), ("save", 2, 1), ("save", 2, 6), ("manifest", 1), ("manifest", 4),
        *(("publish", 1, n) for n in (1, 3, 6)), ("replace", 1), ("replace", 4), ("replace", 5), ("tidy", 1),
    ],
    "shared": [  # 4 steps, saved each; between all files of the second save and of the final checkpoint
        ("token", 1), ("token", 30), ("step", 1), ("step", 3), *(("save", 2, n) for n in range(1, 11)), ("manifest", 2),
        *(("publish", 1, n) for n in range(1, 8)), ("manifest", 5), ("replace", 6), ("replace", 7), ("tidy", 1),
        ("reward", 1), ("reward", 9), ("append", 1), ("torn append", 1),
    ],
    "arm": [("token", 3), ("replace", 1), ("step", 1), ("save", 1, 8), ("torn append", 1)],
    "benchmark.jsonl": [("token", 1), ("reward", 9), ("replace", 1)],
}  # fmt: skip
CASES = [(stage, fault) for stage, faults in FAULTS.items() for fault in faults]


@pytest.mark.parametrize(("stage", "fault"), CASES, ids=[f"{stage} {' '.join(map(str, f))}" for stage, f in CASES])
def test_a_killed_run_goes_on_to_the_same_bytes(run, begun, undisturbed: Path, stage: str, fault: tuple) -> None:
    folder = begun(stage)
    code, said = run(folder, stage, fault)
    assert code in (-signal.SIGKILL, -signal.SIGXFSZ), said
    code, said = run(folder, stage)
    assert code == 0, said
    assert_as_undisturbed(folder, stage, undisturbed)
