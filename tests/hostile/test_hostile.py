"""Hostile input ends in a clear error or a counted rejection; it runs no code and prints no secret.

The table of cases is in hostile_cases.py.
"""

from __future__ import annotations

import threading
from http.server import ThreadingHTTPServer

import openai
import pytest
from hostile_cases import CANARY, CASES, PASSWORD, SECRETS
from hostile_server import Hostile

LONGEST = 2000  # characters of a message


@pytest.fixture(scope="module")
def server():
    served = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_hostile(case, server, tmp_path, monkeypatch, capfd, caplog):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)
    for name, value in (SECRETS | {"OPENAI_BASE_URL": ""}).items():
        monkeypatch.setenv(name, value)  # a case may set its own
    if case.error:
        with pytest.raises(case.error) as caught:
            case.action(tmp_path, server)
        text = str(caught.value)
    else:
        text = str(case.action(tmp_path, server))
    assert case.text in text
    assert len(text) <= LONGEST
    assert not list(tmp_path.rglob(CANARY))
    printed = "".join(capfd.readouterr()) + caplog.text + text
    assert [secret for secret in (*SECRETS.values(), PASSWORD) if secret in printed] == []
