"""Who designs the next configuration: the policy itself, or the rules that it is compared with.

Every designer has one signature and gives a `Proposal`; all configurations go through the same projection. `ARMS` is
the one place where the names of arms are given a meaning. Not covered (yet): designers constrained by a grammar,
learnability and learning-progress baselines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from pydantic import Field, field_validator

from mapflake.engineer.context import DEFAULT_VARIANT, VARIANTS, build_prompt
from mapflake.engineer.failures import FailureReport, storable
from mapflake.engineer.ledger import History
from mapflake.engineer.reply import Proposal, read_reply
from mapflake.engineer.space import KEYS, STEP, Requested, in_steps, legal_sizes, project
from mapflake.env import EnvConfig
from mapflake.repro import Params, rng_for, seed_for

if TYPE_CHECKING:
    from mapflake.trainer.policy import SamplingParams

Designer = Callable[[FailureReport, History], Proposal]
"""Takes the failures of the current checkpoint and the rounds so far; gives the design of the next round."""


class Completer(Protocol):
    """What a designer needs of a policy (`mapflake.trainer.policy.Policy` is one)."""

    @property
    def dialect(self) -> str:
        """The dialect of `mapflake.env` that it speaks: "chat" or "compact"."""

    def complete(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
        seed: int = 0,
        progress: str | None = None,
    ) -> list[list[str]]:
        """Returns n texts for each prompt."""


# ---------------------------------------------------------------- the model as engineer


def llm_engineer(
    policy_for: Callable[[History], Completer],
    sizes: Iterable[int],
    *,
    variant: str = DEFAULT_VARIANT,
    samples: int = 4,
    temperature: float = 1.0,
    max_new_tokens: int | None = None,
    seed: int,
) -> Designer:
    """Returns the designer that asks a model: prompt, `samples` replies, the first that is not rejected counts.

    No rule stands between reply and configuration but the projection; if all samples are rejected, so is the proposal.

    Args:
        policy_for: Gives the model for a history, e.g. the one in the last round's checkpoint.
        sizes: Board sizes that may be asked for.
        variant: Which modules the prompt has.
        samples: Replies drawn; all are recorded.
        temperature: Of sampling; 0 is greedy (then one sample says it all).
        max_new_tokens: Where a reply is cut off; None: 4 words a size and a few more in compact, 4096 tokens in JSON.
        seed: Of sampling; the round's index goes in too.
    """
    sizes = legal_sizes(sizes)
    if samples < 1:
        raise ValueError(f"samples: {samples} is not a count of at least 1")

    def design(report: FailureReport, history: History) -> Proposal:
        policy = policy_for(history)
        dialect = "compact" if policy.dialect == "compact" else "json"
        agents = history[-1].config.num_agents
        prompt = build_prompt(report, history, sizes, variant=variant, dialect=dialect, num_agents=agents)
        (texts,) = policy.complete(
            [prompt],
            n=samples,
            temperature=temperature,
            max_new_tokens=max_new_tokens or (4 * len(sizes) + 8 if dialect == "compact" else 4096),
            seed=seed_for(seed, "engineer", next_index(history)),
        )
        replies = tuple(map(storable, texts))  # before reading: what is recorded is what was read
        read = [read_reply(text, sizes, dialect, num_agents=agents) for text in replies]
        chosen = next((p for p in read if p.config is not None), read[0])
        return replace(chosen, prompt=prompt, replies=replies)

    return design


# ---------------------------------------------------------------- rules


def keep() -> Designer:
    """Returns the designer that leaves the configuration as it is: the baseline "GRPO (random)" of the paper."""
    return lambda report, history: _ruled(_ratios(history[-1].config), history, "unchanged")


def heuristic_expert(sizes: Iterable[int], *, floor: float = 0.05) -> Designer:
    """Returns the designer that an RL practitioner might write down in five minutes.

    Data goes where the policy succeeds half of the time, r ~ max(floor, 1 - |2 v - 1|) with v the valid rate; where v
    is above 0.7, holes and waits go up by 0.1, where it is below 0.3, down. A size that the last configuration lacks
    starts at the mean hole and wait ratios of the others. All of it is our choice, made before any result was seen.
    """
    sizes = legal_sizes(sizes)

    def design(report: FailureReport, history: History) -> Proposal:
        last = history[-1].config
        present = list(last.sizes.values())
        waits = [c.wait_ratio for c in present if c.wait_ratio is not None]
        asked: dict[int, dict[str, float | None]] = {}
        for size in sizes:
            c, seen = last.sizes.get(size), report.at(size)
            valid = seen.valid_rate if seen else 0.5
            step = 0.1 if valid > 0.7 else -0.1 if valid < 0.3 else 0.0
            hole = c.hole_ratio if c else sum(p.hole_ratio for p in present) / len(present)
            wait = c.wait_ratio if c else sum(waits) / len(waits) if waits else None
            asked[size] = {
                "data_ratio": max(floor, 1 - abs(2 * valid - 1)),
                "hole_ratio": round(hole + step, 9),
                "wait_ratio": None if wait is None else round(wait + step, 9),
            }
        return _ruled(asked, history, "data to half-solved sizes, holes and waits by 0.1 towards them", sizes)

    return design


def domain_randomisation(sizes: Iterable[int], *, seed: int) -> Designer:
    """Returns the designer that draws a new `random_config` every round, whatever the policy does."""
    sizes = legal_sizes(sizes)

    def design(report: FailureReport, history: History) -> Proposal:
        rng = rng_for(seed, "domain_randomisation", next_index(history))
        drawn = random_config(sizes, rng, history[-1].config.num_agents)
        return _ruled(_ratios(drawn), history, "a new random draw", sizes)

    return design


def random_config(sizes: Iterable[int], rng: np.random.Generator, num_agents: int = 2) -> EnvConfig:
    """Returns a configuration drawn without knowledge of any policy: that of round 0.

    Data ratios uniform over the simplex (Dirichlet with all parameters 1), hole ratios uniform in [0, 0.5], wait ratios
    uniform in [0, 1], all rounded to 1/20 (the grid that the compact dialect speaks) and projected. The distribution is
    our choice; the paper speaks of "random" only.
    """
    sizes = legal_sizes(sizes)
    shares = in_steps(list(rng.dirichlet(np.ones(len(sizes)))))
    holes = rng.integers(0, STEP // 2 + 1, len(sizes))
    waits = rng.integers(0, STEP + 1, len(sizes))
    drawn = zip(sizes, shares, holes, waits, strict=True)
    asked = {s: dict(zip(KEYS, (int(r) / STEP, int(h) / STEP, int(w) / STEP), strict=True)) for s, r, h, w in drawn}
    return project(asked, sizes, num_agents)


def _ratios(config: EnvConfig) -> Requested:
    return {size: {key: getattr(c, key) for key in KEYS} for size, c in config.sizes.items()}


def _ruled(asked: Requested, history: History, why: str, sizes: Iterable[int] = ()) -> Proposal:
    """Returns the proposal of a rule: the same projection, and one line of why in place of a reply."""
    legal, agents = tuple(sizes) or tuple(asked), history[-1].config.num_agents
    return Proposal(why, project(asked, legal, agents), None, asked, sizes=legal, num_agents=agents)


# ---------------------------------------------------------------- arms


class EngineerParams(Params):
    """How a model is asked for a design."""

    variant: str = DEFAULT_VARIANT
    samples: int = Field(default=4, ge=1)
    temperature: float = Field(default=1.0, ge=0)
    max_new_tokens: int | None = Field(default=None, ge=1)

    @field_validator("variant")
    @classmethod
    def _known(cls, variant: str) -> str:
        if variant not in VARIANTS:
            raise ValueError(f"legal variants: {', '.join(VARIANTS)}")
        return variant


@dataclass(frozen=True)
class ArmInputs:
    """What an arm may be made from: what all designers share, and what only some of them need.

    Attributes:
        sizes: Board sizes that may be asked for.
        seed: Root of the run's random streams, the same for all arms.
        params: How a model is asked.
        load: Gives the policy in a checkpoint.
        base: Checkpoint of the model before any RL.
    """

    sizes: tuple[int, ...]
    seed: int
    params: EngineerParams
    load: Callable[[str | Path], Completer]
    base: str | Path | None = None

    def model(self, checkpoint_of: Callable[[History], str | Path]) -> Designer:
        """Returns the model engineer whose weights `checkpoint_of` picks."""
        return llm_engineer(
            lambda history: self.load(checkpoint_of(history)), self.sizes, seed=self.seed, **self.params.model_dump()
        )


def _base_engineer(inputs: ArmInputs) -> Designer:
    if inputs.base is None:
        raise ValueError("arm 'base_engineer' needs the checkpoint of the base model")
    base = inputs.base
    return inputs.model(lambda history: base)


ARMS: dict[str, Callable[[ArmInputs], Designer]] = {
    "engineer": lambda i: i.model(lambda history: history[-1].checkpoint),  # the current policy designs
    "base_engineer": _base_engineer,  # the model before any RL designs, the policy trains
    "keep": lambda i: keep(),  # the fixed configuration of round 0
    "heuristic": lambda i: heuristic_expert(i.sizes),
    "domain_randomisation": lambda i: domain_randomisation(i.sizes, seed=i.seed),
}
"""Every arm by name; a new one is one line here."""


def designer_for(
    arm: str,
    *,
    sizes: Iterable[int],
    seed: int,
    params: EngineerParams | None = None,
    base: str | Path | None = None,
    load: Callable[[str | Path], Completer] | None = None,
) -> Designer:
    """Returns the designer of an arm; see `ArmInputs` for the arguments.

    Raises:
        ValueError: No arm has this name, or it needs a base checkpoint and none is given.
    """
    if arm not in ARMS:
        raise ValueError(f"arm: {arm!r} is none of {', '.join(ARMS)}")
    return ARMS[arm](ArmInputs(legal_sizes(sizes), seed, params or EngineerParams(), load or load_checkpoint, base))


def load_checkpoint(path: str | Path, sampling: SamplingParams | None = None) -> Completer:
    """Returns the policy in a checkpoint; the heavy import waits until one is needed."""
    from mapflake.trainer.policy import load_policy

    return load_policy(path, sampling)


def next_index(history: History) -> int:
    """Returns the index of the round after `history`."""
    return history[-1].index + 1 if history else 0
