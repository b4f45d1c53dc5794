"""mapflake: the RL policy as its own environment engineer, on MAPF-FrozenLake (arXiv 2606.17682).

Three rooms on a ground floor: `repro` (seeds, records), `env` (boards, exact solver, verifier), `trainer`
(policy, evaluation, GRPO), `engineer` (failures, designs, rounds). Import what you need from the room that
owns it; this module imports nothing of them, so that `import mapflake.env` never pays for torch. What verifiers looks
for in a package (`vf-eval mapflake`, see `adapters.taskset`) it imports when asked.
"""

from __future__ import annotations

import os

# TRL reports each trainer that is made; nothing is sent that was not asked for.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

__all__ = ["FrozenLakeTaskset", "OneTurn"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from mapflake.adapters import taskset

        return getattr(taskset, name)
    raise AttributeError(f"module 'mapflake' has no attribute {name!r}")
