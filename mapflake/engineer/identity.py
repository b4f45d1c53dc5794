"""The identity of a designer in records: a run that is resumed with another designer is refused.

`run_arm` and TRL's `EngineerCallback` record the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mapflake import provenance, repro
from mapflake.engineer.designers import DYNAMIC, RULES, EngineerParams
from mapflake.engineer.variants import BUILT_IN, VARIANTS
from mapflake.env import REWARD, EnvConfig
from mapflake.env.config import custom_dimensions
from mapflake.env.rewards import BUILT_IN as BUILT_IN_REWARD


def arm_values(
    arm: str,
    asked: EngineerParams | None,
    sizes: tuple[int, ...],
    *,
    sha256: Callable[[str | Path], str],
    base: str | Path | None = None,
    constant: EnvConfig | None = None,
) -> dict[str, Any]:
    """Returns what decides the designs of an arm, by `ledger.ARM_KEYS`: a rule's code, or parameters and weights.

    `asked` is what `params_of` gives, `sha256` hashes a checkpoint; `base` and `constant` are as in `run_arm`.

    Raises:
        ValueError: Whether the rule has changed cannot be told (`provenance.identity`), or the base is missing.
    """
    values: dict[str, Any] = {"sizes": list(sizes)}
    if asked is None:
        rule = arm.removesuffix(DYNAMIC)
        values["designer"] = provenance.identity(RULES[rule])
        if rule == "constant":
            values["constant"] = repro.to_json(constant)
        return values
    weights = asked.weights(base)
    values["engineer"] = asked.model_dump(mode="json", include={"model", "report"} if asked.model == "search" else None)
    values["model_sha256"] = None if weights is None else sha256(weights)
    variant = asked.variant
    if isinstance(variant, str) and VARIANTS[variant] != BUILT_IN.get(variant):  # a context of one's own, by name
        values["variant"] = VARIANTS[variant].model_dump(mode="json")
    return values


def own_values() -> dict[str, Any]:
    """Returns what differs from the package's own: the reward, and dimensions."""
    values: dict[str, Any] = {"reward": dict(REWARD)} if REWARD != BUILT_IN_REWARD else {}
    if custom := custom_dimensions():
        values["dimensions"] = {
            name: [d.meaning, d.top, d.nullable, d.transform and provenance.identity(d.transform)]
            for name, d in custom.items()
        }
    return values
