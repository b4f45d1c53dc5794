"""A training that is killed, short of room, refused or left by wandb: the same call again ends with the same bytes."""

from __future__ import annotations

import re
import signal

import pytest
from small_repo import files

from mapflake.repro import read_jsonl
from mapflake.trainer.checkpoint import newest_whole, weights_sha256

# Each fault strikes a run that goes on from what the one before has left.
KILLS = {
    "warm_start": [  # 60 steps, saved at 20, 40 and 60
        ("save", 1, 6), ("step", 35), ("manifest", 1), ("publish", 1, 3), ("replace", 3),
    ],
    "shared": [("token", 5), ("save", 1, 9), ("step", 3), ("publish", 1, 4), ("torn append", 1)],  # 4 steps, saved each
    # while a design is asked for, and is kept, while it is trained, when the round is recorded, and when failures are
    "arm": [("token", 3), ("replace", 1), ("step", 1), ("torn append", 1), ("replace", 2)],
    # 6 and 4 supervised steps, then rounds of 2 on boards, over designs, and of a design
    "language_model": [("step", 3), ("step", 5), ("token", 9), ("save", 4, 8), ("step", 3), ("torn append", 1)],
}  # fmt: skip


def assert_as_undisturbed(folder, stage, undisturbed) -> None:
    """Checks that a stage left the files of an undisturbed run, byte for byte, and none beside."""
    results, expected = (
        {name: content for name, content in files(root).items() if name.lstrip(".").startswith(stage)}
        for root in (folder, undisturbed)
    )
    assert sorted(results) == sorted(expected)
    assert [name for name in results if results[name] != expected[name]] == []


@pytest.mark.parametrize("stage", KILLS)
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bytes(run, begun, undisturbed, stage) -> None:
    folder = begun(stage)
    for fault in KILLS[stage]:
        code, output = run(folder, stage, fault)
        assert code in (-signal.SIGKILL, -signal.SIGXFSZ), (fault, output)
    code, output = run(folder, stage)
    assert code == 0, output
    assert_as_undisturbed(folder, stage, undisturbed)


def test_two_ranks_share_a_step_and_go_on_after_a_kill(run, begun, undisturbed) -> None:
    """The undisturbed ones were started by torchrun."""
    folder = begun("two_ranks")
    code, output = run(folder, "two_ranks", ("ranks",), ("step", 3))
    assert code, output  # killed, or it misses the other one, which was killed
    assert newest_whole(folder / "two_ranks.unfinished").name == "checkpoint-2"
    code, output = run(folder, "two_ranks", ("ranks",))
    assert code == 0, output
    assert_as_undisturbed(folder, "two_ranks", undisturbed)
    assert weights_sha256(folder / "two_ranks") != weights_sha256(folder / "warm_start")
    for row in read_jsonl(folder / "two_ranks/curve.jsonl"):  # as many samples as with one process
        assert row["sampled_tokens"] == pytest.approx(row["completions/mean_length"] * 2 * 4)


def test_no_room_is_told_and_once_there_is_some_the_run_goes_on(run, begun, undisturbed) -> None:
    folder = begun("warm_start")
    code, output = run(folder, "warm_start", ("disk", 30_000))
    assert code == 1, output
    message = r"CheckpointError: .*/checkpoint-20 could not be written \(.*\); .* GiB are free there: make room"
    assert re.search(message, output), output
    code, output = run(folder, "warm_start")
    assert code == 0, output
    assert_as_undisturbed(folder, "warm_start", undisturbed)


@pytest.mark.parametrize("how", ["absent", "log", "offline"])
def test_a_training_does_not_depend_on_wandb(run, begun, undisturbed, how) -> None:
    folder = begun("warm_start")
    code, output = run(folder, "warm_start", ("wandb", how))
    assert code == 0, output
    assert ("the training goes on without it" in output) == (how != "offline")
    assert_as_undisturbed(folder, "warm_start", undisturbed)
    assert bool(list(folder.glob("wandb/offline-run-*/*.wandb"))) == (how != "absent")
