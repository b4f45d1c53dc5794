"""A real OpenAI-compatible server on this machine, whose model gives golden answers."""

import json
import runpy
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from transcripts import answers


class _Chat(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.asked.append((self.path, asked))
            content = self.server.answer(asked["messages"][-1]["content"])
        choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": asked["model"]}
        sent = json.dumps(body | {"choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(sent)))
        self.end_headers()
        self.wfile.write(sent)

    def log_message(self, *_):
        pass


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # clients ask all at once; of more than the default 5 some are refused on a busy machine


@pytest.fixture
def serve():
    """Returns a function that serves transcripts; the server has `url` and `asked`."""
    servers = []

    def start(transcripts):
        server = _Server(("127.0.0.1", 0), _Chat)
        server.answer, server.asked, server.lock = answers(transcripts), [], threading.Lock()
        server.url = f"http://127.0.0.1:{server.server_port}/v1"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def example():
    """Returns a function that runs `main` of an example of the documentation, given its name."""
    folder = Path(__file__).parents[2] / "docs" / "examples"
    return lambda name, *arguments: runpy.run_path(str(folder / f"{name}.py"))["main"](*arguments)
