"""Marked secrets in the environment are looked for in everything that a run writes and prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from chat_server import Chat, serving

HERE = Path(__file__).resolve().parent
SECRETS = {name: f"canary-{name.lower()}-7f3a" for name in ("OPENAI_API_KEY", "WANDB_API_KEY", "HF_TOKEN")}


class Hostile(Chat):
    """Refuses each request with what it was sent, with the status that the path begins with."""

    def respond(self, asked, number):
        message = f"refused: {self.headers['Authorization']} by {self.headers['Host']}"
        self.answer(int(self.path.split("/")[1]), json.dumps({"error": {"message": message}}))


def test_no_secret_is_written_or_printed(tmp_path):
    paths = [HERE.parents[1], HERE, HERE.parent, HERE.parent / "engineer"]
    environment = os.environ | SECRETS | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "WANDB_MODE": "offline"}
    environment |= {"WANDB_DIR": str(tmp_path), "HOME": str(tmp_path), "OPENAI_LOG": "debug"}
    with serving(Hostile) as server:
        done = subprocess.run(
            [sys.executable, str(HERE / "secret_run.py"), server.url],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "to the end" in done.stdout
    sent = {request["key"] for request in server.asked}
    assert f"Bearer {SECRETS['OPENAI_API_KEY']}" in sent  # the server had it, and sent it back
    assert "Bearer ***" in done.stderr
    written = [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_symlink()]
    names = {path.name for path in written}
    assert {"rounds.jsonl", "rollouts.jsonl", "model.safetensors", "analysis.ipynb"} <= names
    assert any(path.suffix == ".wandb" for path in written)
    leaks = [p for p in written if any(secret.encode() in p.read_bytes() for secret in SECRETS.values())]
    assert leaks == []
    assert [secret for secret in SECRETS.values() if secret in done.stdout + done.stderr] == []
