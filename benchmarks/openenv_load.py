"""The OpenEnv server under load; the part `openenv` of the benchmark, for the environment of `make test-openenv`.

As many sessions as trainers have workers, each with a configuration of its own, ask for boards and answer them as fast
as they can. In the same run, half before and half after: the echo environment that `openenv init` writes, which does
nothing, behind the same server with the same clients. Clients and server share the machine.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

from benchmarks.report import table
from mapflake.adapters.drawing import draw
from mapflake.env import EnvConfig, SizeConfig, format_plan
from mapflake.repro import to_json

PACKAGES = ("openenv", "fastapi", "uvicorn", "websockets", "numpy")
CORES = "shared by server and clients"

SESSIONS, SECONDS, BOARDS = 64, 60, 40
"""Sessions at once, seconds of each environment, and different boards of each session, which it asks for in turn."""

ECHO = """
import sys, uvicorn
from echo_env.models import EchoAction, EchoObservation
from echo_env.server.echo_env_environment import EchoEnvironment
from openenv.core.env_server.http_server import create_app
app = create_app(EchoEnvironment, EchoAction, EchoObservation, env_name="echo_env", max_concurrent_envs=256)
uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
"""


class Play(NamedTuple):
    """One episode of a client: what `reset` is given, the answer, and what must come back."""

    reset: dict[str, Any]
    action: dict[str, Any]
    expected: tuple[str, float]


def measure() -> dict[str, Any]:
    """Returns the numbers of both environments: echo for half of `SECONDS`, ours, echo for the other half."""
    plays = [board_plays(k, BOARDS) for k in range(SESSIONS)]
    with tempfile.TemporaryDirectory() as folder:
        openenv = Path(sys.executable).with_name("openenv")
        subprocess.run([openenv, "init", "echo_env", "-o", folder], check=True, capture_output=True)
        messages = [f"{k}" for k in range(SESSIONS)]
        echo = [[Play({"seed": 0}, {"message": message}, (message, len(message) / 10))] for message in messages]
        plain = (["-c", ECHO], folder, echo, SECONDS / 2, "echoed_message")
        ours = (["-m", "mapflake_env.server.app"], "environments", plays, SECONDS, "board")
        rows = []
        runs = {"OpenEnv's echo, before": plain, "MAPF-FrozenLake": ours, "OpenEnv's echo, after": plain}
        for name, (command, path, episodes, duration, field) in runs.items():
            with serving(command, path) as (url, server):
                rows.append({"environment": name} | load(url, server, episodes, duration, field))
    return {"sessions": SESSIONS, "seconds": SECONDS, "boards": BOARDS, "rows": rows}


def board_plays(k: int, boards: int) -> list[Play]:
    """Returns the episodes of session `k`, whose configuration and seeds no other session has."""
    agents, small = 1 + k % 4, 3 + k // 4 % 4
    sizes = {small: SizeConfig(0.5, 0.05 + k / 1000, None), small + 3: SizeConfig(0.5, 0.2 + k / 1000, None)}
    config = EnvConfig(sizes, agents)
    plays = []
    for seed in range(k * boards, (k + 1) * boards):
        task = draw(config, seed)
        answer = {"answer": format_plan(task.instance, task.solution.plan)}
        plays.append(Play({"config": to_json(config), "seed": seed}, answer, (task.instance.to_text(), 1.0)))
    return plays


@contextmanager
def serving(
    command: list[str], path: str, output: int | None = subprocess.DEVNULL, **settings: str
) -> Iterator[tuple[str, int]]:
    """Yields (address, process id) of a server, with these environment variables; `output` takes what it prints."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([path, os.getcwd()])} | settings
    server = subprocess.Popen(
        [sys.executable, *command, "--port", str(port)], env=environment, stdout=output, stderr=output
    )
    url = f"http://127.0.0.1:{port}"
    try:
        while server.poll() is None:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=10).close()
                break
            except OSError:
                time.sleep(0.1)
        yield url, server.pid
    finally:
        server.kill()
        server.wait()


def load(url: str, server: int, sessions: list[list[Play]], seconds: float, field: str) -> dict[str, Any]:
    """Returns what clients see that all play for `seconds`: episodes, what was wrong, and milliseconds a call."""
    from openenv.core.generic_client import GenericEnvClient

    begun, errors, wrong = 0.0, 0, 0
    calls: dict[str, list[float]] = {"reset": [], "step": []}

    async def timed(name: str, call: Callable[..., Awaitable[Any]], *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = await call(*args, **kwargs)
        calls[name].append(time.perf_counter() - start)
        return result

    async def client(plays: list[Play]) -> None:
        nonlocal errors, wrong
        async with GenericEnvClient(base_url=url) as env:
            await ready.wait()
            for play in cycle(plays):
                if time.perf_counter() >= begun + seconds:
                    break
                try:
                    await timed("reset", env.reset, **play.reset)
                    result = await timed("step", env.step, play.action)
                except Exception:
                    errors += 1
                else:
                    wrong += (result.observation[field], result.reward) != play.expected

    ready = asyncio.Event()

    async def all_at_once() -> None:
        nonlocal begun
        playing = [asyncio.create_task(client(plays)) for plays in sessions]
        await asyncio.sleep(1)  # all are connected
        begun = time.perf_counter()
        ready.set()
        await asyncio.gather(*playing)

    asyncio.run(all_at_once())
    took = time.perf_counter() - begun
    largest = re.search(r"VmHWM:\s*(\d+)", Path(f"/proc/{server}/status").read_text())  # resident memory (Linux)
    return {
        "episodes": len(calls["step"]),
        "errors": errors,
        "wrong": wrong,
        "episodes_per_second": len(calls["step"]) / took,
        "memory_mb": int(largest[1]) / 1024 if largest else 0.0,
        **{f"{name}_ms": milliseconds(times) for name, times in calls.items()},
    }


def milliseconds(times: list[float]) -> dict[str, float]:
    """Returns the median, the 99th percentile and the maximum of seconds, in milliseconds."""
    cuts = quantiles(times, n=100)
    return {"p50": cuts[49] * 1e3, "p99": cuts[98] * 1e3, "max": max(times) * 1e3}


def markdown(numbers: Mapping[str, Any]) -> str:
    """Returns the table of `measure`'s numbers."""
    header = ["", "episodes a second", "episodes", "errors", "wrong", "reset, ms", "step, ms", "memory, MB"]
    lines = []
    for row in numbers["rows"]:
        times = [f"{t['p50']:.0f} (p99 {t['p99']:.0f}; {t['max']:.0f})" for t in (row["reset_ms"], row["step_ms"])]
        cells = [row["environment"], f"{row['episodes_per_second']:.0f}", row["episodes"], row["errors"], row["wrong"]]
        lines.append([*cells, *times, f"{row['memory_mb']:.0f}"])
    return (
        f"{numbers['sessions']} sessions at once for {numbers['seconds']:g} seconds, each with a configuration of its\n"
        f"own and {numbers['boards']} of its boards; the echo environment for half of that before, and half after.\n"
        "An episode is a reset and a step. Wrong: another session's board, or another reward than the optimal\n"
        f"plan's. Times are medians (99th percentile; maximum), as the clients see them.\n\n{table(header, lines)}"
    )
