"""params.yaml as classes: strict, a section for each notebook, made of the owners' own classes.

What is impossible together (five agents on a 3x3 board that is half holes) is found here too, by building the
configurations that the notebook will ask for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from mapflake.engineer import EngineerParams, params_of
from mapflake.engineer.bank import BankParams
from mapflake.engineer.compact.base import BaseParams
from mapflake.engineer.situations import DesignRLParams, GainsParams
from mapflake.env import EnvConfig
from mapflake.repro import ParamError, Params
from mapflake.trainer.params import RLParams

Ratio = Annotated[float, Field(ge=0, le=1)]
HoleRatio = Annotated[float, Field(ge=0, le=0.5)]
Size = Annotated[int, Field(ge=3, le=10)]
Agents = Annotated[int, Field(ge=1, le=5)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]


def _once(values: list[Any]) -> list[Any]:
    if len({*values}) < len(values):
        raise ValueError(f"each is there once, not {', '.join(map(str, values))}")
    return values


Once = AfterValidator(_once)


class ValidationParams(Params):
    """The fixed validation set: unconstrained boards, an equal part for each hole ratio."""

    agents: Agents
    boards: Count


class DemonstrationsParams(Params):
    """Solved boards of one number of agents for the warm start; waits unconstrained, or in this share of the boards.

    `sizes` may leave out sizes that are too crowded; null is all of them.
    """

    agents: Agents
    boards: Count
    wait_ratio: Ratio | None = None
    sizes: list[Size] | None = Field(default=None, min_length=1)


class BenchmarkStratum(Params):
    """Sizes of the benchmark for one number of agents."""

    agents: Agents
    sizes: list[Size] = Field(min_length=1)


class BenchmarkParams(Params):
    """The benchmark: for each wait ratio a subset, `boards` for each (agents, size) in it."""

    boards: Count
    hole_ratio: HoleRatio
    wait_ratios: list[Ratio] = Field(min_length=1)
    strata: list[BenchmarkStratum] = Field(min_length=1)


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
        _once([f"{stratum.agents} agents" for stratum in self.benchmark.strata])
        asked = [("validation", self.validation.agents, self.sizes, self.hole_ratios)]
        asked += [("demonstrations", d.agents, d.sizes or self.sizes, self.hole_ratios) for d in self.demonstrations]
        asked += [("benchmark.strata", s.agents, s.sizes, [self.benchmark.hole_ratio]) for s in self.benchmark.strata]
        for where, agents, sizes, ratios in asked:
            for ratio in ratios:
                try:
                    EnvConfig.uniform(sizes, ratio, num_agents=agents)
                except ValueError as error:
                    raise ValueError(f"{where}: {error}") from None
        if self.validation.boards % len(self.hole_ratios):
            raise ValueError(
                f"validation.boards: {self.validation.boards} is not a multiple of the "
                f"{len(self.hole_ratios)} hole_ratios"
            )
        return self


class BaselineRL(Params):
    """Notebook 02: round 0, and the rounds on a fixed configuration; the budget of a round, for every arm."""

    rl: RLParams
    rounds: Count
    samples: Count


class EngineerLoop(Params):
    """Notebook 03: how the policy is asked for its next environment."""

    engineer: EngineerParams


class Ablations(Params):
    """Notebook 04: model engineers of one's own by name: in what each differs from `engineer_loop.engineer`."""

    designers: dict[str, dict[str, Any]] = Field(default_factory=dict)


class TrainedEngineer(Params):
    """Notebook 06, and the bank that it learns from: reinforcement over designs.

    Attributes:
        bank: The runs of the bank; `before` says which tables are measured there.
        before: The training before round 0.
        every_round: That of the arm `co_trained`.
        gains_rounds: Rounds of each run whose designs are tried out, with the same start as the bank's.
        gains: What designs really teach there, by short trainings.
    """

    bank: BankParams
    before: DesignRLParams
    every_round: DesignRLParams
    gains_rounds: Count
    gains: GainsParams


class Comparison(Params):
    """The questions asked first, named before the runs: an arm against others, in one metric on one set of boards.

    They are corrected together; the first is the primary one. `held_out` are boards like those of validation, which no
    designer sees; `sizes` keeps boards of these alone.
    """

    metric: Literal["valid", "optimal"]
    arm: str
    against: list[str] = Field(min_length=1)
    boards: Literal["held_out", "benchmark"]
    sizes: Annotated[list[int], Field(min_length=1), Once] | None = None


class Analysis(Params):
    """Notebook 05."""

    comparison: Comparison


class Sections(Params):
    """All sections, of the default profile as they are written, of another with its changes."""

    env_design: EnvDesign
    warm_start: BaseParams
    baseline_rl: BaselineRL
    engineer_loop: EngineerLoop
    ablations: Ablations
    trained_engineer: TrainedEngineer
    analysis: Analysis

    @model_validator(mode="after")
    def _sizes(self) -> Sections:
        if unknown := {*(self.analysis.comparison.sizes or ())} - {*self.env_design.sizes}:
            raise ValueError(f"analysis.comparison.sizes: {min(unknown)} is none of env_design.sizes")
        return self

    def asked(self, where: str, arm: str) -> EngineerParams | None:
        """Returns `params_of` of an arm; raises ParamError that begins with `where` if there is no such arm."""
        try:
            return params_of(arm, self.engineer_loop.engineer, self.ablations.designers)
        except ValueError as error:
            raise ParamError(f"{where}: {error}") from None

    def check_arms(self, where: str, arms: Iterable[str], trained: bool = False) -> None:
        """Raises ParamError that begins with `where` if a name is not an arm that notebook 04 runs.

        `trained` says whether the arms begin with the trained engineer.
        """
        for arm in arms:
            asked = self.asked(where, arm)
            if arm in ("fixed", "engineer"):
                raise ParamError(f"{where}: {arm!r} is in every run already (notebooks 02 and 03)")
            if trained != (arm == "fixed_longer" or (asked is not None and asked.design_rl == "before")):
                raise ParamError(f"{where}: {arm!r} belongs in {'arms' if trained else 'trained'}")


class RunParams(Params):
    """The line `run`: a profile and its cells, arm x training seed.

    The arms `fixed` and `engineer` are in every run; `trained` lists those that need the trained engineer of the seed.
    `bank` numbers the runs of the bank, `gains` runs like them in which designs are tried out.
    """

    profile: str
    arms: Annotated[list[str], Once]
    trained: Annotated[list[str], Once]
    seeds: Annotated[list[Seed], Field(min_length=1), Once]
    bank: Annotated[list[Seed], Field(min_length=2), Once]
    gains: Annotated[list[Seed], Once]

    @model_validator(mode="after")
    def _compares(self) -> RunParams:
        if not self.arms and not self.trained:
            raise ValueError("arms, trained: both are empty; a run takes at least one arm beside fixed and engineer")
        return self


class ParamsFile(Sections):
    """The whole of params.yaml; a profile is what it changes in the sections."""

    run: RunParams
    wandb: Literal["disabled", "offline", "online"]
    runs: dict[str, RunParams]
    profiles: dict[str, dict[str, Any]]
