"""A real server on this machine that answers a request for a chat completion as badly as its path says."""

from __future__ import annotations

import gzip
import json
import time
from http.server import BaseHTTPRequestHandler


def completion(content, **choice):
    """Returns the body of a reply."""
    choices = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}} | choice]
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}


BODIES = {  # path -> body of a reply with status 200
    "not-json": "<html>busy</html>",
    "half": json.dumps(completion("yes"))[:60],
    "list": "[]",
    "no-choices": '{"choices": []}',
    "null-choice": '{"choices": [null]}',
    "number": json.dumps(completion(7)),
    "object": json.dumps(completion({"plan": ["R"]})),
    "deep": "[" * 200_000 + "]" * 200_000,
    "digits": '{"choices": ' + "9" * 10_000 + "}",
    "surrogates": json.dumps(completion("\ud800\ud800")),
    "long": json.dumps(completion("x" * 4_000_000)),
}


class Hostile(BaseHTTPRequestHandler):
    """Behaves as the first part of the path says."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        name = self.path.split("/")[1]
        try:
            if name in BODIES:
                self.answer(200, BODIES[name])
            elif name.isdigit():
                said = f"refused: {self.headers['Authorization']} by {self.headers['Host']}"
                self.answer(int(name), json.dumps({"error": {"message": said}}))
            else:
                getattr(self, name)()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client went away, as it should

    def endless(self):
        """A body without end; so is an error's."""
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b" " * 2**20)

    def endless_error(self):
        self.send_response(400)
        self.end_headers()
        while True:
            self.wfile.write(b" " * 2**20)

    def packed(self):
        """A small reply that unpacks to a huge one."""
        self.answer(200, gzip.compress(b" " * 2**24, 1), {"Content-Encoding": "gzip"})

    def drip(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        for _ in range(100):
            self.wfile.write(b" ")
            self.wfile.flush()
            time.sleep(0.05)

    def redirect(self):
        self.answer(307, "", {"Location": "http://169.254.169.254/latest/meta-data"})

    def loop(self):
        self.answer(302, "", {"Location": self.path})

    def headers_without_end(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200_000)

    def garbage(self):
        self.wfile.write(bytes(range(256)) * 10)

    def wait_for_ever(self):
        """Says to come back in thirty years."""
        self.answer(429, "{}", {"Retry-After": "1e9"})

    def answer(self, status, body, headers=()):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body))} | dict(headers)
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
