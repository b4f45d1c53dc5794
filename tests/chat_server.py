"""OpenAI-compatible servers on this machine, for the tests of their clients."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def completion(content: Any, finish: str = "stop", model: str = "m") -> str:
    """Returns the body of a reply."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    body = {"id": "x", "object": "chat.completion", "created": 0, "model": model}
    return json.dumps(body | {"choices": [choice], "usage": usage})


class Chat(BaseHTTPRequestHandler):
    """Takes a request and gives it a number, from 0; how it is answered is `respond`, of a subclass."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.asked)
            self.server.asked.append(asked | {"path": self.path, "key": self.headers["Authorization"]})
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client went away, as it should
            self.respond(asked, number)

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
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()
