"""mapflake: the RL policy as its own environment engineer, on MAPF-FrozenLake (arXiv 2606.17682).

Layers, each importing only those before it: `extras` (missing packages), `repro` (seeds, records), `provenance` (the
code that decides), `env` (boards, exact solver, verifier), `trainer` (policy, evaluation, GRPO), `engineer` (reports,
designs, rounds), `study` (finished cells compared), `plots`, and on top `nb` (the pipeline) and `adapters`. This module
imports none of them, so that `import mapflake.env` never pays for torch. The names that verifiers looks for in a
package (`vf-eval mapflake`, see `adapters.taskset`) are imported when asked for.
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
