"""A training that is killed, short of room, refused or left by wandb: the same call again ends with the same bytes."""

from __future__ import annotations

import re
import signal

import pytest
from undisturbed import assert_as_undisturbed

# Each fault strikes a run that goes on from what the one before has left.
KILLS = {
    "warm_start": [  # 60 steps, saved at 20, 40 and 60
        ("save", 1, 6), ("step", 35), ("manifest", 1), ("publish", 1, 3), ("replace", 3),
    ],
    "shared": [  # 4 steps, saved each
        ("token", 5), ("save", 1, 9), ("step", 3), ("manifest", 1), ("publish", 1, 4), ("replace", 3),
        ("torn append", 1),
    ],
    "arm": [("token", 3), ("replace", 1), ("step", 1), ("save", 1, 8), ("torn append", 1)],
    "language_model": [  # 6 and 4 supervised steps, then rounds of 2
        ("step", 3), ("manifest", 2), ("step", 7), ("token", 9), ("save", 4, 8), ("step", 3), ("torn append", 1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("stage", KILLS)
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bytes(run, begun, undisturbed, stage) -> None:
    folder = begun(stage)
    for fault in KILLS[stage]:
        code, said = run(folder, stage, fault)
        assert code in (-signal.SIGKILL, -signal.SIGXFSZ), (fault, said)
    code, said = run(folder, stage)
    assert code == 0, said
    assert_as_undisturbed(folder, stage, undisturbed)


def test_a_save_without_its_optimizer_is_passed_over_for_the_one_before(run, begun, undisturbed) -> None:
    folder = begun("shared")
    code, said = run(folder, "shared", ("step", 3))
    assert code == -signal.SIGKILL, said
    (folder / "shared/round-0/checkpoint.unfinished/checkpoint-2/optimizer.pt").unlink()
    code, said = run(folder, "shared")
    assert code == 0, said
    assert "checkpoint-2: optimizer.pt is missing; falling back to an older one" in said
    assert "going on from checkpoint-1" in said
    assert_as_undisturbed(folder, "shared", undisturbed)


def test_no_room_is_told_and_once_there_is_some_the_run_goes_on(run, begun, undisturbed) -> None:
    folder = begun("warm_start")
    code, said = run(folder, "warm_start", ("disk", 30_000))
    assert code == 1, said
    message = r"CheckpointError: .*/checkpoint-20 could not be written \(.*\); .* GiB are free there: make room"
    assert re.search(message, said), said
    code, said = run(folder, "warm_start")
    assert code == 0, said
    assert_as_undisturbed(folder, "warm_start", undisturbed)


def test_a_folder_that_nobody_may_write_is_named(run, begun, undisturbed) -> None:
    folder = begun("arm")
    folder.chmod(0o555)
    code, said = run(folder, "arm", ("no root",))
    folder.chmod(0o755)
    assert code == 1, said
    assert "PermissionError: [Errno 13] Permission denied" in said.splitlines()[-1]
    assert str(folder) in said.splitlines()[-1]
    code, said = run(folder, "arm")
    assert code == 0, said
    assert_as_undisturbed(folder, "arm", undisturbed)


@pytest.mark.parametrize("how", ["absent", "log", "offline"])
def test_a_training_does_not_depend_on_wandb(run, begun, undisturbed, how) -> None:
    folder = begun("warm_start")
    code, said = run(folder, "warm_start", ("wandb", how))
    assert code == 0, said
    assert ("the training goes on without it" in said) == (how != "offline")
    assert_as_undisturbed(folder, "warm_start", undisturbed)
    assert bool(list(folder.glob("wandb/offline-run-*/*.wandb"))) == (how != "absent")
