"""A real server on this machine that answers a request for a chat completion as badly as its path says."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler

SECRETS = {name: f"canary-{name.lower()}-7f3a" for name in ("OPENAI_API_KEY", "WANDB_API_KEY", "HF_TOKEN")}


def completion(content, **choice):
    """Returns the body of a reply."""
    choices = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}} | choice]
    return {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}


BODIES = {  # path -> body of a reply with status 200
    "not-json": "<html>busy</html>",
    "number": json.dumps(completion(7)),
    "surrogates": json.dumps(completion("\ud800\ud800")),
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
