"""The client: `with MapflakeEnv(base_url=...).sync() as env: env.reset(config=..., seed=...)`."""

from typing import Any

from openenv.core import EnvClient
from openenv.core.client_types import StepResult

from mapflake_env.models import MapflakeAction, MapflakeObservation, MapflakeState


class MapflakeEnv(EnvClient[MapflakeAction, MapflakeObservation, MapflakeState]):
    """One session: `reset(config=, seed=, split=, prompt_format=)`, then `step(MapflakeAction(answer=...))`."""

    def _step_payload(self, action: MapflakeAction) -> dict[str, Any]:
        return action.model_dump()

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[MapflakeObservation]:
        reward, done = payload.get("reward"), payload.get("done", False)
        observation = MapflakeObservation(**payload["observation"], reward=reward, done=done)
        return StepResult(observation=observation, reward=reward, done=done, metadata=payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> MapflakeState:
        return MapflakeState(**payload)
