"""OpenAI-compatible servers on this machine, for the tests of their clients."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


def completion(content: Any, finish: str = "stop", model: str = "m") -> str:
    """Returns the body of a reply."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": model}
    return json.dumps(body | {"choices": [choice], "usage": usage})


class Chat(BaseHTTPRequestHandler):
    """Takes a request and numbers it from 0; the method `respond` of a subclass answers it."""

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.asked)
            self.server.asked.append(request | {"path": self.path, "key": self.headers["Authorization"]})
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client went away, as it should
            self.respond(request, number)

    def answer(self, status: int, body: str, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """`url` is its address without a path; `asked` are the requests, each with its `path` and `key`."""

    request_queue_size = 128  # clients ask all at once; of more than the default 5 some are refused on a busy machine


@contextlib.contextmanager
def serving(handler: type[Chat], **attributes: Any) -> Iterator[Server]:
    """Yields a server with these attributes, until the block ends."""
    with Server(("127.0.0.1", 0), handler) as server:
        vars(server).update(attributes, asked=[], lock=threading.Lock(), url=f"http://127.0.0.1:{server.server_port}")
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()  # looks so often for its end
        try:
            yield server
        finally:
            server.shutdown()


@contextlib.contextmanager
def started(module: str, *options: str, log: Path, **environment: str) -> Iterator[int]:
    """Runs a module of another package as a server until the block ends; yields its port as soon as it listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", module, *options, "--host", "127.0.0.1", "--port", str(port)]
    with open(log, "w") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | environment)
    try:
        while True:
            if server.poll() is not None:
                pytest.fail(f"{module} ended: {log.read_text()[-3000:]}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.2)
        yield port
    finally:
        server.terminate()
        server.wait(60)
