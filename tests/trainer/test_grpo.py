import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from starts import PARAMS, TASKS
from transformers import TrainerCallback

from mapflake.engineer import Grpo
from mapflake.env import DIMENSIONS, REWARD, Dimension, render_prompt, reward
from mapflake.repro import read_jsonl
from mapflake.trainer import checkpoint, evaluate, grpo
from mapflake.trainer.grpo import Boards, train_round
from mapflake.trainer.params import RLParams
from mapflake.trainer.policy import encode_prompts, load_policy


def test_a_round_has_a_curve_and_changes_the_weights(start, tmp_path):
    out = tmp_path / "checkpoint"
    curve = train_round(start, Boards(TASKS), PARAMS, out, seed=0)
    assert [row["step"] for row in curve] == [1, 2, 3, 4]
    for row in curve:
        assert row["reward"] == pytest.approx(0.5 * row["rewards/valid/mean"] + 0.5 * row["rewards/optimal/mean"])
        assert {"entropy", "frac_reward_zero_std", "completions/mean_length"} <= set(row)
        assert not any("time" in key for key in row)
    assert any(row["grad_norm"] > 0 for row in curve)
    assert checkpoint.weights_sha256(out) != checkpoint.weights_sha256(start)
    assert load_policy(out).prompt_format == "compact"
    before = (out / "model.safetensors").stat().st_mtime_ns
    assert train_round(start, Boards(TASKS), PARAMS, out, seed=0) == curve  # the same again: nothing is done
    assert (out / "model.safetensors").stat().st_mtime_ns == before


def test_a_round_raises_the_reward_on_its_training_boards(start, tmp_path):
    changes = {"epochs": 4, "generations": 16, "microbatch": 64, "learning_rate": 5e-4, "save_every": 8}
    params = RLParams.parse(PARAMS.model_dump() | changes, "rl")
    train_round(start, Boards(TASKS), params, tmp_path / "checkpoint", seed=0)
    before, after = (
        np.mean([reward(r.verdict) for r in evaluate.rollout(load_policy(path), TASKS, samples=50, seed=1)])
        for path in (start, tmp_path / "checkpoint")
    )
    assert after > before + 0.2  # four times the standard error, which with 400 samples each is at most 0.035, and more


@pytest.mark.parametrize(
    ("changed", "killed", "saved"),
    [
        ({"iterations": 2, "learning_rate": 1e-3}, 5, 4),  # between two uses of the same samples
        ({"redraws": 3, "generations": 2}, 3, 2),
    ],
)
def test_a_killed_round_goes_on_to_the_same_weights(start, tmp_path, monkeypatch, changed, killed, saved):
    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if state.global_step == killed:
                raise KeyboardInterrupt

    params, original = PARAMS.model_copy(update=changed), grpo.run
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    curve = train_round(start, Boards(TASKS), params, whole, seed=0)
    with monkeypatch.context() as patch:
        patch.setattr(grpo, "run", lambda trainer, *rest: trainer.add_callback(Stop()) or original(trainer, *rest))
        with pytest.raises(KeyboardInterrupt):
            train_round(start, Boards(TASKS), params, broken, seed=0)
    assert checkpoint.newest_whole(tmp_path / "broken.unfinished").name == f"checkpoint-{saved}"
    assert train_round(start, Boards(TASKS), params, broken, seed=0) == curve
    assert checkpoint.weights_sha256(broken) == checkpoint.weights_sha256(whole) != checkpoint.weights_sha256(start)
    if params.redraws:
        assert np.mean([row["dynamic_sampling/completions"] for row in curve]) > params.prompts * params.generations
    else:  # optimizer steps; a row for each time that it samples
        assert [row["step"] for row in curve] == [2, 4, 6, 8]
        assert len(curve) == params.instances * params.epochs // params.prompts
    assert not {"iterations", "redraws", "vllm_engine"} & {*PARAMS.model_dump()}


def test_another_reward_is_another_problem(monkeypatch):
    before = Boards(TASKS).identity()
    monkeypatch.setitem(REWARD, "optimal", 0.0)
    assert Boards(TASKS).identity() != before == [task.instance.key for task in TASKS]


def test_a_policy_samples_with_the_threads_of_its_training(start):
    """With more, torch rounds sums in another way; and where cells share the cores, threads wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(PARAMS.threads + 1)
    try:
        Grpo(PARAMS).load(start)
        assert torch.get_num_threads() == PARAMS.threads
    finally:
        torch.set_num_threads(before)


RANKS = """
import os, signal, sys, time
from pathlib import Path
sys.path.insert(0, {here!r})
import starts
from transformers import TrainerCallback
from mapflake.env import REWARD
from mapflake.trainer import grpo
from mapflake.trainer.params import RLParams

class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            os.kill(os.getpid(), signal.SIGKILL)

def train(out):  # the folder of saves is made once, as by the process that starts the ranks
    while os.environ["RANK"] != "0" and not Path(out + ".unfinished/precision.txt").exists():
        time.sleep(0.01)
    grpo.train_round({start!r}, grpo.Boards(starts.TASKS), RLParams.parse({params!r}, "rl"), out, seed=0)

