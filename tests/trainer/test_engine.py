"""Whose processes an engine watches and ends. vLLM is a stand-in (test_vllm.py has it), the processes are real."""

import multiprocessing
import sys
import time
from types import SimpleNamespace

import pytest

from mapflake.trainer.engine import Engine
from mapflake.trainer.params import VllmParams

SPAWN = multiprocessing.get_context("spawn")


def _child():
    process = SPAWN.Process(target=time.sleep, args=(600,), daemon=True)
    process.start()
    return process


@pytest.fixture
def stranger():
    """A child process that is none of vLLM's."""
    process = _child()
    yield process
    process.kill()
    process.join()


@pytest.fixture
def engine(monkeypatch):
    """An engine whose vLLM is one sleeping process."""
    errors = {"vllm.exceptions": "VLLMClientError", "vllm.v1.engine.exceptions": "EngineDeadError"}
    for module, name in errors.items():
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(**{name: type(name, (Exception,), {})}))

    def start(self):
        process = _child()
        core = SimpleNamespace(shutdown=process.kill)
        core.resources = SimpleNamespace(engine_manager=SimpleNamespace(processes=[process]))
        return SimpleNamespace(llm_engine=SimpleNamespace(engine_core=core), process=process)

    monkeypatch.setattr(Engine, "_start", start)
    engine = Engine("nowhere", VllmParams())
    yield engine
    engine.free()


def test_another_child_may_end_while_the_engine_answers(engine, stranger):
    def question(llm):
        stranger.kill()
        stranger.join()
        time.sleep(2.5)  # longer than two looks at the processes
        return "answer"

    assert engine._ask(question) == "answer"


def test_another_child_outlives_the_watch(engine, stranger):
    process = engine._ask(lambda llm: llm.process)
    engine._watch.stdin.close()  # as when this process is killed
    engine._watch.wait()
    process.join(60)
    assert process.exitcode == -9
    assert stranger.is_alive()
