"""What is to be measured: the section `study` of params.yaml, and what of all parameters decides one cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from mapflake.engineer import EngineerParams, params_of
from mapflake.repro import Params
from mapflake.trainer.grpo import RLParams

BEGINNINGS = ("warm_start", "round_0")
"""What all arms of a seed have in common, measured as if they were arms."""


class Group(Params):
    """Arms, and the seeds that each of them is run under."""

    arms: list[str] = Field(min_length=1)
    seeds: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)

    @model_validator(mode="after")
    def _once(self) -> Group:
        for name in ("arms", "seeds"):
            given = getattr(self, name)
            if len({*given}) < len(given):
                raise ValueError(f"{name}: each is there once, not {given}")
        return self


class StudyParams(Params):
    """`make study`: arms under several seeds, from notebook 02's warm start, with its budget of a round.

    Attributes:
        primary: The arms of the questions asked beforehand.
        secondary: Further arms, under fewer seeds.
        rounds: After round 0.
        samples: Completions of each benchmark board, at temperature 1; a cell keeps one digit a board.
    """

    primary: Group
    secondary: Group
    rounds: Annotated[int, Field(ge=1)]
    samples: Annotated[int, Field(ge=1, le=9)]

    @model_validator(mode="after")
    def _disjoint(self) -> StudyParams:
        if twice := set(self.primary.arms) & set(self.secondary.arms):
            raise ValueError(f"secondary.arms: {sorted(twice)} are primary already")
        if more := set(self.secondary.seeds) - set(self.primary.seeds):
            raise ValueError(f"secondary.seeds: {sorted(more)} are no seeds of primary, whose round 0 they begin with")
        return self


def parameters(
    arm: str,
    study: StudyParams,
    rl: RLParams,
    samples: int,
    engineer: EngineerParams,
    designers: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Returns all parameters that decide the cells of an arm, as JSON values, and nothing else.

    So a change elsewhere in params.yaml, one more arm or seed, takes no cell again.

    Args:
        arm: A name of `engineer.ARMS` or `designers`, or "round_0".
        study: Rounds and samples.
        rl: The budget of a round.
        samples: Completions of each validation board.
        engineer: How a model engineer is asked.
        designers: Model engineers of one's own.

    Raises:
        ValueError: It is no arm.
    """
    asked = None if arm in BEGINNINGS else params_of(arm, engineer, designers)
    return {
        "arm": arm,
        "engineer": None if asked is None else asked.model_dump(mode="json"),
        "rl": rl.model_dump(mode="json"),
        "rounds": 0 if arm in BEGINNINGS else study.rounds,
        "samples": {"validation": samples, "benchmark": study.samples},
    }
