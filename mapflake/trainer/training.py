"""A run of a `transformers` trainer, for the warm start and for GRPO: resumed, watched, and published as a checkpoint.

It has one progress bar. Weights & Biases may follow (`wandb` in params.yaml, the environment variable WANDB_MODE
elsewhere); the training does not depend on it. Not covered: other trackers.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mapflake.extras import needs

with needs("train"):
    from tqdm import tqdm
    from transformers import PreTrainedTokenizerBase, ProgressCallback, Trainer, TrainerCallback
    from transformers.integrations import WandbCallback

from mapflake.trainer import checkpoint
from mapflake.trainer.policy import save_policy

logger = logging.getLogger(__name__)

M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4  # of glibc's mallopt
WATCHED = {"loss": "loss", "rewards/valid/mean": "valid", "rewards/optimal/mean": "optimal"}


def run(
    trainer: Trainer,
    start: str | Path | None,
    out: Path,
    input_hash: str,
    tokenizer: PreTrainedTokenizerBase,
    precision: str | None = None,
) -> None:
    """Runs a trainer from its newest whole save to its end and publishes the result at `out`.

    `start` is the checkpoint that it trains, or its name on the hub, None for a new policy; of a model with adapters
    these alone are written. `precision`, that of the matrix products, is recorded.

    Raises:
        CheckpointError: A save could not be written, e.g. for lack of room.
    """
    unfinished = Path(trainer.args.output_dir)
    trainer.remove_callback(ProgressCallback)  # it prints every logged row in full
    for callback in (checkpoint.ManifestCallback(), Progress(f"{out.parent.name}/{out.name}"), Tracking()):
        trainer.add_callback(callback)
    resume = checkpoint.newest_whole(unfinished)
    if resume:
        logger.warning("%s: going on from %s", out, resume.name)
    try:
        with memory_kept():
            trainer.train(resume_from_checkpoint=str(resume) if resume else None)
    except Exception as error:
        save = unfinished / f"checkpoint-{trainer.state.global_step}"
        if save.is_dir() and not (save / checkpoint.MANIFEST).is_file():  # torch does not say that a disk is full
            free = shutil.disk_usage(save).free / 2**30
            raise checkpoint.CheckpointError(
                f"{save} could not be written ({error}); {free:.1f} GiB are free there: make room, then run it again"
            ) from error
        raise
    weights = trainer.accelerator.get_state_dict(trainer.model)  # whole ones, also where processes hold shards
    if trainer.is_world_process_zero():
        model: Any = trainer.accelerator.unwrap_model(trainer.model)
        curve = _curve(trainer.state.log_history)
        save_policy(model, tokenizer, out, input_hash, curve, weights, precision, parent=start)
    trainer.accelerator.wait_for_everyone()


@contextmanager
def memory_kept() -> Iterator[None]:
    """Keeps what tensors free in the process, for those of the next step; afterwards it goes back to the system.

    glibc maps each large block anew and the kernel clears it page by page: a third of a supervised step of a model of
    135M parameters. Other C libraries are left as they are.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        yield
        return
    library.mallopt(M_MMAP_MAX, 0)
    library.mallopt(M_TRIM_THRESHOLD, -1)  # never
    try:
        yield
    finally:
        library.mallopt(M_MMAP_MAX, 65536)
        library.mallopt(M_TRIM_THRESHOLD, 128 * 1024)  # glibc's own values
        library.malloc_trim(0)


def _curve(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the steps of a trainer's log without times, which differ at every run: results are compared by hash.

    Keys are in the order that they have after a resume. A reward of no row of a step (`grpo.Mixture`) is left out.
    """
    time_keys = ("runtime", "per_second", "time", "total_flos")
    return [
        {k: row[k] for k in sorted(row) if row[k] is not None and not any(t in k for t in time_keys)}
        for row in history
        if row.get("loss") is not None
    ]


class Progress(TrainerCallback):
    """One progress bar for a training, with its loss and rates."""

    def __init__(self, title: str) -> None:
        self.bar = tqdm(desc=title, unit="step", mininterval=1.0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Shows how many optimizer steps are done, also those before an interruption."""
        self.bar.total = state.max_steps
        self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
        """Shows the newest numbers."""
        numbers = {name: f"{logs[key]:.3f}" for key, name in WATCHED.items() if logs.get(key) is not None}
        self.bar.set_postfix(numbers)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Closes the bar."""
        self.bar.close()


class Tracking(TrainerCallback):
    """Passes the events of a trainer on to wandb; a wandb failure is logged once and never stops training."""

    def __init__(self) -> None:
        self.wandb: Any = None
        self.on = os.environ.get("WANDB_MODE") in ("online", "offline")
        for event in ("on_train_begin", "on_log", "on_train_end"):
            setattr(self, event, functools.partial(self._pass, event))

    def _pass(self, event: str, *arguments: Any, **options: Any) -> None:
        if not self.on:
            return
        try:
            self.wandb = self.wandb or WandbCallback()
            getattr(self.wandb, event)(*arguments, **options)
        except Exception as error:  # of a service, its process, the network: none of them is worth a training
            self.on = False
            logger.warning("wandb failed, the training goes on without it: %s: %s", type(error).__name__, error)
