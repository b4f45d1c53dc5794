"""Hostile input ends in a clear error or a counted rejection, in bounded time and memory.

It runs no code, writes nowhere but in its folder, connects to nobody, and prints no secret. The table of cases is in
hostile_cases.py.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections import Counter
from http.server import ThreadingHTTPServer
from multiprocessing import forkserver

import pytest
from harness import LONGEST, PASSWORD, SECONDS, SECRETS
from hostile_cases import CASES, run_case
from hostile_server import Hostile


@pytest.fixture(scope="module")
def server():
    served = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()


@pytest.fixture(scope="module")
def context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["hostile_cases"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # the server imports by no other
        forkserver.ensure_running()
    first = context.Process(target=os.getpid)  # it waits for the imports
    first.start()
    first.join()
    return context


def test_there_are_enough_and_each_has_a_name_of_its_own():
    assert len(CASES) >= 80
    assert [name for name, count in Counter(case.id for case in CASES).items() if count > 1] == []


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_hostile(case, context, server, tmp_path):
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=run_case, args=(case.id, tmp_path, server, theirs))
    process.start()
    theirs.close()
    try:
        assert ours.poll(SECONDS), "it did not end in time"
        kind, text, forbidden = ours.recv()
    except EOFError:
        pytest.fail(f"the process died: {(tmp_path / 'output.txt').read_text()[-2000:]}")
    finally:
        process.kill()
        process.join()
    printed = (tmp_path / "output.txt").read_text(errors="replace")
    assert (kind, case.text in text) == (case.error.__name__ if case.error else "returned", True), f"{kind}: {text}"
    assert len(text) <= LONGEST
    assert forbidden == []
    assert [name for name in (*SECRETS.values(), PASSWORD) if name in printed + text] == []
    assert not os.path.exists("/tmp/canary.txt")