REWARD["optimal"] = 0.25
original = grpo.run
train({wholly!r})
grpo.run = lambda trainer, *rest: trainer.add_callback(Kill()) or original(trainer, *rest)
train({broken!r})
"""


def test_two_ranks_share_a_step_and_go_on_after_a_kill(chat_start, tmp_path, monkeypatch):
    """With a reward that is not the built-in one, which processes that are started do not have by themselves."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setitem(REWARD, "optimal", 0.25)
    params = RLParams.parse(PARAMS.model_dump() | {"learning_rate": 1e-2, "processes": 2, "microbatch": 4}, "rl")
    wholly, broken = tmp_path / "wholly", tmp_path / "broken"
    paths = {"start": str(chat_start), "wholly": str(wholly), "broken": str(broken)}
    script = tmp_path / "ranks.py"
    script.write_text(RANKS.format(here=str(Path(__file__).parents[1]), params=params.model_dump(), **paths))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    assert subprocess.run([*torchrun, str(script)], check=False).returncode
    assert checkpoint.newest_whole(tmp_path / "broken.unfinished").name == "checkpoint-2"

    curve = train_round(chat_start, Boards(TASKS), params, broken, seed=0)  # in two processes that it starts itself
    assert curve == read_jsonl(wholly / "curve.jsonl")
    assert checkpoint.weights_sha256(broken) == checkpoint.weights_sha256(wholly)
    assert checkpoint.weights_sha256(broken) != checkpoint.weights_sha256(chat_start)
    assert not (tmp_path / "broken.unfinished").exists()
    # As many samples as with one process: a step reads and writes the tokens of prompts x generations completions.
    tokenizer = load_policy(chat_start).tokenizer
    lengths = [len(ids) for ids in encode_prompts(tokenizer, [render_prompt(t.instance, "chat") for t in TASKS])]
    for row in curve:
        tokens = row["num_tokens"] / row["step"] / (params.prompts * params.generations)
        assert min(lengths) < tokens <= max(lengths) + params.max_new_tokens < 2 * min(lengths)


def test_sharded_rounds_are_launched_by_accelerate(start, tmp_path, monkeypatch):
    from accelerate.commands.config.config_args import load_config_from_file

    commands = []
    failing = SimpleNamespace(run=lambda command, **_: commands.append(command) or SimpleNamespace(returncode=1))
    monkeypatch.setattr(grpo, "subprocess", failing)
    changes = {"processes": 2, "microbatch": 8, "vllm": "colocate", "sharding": "fsdp2"}
    params = RLParams.parse(PARAMS.model_dump() | changes, "rl")
    with pytest.raises(RuntimeError, match="2 training processes ended with 1"):
        train_round(start, Boards(TASKS), params, tmp_path / "out", seed=0)
    file = f"{grpo.ACCELERATE}/fsdp2.yaml"
    launched = ["-m", "accelerate.commands.launch", f"--config_file={file}", "--num_processes=2"]
    assert commands.pop()[1:5] == launched
    config = load_config_from_file(file)
    assert (config.distributed_type, config.fsdp_config["fsdp_version"]) == ("FSDP", 2)
    assert config.fsdp_config["fsdp_state_dict_type"] == "FULL_STATE_DICT"  # one file of whole weights at the end


def test_a_started_process_has_ones_own_rewards_and_dimensions(start, tmp_path, monkeypatch):
    """A dimension's transform stays here, where the boards are drawn: one of a notebook could not be sent."""
    monkeypatch.setattr(grpo, "subprocess", SimpleNamespace(run=lambda *_, **__: SimpleNamespace(returncode=1)))
    params = RLParams.parse(PARAMS.model_dump() | {"processes": 2}, "rl")
    with monkeypatch.context() as own:
        own.setitem(REWARD, "optimal", 0.25)
        own.setitem(DIMENSIONS, "walls", Dimension("share of walls.", transform=lambda board, level, rng: board))
        expected = dict(REWARD), DIMENSIONS | {"walls": Dimension("share of walls.")}
        with pytest.raises(RuntimeError, match="2 training processes ended with 1"):
            train_round(start, Boards(TASKS), params, tmp_path / "out", seed=0)
    assert expected != (REWARD, DIMENSIONS)
    seen = []
    monkeypatch.setattr(grpo, "REWARD", dict(REWARD))
    monkeypatch.setattr(grpo, "DIMENSIONS", dict(DIMENSIONS))
    monkeypatch.setattr(grpo, "train_round", lambda *_, **__: seen.append((grpo.REWARD, grpo.DIMENSIONS)))
    grpo._run_job(tmp_path / "out.unfinished/job.pickle")
    assert seen == [expected]


def test_launchers_that_start_too_few_processes_are_found_out(start, tmp_path, monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_torchelastic_launched", lambda: True)
    params = RLParams.parse(PARAMS.model_dump() | {"processes": 2}, "rl")
    with pytest.raises(RuntimeError, match="processes: 2 were asked for, 1 run"):
        train_round(start, Boards(TASKS), params, tmp_path / "x", seed=0)
    with pytest.raises(ValueError, match="takes 8 instances, 7 were given"):
        train_round(start, Boards(TASKS[:7]), PARAMS, tmp_path / "x", seed=0)
