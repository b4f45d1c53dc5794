"""Groups without signal give their place to others, up to a cap, in a stock GRPOTrainer and in ours."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from starts import PARAMS, TASKS
from torch.nn.utils.rnn import pad_sequence
from trl import GRPOConfig

from mapflake.env import EnvConfig, generate, tasks_of, to_dataset
from mapflake.trainer import grpo
from mapflake.trainer.dynamic_sampling import DynamicSampling, replaced
from mapflake.trainer.policy import load_policy
from mapflake.trainer.round_trainer import RoundTrainer

GROUPS, SIZE, PAD = 6, 2, 0
BOARDS = generate(EnvConfig.uniform((3, 4), 0.1, None, 2), 40, seed=3)
TEACHING = {task.instance.key for task in BOARDS[::4]}  # a quarter of the boards


class Scores:
    """Rewards that differ within the groups of some boards alone; keeps the completions of each call by board."""

    __name__ = "scores"

    def __init__(self, teaching=TEACHING):
        self.teaching, self.calls = teaching, []

    def __call__(self, completions, task, **_):
        keys = [t.instance.key for t in tasks_of({"task": row} for row in task)]
        self.calls.append(list(zip(keys, completions, strict=True)))
        return [float(i % SIZE == 0 and key in self.teaching) for i, key in enumerate(keys)]


def stock(start, folder, scores, redraws=20, **changed):
    """Returns a trainer that samples as TRL does."""
    policy = load_policy(start)
    settings = {
        "output_dir": str(folder), "per_device_train_batch_size": GROUPS * SIZE, "num_generations": SIZE,
        "max_completion_length": 8, "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
        "report_to": "none", "logging_steps": 1, "max_steps": 2, "disable_tqdm": True, "learning_rate": 1e-2,
    }  # fmt: skip
    return DynamicSampling(
        policy.model, scores, GRPOConfig(**settings | changed), to_dataset(BOARDS, "compact"),
        processing_class=policy.tokenizer, redraws=redraws,
    )  # fmt: skip


def test_arguments_with_which_redraws_would_count_otherwise_are_refused(start, tmp_path):
    """`stock` itself is the control."""
    for redraws, changed, message in (
        (-1, {}, "redraws: -1 is negative"),
        (1, {"multi_objective_aggregation": "normalize_then_sum"}, "redraws take 'sum_then_normalize'"),
        (1, {"scale_rewards": "batch"}, "scale_rewards: redraws take 'group' or 'none'"),
    ):
        with pytest.raises(ValueError, match=message):
            stock(start, tmp_path, Scores(set()), redraws, **changed)


def inputs():
    """Returns a generation batch as TRL's sampler gives it; two of its six groups teach."""
    rows = to_dataset([*BOARDS[:5], BOARDS[6]], "compact")
    return [row for row in rows for _ in range(SIZE)]


def test_every_group_has_a_signal_and_all_samples_are_counted(start, tmp_path):
    scores = Scores()
    trainer = stock(start, tmp_path, scores)
    trainer.model.train()
    batch = trainer._generate_and_score_completions(inputs())
    advantages = batch["advantages"].view(GROUPS, SIZE)
    assert (advantages != 0).all()
    assert torch.allclose(advantages.sum(1), torch.zeros(GROUPS), atol=1e-6)
    prompts = trainer.processing_class.batch_decode(batch["prompt_ids"], skip_special_tokens=True)
    texts = trainer.processing_class.batch_decode(batch["completion_ids"], skip_special_tokens=True)
    assert prompts[::SIZE] == prompts[1::SIZE]  # whole groups
    key_of = {row["prompt"]: task.instance.key for row, task in zip(trainer.train_dataset, BOARDS, strict=True)}
    pairs = [pair for call in scores.calls for pair in call]
    assert {(key_of[p], text) for p, text in zip(prompts, texts, strict=True)} <= {*pairs}
    assert {key_of[p] for p in prompts} <= TEACHING
    assert {key_of[p] for p in prompts[:SIZE]} == {BOARDS[0].instance.key}  # one that taught keeps its place
    metrics = trainer._metrics["train"]
    assert metrics["dynamic_sampling/completions"] == [len(pairs)]
    assert len(pairs) > GROUPS * SIZE
    assert metrics["dynamic_sampling/without_signal"] == [0.0]
    # TRL's metrics are those of the first draw: 2 of 6 groups, of which half earn 1.
    assert metrics["reward"] == [pytest.approx(1 / 6)]
    assert metrics["frac_reward_zero_std"] == [pytest.approx(4 / 6)]
    assert batch["num_items_in_batch"] == batch["completion_mask"].sum()
    # The control: TRL's own batch, without redraws, has groups that teach nothing.
    plain = stock(start, tmp_path, Scores(), redraws=0)
    plain.model.train()
    assert (plain._generate_and_score_completions(inputs())["advantages"].view(GROUPS, SIZE) == 0).all(1).sum() == 4


@given(st.floats(-3, 3, width=32), st.sampled_from([2, 3, 8, 16]))
def test_equal_rewards_are_no_signal_whatever_they_are(reward, size):
    """TRL's advantages are of float32: the mean of eight times 0.3 is not 0.3."""
    rewards = torch.full((2, size), reward)
    rewards[1, 0] += 0.5  # the control
    mean, std = rewards.mean(1, keepdim=True), rewards.std(1, keepdim=True)
    batch = {"advantages": ((rewards - mean) / (std + 1e-4)).flatten()}
    assert DynamicSampling._signal(SimpleNamespace(num_generations=size), batch).tolist() == [False, True]


