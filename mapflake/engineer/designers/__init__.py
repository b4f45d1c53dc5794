"""The arms by name: who designs the next configuration, a model (`llm`) or a rule (`rules`, `search`).

Every designer has one signature, `(report, history) -> Proposal`, and all configurations go through the same
projection. `ENGINEERS` and `RULES` are the one place where the names of arms are given a meaning. A rule of your own is
one more entry of `RULES`, made in a module that `mapflake.engineer` imports last (docs/bring_your_own.md). params.yaml
adds model engineers of its own (`ablations.designers`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mapflake.engineer.designers import rules, search
from mapflake.engineer.designers.llm import EngineerParams, llm_engineer
from mapflake.engineer.ledger import Designer, History, Round
from mapflake.repro import shown
from mapflake.trainer.evaluate import Completer

__all__ = [
    "BEGINNINGS",
    "ENGINEERS",
    "RULES",
    "EngineerParams",
    "RuleInputs",
    "designer_for",
    "llm_engineer",
    "params_of",
]


@dataclass(frozen=True)
class RuleInputs:
    """The inputs that a designer may be made from.

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
    "trained_engineer": {"design_rl": "before"},  # reinforced over designs before round 0
    "trained_shuffled": {"design_rl": "before", "report": "shuffled"},  # its two controls
    "trained_schema_only": {"design_rl": "before", "variant": "schema"},
    "co_trained": {"design_rl": "every_round"},
}
"""The arms in which a model designs: the parameters in which each differs from `engineer`."""

RULES: dict[str, Callable[[RuleInputs], Designer]] = {
    "fixed": lambda i: rules.fixed(),  # the fixed configuration of round 0
    "fixed_longer": lambda i: rules.fixed(),  # for as many samples more as design RL took (notebook 05)
    "fixed_dynamic": lambda i: rules.fixed(),  # with dynamic sampling (notebook 05)
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
"""The arms in which a rule designs."""

BEGINNINGS = ("base", "round_0")
"""The model before RL and the round that all arms of a seed branch from: measured as if they were arms, so no arm is
named so."""


def params_of(
    arm: str, params: EngineerParams, designers: Mapping[str, Mapping[str, Any]] | None = None
) -> EngineerParams | None:
    """Returns the parameters by which the model of an arm is asked; None if the arm is a rule.

    Args:
        arm: A name in `ENGINEERS`, `RULES` or `designers`.
        params: The parameters that arms differ from.
        designers: Further model engineers: arm -> the parameters in which it differs.

    Raises:
        ValueError: No arm has this name, or `designers` has one that is taken.
        ParamError: A parameter in which it differs is none, or is not legal.
    """
    designers = designers or {}
    for name in designers:  # each becomes a folder's name, and a word of a command
        if not re.fullmatch("[a-z][a-z0-9_]{0,39}", str(name)):
            raise ValueError(f"designers: {shown(name)} is no name: up to 40 of a-z, 0-9 and _, a letter first")
        if name in ENGINEERS or name in RULES:
            raise ValueError(f"designers: {name!r} is the name of an arm already")
    if arm in RULES:
        return None
    if arm not in ENGINEERS and arm not in designers:
        raise ValueError(f"arm: {shown(arm)} is none of {', '.join([*ENGINEERS, *RULES, *designers])}")
    changes = ENGINEERS.get(arm) or designers.get(arm) or {}
    return EngineerParams.parse({**params.model_dump(), **changes}, f"designers.{arm}")


def designer_for(
    arm: str,
    inputs: RuleInputs,
    asked: EngineerParams | None = None,
    *,
    base: str | Path | None = None,
    load: Callable[[str | Path], Completer],
) -> Designer:
    """Returns the designer of an arm.

    Args:
        arm: A name in `ENGINEERS`, `RULES` or the `designers` of `params_of`.
        inputs: The run that it designs for.
        asked: The parameters by which its model is asked, None for a rule (`params_of`).
        base: Checkpoint of the model before any RL.
        load: Gives the policy in a checkpoint.

    Raises:
        ValueError: The arm needs a base checkpoint and none is given.
    """
    if asked is None:
        return RULES[arm](inputs)
    weights = asked.weights(base)

    def policy_for(history: History) -> Completer:
        if asked.model.startswith("openai:"):
            from mapflake.trainer.openai_client import OpenAIPolicy

            return OpenAIPolicy(asked.model.removeprefix("openai:"), base_url=asked.base_url)
        return inputs.current(history) if weights is None else load(weights)

    return llm_engineer(policy_for, inputs.sizes, asked, seed=inputs.seed)
