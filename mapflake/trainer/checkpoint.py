"""Checkpoint folders that are either whole or refused, and where an interrupted training goes on.

A checkpoint is a folder in `transformers` format (safetensors only) with a `manifest.json` of hashes, written
last. Trainers' intermediate folders (`checkpoint-N`, with optimizer, scheduler and RNG state) get the same
manifest, so that a torn newest one is skipped for the newest whole one. A manifest also holds the hash of the input
that a checkpoint was trained from: a training whose result is there already does nothing.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import torch
from accelerate import PartialState
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from mapflake import repro

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
CODE = ("repro.py", "env", "trainer")
"""The parts of the package whose code goes into the input hash of a checkpoint."""

# transformers restores the optimizer of rank r on a CPU to the device cpu:r, a name that torch.load does not know.
torch.serialization.register_package(
    50, lambda storage: None, lambda storage, location: storage if location.startswith("cpu:") else None
)


class CheckpointError(RuntimeError):
    """A checkpoint that must not be used; the message names the folder, the file and the reason."""


def write_manifest(folder: Path, input_hash: str | None = None) -> None:
    """Writes the manifest of `folder`: the SHA-256 of every file in it. Until then the checkpoint does not count.

    `input_hash` identifies the input that the checkpoint was trained from (see `is_result_of`).
    """
    files = {p.relative_to(folder).as_posix(): repro.file_sha256(p) for p in sorted(folder.rglob("*")) if p.is_file()}
    files.pop(MANIFEST, None)
    repro.write_json(folder / MANIFEST, {"input_hash": input_hash, "files": files})


def is_result_of(folder: Path, input_hash: str) -> bool:
    """Returns whether `folder` is a whole checkpoint that was trained from just this input: nothing is left to do."""
    try:
        verify(folder)
    except CheckpointError:
        return False
    return repro.read_json(folder / MANIFEST).get("input_hash") == input_hash


def verify(folder: Path) -> dict[str, str]:
    """Returns the manifest's {file: sha256} after checking every file against it.

    Raises:
        CheckpointError: No manifest (an interrupted write), or a file that is missing, differs, or is not in it.
    """
    files = _listed(folder)
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    if strangers := sorted(name for name in there.difference(files, [MANIFEST]) if not name.startswith(".")):
        raise CheckpointError(f"{folder}: {strangers[0]} is not in {MANIFEST}")
    for name, digest in files.items():
        if name not in there:
            raise CheckpointError(f"{folder}: {name} is missing")
        if repro.file_sha256(folder / name) != digest:
            raise CheckpointError(f"{folder}: {name} differs from its hash in {MANIFEST}")
    return files


def weights_sha256(folder: str | Path) -> str:
    """Returns one hash of all weight files of a checkpoint: its identity in `rounds.jsonl`.

    It is made from the hashes in the manifest, which `load_policy` holds against the files; no weights are read.
    """
    files = _listed(Path(folder))
    weights = {name: files[name] for name in sorted(files) if name.endswith(".safetensors")}
    if not weights:
        raise CheckpointError(f"{folder}: no *.safetensors file")
    return repro.json_sha256(weights)


def _listed(folder: Path) -> dict[str, str]:
    """Returns the manifest's {file: sha256}."""
    if not (folder / MANIFEST).is_file():
        raise CheckpointError(f"{folder}: no {MANIFEST}; the checkpoint was not written to its end")
    try:
        return dict(repro.read_json(folder / MANIFEST)["files"])
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{folder}: {MANIFEST} is not a list of files with their hashes") from None


def newest_whole(folder: Path) -> Path | None:
    """Returns the newest `checkpoint-N` in `folder` that passes `verify`, or None; warns of those it skips."""
    numbered = [p for p in folder.glob("checkpoint-*") if p.name.removeprefix("checkpoint-").isdigit()]
    for path in sorted(numbered, key=lambda p: int(p.name.removeprefix("checkpoint-")), reverse=True):
        try:
            verify(path)
            return path
        except CheckpointError as error:
            logger.warning("%s; falling back to an older one", error)
    return None


def resumable(out: Path, input_hash: str) -> Path:
    """Returns the folder beside `out` for the saves of an unfinished training; emptied if those had another input."""
    folder = out.with_name(f"{out.name}.unfinished")
    mark = folder / "input_hash.txt"
    if not mark.is_file() or mark.read_text() != input_hash:
        shutil.rmtree(folder, ignore_errors=True)
        repro.write_text(mark, input_hash)
    return folder


def drop_resumable(out: Path) -> None:
    """Removes the folder of `resumable`: `out` is finished."""
    shutil.rmtree(out.with_name(f"{out.name}.unfinished"), ignore_errors=True)


@contextlib.contextmanager
def publish(out: Path, input_hash: str | None = None) -> Iterator[Path]:
    """Yields a temporary folder that becomes `out`, with its manifest, as the block ends; `out` is never half there."""
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.tmp")  # its next writer takes over what a killed one left
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        yield temporary
        write_manifest(temporary, input_hash)
        shutil.rmtree(out, ignore_errors=True)
        os.replace(temporary, out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


class ManifestCallback(TrainerCallback):
    """Writes the manifest of every checkpoint that a `transformers` trainer saves."""

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object) -> None:
        """Called by the trainer, on all processes, after each has written its part of `checkpoint-<step>`."""
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            write_manifest(Path(args.output_dir) / f"checkpoint-{state.global_step}")
