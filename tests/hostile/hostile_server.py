"""A server on this machine that refuses each request with what it was sent, and secrets for it to be sent."""

import json

from chat_server import Chat

SECRETS = {name: f"canary-{name.lower()}-7f3a" for name in ("OPENAI_API_KEY", "WANDB_API_KEY", "HF_TOKEN")}


class Hostile(Chat):
    """Answers with the status that the path begins with."""

    def respond(self, asked, number):
        said = f"refused: {self.headers['Authorization']} by {self.headers['Host']}"
        self.answer(int(self.path.split("/")[1]), json.dumps({"error": {"message": said}}))
