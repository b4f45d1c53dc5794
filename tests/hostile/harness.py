"""Runs one hostile case in a process of its own: limits on time and memory, and a watch on what it does.

The watch is an audit hook of Python: it sees every file opened for writing, every process started, every connection
made and every object that pickle builds, whoever does it. What compiled code does on its own it does not see; the
canary, a file that all the planted code would make, is looked for as well.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SECONDS, MEMORY = 30, 2**30  # a case's wall time; its memory on top of the modules imported
LONGEST = 2000  # characters of a message
SECRETS = {name: f"canary-{name.lower()}-7f3a" for name in ("OPENAI_API_KEY", "WANDB_API_KEY", "HF_TOKEN")}
PASSWORD = "canary-password-7f3a"
CANARY = "canary.txt"
CODE = f"open({CANARY!r}, 'w').close()"  # what the planted code does


@dataclass(frozen=True)
class Case:
    """Something hostile: `action(folder, server)` is to raise `error` with `text` in it, or to return `text`."""

    id: str
    action: Callable[[Path, str], Any]
    text: str
    error: type[Exception] | None = None


def run(case: Case, folder: Path, server: str, pipe: Connection) -> None:
    """Sends what became of the case: (kind of the outcome, text, what it did that it must not)."""
    os.environ.update(SECRETS)
    os.environ |= {"HF_HOME": str(folder / "hf"), "HF_HUB_DISABLE_TELEMETRY": "1"}
    work = folder / "repository"
    work.mkdir()
    os.chdir(work)
    with open(folder / "output.txt", "w") as output:
        for descriptor in (1, 2):
            os.dup2(output.fileno(), descriptor)
    seen: list[str] = []
    used = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    sys.addaudithook(lambda event, arguments: _watch(event, arguments, folder, server, seen))
    try:
        outcome = ("returned", str(case.action(work, server)))
    except BaseException as error:  # also SystemExit: a case must not end the process
        outcome = (type(error).__name__, str(error))
        kinds = {kind.__name__ for kind in type(error).__mro__}
        if case.error and case.error.__name__ in kinds:
            outcome = (case.error.__name__, str(error))
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    if list(folder.rglob(CANARY)) or Path(CANARY).exists():
        seen.append("ran planted code")
    pipe.send((*outcome, seen))


def _watch(event: str, arguments: tuple[Any, ...], folder: Path, server: str, seen: list[str]) -> None:
    if event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class"):
        seen.append(f"{event} {str(arguments)[:200]}")
    elif event == "socket.connect":
        address = arguments[1]
        if isinstance(address, tuple) and f"{address[0]}:{address[1]}" not in server:
            seen.append(f"connected to {address}")
    elif event == "socket.getaddrinfo" and arguments[0] not in ("127.0.0.1", "localhost", None):
        seen.append(f"asked for {arguments[0]}")
    elif event == "open":
        path, _, flags = arguments
        with contextlib.suppress(TypeError, ValueError):
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not isinstance(path, int):
                where = Path(os.fsdecode(path)).resolve()
                if folder not in where.parents and where.parts[1] != "dev" and where.suffix != ".pyc":
                    seen.append(f"wrote {where}")
    elif event in ("os.remove", "os.rmdir", "os.rename", "shutil.rmtree"):
        where = Path(os.fsdecode(arguments[0])).resolve()
        if folder not in where.parents:
            seen.append(f"{event} {where}")
