"""The arms by name: who designs the next configuration, a model (`llm`) or a rule (`rules`, `search`).

Every designer has one signature, `(report, history) -> Proposal`, and all configurations go through the same
projection. `ENGINEERS` and `RULES` are the one place where the names of arms are given a meaning: a rule of your own is
one more entry of `RULES`. params.yaml adds model engineers of its own (`ablations.designers`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mapflake.engineer.actions import legal_sizes
from mapflake.engineer.designers import rules, search
from mapflake.engineer.designers.llm import EngineerParams, llm_engineer
from mapflake.engineer.ledger import Designer, History, Round
from mapflake.repro import shown
from mapflake.trainer.evaluate import Completer

__all__ = ["ARMS", "ENGINEERS", "RULES", "EngineerParams", "RuleInputs", "designer_for", "llm_engineer", "params_of"]

NAME = re.compile("[a-z][a-z0-9_]{0,39}")  # of an arm: it becomes a folder's name, and a word of a command


@dataclass(frozen=True)
class RuleInputs:
    """The inputs that a rule may be made from.

    Attributes:
        sizes: Board sizes that may be asked for.
        seed: Root of the run's random streams, the same for all arms.
        current: Gives the checkpoint just trained, as a policy.
        try_out: Trains a round for real, beside the run (`rounds.run_arm`): number, history, designer -> Round.
    """

    sizes: tuple[int, ...]
    seed: int
    current: Callable[[History], Completer]
    try_out: Callable[[int, History, Designer], Round]


ENGINEERS: dict[str, dict[str, Any]] = {
    "engineer": {},  # the current policy designs, as params.yaml says
    "base_engineer": {"model": "base", "base_url": None},  # the model before any RL designs, the policy trains
    "constrained_engineer": {"constrained": True},
    "shuffled_failures": {"report": "shuffled"},  # three controls
    "previous_report": {"report": "previous"},
    "schema_only": {"variant": "schema"},
}
"""The arms in which a model designs: the parameters in which each differs from `engineer`."""

RULES: dict[str, Callable[[RuleInputs], Designer]] = {
    "fixed": lambda i: rules.fixed(),  # the fixed configuration of round 0
    "fixed_draw_2": lambda i: rules.fixed_random(i.sizes, seed=i.seed, number=1),
    "fixed_draw_3": lambda i: rules.fixed_random(i.sizes, seed=i.seed, number=2),
    "fixed_draw_4": lambda i: rules.fixed_random(i.sizes, seed=i.seed, number=3),
    "uniform": lambda i: rules.uniform(i.sizes),
    "evaluation_matched": lambda i: rules.evaluation_matched(i.sizes),
    "domain_randomisation": lambda i: rules.domain_randomisation(i.sizes, seed=i.seed),
    "heuristic": lambda i: rules.heuristic_expert(i.sizes),
    "learnability": lambda i: rules.learnability(i.sizes),
    "learning_progress": lambda i: rules.learning_progress(i.sizes),
    "random_search": lambda i: search.random_search(i.current, i.sizes, seed=i.seed),
    "accel_lite": lambda i: search.accel_lite(i.current, i.sizes, seed=i.seed),
    "oracle": lambda i: search.oracle(i.try_out, i.sizes, seed=i.seed),
}
"""The arms in which a rule designs; a new one is one line here."""

ARMS = (*ENGINEERS, *RULES)
"""All names of arms that need no line in params.yaml."""


def params_of(
    arm: str, params: EngineerParams, designers: Mapping[str, Mapping[str, Any]] | None = None
) -> EngineerParams | None:
    """Returns the parameters by which the model of an arm is asked; None if the arm is a rule.

    Args:
        arm: A name in `ARMS` or `designers`.
        params: The parameters that arms differ from.
        designers: Further model engineers: arm -> the parameters in which it differs.

    Raises:
        ValueError: No arm has this name, or `designers` has one that is taken.
        ParamError: A parameter in which it differs is none, or is not legal.
    """
    designers = designers or {}
    for name in designers:
        if not (isinstance(name, str) and NAME.fullmatch(name)):
            raise ValueError(f"designers: {shown(name)} is no name: up to 40 of a-z, 0-9 and _, a letter first")
    if taken := [name for name in designers if name in ARMS]:
        raise ValueError(f"designers: {taken[0]!r} is the name of an arm already")
    if arm in RULES:
        return None
    if arm not in ENGINEERS and arm not in designers:
        raise ValueError(f"arm: {shown(arm)} is none of {', '.join([*ARMS, *designers])}")
    changes = ENGINEERS.get(arm) or designers.get(arm) or {}
    return EngineerParams.parse({**params.model_dump(), **changes}, f"designers.{arm}")


def designer_for(
    arm: str,
    *,
    sizes: Iterable[int],
    seed: int,
    params: EngineerParams | None = None,
    designers: Mapping[str, Mapping[str, Any]] | None = None,
    base: str | Path | None = None,
    load: Callable[[str | Path], Completer] | None = None,
    try_out: Callable[[int, History, Designer], Round] | None = None,
) -> Designer:
    """Returns the designer of an arm.

    Args:
        arm: A name in `ARMS`, or in `designers`.
        sizes: Board sizes that may be asked for.
        seed: Root of the run's random streams, the same for all arms.
        params: How a model is asked, where the arm does not differ from it.
        designers: As for `params_of`.
        base: Checkpoint of the model before any RL.
        load: Gives the policy in a checkpoint.
        try_out: Trains a round for real; without it the oracle says that it cannot be used.

    Raises:
        ValueError: The arm needs a base checkpoint and none is given, or no arm has this name.
    """
    sizes, load = legal_sizes(sizes), load or _load
    asked = params_of(arm, params or EngineerParams(), designers)

    def current(history: History) -> Completer:
        return load(history[-1].checkpoint)

    if asked is None:
        return RULES[arm](RuleInputs(sizes, seed, current, try_out or _no_trials))
    weights = asked.weights(base)

    def policy_for(history: History) -> Completer:
        if asked.model.startswith("openai:"):
            from mapflake.trainer.openai_client import OpenAIPolicy

            return OpenAIPolicy(asked.model.removeprefix("openai:"), base_url=asked.base_url)
        return current(history) if weights is None else load(weights)

    return llm_engineer(policy_for, sizes, asked, seed=seed)


def _load(path: str | Path) -> Completer:
    from mapflake.trainer.policy import load_policy  # imports torch

    return load_policy(path)


def _no_trials(number: int, history: History, designer: Designer) -> Round:
    raise ValueError("arm 'oracle' trains for real: use `run_arm`")
