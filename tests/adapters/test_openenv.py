"""The OpenEnv server, through OpenEnv's own client and against hostile ones; `make test-openenv` runs these."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("openenv", reason="openenv is not installed, its web page wants other packages: make test-openenv")

import websockets
from mapflake_env import MapflakeAction, MapflakeEnv
from websockets.sync.client import connect

from benchmarks import openenv_load
from mapflake.adapters.drawing import draw
from mapflake.env import KINDS, EnvConfig, Instance, SizeConfig, format_plan, render_prompt
from mapflake.repro import from_json, to_json

ROOT = Path(__file__).parents[2]
HUB = ROOT / "environments/mapflake_env"
DESIGN = EnvConfig({4: SizeConfig(0.5, 0.2, 0.5), 6: SizeConfig(0.5, 0.3, None)}, num_agents=3)
NONE = EnvConfig.uniform([3], 0.0, 1.0, num_agents=1)  # an agent alone waits for nobody
SESSIONS, SILENCE = 8, 2.0


@contextmanager
def serving(**settings):
    """Yields (address, process id) of a server of its own; what it prints is pytest's to show."""
    paths = os.pathsep.join([str(ROOT), str(ROOT / "environments")])
    with openenv_load.serving(["-m", "mapflake_env.server.app"], paths, None, **settings) as (url, pid):
        yield url, pid
        assert healthy(url)  # whatever was done to it


