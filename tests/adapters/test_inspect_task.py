"""The inspect-ai task in inspect's own evaluation and from its command line, with golden answers."""

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import inspect_ai
import pytest
from inspect_ai.log import read_eval_log
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from transcripts import CHAT, TRANSCRIPTS, answers

from mapflake.adapters.inspect_task import FIELDS, frozenlake
from mapflake.env import Instance, check, parse_completion, save_tasks
from mapflake.repro import from_json


def _tasks(tmp_path, transcripts):
    save_tasks(tmp_path / "tasks.jsonl", [transcript.task for transcript in transcripts])
    return str(tmp_path / "tasks.jsonl")


def _spoken(completion):
    """Returns an answer without its reasoning, which inspect takes from what a server says."""
    return completion.split("</think>")[-1].lstrip()


def _compare(log, transcripts):
    """Every answer has its golden verdict, and the metrics are the means."""
    assert log.status == "success", log.error
    golden = {(t.prompt, _spoken(t.completion)): t for t in transcripts}
    seen = Counter()
    for sample in log.samples:
        score = sample.scores["verdict"]
        transcript = golden[sample.input, _spoken(sample.output.completion)]
        seen[transcript.name] += 1
        assert score.value == {name: getattr(transcript, name) for name in ("reward", *FIELDS)}
        expected = f"fails: {', '.join(transcript.violations)}" if transcript.violations else "valid, makespan "
        assert score.explanation.startswith(expected)
    assert seen == Counter(t.name for t in transcripts)
    means = {score.name: score.metrics["mean"].value for score in log.results.scores}
    assert means["reward"] == pytest.approx(sum(t.reward for t in transcripts) / len(transcripts))


def test_golden_answers_in_inspects_evaluation(tmp_path):
    chosen = [t for t in TRANSCRIPTS if t.prompt_format == "compact"]  # chat: below
    answer = answers(chosen)

    def outputs(messages, *_):
        output = ModelOutput.from_content("mockllm/model", answer(messages[-1].text))
        output.usage = ModelUsage()  # else it fetches a tokenizer to count
        return output

    task = frozenlake(_tasks(tmp_path, chosen), prompt_format="compact")
    model = get_model("mockllm/model", custom_outputs=outputs)
    log = inspect_ai.eval(task, model=model, log_dir=str(tmp_path), display="none")[0]
    _compare(log, chosen)


def test_golden_answers_of_a_server_from_the_command_line(tmp_path, serve):
    server = serve(CHAT)
    command = ["inspect", "eval", "mapflake/frozenlake", "--model", "openai-api/golden/golden"]
    command += ["--model-base-url", f"{server.url}/v1", "-T", f"tasks={_tasks(tmp_path, CHAT)}"]
    command += ["--log-dir", str(tmp_path / "logs"), "--display", "none"]
    here = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # the package as it is installed
    done = subprocess.run(command, cwd=tmp_path, env=here | {"GOLDEN_API_KEY": "none"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = Path(tmp_path, "logs").glob("*.eval")
    _compare(read_eval_log(str(path)), CHAT)
    assert {asked["path"] for asked in server.asked} == {"/v1/chat/completions"}


def test_boards_are_drawn_as_asked():
    task = frozenlake(n=6, sizes="4,5", num_agents=3, wait_ratio=1.0, seed=3)
    boards = [sample.metadata["task"] for sample in task.dataset]
    assert sorted(board["instance"]["size"] for board in boards) == [4, 4, 4, 5, 5, 5]
    assert all(board["needs_wait"] and len(board["solution"]["plan"]["moves"]) == 3 for board in boards)
    assert {sample.metadata["task"]["instance"]["size"] for sample in frozenlake(n=2, sizes=3).dataset} == {3}
    for sample, board in zip(task.dataset, boards, strict=True):
        assert check(from_json(Instance, board["instance"], "instance"), parse_completion(sample.target, 3)).valid
    with pytest.raises(ValueError, match=re.escape("sizes: 99 is not an integer in 3..10")):
        frozenlake(sizes=99)


def test_the_example(example):
    metrics = example("eval_inspect")
    assert metrics["valid"]["mean"] == 0
