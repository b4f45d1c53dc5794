"""vLLM as a policy's engine, as GRPO's sampler and as a server, on a CPU; `make test-vllm` runs these.

A run that looks well proves nothing about weights in step. What does is the gap between vLLM's log-probabilities and
the trainer's after steps at a high learning rate, and that it is wide where weights were not sent, or not all of them.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("vllm", reason="vLLM is not installed: make test-vllm")

from chat_server import started
from starts import PARAMS, TASKS, byte_level_model
from transformers import Qwen3ForCausalLM

from mapflake.engineer import ENGINEER_WORDS, EngineerParams, Round, diagnose, llm_engineer, read_reply, reply_grammar
from mapflake.env import VOCABULARY, EnvConfig, render_prompt
from mapflake.repro import read_jsonl
from mapflake.trainer import checkpoint, evaluate, grpo
from mapflake.trainer import engine as engines
from mapflake.trainer.openai_client import OpenAIPolicy, ServerError
from mapflake.trainer.params import ModelParams, RLParams, VllmParams
from mapflake.trainer.policy import from_scratch, load_policy, save_policy
from mapflake.trainer.round_trainer import RoundTrainer

HERE = Path(__file__).parent
VLLM = VllmParams(max_model_len=1024, gpu_memory_utilization=0.1)
ZERO = "all data ratios are zero: no size would get an instance"
CLOSE = 1e-4


@pytest.fixture(autouse=True)
def _this_machine(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("VLLM_NO_USAGE_STATS", "1")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "WARNING")
    monkeypatch.setenv("PYTHONPATH", f"{HERE}:{HERE.parent}:{HERE.parents[1]}")  # vLLM's processes import the worker
    yield
    engines.free()


@pytest.fixture(scope="module")
def compact(tmp_path_factory):
    """A random policy of the small kind, heads of 32, the output head tied to the embedding."""
    shape = ModelParams(hidden_size=64, layers=2, heads=2, intermediate_size=64)
    policy = from_scratch(shape, [*VOCABULARY, *ENGINEER_WORDS], seed=3)
    return _saved(policy.model, policy.tokenizer, tmp_path_factory.mktemp("compact"))


@pytest.fixture(scope="module")
def chat(tmp_path_factory):
    """A random chat model, heads of 32, the output head tied, its vocabulary padded."""
    shape = {"num_hidden_layers": 2, "num_key_value_heads": 1, "head_dim": 32, "tie_word_embeddings": True}
    model, tokenizer = byte_level_model(Qwen3ForCausalLM, 64, padded=7, max_position_embeddings=4096, **shape)
    return _saved(model, tokenizer, tmp_path_factory.mktemp("chat"))


def _saved(model, tokenizer, folder):
    with torch.no_grad():  # far from uniform, and no token that only repeats itself
        for name, weight in model.named_parameters():
            if weight.dim() == 2:
                weight.mul_(3 if "embed" in name else 8)
    save_policy(model.eval(), tokenizer, folder / "policy")
    return folder / "policy"


# ---------------------------------------------------------------- a policy


def test_a_policy_completes_through_an_engine_of_its_own(compact, chat, caplog):
    policies = []
    for path, prompt, prompt_format in ((compact, "engineer guide design", "compact"), (chat, "Design.", "json")):
        ours, policy = load_policy(path), load_policy(path, vllm=VLLM)
        prompts = [render_prompt(t.instance, ours.prompt_format) for t in TASKS]
        greedy = ours.complete(prompts, temperature=0, max_new_tokens=24)
        assert len({text for (text,) in greedy}) > 1
        assert policy.complete(prompts, n=2, temperature=0, max_new_tokens=24) == [row * 2 for row in greedy]
        llm = policy.engine._llm

        sampled = policy.complete(prompts, n=4, seed=1, max_new_tokens=24)
        assert all(len(set(texts)) > 1 for texts in sampled)
        assert sampled == policy.complete(prompts, n=4, seed=1, max_new_tokens=24)
        assert sampled != policy.complete(prompts, n=4, seed=2, max_new_tokens=24)

        grammar = reply_grammar((3, 4), prompt_format)
        caplog.clear()
        (texts,) = policy.complete([prompt], n=6, max_new_tokens=1000 - len(prompt), grammar=grammar, seed=1)
        assert {read_reply(text, (3, 4), prompt_format).rejection for text in texts} <= {None, ZERO}
        assert "not whole" not in caplog.text
        (texts,) = policy.complete([prompt], n=6, max_new_tokens=3, grammar=grammar)
        assert "6 of 6 completions under the grammar were cut off and are not whole" in caplog.text
        (texts,) = policy.complete([prompt], n=6, max_new_tokens=24)  # the grammar was of those requests alone
        assert all(read_reply(text, (3, 4), prompt_format).rejection for text in texts)

        with pytest.raises(ValueError, match="grammar: "):
            policy.complete([prompt], grammar="start: nothing")
        with pytest.raises(ValueError, match="maximum context length is 1024"):
            policy.complete([" ".join([prompt] * 1000)])
        many = [" ".join([prompt] * 100)] * 40  # more than vLLM reads at once: no prompt is read in parts
        assert len(policy.complete(many, seed=1, max_new_tokens=2)) == 40
        assert policy.engine._llm is llm
        policies.append(policy)
    first, second = (policy.engine for policy in policies)
    assert first._llm is None  # the second took its place
    assert engines.Engine._live is second
    assert len(multiprocessing.active_children()) == 1
    engines.free()
    assert not multiprocessing.active_children()


# ---------------------------------------------------------------- GRPO


class Variety(grpo.Boards):
    """Boards, but any text has a reward: random models have something to learn."""

    def rewards(self, prompt_format):
        return {_variety: 1.0}


def _variety(completions, **_):
    texts = [text if isinstance(text, str) else text[0]["content"] for text in completions]
    return [len(set(text)) / 30 for text in texts]


def _params(**changed):
    shared = {"learning_rate": 1e-2, "vllm": "colocate", "vllm_engine": VLLM.model_dump(), "max_new_tokens": 16}
    return RLParams.parse(PARAMS.model_dump() | shared | changed, "rl")


def _watched(monkeypatch, ways):
    """Measures at each step what a sampler says with the weights that it has, and with those that it is sent.

    Returns a list that gets a row a step: the largest gap to the trainer's log-probabilities, by the way of sending.
    """
    rows, sample = [], RoundTrainer._sample

    def watched(trainer, ids, size):
        sampler, weights = trainer._sampler, engines.trained_weights(trainer.model)
        gaps = {}
        for way, send in ways.items():
            send(sampler, weights)
            decoded = sampler.sample(ids, n=size, temperature=1.0, max_new_tokens=16, seed=1)
            gaps[way] = _gap(trainer, ids, size, [d.ids for d in decoded], [d.logps for d in decoded])
        completions, logps = sample(trainer, ids, size)
        rows.append(gaps | {"in step": _gap(trainer, ids, size, completions, logps)})
        return completions, logps

    monkeypatch.setattr(RoundTrainer, "_sample", watched)
    return rows


def _gap(trainer, ids, size, completions, logps):
    widest = 0.0
    for i, (completion, values) in enumerate(zip(completions, logps, strict=True)):
        prompt = ids[i // size]
        with torch.no_grad():
            logits = trainer.model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        expected = torch.log_softmax(logits, -1).gather(-1, torch.tensor(completion)[:, None])[:, 0]
        widest = max(widest, float((expected - torch.tensor(values)).abs().max()))
    return widest


def _nothing(sampler, weights):
    pass


def _all_but_the_head(sampler, weights):
    with engines._written(weights) as path:
        sampler._ask(lambda llm: llm.collective_rpc("take_weights", args=(path, True)))
    sampler._ask(lambda llm: llm.reset_prefix_cache())


@pytest.fixture(scope="module")
def wholly(compact, tmp_path_factory):
    """Returns a round that vLLM sampled for in the trainer's place, with the gaps of its steps."""
    out = tmp_path_factory.mktemp("wholly") / "policy"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{HERE}:{HERE.parent}:{HERE.parents[1]}")
        patch.setattr(engines.Engine, "worker", "stale_worker.Stale")
        gaps = _watched(patch, {"nothing": _nothing, "all but the head": _all_but_the_head})
        grpo.train_round(compact, Variety(TASKS), _params(), out, seed=0)
    assert not multiprocessing.active_children()  # freed as the round ended
    return out, gaps


