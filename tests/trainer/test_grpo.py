from types import SimpleNamespace

import numpy as np
import pytest
import torch
from starts import PARAMS, TASKS, UNIT
from transformers import TrainerCallback

from mapflake.engineer import Grpo
from mapflake.env import DIMENSIONS, REWARD, Dimension, reward
from mapflake.trainer import checkpoint, evaluate, grpo
from mapflake.trainer.grpo import Boards, train_round
from mapflake.trainer.params import RLParams
from mapflake.trainer.policy import load_policy


def test_a_round_has_a_curve_and_changes_the_weights(start, tmp_path):
    out, params = tmp_path / "checkpoint", PARAMS.model_copy(update={"learning_rate": 1e-2})
    curve = train_round(start, Boards(TASKS), params, out, seed=0)
    assert [row["step"] for row in curve] == [1, 2, 3, 4]
    for row in curve:
        assert row["reward"] == pytest.approx(0.5 * row["rewards/valid/mean"] + 0.5 * row["rewards/optimal/mean"])
        assert 0 < row["entropy"] < 5.6  # a uniform policy over the vocabulary would have the logarithm of its size
        assert row["sampled_tokens"] == pytest.approx(row["completions/mean_length"] * 16)  # TRL's own mean
        assert "frac_reward_zero_std" in row
        assert not any("time" in key for key in row)
    # Sampled from the start itself: of exp(x) - x - 1 at x = 0 some roundings of 1 are left.
    assert curve[0]["kl"] == pytest.approx(0, abs=8 * UNIT)
    assert curve[-1]["kl"] > 1e-3
    assert checkpoint.weights_sha256(out) != checkpoint.weights_sha256(start)
    assert load_policy(out).prompt_format == "compact"
    before = (out / "model.safetensors").stat().st_mtime_ns
    assert train_round(start, Boards(TASKS), params, out, seed=0) == curve  # the same again: nothing is done
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


def test_a_killed_round_goes_on_to_the_same_weights(start, tmp_path, monkeypatch):
    """Between two uses of the same samples, some of which were drawn again."""

    class Stop(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if state.global_step == 5:
                raise KeyboardInterrupt

    changed = {"iterations": 2, "redraws": 3, "generations": 2, "learning_rate": 1e-3}
    params, original = PARAMS.model_copy(update=changed), grpo.run
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    curve = train_round(start, Boards(TASKS), params, whole, seed=0)
    with monkeypatch.context() as patch:
        patch.setattr(grpo, "run", lambda trainer, *rest: trainer.add_callback(Stop()) or original(trainer, *rest))
        with pytest.raises(KeyboardInterrupt):
            train_round(start, Boards(TASKS), params, broken, seed=0)
    assert checkpoint.newest_whole(tmp_path / "broken.unfinished").name == "checkpoint-4"
    assert train_round(start, Boards(TASKS), params, broken, seed=0) == curve
    assert checkpoint.weights_sha256(broken) == checkpoint.weights_sha256(whole) != checkpoint.weights_sha256(start)
    assert np.mean([row["dynamic_sampling/completions"] for row in curve]) > params.prompts * params.generations
    assert [row["step"] for row in curve] == [2, 4, 6, 8]  # optimizer steps; a row for each time that it samples
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
