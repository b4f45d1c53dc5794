"""The arms by name: who designs the next configuration, a model (`llm`) or a rule (`rules`, `measured`).

A model's arm is named by the parameters in which it differs from `engineer` (`engineer_arm`), such as
`engineer_trained_another`; a rule's is an entry of `RULES`. A rule of your own is one more entry, made in a module that
`mapflake.engineer` imports last (docs/bring_your_own.md). params.yaml adds other model engineers of your own
(`ablations.designers`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mapflake.engineer.designers import rules
from mapflake.engineer.designers.llm import EngineerParams, llm_engineer
from mapflake.engineer.designers.measured import frontier
from mapflake.engineer.designers.search import reward_search
from mapflake.engineer.ledger import Designer, History
from mapflake.env import EnvConfig
from mapflake.repro import ParamError, shown
from mapflake.trainer.evaluate import Completer


@dataclass(frozen=True)
class RuleInputs:
    """The inputs that a designer may be made from.

    `sizes` may be asked for; `seed` is the root of the run's random streams, the same for all arms; `current` gives the
    checkpoint just trained, as a policy; `constant` is the configuration of the arm of that name.
    """

    sizes: tuple[int, ...]
    seed: int
    current: Callable[[History], Completer]
    constant: EnvConfig | None = None


PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "base": ({"model": "base", "base_url": None}, "base model as engineer"),  # before any RL; the policy trains
    "trained": ({"design_rl": "before"}, "trained engineer"),  # reinforced over designs before round 0
    "search": ({"model": "search"}, "search by the reward"),  # of RL on designs, without a model
    "another": ({"report": "another"}, "another's report"),  # of a student of another age
    "near": ({"report": "near"}, "report of a neighbouring age"),
    "mean": ({"report": "mean"}, "mean report"),
    "none": ({"variant": "schema"}, "no report"),
    **{f"v{i}": ({"variant": f"V{i}"}, f"V{i}") for i in range(1, 7)},  # the paper's contexts
}
"""Part of an engineer's name -> the parameters in which it differs from `engineer`, and its label."""

REPORT = "(?:_(another|near|mean))?"
ENGINEER = re.compile(f"engineer(?:_(search){REPORT}|(?:_(base|trained))?(?:_(none)|{REPORT}(?:_(v[1-6]))?))")
"""An engineer's name: whose weights, whose report, which context; what is left out is the default."""

RULES: dict[str, Callable[[RuleInputs], Designer]] = {
    "fixed": lambda i: rules.fixed(),  # the fixed configuration of round 0
    "fixed_longer": lambda i: rules.fixed(),  # for as many samples more as design RL took (notebook 05)
    "uniform": lambda i: rules.uniform(i.sizes),
    "evaluation_matched": lambda i: rules.evaluation_matched(i.sizes),
    "constant": lambda i: rules.constant(i.constant, i.sizes),  # the best one of other students (`ablations.constant`)
    "domain_randomisation": lambda i: rules.domain_randomisation(i.sizes, seed=i.seed),
    "heuristic": lambda i: rules.heuristic_expert(i.sizes),
    "learnability": lambda i: rules.learnability(i.sizes),
    "frontier": lambda i: frontier(i.current, i.sizes, seed=i.seed),
}
"""The arms in which a rule designs."""

BUILT_IN = dict(RULES)
"""The rules of this package: an entry of `RULES` that replaced one would be recorded under its name."""

DYNAMIC = "_dynamic"
"""The end of an arm's name that says: the same designer, and dynamic sampling in training (notebook 05)."""

BEGINNINGS = ("base", "round_0")
"""The model before RL and the round that all arms of a seed branch from: measured as if they were arms, so no arm is
named so."""


def engineer_arm(arm: str) -> tuple[dict[str, Any], str] | None:
    """Returns the parameters in which an engineer differs from `engineer`, and its label; None for another arm's name.

    The parameters say where it stands in the pipeline, too: `design_rl: before` begins with the trained engineer,
    `report: another` (`near`, `mean`) takes the reports of other students (`EngineerParams.told_others`).
    """
    match = ENGINEER.fullmatch(arm.removesuffix(DYNAMIC))
    if match is None:
        return None
    parts = [part for part in match.groups() if part]
    changes = {key: value for part in parts for key, value in PARTS[part][0].items()}
    labels = [PARTS[part][1] for part in parts]
    current = not {"search", "base", "trained"} & {*parts}
    return changes, ", ".join(["paper's engineer", *labels] if current else labels)


