"""The inspect-ai task from inspect's command line and from Python, with golden answers."""

import re
from collections import Counter
from pathlib import Path

import inspect_ai
import pytest
from inspect_ai.log import read_eval_log
from small_repo import done
from transcripts import TRANSCRIPTS

from mapflake.adapters.inspect_task import FIELDS, frozenlake
from mapflake.env import Instance, check, parse_completion, save_tasks
from mapflake.repro import from_json


def _spoken(completion):
    """Returns an answer without its reasoning, which inspect takes from what a server says."""
    return completion.split("</think>")[-1].lstrip()


@pytest.mark.parametrize("prompt_format", ["chat", "compact"])
def test_golden_answers_of_a_server(tmp_path, serve, monkeypatch, prompt_format):
    """Every answer has its golden verdict, and the metrics are the means; those in chat from the command line."""
    chosen = [t for t in TRANSCRIPTS if t.prompt_format == prompt_format]
    save_tasks(tmp_path / "tasks.jsonl", [transcript.task for transcript in chosen])
    server, model = serve(chosen), "openai-api/golden/golden"
    monkeypatch.setenv("GOLDEN_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    if prompt_format == "chat":
        monkeypatch.delenv("PYTHONPATH", raising=False)  # it is the installed package that runs
        command = ["inspect", "eval", "mapflake/frozenlake", "--model", model, "--model-base-url", f"{server.url}/v1"]
        done(*command, "-T", "tasks=tasks.jsonl", "--log-dir", "logs", "--display", "none")
        (path,) = Path("logs").glob("*.eval")
        log = read_eval_log(str(path))
    else:
        task = frozenlake("tasks.jsonl", prompt_format)
        (log,) = inspect_ai.eval(task, model, model_base_url=f"{server.url}/v1", log_dir="logs", display="none")
    assert {request["path"] for request in server.asked} == {"/v1/chat/completions"}
    assert log.status == "success", log.error
    golden = {(t.prompt, _spoken(t.completion)): t for t in chosen}
    seen = Counter()
    for sample in log.samples:
        score = sample.scores["verdict"]
        transcript = golden[sample.input, _spoken(sample.output.completion)]
        seen[transcript.name] += 1
        assert score.value == {name: getattr(transcript, name) for name in ("reward", *FIELDS)}
        expected = f"fails: {', '.join(transcript.violations)}" if transcript.violations else "valid, makespan "
        assert score.explanation.startswith(expected)
    assert seen == Counter(t.name for t in chosen)
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert means["reward"] == pytest.approx(sum(t.reward for t in chosen) / len(chosen))


def test_boards_are_drawn_as_asked():
    task = frozenlake(n=6, sizes="4,5", num_agents=3, wait_ratio=1.0, seed=3)
    boards = [sample.metadata["task"] for sample in task.dataset]
    assert sorted(board["instance"]["size"] for board in boards) == [4, 4, 4, 5, 5, 5]
    assert all(board["needs_wait"] and len(board["solution"]["plan"]["moves"]) == 3 for board in boards)
    assert {sample.metadata["task"]["instance"]["size"] for sample in frozenlake(n=2, sizes=3).dataset} == {3}
    assert {sample.metadata["task"]["instance"]["size"] for sample in frozenlake(n=2, sizes=(4, 5)).dataset} == {4, 5}
    for sample, board in zip(task.dataset, boards, strict=True):
        assert check(from_json(Instance, board["instance"], "instance"), parse_completion(sample.target, 3)).valid
    with pytest.raises(ValueError, match=re.escape("sizes: 99 is not an integer in 3..10")):
        frozenlake(sizes=99)
    with pytest.raises(ValueError, match=re.escape("sizes: [4.5] is not one or more integers")):
        frozenlake(sizes=4.5)


def test_the_example(example):
    metrics = example("eval_inspect")
    assert metrics["valid"]["mean"] == 0
