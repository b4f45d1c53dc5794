"""The verifiers taskset through verifiers' own commands, with golden answers; `make test-verifiers` runs these."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("verifiers", reason="verifiers is not installed, it wants openai < 3: make test-verifiers")

import verifiers.v1 as vf
from transcripts import TRANSCRIPTS

from mapflake.adapters.taskset import FrozenLakeConfig
from mapflake.env import (
    KINDS,
    EnvConfig,
    SizeConfig,
    Task,
    format_plan,
    generate,
    judge,
    render_prompt,
    save_tasks,
    split_of,
)
from mapflake.repro import from_json, to_json

BIN = Path(sys.executable).parent
LOCALLY = ["--env.agent.runtime.type", "subprocess", "--no-push", "--no-rich", "--client.api-key-var", "NO_KEY"]


def evaluated(folder, environment, url, *options):
    """Returns the episodes of vf-eval, which writes them at its end."""
    command = [BIN / "vf-eval", environment, "-m", "golden", "--client.base-url", f"{url}/v1", *LOCALLY]
    command += [*options, "-o", folder, "--run.name", "run"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    traces = Path(folder, "run", "traces.jsonl")
    assert traces.is_file(), done.stdout[-3000:] + done.stderr[-3000:]
    return [json.loads(line) for line in traces.read_text().splitlines()]


def test_golden_answers_of_a_server_from_the_command_line(tmp_path, serve):
    chosen = [t for t in TRANSCRIPTS if t.prompt_format == "compact"]  # chat: below
    save_tasks(tmp_path / "tasks.jsonl", [t.task for t in chosen])
    server = serve(chosen)
    options = ["--env.taskset.prompt_format", "compact", "--sampling.temperature", "0.5"]
    options += ["--env.taskset.tasks", tmp_path / "tasks.jsonl"]
    golden, seen = {(t.prompt, t.completion): t for t in chosen}, Counter()
    for episode in evaluated(tmp_path, "mapflake", server.url, *options):
        (trace,) = episode["traces"]
        assert trace["errors"] == []
        question, answer = (node["message"].get("content") or "" for node in trace["nodes"])
        transcript = golden[question, answer]
        seen[transcript.name] += 1
        assert trace["rewards"] == {"reward": {"score": transcript.reward, "weight": 1.0}}
        kinds = judge(transcript.task, answer, "compact").kinds
        rates = {name: getattr(transcript, name) for name in ("valid", "optimal", "soc_optimal")}
        assert trace["metrics"] == rates | {f"fails_{kind}": kind in kinds for kind in KINDS}
    assert seen == Counter(t.name for t in chosen)
    assert len(server.asked) == len(chosen)
    assert {(request["path"], request["temperature"]) for request in server.asked} == {("/v1/chat/completions", 0.5)}


def test_a_server_that_fails_is_an_error_and_no_wrong_answer(tmp_path):
    (episode,) = evaluated(tmp_path, "mapflake", "http://127.0.0.1:9", "-n", "1")
    assert not episode["ok"]
    assert episode["traces"][0]["errors"]


def test_verifiers_own_validation(tmp_path):
    """Every board's own answer passes, and no board passes without an answer."""
    command = [BIN / "vf-validate", "mapflake", "-n", "5", "--runtime.type", "subprocess", "--no-rich", "-o", tmp_path]
    done = subprocess.run([*command, "--run.name", "run"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    rows = [json.loads(line) for line in Path(tmp_path, "run", "results.jsonl").read_text().splitlines()]
    assert [row["reason"] for row in rows] == ["valid"] * 5
    assert [row["noop"]["rewards"] for row in rows] == [{"reward": 0.0}] * 5


def test_boards_are_drawn_as_asked():
    config = FrozenLakeConfig(id="mapflake", n=4, sizes=[4], num_agents=3, wait_ratio=1.0, seed=3)
    tasks = list(vf.load_taskset(config))
    for task in tasks:
        board = from_json(Task, task.data.task, "task")
        assert (board.instance.size, board.instance.num_agents, board.needs_wait) == (4, 3, True)
        assert task.data.prompt == render_prompt(board.instance)
        assert board.solution.plan.moves[0] not in task.data.prompt.split("json")[1]
    assert len({task.data.id for task in tasks}) == 4


DESIGN = EnvConfig({4: SizeConfig(0.75, 0.2, 0.5), 5: SizeConfig(0.25, 0.1)}, num_agents=3)


def test_the_environment_of_a_design_by_its_name():
    from mapf_frozenlake import load_environment

    for config in (DESIGN, to_json(DESIGN)):
        tasks = load_environment(config, n=8, split="train", seed=5).taskset.load()
        assert [from_json(Task, task.data.task, "task") for task in tasks] == generate(DESIGN, 8, seed=5)
    tasks = load_environment(n=3).taskset.load()
    assert {split_of(from_json(Task, task.data.task, "task").instance) for task in tasks} == {"benchmark"}
    with pytest.raises(ValueError, match=r"design\.sizes\.4: 'holes': unknown key"):
        load_environment({"sizes": {"4": {"data_ratio": 1, "hole_ratio": 0, "holes": 1}}}).taskset.load()
    with pytest.raises(ValueError, match="config: has no sizes"):
        load_environment({})


def test_the_hubs_form_through_verifiers_own_command(tmp_path, serve):
    """A server that knows the answers of half of the design's boards gives 1 for these, and 0 for the others."""
    tasks = generate(DESIGN, 6, seed=5)
    right = {render_prompt(task.instance): format_plan(task.instance, task.solution.plan) for task in tasks[:3]}
    wrong = {render_prompt(task.instance): '{"plan": ["W", "W", "W"]}' for task in tasks[3:]}
    server = serve([SimpleNamespace(prompt=prompt, completion=answer) for prompt, answer in (right | wrong).items()])
    options = ["--env.taskset.design", json.dumps(to_json(DESIGN)), "--env.taskset.split", "train"]
    options += ["--env.taskset.n", "6", "--env.taskset.seed", "5"]
    traces = [episode["traces"][0] for episode in evaluated(tmp_path, "mapf-frozenlake", server.url, *options)]
    assert len(traces) == 6
    for trace in traces:
        reward = float(trace["nodes"][0]["message"]["content"] in right)
        assert trace["rewards"]["reward"]["score"] == reward
        assert trace["metrics"]["fails_goal"] == 1 - reward


def test_the_example(example, tmp_path, serve):
    chosen = [t for t in TRANSCRIPTS if t.prompt_format == "chat"][:2]
    save_tasks(tmp_path / "tasks.jsonl", [t.task for t in chosen])
    url, tasks = f"{serve(chosen).url}/v1", str(tmp_path / "tasks.jsonl")
    mean = example("eval_verifiers", url, "golden", str(tmp_path), 2, tasks)
    assert mean == sum(t.reward for t in chosen) / 2
