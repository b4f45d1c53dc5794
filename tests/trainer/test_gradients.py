"""Gradients of rollouts, against plain autograd; and whether a step along one raises what it promises."""

import pytest
import torch
from starts import TASKS

from mapflake.env import reward
from mapflake.trainer import evaluate
from mapflake.trainer.gradients import alignments, gradient
from mapflake.trainer.policy import encode_prompts, load_policy


@pytest.fixture(scope="module")
def policy(start):
    return load_policy(start, max_new_tokens=32)


@pytest.fixture(scope="module")
def rollouts(policy):
    return evaluate.rollout(policy, TASKS, samples=8, seed=3)


def plain(policy, rollouts, advantages):
    """The gradient of the sum of advantage x log-probability, a forward pass for each completion."""
    model = policy.model
    model.zero_grad()
    tokens = 0
    for r, advantage in zip(rollouts, advantages, strict=True):
        (prompt,) = encode_prompts(policy.tokenizer, [evaluate.render_prompt(r.task.instance, "compact")])
        text = policy.tokenizer(r.completion, add_special_tokens=False)["input_ids"]
        text += [policy.tokenizer.eos_token_id] * (len(text) < policy.max_new_tokens)
        logits = model(input_ids=torch.tensor([prompt + text])).logits[0, len(prompt) - 1 : -1]
        logps = torch.log_softmax(logits, -1).gather(-1, torch.tensor(text)[:, None])
        (advantage * logps.sum()).backward()
        tokens += len(text) * bool(advantage)
    found = torch.cat([p.grad.flatten().clone() for p in model.parameters()])
    model.zero_grad()
    return found, tokens


@pytest.mark.parametrize("normalise", [False, True])
def test_it_is_the_gradient_of_the_mean_reward_and_normalised_that_of_grpo(policy, rollouts, normalise):
    rewards = [reward(r.verdict) for r in rollouts]
    groups = [torch.tensor(rewards[i : i + 8]) for i in range(0, len(rewards), 8)]
    scaled = [(g - g.mean()) / (g.std() + 1e-4) if normalise else (g - g.mean()) * 8 / 7 for g in groups]
    advantages = [float(a) for g in scaled for a in g]
    assert any(advantages)
    expected, tokens = plain(policy, rollouts, advantages)
    found = gradient(policy, rollouts, rewards, normalise=normalise)
    assert torch.allclose(found, expected / (tokens if normalise else len(rollouts)), atol=1e-5)


def test_boards_of_the_validation_set_are_aligned_with_it_and_boards_without_signal_are_not(policy, rollouts):
    other = evaluate.rollout(policy, TASKS, samples=8, seed=4)
    alike = [r for r in rollouts if not r.verdict.valid]  # all of a board the same: nothing to learn
    found = alignments(policy, {"same boards": rollouts, "no signal": alike, "nothing": []}, other)
    assert found["same boards"] > 0.1
    assert found["no signal"] == found["nothing"] == 0


def test_weights_elsewhere_are_an_error(policy, rollouts):
    from dataclasses import replace

    with pytest.raises(ValueError, match="gradients need the weights in this process"):
        alignments(replace(policy, model=None), {}, rollouts)