def test_weights_are_in_step(wholly):
    _, gaps = wholly
    print(gaps)
    assert len(gaps) == 4
    assert all(row["in step"] < CLOSE for row in gaps)
    for row in gaps[1:]:  # the controls: after a step they are seen to fail
        assert row["nothing"] > 100 * CLOSE
        assert row["all but the head"] > 10 * CLOSE


KILLED = """
import multiprocessing, os, signal, sys
from pathlib import Path
import test_vllm
from transformers import TrainerCallback
from mapflake.trainer import grpo

class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            (engine,) = multiprocessing.active_children()
            Path(sys.argv[2]).with_name("engine").write_text(str(engine.pid))
            os.kill(os.getpid(), signal.SIGKILL)

if __name__ == "__main__":
    original = grpo.run
    grpo.run = lambda trainer, *rest: trainer.add_callback(Kill()) or original(trainer, *rest)
    grpo.train_round(sys.argv[1], test_vllm.Variety(test_vllm.TASKS), test_vllm._params(), sys.argv[2], seed=0)
"""


def test_an_engine_that_dies_and_a_round_that_is_killed_lose_nothing(compact, wholly, tmp_path, monkeypatch):
    out, sample = tmp_path / "out", RoundTrainer._sample

    def dying(trainer, ids, size):
        if trainer.state.global_step == 2:
            for process in multiprocessing.active_children():
                os.kill(process.pid, signal.SIGKILL)
        return sample(trainer, ids, size)

    with monkeypatch.context() as patch:
        patch.setattr(RoundTrainer, "_sample", dying)
        with pytest.raises(engines.EngineError, match="vLLM's engine ended"):
            grpo.train_round(compact, Variety(TASKS), _params(), out, seed=0)
    unfinished = tmp_path / "out.unfinished"
    assert checkpoint.newest_whole(unfinished).name == "checkpoint-2"

    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    killed = subprocess.run([sys.executable, script, compact, out], check=False)
    assert killed.returncode == -signal.SIGKILL
    pid = int((tmp_path / "engine").read_text())
    for _ in range(600):  # the engine goes with it
        if not Path(f"/proc/{pid}").exists() or "(zombie)" in Path(f"/proc/{pid}/status").read_text():
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"vLLM's process {pid} is still there")
    grpo.train_round(compact, Variety(TASKS), _params(), out, seed=0)
    assert read_jsonl(out / "curve.jsonl") == read_jsonl(wholly[0] / "curve.jsonl")
    assert checkpoint.weights_sha256(out) == checkpoint.weights_sha256(wholly[0])


