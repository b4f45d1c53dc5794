"""MAPF-FrozenLake for OpenEnv."""

from mapflake_env.client import MapflakeEnv
from mapflake_env.models import MapflakeAction, MapflakeObservation, MapflakeState

__all__ = ["MapflakeAction", "MapflakeEnv", "MapflakeObservation", "MapflakeState"]
