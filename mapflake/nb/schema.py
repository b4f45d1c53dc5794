"""The sections of params.yaml as classes: strict, one for each notebook and the study, made of the owners' own classes.

What is impossible together (five agents on a 3x3 board that is half holes) is found here too, by building the
configurations that the notebook will ask for.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from mapflake.engineer.context import VARIANTS
from mapflake.engineer.designers import EngineerParams, params_of
from mapflake.env import EnvConfig
from mapflake.repro import Params
from mapflake.study.plan import StudyParams
from mapflake.trainer.grpo import RLParams
from mapflake.trainer.warmstart import WarmStartParams

Ratio = Annotated[float, Field(ge=0, le=1)]
HoleRatio = Annotated[float, Field(ge=0, le=0.5)]
Size = Annotated[int, Field(ge=3, le=10)]
Agents = Annotated[int, Field(ge=1, le=5)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]


def _is_variant(name: str) -> str:
    if name not in VARIANTS:
        raise ValueError(f"legal variants: {', '.join(VARIANTS)}")
    return name


VariantName = Annotated[str, AfterValidator(_is_variant)]


class ValidationParams(Params):
    """The fixed validation set: boards as they fall, an equal part for each hole ratio."""

    agents: Agents
    boards: Count


class DemonstrationsParams(Params):
    """Solved boards of one number of agents for the warm start; waits as they fall, or in this share of the boards.

    `sizes` may leave out sizes that are too crowded; null is all of them.
    """

    agents: Agents
    boards: Count
    wait_ratio: Ratio | None = None
    sizes: list[Size] | None = Field(default=None, min_length=1)


class BenchmarkCells(Params):
    """Sizes of the benchmark for one number of agents."""

    agents: Agents
    sizes: list[Size] = Field(min_length=1)


class BenchmarkParams(Params):
    """The benchmark: for each wait ratio a subset, `boards` in every cell (agents, size) of it."""

    boards: Count
    hole_ratio: HoleRatio
    wait_ratios: list[Ratio] = Field(min_length=1)
    cells: list[BenchmarkCells] = Field(min_length=1)

    @model_validator(mode="after")
    def _once(self) -> BenchmarkParams:
        agents = [cell.agents for cell in self.cells]
        if len({*agents}) < len(agents):
            raise ValueError(f"cells: each number of agents is there once, not {agents}")
        return self


class EnvDesign(Params):
    """Notebook 01: the boards that everything else is measured on and started from."""

    seed: Seed
    sizes: list[Size] = Field(min_length=1)
    hole_ratios: list[HoleRatio] = Field(min_length=1)
    validation: ValidationParams
    benchmark: BenchmarkParams
    demonstrations: list[DemonstrationsParams] = Field(min_length=1)
    feasibility_boards: Count

    @model_validator(mode="after")
    def _feasible(self) -> EnvDesign:
        asked = [("validation", self.validation.agents, self.sizes, self.hole_ratios)]
        asked += [("demonstrations", d.agents, d.sizes or self.sizes, self.hole_ratios) for d in self.demonstrations]
        asked += [("benchmark.cells", c.agents, c.sizes, [self.benchmark.hole_ratio]) for c in self.benchmark.cells]
        for where, agents, sizes, ratios in asked:
            for ratio in ratios:
                try:
                    EnvConfig.uniform(sizes, ratio, num_agents=agents)
                except ValueError as error:
                    raise ValueError(f"{where}: {error}") from None
        parts = len(self.hole_ratios)
        if self.validation.boards % parts:
            raise ValueError(
                f"validation.boards: {self.validation.boards} is not a multiple of the {parts} hole_ratios"
            )
        return self


class BaselineRL(Params):
    """Notebook 02: the warm start, round 0, and the rounds on a fixed configuration.

    The budget of a round is written here once; notebooks 03 and 04 take over what notebook 02 recorded.
    """

    seed: Seed
    base: str | None = None
    hard_share: Ratio
    engineer_share: Annotated[float, Field(ge=0, lt=1)]
    engineer_variants: list[VariantName] = Field(min_length=1)
    warm_start: WarmStartParams
    rl: RLParams
    rounds: Count
    samples: Count


class EngineerLoop(Params):
    """Notebook 03: how the policy is asked for its next environment."""

    engineer: EngineerParams


class Ablations(Params):
    """Notebook 04: the arms that the engineer is compared with; asked, where a model is, as in notebook 03.

    `designers` adds model engineers by name: in what each differs from `engineer`.
    """

    arms: list[str] = Field(min_length=1)
    engineer: EngineerParams
    designers: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _known(self) -> Ablations:
        for arm in (*self.arms, *self.designers):
            params_of(arm, self.engineer, self.designers)
        return self


class Comparison(Params):
    """The question of the study, named before its runs: an arm against another in one metric on the benchmark."""

    metric: Literal["valid", "optimal"]
    arm: str
    against: str


class Analysis(Params):
    """Notebook 05: which arms it shows, of `ablations.arms`; what the study asks first (`sections` checks both)."""

    arms: list[str] = Field(min_length=1)
    comparison: Comparison


SECTIONS: dict[str, type[Params]] = {
    "env_design": EnvDesign,
    "baseline_rl": BaselineRL,
    "engineer_loop": EngineerLoop,
    "ablations": Ablations,
    "analysis": Analysis,
    "study": StudyParams,
}