# ---------------------------------------------------------------- a server


@pytest.fixture(scope="module")
def served(chat, tmp_path_factory):
    """Returns the port of vLLM's server with the chat model, started as docs/scale.md does on a CPU."""
    command = ["vllm.entrypoints.openai.api_server", "--model", str(chat)]
    command += ["--served-model-name", "tiny", "--dtype", "float32", "--enforce-eager", "--max-model-len", "4096"]
    command += ["--gpu-memory-utilization", "0.1", "--no-enable-chunked-prefill", "--generation-config", "vllm"]
    command += ["--logprobs-mode", "processed_logprobs", "--worker-extension-cls", f"{engines.WORKER}.Weights"]
    environment = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_USE_V2_MODEL_RUNNER": "0", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    environment |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "PYTHONPATH": str(HERE.parents[1])}
    with started(*command, log=tmp_path_factory.mktemp("server") / "log", **environment) as port:
        yield port


def test_a_server_as_policy_and_as_engineer(served, chat, monkeypatch):
    policy = OpenAIPolicy("tiny", f"http://127.0.0.1:{served}/v1", timeout=120.0, retries=1)
    rollouts = evaluate.rollout(policy, TASKS, samples=2, seed=0)
    assert len(rollouts) == 16
    assert not policy.failures

    prompts = [render_prompt(t.instance, "chat") for t in TASKS]
    ours, theirs = (p.complete(prompts, temperature=0, max_new_tokens=24) for p in (load_policy(chat), policy))
    half = "\ufffd"  # a character that was cut in two: the server leaves it out
    assert [text.rstrip(half) for (text,) in theirs] == [text.rstrip(half) for (text,) in ours]
    with monkeypatch.context() as patch:
        ask, calls = OpenAIPolicy._ask, []
        patch.setattr(OpenAIPolicy, "_ask", lambda *a: calls.append(a) or ask(*a))
        sampled = policy.complete(prompts, n=4, max_new_tokens=24, seed=1)
        assert len(calls) == len(prompts)  # the server takes n
    assert all(len(set(texts)) == 4 for texts in sampled)
    assert sampled == policy.complete(prompts, n=4, max_new_tokens=24, seed=1)
    assert sampled != policy.complete(prompts, n=4, max_new_tokens=24, seed=2)

    params = EngineerParams(model="openai:tiny", base_url=policy.base_url, samples=2, max_new_tokens=100)
    report, training = diagnose(rollouts), {"instances": 8, "epochs": 2, "steps": 4, "algorithm": "GRPO"}
    past = (Round("shared", 0, EnvConfig.uniform((3, 4), 0.0, 0.0), report, training=training),)
    proposal = llm_engineer(lambda _: policy, (3, 4), params, seed=0)(report, past)
    assert len(proposal.replies) == 2
    constrained = params.model_copy(update={"constrained": True, "max_new_tokens": 1500})
    legal = llm_engineer(lambda _: policy, (3, 4), constrained, seed=0)(report, past)
    assert {read_reply(text, (3, 4)).rejection for text in legal.replies} <= {None, ZERO}
    assert any(read_reply(text, (3, 4)).rejection not in (None, ZERO) for text in proposal.replies)
    with pytest.raises(ServerError, match="another"):
        OpenAIPolicy("another", policy.base_url).complete(["Design."])


@pytest.mark.parametrize("lora", [None, {"rank": 4, "alpha": 32}])
def test_a_servers_weights_are_in_step(served, chat, tmp_path, monkeypatch, lora):
    gaps = _watched(monkeypatch, {"nothing": _nothing})
    changes = {"vllm": "server", "vllm_engine": {"server_port": served}, "lora": lora}
    grpo.train_round(chat, Variety(TASKS), _params(**changes), tmp_path / "out", seed=0)
    print(gaps)
    assert all(row["in step"] < CLOSE for row in gaps)
    assert all(row["nothing"] > 10 * CLOSE for row in gaps[1:])
