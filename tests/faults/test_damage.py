"""Torn, missing or changed files of an interrupted training; no room, no permission; wandb that fails."""

from __future__ import annotations

import re
import shutil
import signal
from pathlib import Path

import pytest
from outcome import assert_as_undisturbed

SAVED = ["model.safetensors", "optimizer.pt", "rng_state.pth", "scheduler.pt", "trainer_state.json", "manifest.json"]


@pytest.fixture(scope="module")
def interrupted(run, undisturbed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was killed in step 3 of round 0: the saves of steps 1 and 2 are whole."""
    folder = tmp_path_factory.mktemp("interrupted") / "toy"
    shutil.copytree(undisturbed / "warm_start", folder / "warm_start")
    code, said = run(folder, "shared", ("step", 3))
    assert code == -signal.SIGKILL, said
    return folder


def _halved(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _changed(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("name", SAVED)
@pytest.mark.parametrize("harm", [_halved, _changed, Path.unlink], ids=lambda f: f.__name__.strip("_"))
def test_a_damaged_newest_save_is_passed_over_for_the_one_before(interrupted, name, harm, tmp_path, caplog) -> None:
    from mapflake.trainer import checkpoint

    saves = tmp_path / "saves"
    shutil.copytree(interrupted / "shared/round-0/checkpoint.unfinished", saves)
    assert checkpoint.newest_whole(saves) == saves / "checkpoint-2"
    harm(saves / "checkpoint-2" / name)
    assert checkpoint.newest_whole(saves) == saves / "checkpoint-1"
    if not (name == "manifest.json" and harm is _changed):  # then it is what it says of the others
        assert f"checkpoint-2: {name}" in caplog.text or f"checkpoint-2: no {name}" in caplog.text
    assert "falling back to an older one" in caplog.text


@pytest.mark.parametrize("name", ["optimizer.pt", "rng_state.pth"])
def test_a_run_with_a_damaged_save_ends_with_the_same_bytes(run, interrupted, undisturbed, tmp_path, name) -> None:
    folder = tmp_path / "toy"
    shutil.copytree(interrupted, folder)
    (folder / "shared/round-0/checkpoint.unfinished/checkpoint-2" / name).unlink()
    code, said = run(folder, "shared")
    assert code == 0, said
    assert "going on from checkpoint-1" in said
    assert_as_undisturbed(folder, "shared", undisturbed)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            ("disk", 30_000),
            r"CheckpointError: .*/checkpoint-20 could not be written \(.*\); .* GiB are free there: make room",
        ),
    ],
    ids=["no room for the weights"],
)
def test_no_room_is_told_and_once_there_is_some_the_run_goes_on(run, begun, undisturbed, fault, message) -> None:
    folder = begun("warm_start")
    code, said = run(folder, "warm_start", fault)
    assert code == 1, said
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


@pytest.mark.parametrize("how", ["absent", "init", "log", "offline"])
def test_a_training_does_not_depend_on_wandb(run, begun, undisturbed, how) -> None:
    folder = begun("warm_start")
    code, said = run(folder, "warm_start", ("wandb", how))
    assert code == 0, said
    assert ("the training goes on without it" in said) == (how != "offline")
    assert_as_undisturbed(folder, "warm_start", undisturbed)
    assert bool(list(folder.glob("wandb/offline-run-*/*.wandb"))) == (how != "absent" and how != "init")
