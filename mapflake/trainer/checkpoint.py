"""Checkpoint folders that are either whole or refused, and where an interrupted training goes on.

A checkpoint is a folder in `transformers` format (safetensors only) with a `manifest.json`, written last: the hash of
every file, and of the input that it was trained from, so that a finished training is not repeated. Trainers' saves
(`checkpoint-N`) get one too, so that a torn newest one is skipped.
"""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

from mapflake.extras import needs

with needs("train"):
    import torch
    from accelerate import PartialState
    from transformers import TrainerCallback

from mapflake import repro
from mapflake.provenance import code_sha256

logger = logging.getLogger(__name__)

MANIFEST = "manifest.json"
PARENT = "parent.json"  # of an adapter: the checkpoint that it stands on (`weights`)

# transformers restores the optimizer of rank r on a CPU to the device cpu:r, a name that torch.load does not know.
torch.serialization.register_package(
    50, lambda storage: None, lambda storage, location: storage if location.startswith("cpu:") else None
)


class CheckpointError(RuntimeError):
    """A checkpoint that must not be used; the message names the folder, the file and the reason."""


def input_hash_of(module: str, *inputs: Any) -> str:
    """Returns the hash of all that a checkpoint is made from: JSON values, and the code of the module that makes it."""
    return repro.json_sha256([code_sha256(module), *inputs])


def write_manifest(folder: Path, input_hash: str | None = None, precision: str | None = None) -> None:
    """Writes the manifest of `folder`; until then the checkpoint does not count. `precision`: see `precision_of`."""
    details = {"precision": precision} if precision else {}
    repro.write_json(folder / MANIFEST, {"input_hash": input_hash, **details, "files": _hashes(folder)})


def precision_of(folder: Path) -> str | None:
    """Returns the precision in which a checkpoint was trained on a CPU; None if its manifest has none."""
    path = folder / MANIFEST
    return repro.read_json(path).get("precision") if path.is_file() else None


def _hashes(folder: Path) -> dict[str, str]:
    names = (path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file())
    return {n: repro.file_sha256(folder / n) for n in names if n != MANIFEST and not n.startswith(".")}


def is_result_of(folder: Path, input_hash: str) -> bool:
    """Returns whether `folder` is a whole checkpoint that was trained from just this input: nothing is left to do."""
    try:
        verify(folder)
    except CheckpointError:
        return False
    return repro.read_json(folder / MANIFEST).get("input_hash") == input_hash


def verify(folder: Path) -> None:
    """Checks every file of a checkpoint against its manifest.

    Raises:
        CheckpointError: No manifest (an interrupted write), or a file that is missing, differs, or is not in it.
    """
    manifest, hashes = _listed(folder), _hashes(folder)
    for name in sorted(manifest.keys() | hashes.keys()):
        if name not in hashes:
            raise CheckpointError(f"{folder}: {name} is missing")
        if name not in manifest:
            raise CheckpointError(f"{folder}: {name} is not in {MANIFEST}")
        if manifest[name] != hashes[name]:
            raise CheckpointError(f"{folder}: {name} differs from its hash in {MANIFEST}")


def weights_sha256(folder: str | Path) -> str:
    """Returns one hash of all weight files of a checkpoint, made from its manifest: its identity in `rounds.jsonl`."""
    files = _listed(Path(folder))
    weights = {name: files[name] for name in sorted(files) if name.endswith(".safetensors") or name == PARENT}
    if not any(name != PARENT for name in weights):
        raise CheckpointError(f"{folder}: no *.safetensors file")
    return repro.json_sha256(weights)


def origin_of(start: str | Path) -> str:
    """Returns what weights a training begins with: a checkpoint's hash, or the name of a model on the hub."""
    return weights_sha256(start) if Path(start).is_dir() else str(start)


def _listed(folder: Path) -> dict[str, str]:
    """Returns the manifest's {file: sha256}."""
    if not (folder / MANIFEST).is_file():
        raise CheckpointError(
            f"{folder}: no {MANIFEST}: not written to its end, or not by mapflake: see load_policy's `sealed`"
        )
    try:
        return dict(repro.read_json(folder / MANIFEST)["files"])
    except (ValueError, KeyError, TypeError):
        raise CheckpointError(f"{folder}: {MANIFEST} is not a list of files with their hashes") from None


def newest_whole(folder: Path) -> Path | None:
    """Returns the newest `checkpoint-N` in `folder` that passes `verify`, or None; warns of those it skips."""
    saves = [p for p in folder.glob("checkpoint-*") if p.name.removeprefix("checkpoint-").isdigit()]
    for path in sorted(saves, key=lambda p: int(p.name.removeprefix("checkpoint-")), reverse=True):
        try:
            verify(path)
            return path
        except CheckpointError as error:
            logger.warning("%s; falling back to an older one", error)
    return None


def check_out(out: Path, start: str | Path | None = None) -> None:
    """Checks that a checkpoint may be written to `out`, where it replaces an older one.

    Raises:
        CheckpointError: There is something else at `out`, or `start` is at `out`, in it or around it.
    """
    is_checkpoint = any((out / name).is_file() for name in (MANIFEST, "curve.jsonl"))
    if out.exists() and not is_checkpoint and not (out.is_dir() and not any(out.iterdir())):
        raise CheckpointError(f"{out}: is there and is no checkpoint; it would be lost: name another folder")
    if start is not None and Path(start).is_dir():
        source, target = Path(start).resolve(), out.resolve()
        if source == target or source in target.parents or target in source.parents:
            raise CheckpointError(f"{out}: is where the training begins ({start}), in it or around it")


def resumable(out: Path, input_hash: str) -> Path:
    """Returns the folder beside `out` for the saves of an unfinished training; emptied if those had another input."""
    folder = out.with_name(f"{out.name}.unfinished")
    mark = folder / "input_hash.txt"
    if not mark.is_file() or mark.read_text() != input_hash:
        if any(folder.glob("checkpoint-*")):
            logger.warning("%s: an unfinished training of other input or code is dropped", folder)
        shutil.rmtree(folder, ignore_errors=True)
        repro.write_text(mark, input_hash)
    return folder


def drop_resumable(out: Path) -> None:
    """Removes the folder of `resumable`: `out` is finished."""
    shutil.rmtree(out.with_name(f"{out.name}.unfinished"), ignore_errors=True)


class ManifestCallback(TrainerCallback):
    """Writes the manifest of every checkpoint that a `transformers` trainer saves."""

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Called by the trainer, on all processes, after each has written its part of `checkpoint-<step>`."""
        PartialState().wait_for_everyone()
        if state.is_world_process_zero:
            write_manifest(Path(args.output_dir) / f"checkpoint-{state.global_step}")
