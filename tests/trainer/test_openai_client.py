"""The client against a scripted server that misbehaves, and against a real one, both on this machine."""

import contextlib
import json
import time
from collections import Counter

import openai
import pytest
from chat_server import Chat, completion, serving, started
from starts import TASKS, byte_level_model
from transformers import Qwen3ForCausalLM

from mapflake.env import format_plan
from mapflake.trainer import evaluate
from mapflake.trainer.openai_client import MAX_MESSAGE, OpenAIPolicy, ServerError
from mapflake.trainer.policy import save_policy


class Scripted(Chat):
    """Answers with the next line of the script, the last one for good: (status, body) or a callable."""

    def respond(self, asked, number):
        step = self.server.script[min(number, len(self.server.script) - 1)]
        step(self) if callable(step) else self.answer(*step)


@pytest.fixture
def served(monkeypatch):
    """Returns (server, policy) for a script."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setattr(openai._base_client, "INITIAL_RETRY_DELAY", 0.01)
    with contextlib.ExitStack() as stack:

        def serve(*script, **settings):
            server = stack.enter_context(serving(Scripted, script=script))
            return server, OpenAIPolicy("m", f"{server.url}/v1", **{"timeout": 5.0, "retries": 2} | settings)

        yield serve


def _error(status, message="no"):
    return status, json.dumps({"error": {"message": message}})


def _choices(texts):
    body = json.loads(completion(""))
    body["choices"] = [json.loads(completion(text))["choices"][0] | {"index": i} for i, text in enumerate(texts)]
    return 200, json.dumps(body)


def test_the_samples_of_a_prompt_are_one_request(served):
    server, policy = served(_choices(["x", "y"]))
    assert policy.complete(["a", "b"], n=2, temperature=0.5, max_new_tokens=7, seed=3) == [["x", "y"]] * 2
    assert Counter(a["messages"][0]["content"] for a in server.asked) == {"a": 1, "b": 1}
    assert {(a["n"], a["temperature"], a["max_tokens"], a["model"]) for a in server.asked} == {(2, 0.5, 7, "m")}
    seeds = sorted(a["seed"] for a in server.asked)
    assert len(set(seeds)) == 2
    policy.complete(["a", "b"], n=2, seed=3)
    assert sorted(a["seed"] for a in server.asked[2:]) == seeds
    assert policy.complete(["a"], schema={"type": "object"}) == [["x"]]
    assert "n" not in server.asked[-1]
    assert [body.get("response_format", {}).get("json_schema", {}).get("schema") for body in server.asked[3:]] == [
        None, {"type": "object"},
    ]  # fmt: skip


def test_a_model_that_wants_the_newer_name_of_the_length_gets_it(served):
    refusal = _error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    server, policy = served(refusal, (200, completion("x")), concurrency=1)
    assert policy.complete(["a", "b"], n=1, max_new_tokens=7) == [["x"], ["x"]]
    keys = ("max_tokens", "max_completion_tokens")
    assert [[body.get(key) for key in keys] for body in server.asked] == [[7, None], [None, 7], [None, 7]]
    assert policy.complete(["a"], n=1, max_new_tokens=8) == [["x"]]
    assert server.asked[-1]["max_completion_tokens"] == 8  # it is known from now on


@pytest.mark.parametrize(
    ("first", "missing"),
    [((200, completion("yes")), 2), (_choices(["yes", 7, "yes"]), 1), ((422, "{}"), 3)],
    ids=["ignored", "no text", "refused"],
)
def test_samples_that_do_not_come_together_are_asked_for_one_by_one(served, first, missing, caplog):
    server, policy = served(first, (200, completion("yes")), concurrency=1)
    assert policy.complete(["a"], n=3, seed=3) == [["yes"] * 3]
    assert "m: the samples of each prompt are equal: does the server sample (do_sample)?" in caplog.text
    group, *single = server.asked
    assert group["n"] == 3
    assert not any("n" in a for a in single)
    assert len(single) == missing
    assert len({a["seed"] for a in single}) == len(single)
    assert not policy.failures


@pytest.mark.parametrize(
    ("trouble", "tries", "reason"),
    [
        (_error(500), 3, "HTTP 500"),
        (lambda handler: handler.connection.close(), 3, "no connection (RemoteProtocolError)"),
        (lambda handler: handler.answer(429, "{}", **{"Retry-After": "1e9"}), 1, "HTTP 429"),  # in thirty years
        (lambda handler: time.sleep(0.6), 3, "no answer within 0.3 s"),
        ((200, "<html>busy</html>"), 1, "unreadable reply (JSONDecodeError)"),
        ((200, completion("", "content_filter")), 1, "reply without a text"),  # it was held back
    ],
)
def test_what_may_succeed_later_is_tried_again_and_what_fails_is_counted(served, trouble, tries, reason, caplog):
    server, policy = served(*[trouble] * (tries - 1), (200, completion("yes \ud800")), timeout=0.3)
    assert policy.complete(["a"]) == [["yes ?"]]
    assert len(server.asked) == tries
    assert not policy.failures
    server, policy = served(trouble, timeout=0.3)
    assert policy.complete(["a", "b"]) == [[None], [None]]
    assert len(server.asked) == 2 * tries
    assert policy.failures == {reason: 2}
    assert f"m: 2 of 2 samples failed and are left out: {reason} (2)" in caplog.text


def test_a_server_that_refuses_or_is_not_there_stops_everything_and_says_why(served):
    server, policy = served(_error(404, "such a thing"), concurrency=1)
    with pytest.raises(ServerError, match=r"http://127.*/v1/: m: .*such a thing"):
        policy.complete(["a"] * 20)
    assert len(server.asked) < 20
    server.shutdown()
    server.server_close()
    with pytest.raises(ServerError, match=r"http://127.*/v1/: m: no server there, after 3 tries"):
        policy.complete(["a"] * 20)


def test_the_key_is_read_from_the_environment_alone_and_no_part_of_it_is_shown(served, monkeypatch):
    with pytest.raises(ServerError, match="set the environment variable OPENAI_API_KEY"):
        OpenAIPolicy("m", "https://somewhere.example/v1").complete(["a"])
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    places = range(MAX_MESSAGE - 80, MAX_MESSAGE, 5)  # the message is cut within the key, somewhere here
    server, policy = served(*[_error(404, "-" * before + "secret-key") for before in places])
    for _ in places:
        with pytest.raises(ServerError) as caught:
            policy.complete(["a"])
        assert "sec" not in str(caught.value) + repr(policy)
    assert {body["key"] for body in server.asked} == {"Bearer secret-key"}


@pytest.mark.parametrize(("content", "finish"), [("", "stop"), (None, "tool_calls")])
def test_a_model_that_says_nothing_has_answered(served, content, finish):
    """Its answer is an empty text, as that of a local policy would be, and no sample is asked for again."""
    right = format_plan(TASKS[0].instance, TASKS[0].solution.plan)
    body = json.loads(_choices([right, right, right])[1])
    body["choices"][1] |= json.loads(completion(content, finish))["choices"][0]
    server, policy = served((200, json.dumps(body)))
    rollouts = evaluate.rollout(policy, TASKS[:1], samples=3, seed=0)
    assert [r.completion for r in rollouts] == [right, "", right]
    assert [r.verdict.valid for r in rollouts] == [True, False, True]
    assert len(server.asked) == 1
    assert not policy.failures


def test_lost_samples_are_left_out_of_rollouts_and_not_counted_as_wrong(served, caplog):
    right = format_plan(TASKS[0].instance, TASKS[0].solution.plan)
    _, policy = served((200, completion(right)), _error(500), (200, completion(right)), concurrency=1, retries=0)
    rollouts = evaluate.rollout(policy, TASKS[:1], samples=3, seed=0)
    assert [(r.sample, r.verdict.valid) for r in rollouts] == [(0, True), (2, True)]
    assert "1 of 3 samples were not answered and are left out" in caplog.text
    _, policy = served(_error(500), retries=0)
    with pytest.raises(ValueError, match="none of 3 samples was answered"):
        evaluate.rollout(policy, TASKS[:1], samples=3, seed=0)


@pytest.mark.slow
def test_a_real_server(tmp_path):
    """`transformers serve` with a tiny random model, which takes every sample greedily."""
    folder = tmp_path / "model"
    save_policy(*byte_level_model(Qwen3ForCausalLM, 64, num_key_value_heads=1, head_dim=32), folder)
    command = ["transformers.cli.transformers", "serve", str(folder), "--device", "cpu"]
    with started(*command, log=tmp_path / "log", HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="") as port:
        policy = OpenAIPolicy(str(folder), f"http://127.0.0.1:{port}/v1", timeout=60.0, retries=1)
        rollouts = evaluate.rollout(policy, TASKS[:3], samples=2, seed=0)
    assert len(rollouts) == 6
    assert all(r.verdict.kinds for r in rollouts)  # random weights
    assert any(r.completion for r in rollouts)