def params_of(
    arm: str, params: EngineerParams, designers: Mapping[str, Mapping[str, Any]] | None = None
) -> EngineerParams | None:
    """Returns the parameters by which the model of an arm is asked; None if the arm is a rule.

    The arm is an engineer's name (`engineer_arm`), or one in `RULES` or `designers`: further model engineers, by name
    the parameters in which each differs from `params`.

    Raises:
        ValueError: No arm has this name, or `RULES` or `designers` has a name that is taken or is none.
        ParamError: A parameter in which it differs is none, or is not legal, or is of a model and it asks none.
        TypeError: `arm` is not a name, or `params` are none.
    """
    if not isinstance(arm, str):
        raise TypeError(f"arm: must be a name, not {shown(arm)} (run_round takes functions)")
    if not isinstance(params, EngineerParams):
        raise TypeError(f"params: must be EngineerParams(...), not {shown(params)}")
    designers = designers or {}
    named = [*(("RULES", name) for name in RULES), *(("designers", name) for name in designers)]
    for source, name in named:  # each becomes a folder's name, and a word of a command
        if not re.fullmatch("[a-z][a-z0-9_]{0,39}", str(name)):
            raise ValueError(f"{source}: {shown(name)} is no name: up to 40 of a-z, 0-9 and _, a letter first")
        if name in BEGINNINGS:
            raise ValueError(f"{source}: {name!r} is the name of records that every run has")
        replaced = name in BUILT_IN and RULES[name] is not BUILT_IN[name]
        if engineer_arm(name) or replaced or (source == "designers" and name in RULES):
            raise ValueError(f"{source}: {name!r} is the name of an arm already")
        if name.endswith(DYNAMIC):
            raise ValueError(f"{source}: {name!r}: {DYNAMIC} at the end means dynamic sampling, in every arm")
    for name, entry in designers.items():
        if not isinstance(entry, Mapping):
            raise ValueError(f"designers.{name}: must be parameters by name, not {shown(entry)}")
    arm = arm.removesuffix(DYNAMIC)
    if arm in RULES:
        return None
    built_in = engineer_arm(arm)
    if built_in is None and arm not in designers:
        engineer = (
            "engineer[_base|_trained][_another|_near|_mean][_v1 ... _v6], engineer[_base|_trained]_none,"
            " engineer_search[_another|_near|_mean]"
        )
        names = ", ".join([*RULES, *designers])
        raise ValueError(f"arm: {shown(arm)} is none of {names}, {engineer}, nor one of them with {DYNAMIC}")
    changes = built_in[0] if built_in else designers[arm]
    if changes.get("model", params.model) == "search":
        if extra := sorted({*changes} - {"model", "report"}):
            raise ParamError(f"designers.{arm}: {', '.join(extra)}: the search asks no model")
        params = EngineerParams(model="search", report=params.report if params.model == "search" else "current")
    return EngineerParams.parse({**params.model_dump(), **changes}, f"designers.{arm}")


def designer_for(
    arm: str,
    inputs: RuleInputs,
    asked: EngineerParams | None = None,
    *,
    base: str | Path | None = None,
    load: Callable[[str | Path], Completer],
) -> Designer:
    """Returns the designer of an arm; `asked` is what `params_of` gives, None for a rule.

    `base` is the checkpoint of the model before any RL, `load` gives a policy.

    Raises:
        ValueError: `asked` is None and the arm is not a rule, or the arm lacks its base.
        TypeError: The entry in `RULES` is no function that returns a designer.
    """
    if asked is None:
        arm = arm.removesuffix(DYNAMIC)
        if arm not in RULES:
            names = ", ".join(RULES)
            raise ValueError(f"arm: {shown(arm)} is none of the rules {names}; a model's takes asked=params_of(...)")
        try:
            designer = RULES[arm](inputs)
        except TypeError as error:
            raise TypeError(
                f"RULES[{arm!r}]: must be a function of RuleInputs that returns a designer: {error}"
            ) from error
        if not callable(designer):
            raise TypeError(f"RULES[{arm!r}]: must return a designer, not {shown(designer)}")
        return designer
    if asked.model == "search":
        return reward_search(inputs.sizes)
    weights = asked.weights(base)

    def policy_for(history: History) -> Completer:
        if asked.model.startswith("openai:"):
            from mapflake.trainer.openai_client import OpenAIPolicy

            return OpenAIPolicy(asked.model.removeprefix("openai:"), base_url=asked.base_url)
        return inputs.current(history) if weights is None else load(weights)

    return llm_engineer(policy_for, inputs.sizes, asked, seed=inputs.seed)
