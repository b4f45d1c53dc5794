"""One board for a seed: it is a board of the configuration, and over seeds its ratios are met."""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapflake.adapters.drawing import MAX_SEED, draw, kind
from mapflake.env import SPLITS, EnvConfig, GenerationError, SizeConfig, generate

MIXED = EnvConfig({3: SizeConfig(0.7, 0.1), 5: SizeConfig(0.3, 0.2, 0.25), 4: SizeConfig(0.0, 0.5)})

configs = st.builds(
    EnvConfig.uniform,
    st.sets(st.integers(4, 7), min_size=1),
    st.sampled_from([0.1, 0.25]),
    st.sampled_from([None, 0.0, 0.5, 1.0]),
    st.integers(2, 3),
)


@given(configs, st.integers(0, MAX_SEED), st.sampled_from(SPLITS))
def test_it_is_the_board_that_generate_gives_for_its_kind(config: EnvConfig, seed: int, split: str) -> None:
    task, (size, waits) = draw(config, seed, split=split), kind(config, seed)
    size_config = SizeConfig(1.0, config.sizes[size].hole_ratio, None if waits is None else float(waits))
    assert [task] == generate(EnvConfig({size: size_config}, config.num_agents), 1, seed=seed, split=split)


def test_over_seeds_the_ratios_are_met() -> None:
    n = 1000
    tasks = [draw(MIXED, seed) for seed in range(n)]
    sizes = Counter(task.instance.size for task in tasks)
    assert set(sizes) == {3, 5}
    five = [task.needs_wait for task in tasks if task.instance.size == 5]
    for share, ratio, count in ((len(five) / n, 0.3, n), (sum(five) / len(five), 0.25, len(five))):
        assert abs(share - ratio) < 4 * math.sqrt(ratio * (1 - ratio) / count)


def test_what_cannot_be_is_refused_whatever_the_seed() -> None:
    """One agent waits for nobody: half of the seeds would give boards that need no wait."""
    for seed in range(8):
        with pytest.raises(GenerationError, match="one agent waits for nobody"):
            draw(EnvConfig.uniform([4], 0.2, 0.5, 1), seed)
        assert not draw(EnvConfig.uniform([4], 0.2, 0.0, 1), seed).needs_wait  # the control


def test_the_time_is_bounded() -> None:
    with pytest.raises(GenerationError, match="found in 0 attempts and -1 seconds: size 4, 2 agents, 13 free cells"):
        draw(EnvConfig.uniform([4], 0.2), 0, seconds=-1)


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1, True, "1"])
def test_a_wrong_seed_is_named(seed: object) -> None:
    with pytest.raises(ValueError, match=r"seed: .* is not an integer in 0"):
        draw(MIXED, seed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="split: 'test' is none of train"):
        draw(MIXED, 0, split="test")
