"""Gradients of a policy from rollouts that are there already: which boards' training would raise validation success?

To first order a small step of GRPO on some boards changes the success on the validation boards by the inner product of
the two gradients. Source: gradient alignment of tasks, e.g. Yu et al. 2020 (arXiv 2001.06782); as a score of training
data, influence functions of first order (TracIn, Pruthi et al. 2020, arXiv 2002.08484). Not covered: what Adam makes of
a gradient, and steps that are not small.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import TypeVar

import numpy as np
import torch
from transformers import PreTrainedModel

from mapflake.env import render_prompt
from mapflake.env.rewards import reward
from mapflake.trainer.evaluate import Rollout
from mapflake.trainer.logps import completion_logps
from mapflake.trainer.policy import Policy, encode_prompts

K = TypeVar("K", bound=Hashable)

ROWS = 128  # completions in one pass, which bounds memory


def alignments(policy: Policy, kinds: Mapping[K, Sequence[Rollout]], validation: Sequence[Rollout]) -> dict[K, float]:
    """Returns for each kind of boards the cosine of its GRPO gradient and that of validation success, 0 without signal.

    Args:
        policy: The policy that the rollouts were sampled from, in full precision.
        kinds: Rollouts on boards of each kind, several samples a board.
        validation: Rollouts on the validation boards, at least two samples a board.
    """
    wanted = gradient(policy, validation, [float(r.verdict.valid) for r in validation], normalise=False)
    found: dict[K, float] = {}
    for kind, rollouts in kinds.items():
        own = gradient(policy, rollouts, [reward(r.verdict) for r in rollouts], normalise=True)
        norms = float(own.norm() * wanted.norm())
        found[kind] = float(own @ wanted) / norms if norms else 0.0
    _model(policy).zero_grad()
    return found


def gradient(policy: Policy, rollouts: Sequence[Rollout], rewards: Sequence[float], *, normalise: bool) -> torch.Tensor:
    """Returns the policy gradient of a reward on rollouts, one vector over all weights.

    Args:
        policy: The policy that the rollouts were sampled from.
        rollouts: Board after board.
        rewards: One for each rollout.
        normalise: Whether advantages are divided by their deviation within a board, and summed log-probabilities by the
            number of tokens, as GRPO does here (`loss_type` "dapo"); if not, the gradient is that of the mean reward.
    """
    keys = [r.task.instance.key for r in rollouts]
    advantages = torch.tensor(list(_advantages(keys, rewards, normalise)))
    rows = [i for i in range(len(rollouts)) if advantages[i]]
    model = _model(policy)
    model.zero_grad()
    parameters = [p for p in model.parameters() if p.requires_grad]
    tokens = 0
    for first in range(0, len(rows), ROWS):
        some = rows[first : first + ROWS]
        ids, mask, length = _encoded(policy, [rollouts[i] for i in some])
        logps = completion_logps(model, ids, mask, length)
        (-(logps.sum(1) * advantages[some]).sum()).backward()
        tokens += int(mask[:, -length:].sum())
    scale = (tokens if normalise else len(rollouts)) or 1
    return torch.cat([torch.zeros(p.numel()) if p.grad is None else -p.grad.flatten() for p in parameters]) / scale


def _model(policy: Policy) -> PreTrainedModel:
    if policy.model is None:
        raise ValueError(f"{policy.path}: gradients need the weights in this process, not in vLLM's")
    return policy.model


def _advantages(keys: Sequence[str], rewards: Sequence[float], normalise: bool) -> Iterable[float]:
    """Yields for each sample its reward against the other samples of its board."""
    for _, group in groupby(range(len(keys)), key=lambda i: keys[i]):
        own = np.array([rewards[i] for i in group])
        if len(own) < 2:
            yield from [0.0] * len(own)
        elif normalise:
            yield from (own - own.mean()) / (own.std(ddof=1) + 1e-4)
        else:
            yield from (own - own.mean()) * len(own) / (len(own) - 1)


def _encoded(policy: Policy, rollouts: Sequence[Rollout]) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Returns ids and mask `[B, P + C]` of prompts and completions as `completion_logps` takes them, and C."""
    tokenizer = policy.tokenizer
    prompts = encode_prompts(tokenizer, [render_prompt(r.task.instance, r.prompt_format) for r in rollouts])
    texts = tokenizer([r.completion for r in rollouts], add_special_tokens=False)["input_ids"]
    most = policy.max_new_tokens
    texts = [row[:most] + [tokenizer.eos_token_id] * (len(row) < most) for row in texts]
    left, right = max(map(len, prompts)), max(map(len, texts))
    pad = tokenizer.pad_token_id
    ids = [[pad] * (left - len(p)) + p + t + [pad] * (right - len(t)) for p, t in zip(prompts, texts, strict=True)]
    mask = [
        [0] * (left - len(p)) + [1] * (len(p) + len(t)) + [0] * (right - len(t))
        for p, t in zip(prompts, texts, strict=True)
    ]
    return torch.tensor(ids), torch.tensor(mask), right
