"""Weights & Biases beside a training, which must not depend on it: whatever it dies of is logged once, and that is all.

Not covered: other trackers. The switch is `wandb` in params.yaml (the environment variable WANDB_MODE elsewhere).
"""

from __future__ import annotations

import logging
import os
from typing import Any

from transformers import TrainerCallback
from transformers.integrations import WandbCallback

logger = logging.getLogger(__name__)


class Tracking(TrainerCallback):
    """Passes the events of a trainer on to wandb, until that fails."""

    def __init__(self) -> None:
        self.wandb: Any = None
        self.on = os.environ.get("WANDB_MODE") in ("online", "offline")

    def _pass(self, event: str, *arguments: Any, **options: Any) -> None:
        if not self.on:
            return
        try:
            self.wandb = self.wandb or WandbCallback()
            getattr(self.wandb, event)(*arguments, **options)
        except Exception as error:  # of a service, its process, the network: none of them is worth a training
            self.on = False
            logger.warning("wandb failed, the training goes on without it: %s: %s", type(error).__name__, error)

    def on_train_begin(self, *arguments: Any, **options: Any) -> None:
        """Starts a run."""
        self._pass("on_train_begin", *arguments, **options)

    def on_log(self, *arguments: Any, **options: Any) -> None:
        """Sends a row of the curve."""
        self._pass("on_log", *arguments, **options)

    def on_train_end(self, *arguments: Any, **options: Any) -> None:
        """Ends the run."""
        self._pass("on_train_end", *arguments, **options)
