"""MAPF-FrozenLake by its name in verifiers: `vf-eval mapf-frozenlake`, and `load_environment` for a trainer."""

from typing import Any

import verifiers.v1 as vf
from verifiers.v1.utils.loaders import resolve_env_config

from mapflake.adapters.taskset import FrozenLakeTaskset, OneTurn
from mapflake.env import EnvConfig
from mapflake.repro import to_json

__all__ = ["FrozenLakeTaskset", "OneTurn", "load_environment"]


def load_environment(config: EnvConfig | dict[str, Any] | None = None, **chosen: Any) -> vf.Env:
    """Returns the environment over the boards of a generator configuration.

    Args:
        config: What an engineer designs, also as JSON; None takes the fields below.
        **chosen: Fields of the taskset: n, seed, split ("train" to train on), prompt_format, sizes and so on.

    Raises:
        ValueError: A field or its value is not legal. A configuration is checked as its boards are drawn.
    """
    design = to_json(config) if isinstance(config, EnvConfig) else config
    if config is not None and not design:
        raise ValueError("config: has no sizes; None takes the fields of the taskset")
    return vf.load_environment(
        resolve_env_config({"taskset": {"id": "mapf-frozenlake", "design": design or {}, **chosen}})
    )
