"""The server: `python -m mapflake_env.server.app --port 8000`. It binds 127.0.0.1 unless told otherwise.

With ENABLE_WEB_INTERFACE=true it has OpenEnv's web page at /web, which draws the board and the plan.
"""

import argparse
import os

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.types import ConcurrencyConfig

from mapflake_env.models import MapflakeAction, MapflakeObservation, MapflakeState
from mapflake_env.server.limits import Limits
from mapflake_env.server.mapflake_environment import MapflakeEnvironment

MAX_MESSAGE = 1_000_000
"""Bytes of a body or of a message."""


def build(sessions: int, silence: float) -> FastAPI:
    """Returns the application.

    Args:
        sessions: Sessions at once; one more is told that there is no room.
        silence: Seconds after which a session or connection without a message is closed.
    """
    app = create_app(
        MapflakeEnvironment,
        MapflakeAction,
        MapflakeObservation,
        env_name="mapflake_env",
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=sessions, session_timeout=silence),
        state_cls=MapflakeState,
    )
    app.add_exception_handler(ValueError, refused)
    app.add_middleware(Limits, size=MAX_MESSAGE, silence=silence)
    return app


async def refused(request: Request, error: Exception) -> JSONResponse:
    """Returns what was wrong with a request: over a WebSocket, OpenEnv itself says so."""
    return JSONResponse({"detail": str(error)}, status_code=422)


app = build(int(os.environ.get("MAX_CONCURRENT_ENVS", 256)), float(os.environ.get("SESSION_TIMEOUT_S", 600)))


def main() -> None:
    """Serves until it is stopped."""
    parser = argparse.ArgumentParser(description="MAPF-FrozenLake for OpenEnv")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 to be reached from other machines")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    # A few messages of each client wait in memory, not the 32 of the default.
    uvicorn.run(
        app,
        host=args.host,
        port=args.port,
        ws_max_size=MAX_MESSAGE,
        ws_max_queue=2,
        timeout_graceful_shutdown=5,  # a page that is open somewhere does not hold it
    )


if __name__ == "__main__":
    main()