def until(condition, seconds=30.0):
    """Waits until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def healthy(url):
    try:
        return json.load(urllib.request.urlopen(f"{url}/health", timeout=10))["status"] == "healthy"
    except OSError:
        return False


def post(url, body):
    """Returns (status, text) of a POST."""
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ws(url):
    return f"{url.replace('http', 'ws')}/ws"


def said(socket_, message):
    """Returns the answer to a message over a WebSocket."""
    with suppress(websockets.ConnectionClosed):  # refused before it has asked; the reason can be read
        socket_.send(message if isinstance(message, str) else json.dumps(message))
    return json.loads(socket_.recv(timeout=60))


@pytest.fixture(scope="module")
def server():
    with serving() as (url, _):
        yield url


@pytest.fixture(scope="module")
def small():
    """A server with few sessions, which it closes when they are silent."""
    with serving(MAX_CONCURRENT_ENVS=str(SESSIONS), SESSION_TIMEOUT_S=str(SILENCE)) as running:
        yield running


@pytest.mark.parametrize("prompt_format", ["chat", "compact"])
def test_a_board_of_the_design_and_its_judgement(server, prompt_format):
    with MapflakeEnv(base_url=server).sync() as env:
        for seed in range(3):
            task = draw(DESIGN, seed)
            start = env.reset(config=to_json(DESIGN), seed=seed, prompt_format=prompt_format)
            assert start.observation.prompt == render_prompt(task.instance, prompt_format)
            assert (start.reward, start.done) == (None, False)
            answer = format_plan(task.instance, task.solution.plan, prompt_format)
            result = env.step(MapflakeAction(answer=answer))
            assert (result.reward, result.done) == (1.0, True)
            read = [moves.rstrip("W") for moves in result.observation.plan]
            assert read == [moves.rstrip("W") for moves in task.solution.plan.moves]
            assert result.observation.checks == dict.fromkeys(KINDS, True)
            assert result.observation.makespan == result.observation.best_makespan == task.solution.makespan


def test_the_eight_checks_and_the_reward(server):
    task = draw(DESIGN, 0)
    still = ["W"] * 3
    longer = ["W" + moves for moves in task.solution.plan.moves]
    with MapflakeEnv(base_url=server).sync() as env:
        for answer, reward, failed, reached in (
            ("I do not know", 0.0, {"parse"}, 1),
            ('{"plan": ["W"]}', 0.0, {"agents"}, 2),
            (json.dumps({"plan": still}), 0.0, {"goal"}, 8),
            (json.dumps({"plan": longer}), 0.5, set(), 8),
        ):
            assert Instance.from_text(env.reset(config=to_json(DESIGN), seed=0).observation.board) == task.instance
            result = env.step(MapflakeAction(answer=answer))
            checks = result.observation.checks
            assert (result.reward, {kind for kind in KINDS if checks[kind] is False}) == (reward, failed)
            assert [kind for kind in KINDS if checks[kind] is not None] == list(KINDS[:reached])
            assert result.observation.valid == (not failed)


def test_the_state_brings_the_board_back_in_another_session(server):
    with MapflakeEnv(base_url=server).sync() as env:
        board = env.reset(config=to_json(DESIGN), split="validation").observation.board
        state = env.state()
    assert from_json(EnvConfig, state.config, "config") == DESIGN
    fields = {name: getattr(state, name) for name in ("config", "seed", "split", "prompt_format")}
    with MapflakeEnv(base_url=server).sync() as env:
        assert env.reset(**fields).observation.board == board
        assert env.state().key == state.key == Instance.from_text(board).key
        assert env.reset().observation.board != board
        assert env.state().step_count == 0
        with pytest.raises(Exception, match="sizes"):
            env.reset(config={"sizes": {}})
        assert env.state().seed is None  # of a board that is not there


WRONG = {
    "config.sizes.4: 'holes': unknown key; legal keys: data_ratio, hole_ratio": {
        "config": {"sizes": {"4": {"data_ratio": 1, "hole_ratio": 0.1, "holes": 1}}, "num_agents": 2}
    },
    "one agent waits for nobody": {"config": to_json(NONE), "seed": 1},
    "'sized': unknown key; legal keys: seed, episode_id, config": {"sized": 1},
    "prompt_format: {} is none of chat": {"prompt_format": {}},
    "episode_id: 7 is not a text": {"episode_id": 7},
}


@pytest.mark.parametrize(("message", "given"), WRONG.items(), ids=lambda value: str(value)[:20])
def test_what_is_wrong_is_named(server, message, given):
    with MapflakeEnv(base_url=server).sync() as env:
        with pytest.raises(RuntimeError, match=message) as raised:
            env.reset(**given)
        assert len(str(raised.value)) < 1100
        assert env.reset(seed=1).observation.board  # the session goes on
    status, body = post(f"{server}/reset", json.dumps(given).encode())
    assert status == 422
    if "episode_id" not in given:  # FastAPI's own words
        assert re.search(message, json.loads(body)["detail"])


def test_an_answer_without_a_board(server):
    with MapflakeEnv(base_url=server).sync() as env:
        for _ in range(2):  # before a board, and after its one answer
            with pytest.raises(RuntimeError, match="no board to answer: reset first"):
                env.step(MapflakeAction(answer="x"))
            env.reset(seed=1)
            env.step(MapflakeAction(answer="x"))
    assert post(f"{server}/step", b'{"action": {"answer": "x"}}')[0] == 422


HOSTILE = {
    "large": json.dumps({"type": "step", "data": {"answer": "x" * 10_000_000}}),
    "deep": "[" * 100_000,
    "number": '{"type": "reset", "data": {"seed": ' + "9" * 5000 + "}}",
    "many keys": json.dumps({"type": "reset", "data": {"config": {str(k): k for k in range(20_000)}}}),
    "surrogate": '{"type": "step", "data": {"answer": "\\ud800"}}',
}


@pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_messages(server, message):
    large = len(message) > 1_000_000
    with connect(ws(server), max_size=None) as session:
        if large:
            with pytest.raises(websockets.ConnectionClosed) as closed:
                said(session, message)
            assert closed.value.rcvd.code == 1009  # too big
        else:
            answer = said(session, message)
            assert answer["type"] == "error"
            assert len(json.dumps(answer)) < 5000
    assert post(f"{server}/step", message.encode())[0] in ((413,) if large else (400, 422))


def has_room(url):
    with connect(ws(url)) as session:
        try:
            return said(session, {"type": "reset", "data": {"seed": 1}})["type"] == "observation"
        except websockets.ConnectionClosed:
            return False


def memory(pid):
    """Returns the resident memory of a process, in MB."""
    return int(re.search(r"VmRSS:\s*(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1024


def test_hundreds_of_sessions_that_are_never_closed(small):
    url, pid = small

    async def leave_open(count):
        sessions = []
        for _ in range(count):
            session = await websockets.connect(ws(url), open_timeout=60)
            with suppress(websockets.ConnectionClosed):
                await session.send(json.dumps({"type": "reset", "data": {"seed": 1}}))
            answer = json.loads(await session.recv())
            if answer["type"] == "error":
                assert answer["data"]["code"] == "CAPACITY_REACHED"
            else:
                sessions.append(session)
        return sessions

    async def play():
        await leave_open(50)
        before = memory(pid)
        sessions = await leave_open(200)
        assert len(sessions) < 100
        assert memory(pid) < before + 20
        for session in sessions[-SESSIONS:]:
            await asyncio.wait_for(session.wait_closed(), 60)  # silent for too long

    asyncio.run(play())
    until(lambda: has_room(url))


def test_a_body_that_stalls(small):
    url, _ = small
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(
            b"POST /reset HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
        )
        client.settimeout(30)
        assert b" 408 " in client.recv(1000)


def test_it_is_on_this_machine_alone(server):
    port = int(server.rpartition(":")[2])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == port]
    assert listening == [f"0100007F:{port:04X}"]


def test_the_web_page_draws_the_board_and_the_plan():
    from gradio_client import Client

    with serving(ENABLE_WEB_INTERFACE="true") as (url, _):
        page = Client(f"{url}/web/", verbose=False)
        pictures = [str(page.predict(api_name="/reset_env")[0])]
        board = Instance.from_text(json.loads(post(f"{url}/web/reset", b'{"seed": 3}')[1])["observation"]["board"])
        for answer in ("no plan", json.dumps({"plan": ["D" * 9999] * board.num_agents}), '{"plan": ["URDL", "LL"]}'):
            post(f"{url}/web/reset", b'{"seed": 3}')
            pictures.append(str(page.predict(answer, api_name="/step_fn")[0]))
        assert all("data:image/png;base64" in picture for picture in pictures)
        assert pictures[1] == pictures[2] != pictures[3]  # a plan of thousands of moves is not drawn


def test_the_hubs_own_validation():
    openenv = Path(sys.executable).parent / "openenv"
    done = subprocess.run([openenv, "validate", HUB, "--level", "static"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Verdict: PASS" in done.stdout


def test_sessions_at_once_do_not_meet_as_the_load_benchmark_would_see(server):
    plays = [openenv_load.board_plays(k, 3) for k in range(6)]
    assert len({play.expected[0] for session in plays for play in session}) == 18
    numbers = openenv_load.load(server, os.getpid(), plays, 0.5, "board")
    assert numbers["episodes"] >= 6
    assert (numbers["errors"], numbers["wrong"]) == (0, 0)
    expected = [play.expected for play in plays[0]]
    swapped = [
        [play._replace(expected=board) for play, board in zip(session, expected, strict=True)] for session in plays[1:]
    ]
    numbers = openenv_load.load(server, os.getpid(), swapped, 0.5, "board")
    assert numbers["wrong"] == numbers["episodes"] > 0
    text = openenv_load.markdown({"sessions": 6, "seconds": 0.5, "boards": 3, "rows": [{"environment": "x"} | numbers]})
    assert f"| {numbers['episodes']} " in text