def test_a_policy_without_any_signal_stops_at_the_cap_and_learns_nothing(start, tmp_path):
    scores = Scores(teaching=())
    trainer = stock(start, tmp_path, scores, redraws=3)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.train()
    assert [len(call) for call in scores.calls] == [GROUPS * SIZE] * 4 * 2  # the first draw and three more, twice
    assert all(torch.equal(before[name], value) for name, value in trainer.model.state_dict().items())
    rows = [row for row in trainer.state.log_history if "loss" in row]
    assert [row["dynamic_sampling/completions"] for row in rows] == [4 * GROUPS * SIZE] * 2
    assert [row["dynamic_sampling/without_signal"] for row in rows] == [1.0] * 2
    learning = stock(start, tmp_path, Scores(), redraws=3)  # the control
    learning.train()
    assert not all(torch.equal(before[name], value) for name, value in learning.model.state_dict().items())


LENGTHS = st.tuples(st.integers(1, 5), st.integers(1, 5))  # of a prompt and its completion


def padded(lengths, first):
    """Returns rows as TRL pads them; a row has its number, from `first` on, as its tokens."""
    batch = {"advantages": torch.arange(first, first + len(lengths)), "num_items_in_batch": torch.tensor(1)}
    for part, side, column in (("prompt", "left", 0), ("completion", "right", 1)):
        rows = [torch.full((length[column],), first + i) for i, length in enumerate(lengths)]
        ids = pad_sequence(rows, True, PAD, side)
        batch |= {f"{part}_ids": ids, f"{part}_mask": (ids != PAD).long()}
    return batch | {"sampling_per_token_logps": -batch["completion_ids"].float()}


@given(st.lists(LENGTHS, min_size=4, max_size=4), st.lists(LENGTHS, min_size=3, max_size=3), st.data())
@settings(max_examples=50)
def test_rows_that_replace_others_keep_their_tokens(ours, more, data):
    """Whatever the lengths: without its padding, each row is the one that it was, at the place that it should have."""
    pairs = data.draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=3, unique_by=lambda p: p[0]))
    old, new = (torch.tensor([p[i] for p in pairs], dtype=torch.long) for i in (0, 1))
    batch = replaced(padded(ours, 100), padded(more, 200), old, new, PAD)
    numbers, lengths = [100, 101, 102, 103], list(ours)
    for place, row in pairs:
        numbers[place], lengths[place] = 200 + row, more[row]
    assert batch["advantages"].tolist() == numbers
    for i, (number, (before, after)) in enumerate(zip(numbers, lengths, strict=True)):
        prompt_mask, completion_mask = (batch[f"{part}_mask"][i].bool() for part in ("prompt", "completion"))
        assert batch["prompt_ids"][i][prompt_mask].tolist() == [number] * before
        assert batch["completion_ids"][i][completion_mask].tolist() == [number] * after
        assert completion_mask[:after].all()  # completions end with their padding
        assert batch["sampling_per_token_logps"][i][completion_mask].tolist() == [-number] * after


def test_entropy_and_divergence_are_those_of_the_first_draw(start, tmp_path):
    """So that they compare with those of a run without redraws; groups that replace others were selected."""
    rows, measured, selected = to_dataset(BOARDS[:8], "compact"), {}, {}
    for redraws in (0, 8):
        params = PARAMS.model_copy(update={"generations": SIZE, "redraws": redraws})
        arguments = grpo.training_arguments(params, tmp_path, 0, [1.0], large=False)
        trainer = RoundTrainer(load_policy(start), rows, [Scores()], arguments, seed=0, redraws=redraws)
        trainer.model.train()
        batch = trainer._generate_and_score_completions([row for row in rows for _ in range(SIZE)])
        measured[redraws] = {key: trainer._seen[key] for key in ("entropy", "kl") if key in trainer._seen}
        selected[redraws] = batch["completion_ids"]
    assert "entropy" in measured[0]
    assert measured[0] == measured[8]
    assert not torch.equal(*selected.values())  # the control: groups were replaced


def test_our_trainer_draws_other_samples_each_time(start, tmp_path):
    """On one board alone: a redraw with the noise of the first draw would have its completions."""
    scores, params = Scores(teaching=()), PARAMS.model_copy(update={"generations": SIZE, "redraws": 2})
    policy = load_policy(start)
    arguments = grpo.training_arguments(params, tmp_path, 0, [1.0], large=False)
    rows = to_dataset([TASKS[0]] * 8, "compact")
    trainer = RoundTrainer(policy, rows, [scores], arguments, seed=0, redraws=params.redraws)
    trainer.model.train()
    for _ in range(2):
        trainer._generate_and_score_completions([row for row in rows for _ in range(SIZE)])
    texts = [[text for _, text in call] for call in scores.calls]
    assert texts[:3] == texts[3:]  # the same for the same step
    assert len({*map(tuple, texts)}) == 3
    words = sum(len(text.split()) for call in texts[3:] for text in call)
    ends = sum(map(len, texts[3:]))  # at most one closing token each
    assert words <= trainer._seen["sampled_tokens"] <= words + ends  # those of the redraws are counted too
