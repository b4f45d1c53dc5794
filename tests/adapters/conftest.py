"""A real OpenAI-compatible server on this machine, whose model gives golden answers."""

import contextlib
import runpy
from pathlib import Path

import pytest
from chat_server import Chat, completion, serving
from transcripts import answers


class Golden(Chat):
    protocol_version = "HTTP/1.1"

    def respond(self, asked, number):
        self.answer(200, completion(self.server.model(asked["messages"][-1]["content"]), model=asked["model"]))


@pytest.fixture
def serve():
    """Returns a function that serves transcripts."""
    with contextlib.ExitStack() as stack:
        yield lambda transcripts: stack.enter_context(serving(Golden, model=answers(transcripts)))


@pytest.fixture
def example():
    """Returns a function that runs `main` of an example of the documentation, given its name."""
    folder = Path(__file__).parents[2] / "docs" / "examples"
    return lambda name, *arguments: runpy.run_path(str(folder / f"{name}.py"))["main"](*arguments)
