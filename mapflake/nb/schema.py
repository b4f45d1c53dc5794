"""params.yaml as classes: strict, a section for each notebook. A value that passes here must not fail after a training.

What is impossible together (five agents on a 3x3 board that is half holes) is found by building the configurations.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from mapflake.engineer import EngineerParams, build_prompt, params_of
from mapflake.engineer.bank import BankParams
from mapflake.engineer.compact.base import BaseParams, StudentParams
from mapflake.engineer.compact.demonstrations import synthetic_report
from mapflake.engineer.designers import DYNAMIC
from mapflake.engineer.reply import reply_format
from mapflake.engineer.situations import DesignRLParams
from mapflake.engineer.students import group_of
from mapflake.env import EnvConfig, benchmark_sets
from mapflake.repro import ParamError, Params, from_json, shown
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
Sizes = Annotated[list[Size], Field(min_length=1), Once]


class ValidationParams(Params):
    """The validation set, from which reports are made: `boards` for each wait ratio and size (null: all sizes)."""

    agents: Agents
    boards: Count
    wait_ratios: Annotated[list[Ratio], Field(min_length=1), Once]
    sizes: Sizes | None = None


class DemonstrationsParams(Params):
    """Solved boards for the warm start. `wait_ratio` null is any, `sizes` null is all."""

    agents: Agents
    boards: Count
    wait_ratio: Ratio | None = None
    sizes: Sizes | None = None


class BenchmarkStratum(Params):
    """Sizes of the benchmark for one number of agents."""

    agents: Agents
    sizes: Sizes


class BenchmarkParams(Params):
    """The benchmark: for each wait ratio a subset, `boards` for each (agents, size) in it."""

    boards: Count
    hole_ratio: HoleRatio
    wait_ratios: Annotated[list[Ratio], Field(min_length=1)]
    strata: list[BenchmarkStratum] = Field(min_length=1)


class EnvDesign(Params):
    """Notebook 01: the boards that everything else is measured on. `sizes` are those that a design may ask for."""

    seed: Seed
    sizes: Sizes
    hole_ratios: Annotated[list[HoleRatio], Field(min_length=1), Once]
    validation: ValidationParams
    benchmark: BenchmarkParams
    demonstrations: list[DemonstrationsParams] = Field(min_length=1)
    feasibility_boards: Count

    @model_validator(mode="after")
    def _feasible(self) -> EnvDesign:
        _once([f"{stratum.agents} agents" for stratum in self.benchmark.strata])
        if unknown := {*(self.validation.sizes or ())} - {*self.sizes}:
            raise ValueError(f"validation.sizes: {min(unknown)} is not in sizes, which a design may ask for")
        validation_sizes = self.validation.sizes or self.sizes
        sets = [("validation", self.validation.agents, validation_sizes, [self.benchmark.hole_ratio])]
        sets += [("demonstrations", d.agents, d.sizes or self.sizes, self.hole_ratios) for d in self.demonstrations]
        waits = [max(self.validation.wait_ratios), *(d.wait_ratio or 0 for d in self.demonstrations)]
        for (name, agents, sizes, ratios), wait in zip(sets, waits, strict=True):
            try:
                if agents == 1 and wait:
                    raise ValueError(f"one agent waits for nobody: no board needs a wait, {wait} is asked for")
                for ratio in ratios:
                    EnvConfig.uniform(sizes, ratio, num_agents=agents)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        strata = {stratum.agents: stratum.sizes for stratum in self.benchmark.strata}
        if 1 in strata and max(self.benchmark.wait_ratios):
            raise ValueError(f"benchmark: one agent waits for nobody: wait_ratios {self.benchmark.wait_ratios}")
        try:  # no board is drawn: these are the checks of names and strata alone
            benchmark_sets(self.seed, **self.benchmark.model_dump() | {"strata": strata, "boards": 0})
        except ValueError as error:
            raise ValueError(f"benchmark: {error}") from None
        for number, part in enumerate(self.demonstrations):
            if part.boards < len(self.hole_ratios):
                message = f"{part.boards} boards are none for each of {len(self.hole_ratios)} hole_ratios"
                raise ValueError(f"demonstrations.{number}.boards: {message}")
        total = self.validation.boards * len(validation_sizes) * len(self.validation.wait_ratios)
        if total < 8:  # notebook 04 compares a quarter as many situations with each other
            raise ValueError(f"validation.boards: {total} boards in all, takes at least 8")
        return self


class BaselineRL(Params):
    """Notebook 02: round 0, and the rounds on a fixed configuration; the budget of a round, for every arm."""

    rl: RLParams
    rounds: Count
    samples: Annotated[int, Field(ge=1, le=9)]  # a record keeps one digit for each board


class EngineerLoop(Params):
    """Notebook 03: how the policy is asked for its next environment."""

    engineer: EngineerParams


class Ablations(Params):
    """Notebook 05.

    Attributes:
        redraws: Of arms that end in `_dynamic`: how often groups without signal are drawn again.
        longer: Of the arm `fixed_longer`: rounds after those of `fixed`; None for as many samples as design RL took.
        constant: The configuration of the arm `constant`, as JSON; takes one only if a run has that arm.
        designers: Model engineers of one's own by name: in what each differs from `engineer_loop.engineer`.
    """

    redraws: Count = 4
    longer: Count | None = None
    constant: dict[str, Any] | None = None
    designers: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _legal(self) -> Ablations:
        if self.constant is not None:
            from_json(EnvConfig, self.constant, "constant")
        return self


class TrainedEngineer(Params):
    """Notebook 04: RL on designs `before` round 0, and its bank of situations."""

    bank: BankParams
    before: DesignRLParams


class Comparison(Params):
    """The questions asked first: an arm against others, in one metric, on boards of the benchmark of these sizes."""

    metric: Literal["valid", "optimal"]
    arm: str
    against: Annotated[list[str], Field(min_length=1), Once]
    sizes: Sizes | None = None
    agents: Annotated[list[Agents], Field(min_length=1), Once] | None = None

    @model_validator(mode="after")
    def _others(self) -> Comparison:
        if self.arm in self.against:
            raise ValueError(f"against: {self.arm!r} is the arm itself")
        return self


class Analysis(Params):
    """Notebook 06."""

    comparison: Comparison


class Sections(Params):
    """All sections: as they are written, or with the changes of a profile."""

    env_design: EnvDesign
    warm_start: BaseParams
    students: StudentParams = StudentParams()
    baseline_rl: BaselineRL
    engineer_loop: EngineerLoop
    ablations: Ablations
    trained_engineer: TrainedEngineer
    analysis: Analysis

    @model_validator(mode="after")
    def _sizes(self) -> Sections:
        engineer = self.trained_engineer
        trained = {"baseline_rl": self.baseline_rl.rl, "trained_engineer.before": engineer.before.rl}
        for key, ages in (("students", self.students.ages), ("trained_engineer.bank", engineer.bank.ages)):
            if any(ages) and not (self.students.training or self.warm_start.training):
                raise ValueError(
                    f"{key}.ages: are steps of students.training or warm_start.training, and both are null"
                )
        if self.warm_start.base is None and self.warm_start.training:  # a policy from scratch
            if self.warm_start.training.lora:
                raise ValueError("warm_start.training.lora: adapters stand on a pretrained model, and base is null")
            longest = self.warm_start.training.model.max_positions
            for key, rl in trained.items():
                if rl.max_new_tokens >= longest:
                    message = f"{rl.max_new_tokens} and a prompt exceed the policy's max_positions, {longest}"
                    raise ValueError(f"{key}.rl.max_new_tokens: {message}")
        comparison, strata = self.analysis.comparison, self.env_design.benchmark.strata
        if absent := {*(comparison.agents or ())} - {stratum.agents for stratum in strata}:
            raise ValueError(f"analysis.comparison.agents: no board of the benchmark has {min(absent)} agents")
        chosen_strata = [stratum for stratum in strata if stratum.agents in (comparison.agents or [stratum.agents])]
        if unknown := {*(comparison.sizes or ())} - {size for stratum in chosen_strata for size in stratum.sizes}:
            suffix = f" and {' or '.join(map(str, comparison.agents))} agents" if comparison.agents else ""
            raise ValueError(f"analysis.comparison.sizes: no board of the benchmark has size {min(unknown)}{suffix}")
        starts = (*trained.values(), self.students.training, self.warm_start.training, engineer.bank.training)
        for key, rl in trained.items():
            if rl.beta and not rl.lora and any(start and start.lora for start in starts):
                raise ValueError(f"{key}.rl.beta: with whole weights it takes a start without adapters (lora)")
        return self

    def asked(self, where: str, arm: str) -> EngineerParams | None:
        """Returns `params_of` of an arm; raises ParamError that begins with `where` if there is no such arm."""
        try:
            return params_of(arm, self.engineer_loop.engineer, self.ablations.designers)
        except ValueError as error:
            raise ParamError(f"{where}: {error}") from None

    def check_engineers(self, where: str, arms: Collection[str]) -> None:
        """Raises ParamError that begins with `where` if a model engineer is illegal, or its prompt exceeds its budget.

        The prompt is that of a made-up report after round 0, counted in words: a real one has at least as many tokens.
        """
        sizes = self.env_design.sizes
        examples = (synthetic_report(i, sizes, seed=0) for i in itertools.count())
        example = next(example for example in examples if len(example.history) == 1)
        for arm in dict.fromkeys((*sorted(arms), *self.ablations.designers)):
            params = self.asked(f"{where}.ablations", arm)
            if params is None or params.model == "search":
                continue
            form = reply_format(self.warm_start.prompt_format) if params.model in ("current", "base") else "json"
            limit = params.prompt_tokens
            try:
                build_prompt(
                    example.report, example.history, sizes, variant=params.variant, prompt_format=form, budget=limit
                )
            except ValueError as error:
                raise ParamError(f"{where}: prompt_tokens of {arm!r}: {error}") from None

    def check_comparison(self, where: str, made: Collection[str]) -> None:
        """Raises ParamError that begins with `where` if the comparison asks about an arm that is not in `made`."""
        comparison = self.analysis.comparison
        for key, arm in [("arm", comparison.arm), *(("against", other) for other in comparison.against)]:
            self.asked(f"{where}.analysis.comparison.{key}", arm)
            if arm not in made:
                legal = f"those that are made: {', '.join(sorted(made))}"
                raise ParamError(f"{where}.analysis.comparison.{key}: no run makes the arm {arm!r}; {legal}")

    def check_arms(self, where: str, run: RunParams) -> None:
        """Raises ParamError that begins with `where` if an arm of a run is none, or lacks what it takes."""
        ages, engineer = len(self.students.ages), self.engineer_loop.engineer
        if engineer.model in ("base", "search") or engineer.design_rl != "none" or engineer.told_others:
            hint = "models base and search, design_rl and report are of arms such as engineer_base"
            raise ParamError(f"{where}: engineer_loop.engineer is the current policy, told its own report; {hint}")
        for arm in run.arms:
            params = self.asked(where, arm)
            if arm in ("fixed", "engineer"):
                raise ParamError(f"{where}: {arm!r} is in every run already (notebooks 02 and 03)")
            if arm.removesuffix(DYNAMIC) == "constant":
                if (constant := self.ablations.constant) is None:
                    raise ParamError(f"{where}: {arm!r} takes a configuration, and ablations.constant is null")
                if outside := {*map(int, constant["sizes"])} - {*self.env_design.sizes}:
                    raise ParamError(f"{where}: {arm!r} asks for size {min(outside)}, which is not in env_design.sizes")
                if (agents := constant.get("num_agents", 2)) != 2:
                    raise ParamError(f"{where}: {arm!r}: ablations.constant has {agents} agents, rounds have 2")
            if params and params.told_others:
                if ages < 2:
                    raise ParamError(f"{where}: {arm!r} is told another's report, and students.ages has one age")
                if odd := [seed for seed in run.seeds if not {*group_of(seed, ages)} <= {*run.seeds}]:
                    group = f"seed {odd[0]} is of the group {group_of(odd[0], ages)}"
                    raise ParamError(f"{where}: {arm!r} takes the reports of whole groups, a seed of each age; {group}")


ProfileName = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,39}$")]  # it becomes the name of folders


class RunParams(Params):
    """The line `run`: a profile, its arms beside `fixed` and `engineer`, its seeds, and the runs of its bank."""

    profile: str
    arms: Annotated[list[str], Field(min_length=1), Once]
    seeds: Annotated[list[Seed], Field(min_length=1), Once]
    bank: Annotated[list[Seed], Field(min_length=2), Once]


TAKEN = {
    *("log", "history", "results", "controls", "laboratory"),
    *("without_reports", "six_rounds", "search", "search_again", "search_by_age", "lessons", "search_matched"),
}
"""Names in reports/ that a profile's own page or records would replace."""


class ParamsFile(Sections):
    """The whole of params.yaml; a profile is what it changes in the sections."""

    run: RunParams
    wandb: Literal["disabled", "offline", "online"]
    runs: dict[str, RunParams]
    profiles: dict[ProfileName, dict[str, Any]]

    @model_validator(mode="after")
    def _folders(self) -> ParamsFile:
        if "interactive" in self.profiles:
            raise ValueError("profiles: 'interactive' is the folder of runs by hand, runs/interactive")
        if taken := sorted(TAKEN & {*self.profiles}):
            raise ValueError(f"profiles: {taken[0]!r} is the name of a page or of records in reports/: take another")
        return self

    def named(self, name: str) -> RunParams:
        """Returns an entry of `runs`; ParamError if there is none."""
        if name not in self.runs:
            raise ParamError(f"runs: {shown(name)} is not legal: one of {', '.join(self.runs)}")
        return self.runs[name]
