"""A real server on this machine that answers a request for a chat completion as badly as its path says."""

from __future__ import annotations

import json

from chat_server import Chat, completion

SECRETS = {name: f"canary-{name.lower()}-7f3a" for name in ("OPENAI_API_KEY", "WANDB_API_KEY", "HF_TOKEN")}

BODIES = {  # path -> body of a reply with status 200
    "not-json": "<html>busy</html>",
    "number": completion(7),
    "surrogates": completion("\ud800\ud800"),
}


class Hostile(Chat):
    """Behaves as the first part of the path says."""

    def respond(self, asked, number):
        name = self.path.split("/")[1]
        if name in BODIES:
            self.answer(200, BODIES[name])
        elif name.isdigit():
            said = f"refused: {self.headers['Authorization']} by {self.headers['Host']}"
            self.answer(int(name), json.dumps({"error": {"message": said}}))
        elif name == "garbage":
            self.wfile.write(bytes(range(256)) * 10)
        else:  # to come back in thirty years
            self.answer(429, "{}", **{"Retry-After": "1e9"})
