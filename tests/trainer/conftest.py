import pytest
import torch

from mapflake.trainer.policy import ModelParams, Policy, from_scratch

WORDS = [f"w{i}" for i in range(40)]


@pytest.fixture(scope="session")
def tiny() -> Policy:
    """An untrained policy over 40 words whose next-token distribution is far from uniform."""
    policy = from_scratch(ModelParams(hidden_size=32, layers=2, heads=2, intermediate_size=64), WORDS, seed=3)
    with torch.no_grad():
        policy.model.model.embed_tokens.weight.mul_(20)
    return policy
