"""The method: failures -> design -> configuration -> training -> failures, one recorded round at a time.

`run_round` is the paper's figure; `run_arm` repeats it with one designer. A round that is killed goes on with the last
save of its training, and with its design, for a model behind a server may answer otherwise the next time. The benchmark
is not seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from mapflake import provenance, repro
from mapflake.engineer.actions import legal_sizes
from mapflake.engineer.backend import TrainingBackend, behaviour_of, column
from mapflake.engineer.boards import apply_fallback, sample_boards, warn_of_training_boards
from mapflake.engineer.designers import DYNAMIC, EngineerParams, RuleInputs, designer_for, params_of
from mapflake.engineer.identity import arm_values, own_values
from mapflake.engineer.ledger import ARM_KEYS, Designer, History, Ledger, LedgerError, Round, designed, next_index
from mapflake.engineer.reply import Proposal
from mapflake.engineer.report import FailureReport, diagnose, environment_statistics
from mapflake.engineer.students import telling
from mapflake.env import EnvConfig, Task
from mapflake.extras import needs
from mapflake.repro import seed_for, shown, whole
from mapflake.trainer import evaluate

PROPOSAL = "proposal.json"
"""The design of an unfinished round, in the round's folder: a round that is killed keeps it."""

ADDED = {*ARM_KEYS, "told_sha256"}
"""What rounds and arms add to `RoundSettings.about`: who designs, and what it is told."""


@dataclass(frozen=True)
class RoundSettings:
    """The settings that the rounds of all arms share, so that comparisons are paired.

    Attributes:
        folder: The run's folder: `rounds.jsonl`, and a folder for each round.
        trainer: `Grpo(RLParams(...))`, or another `TrainingBackend`.
        validation: The fixed validation set, the only boards on which failures are seen.
        seed: Root of all random streams.
        samples: Completions a validation board, at temperature 1.
        arm: Name of the arm, for the record.
        about: Anything else that decides the result: a resumed run must ask for the same. Who designs is added to it.
        stale: If a recorded round was run with other parameters: "error", or "replace" it and all after it.
    """

    folder: str | Path
    trainer: TrainingBackend
    validation: Sequence[Task] = field(repr=False)
    seed: int
    samples: int = 1
    arm: str = "shared"
    about: Mapping[str, Any] = field(default_factory=dict)
    stale: Literal["error", "replace"] = "error"

    def __post_init__(self) -> None:
        if self.stale not in ("error", "replace"):
            raise ValueError(f"stale: {shown(self.stale)} is neither 'error' nor 'replace'")
        if not isinstance(self.arm, str):
            raise ValueError(f"arm: must be a name, not {shown(self.arm)}")
        object.__setattr__(self, "seed", whole(self.seed, "seed", 0))
        object.__setattr__(self, "samples", whole(self.samples, "samples", 1))
        boards = tuple(self.validation) if isinstance(self.validation, Iterable) else (self.validation,)
        if not boards or not all(isinstance(task, Task) for task in boards):
            raise ValueError(f"validation: takes one or more boards with solutions (Task), not {shown(boards)}")
        object.__setattr__(self, "validation", boards)
        if not isinstance(self.about, Mapping):
            raise ValueError(f"about: takes values by name, not {shown(self.about)}")
        for key, value in self.about.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                raise ValueError(f"about: {key!r} is not what JSON can hold: {error}") from error


@dataclass(frozen=True)
class Start:
    """The beginning of round 0: the weights that it trains and the configuration that it trains them on.

    `cost` is what the weights cost beyond those of other arms, e.g. `{"replies": 30720}`, for the record;
    `before_design_rl` has the weights that design RL made `checkpoint` from.
    """

    checkpoint: str | Path
    config: EnvConfig
    cost: Mapping[str, int] = field(default_factory=dict)
    before_design_rl: str | Path | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.config, EnvConfig):
            raise TypeError(f"config: must be an EnvConfig, not {shown(self.config)}")
        object.__setattr__(self, "cost", {name: whole(n, f"cost: {name}", 0) for name, n in self.cost.items()})


def run_round(
    settings: RoundSettings,
    history: History,
    designer: Designer | None = None,
    *,
    start: Start | None = None,
) -> Round:
    """Returns the round after `history`: run and recorded now, or as it was recorded before.

    The rounds so far are of this run or another one: an arm may branch from any round. Round 0 has no history and
    begins with `start`; later rounds ask the `designer` and begin with the last one's checkpoint.

    Raises:
        LedgerError: The round was run with other parameters or by another designer (and `settings.stale` is "error"),
            or its checkpoint, or the one that it starts from, is not the one recorded.
        ValueError: Round 0 lacks its start or has a designer, or a later round lacks its designer or has a start; or
            the last round was measured on other validation boards, or with other `samples` or another seed; or it
            cannot be decided whether the designer has changed (`provenance.identity`); or `settings.about` has a key
            that the round adds itself (`ADDED`).
        TypeError: As for `designed`; or the trainer's `train` returned no curve, its `describe` no parameters, or its
            `sha256` no text.
        FileNotFoundError: The trainer's `train` wrote no checkpoint.
    """
    _check_about(settings)
    if history and start:
        raise ValueError("start: round 0 alone has one; there is a history")
    if designer and not history:
        raise ValueError("designer: round 0 has none; its configuration is that of start")
    if designer:
        if not callable(designer):
            raise TypeError(f"designer: a function of report and history, not {shown(designer)} (run_arm takes names)")
        settings = replace(settings, about={**settings.about, "designer": provenance.identity(designer)})
    return _run(settings, history, designer, start)


def _run(settings: RoundSettings, history: History, designer: Designer | None, start: Start | None = None) -> Round:
    """Returns a round as `run_round` does; `settings.about` says who designs."""
    with needs("train"):
        from tqdm import tqdm  # pandas and scipy are needed too

    last = history[-1] if history else start
    if last is None or (history and designer is None):
        raise ValueError("round 0 needs a start, later rounds a designer")
    index, trainer, seed = next_index(history), settings.trainer, settings.seed
    folder = Path(settings.folder) / f"round-{index}"
    checkpoint = folder / "checkpoint"
    parameters = _parameters(settings, history, start)
    ledger = Ledger(folder.with_name("rounds.jsonl"))
    if finished := ledger.recorded(index, parameters, settings.stale):
        _tidy(folder)
        _check_weights(trainer, finished)
        return finished

    if history:
        _check_weights(trainer, history[-1])
        for key in ("validation_sha256", "samples", "seed"):  # they decide the report, and the noise of all rounds
            if (before := history[-1].parameters.get(key, parameters[key])) != parameters[key]:
                raise ValueError(f"history: its last round was measured with {key} {before}, not {parameters[key]}")
    else:
        warn_of_training_boards(settings.validation)
    proposal = _proposal(designer, history, parameters, folder / PROPOSAL) if designer else None
    config = proposal.config if proposal and proposal.config else last.config  # a rejection changes nothing
    # No arm's name is in a seed, so that arms are paired; the noise of validation is the same in all rounds too.
    with tqdm(total=trainer.instances, desc=f"round {index}: boards", unit="board") as bar:
        tasks, fallback = sample_boards(
            config, trainer.instances, seed=seed_for(seed, "train", index), progress=bar.update
        )
    curve = trainer.train(last.checkpoint, tasks, checkpoint, seed=seed_for(seed, "grpo", index))
    if not (isinstance(curve, Sequence) and all(isinstance(row, Mapping) for row in curve)):
        hint = "it returns the curve, a row (numbers by name) a step, [] if there are none"
        raise TypeError(f"trainer: its train returned {shown(curve)}; {hint}")
    if not (checkpoint.is_file() or any(checkpoint.glob("*"))):
        raise FileNotFoundError(f"trainer: its train wrote no checkpoint: {checkpoint} is not there, or is empty")
    rollouts = evaluate.rollout(
        trainer.load(checkpoint),
        settings.validation,
        samples=settings.samples,
        seed=seed_for(seed, "validation"),
        progress=f"round {index}: validation",
    )
    files = {name: folder / f"{name}.jsonl" for name in ("rollouts", "failures")}
    evaluate.save_rollouts(files["rollouts"], rollouts)
    evaluate.save_rollouts(files["failures"], [r for r in rollouts if not r.verdict.valid])
    report = diagnose(
        rollouts,
        training=environment_statistics(tasks),
        behaviour=behaviour_of(curve),
        before=history[-1].report if history else None,
    )
    overall = evaluate.rates(evaluate.frame(rollouts), metrics=("valid", "optimal", "soc_optimal"))
    finished = Round(
        arm=settings.arm,
        index=index,
        config=apply_fallback(config, fallback),
        report=report,
        checkpoint=checkpoint,
        checkpoint_sha256=trainer.sha256(checkpoint),
        seed=seed,
        proposal=proposal,
        fallback=fallback,
        parent_sha256=parameters["parent_sha256"],
        before_design_rl_sha256=parameters["before_design_rl_sha256"],
        training={
            "instances": parameters["instances"],
            "steps": len(curve),
            "sampled_tokens": round(sum(column(curve, "sampled_tokens"))),
            **{name: value for name, value in parameters["trainer"].items() if name != "instances"},  # of a step, say
            **({"spent before": dict(start.cost)} if start and start.cost else {}),
        },
        metrics={"temperature": 1.0, "samples": settings.samples, **overall.to_dict("records")[0]},
        parameters=parameters,
        files=files,
        versions=provenance.versions(),
    )
    ledger.append(finished)
    _tidy(folder)
    return finished


def _proposal(designer: Designer, history: History, parameters: Mapping[str, Any], path: Path) -> Proposal:
    """Returns the designer's proposal: the one that a killed round with the same parameters left in `path`, or anew."""
    mark = repro.json_sha256(parameters)
    if path.is_file() and (saved := repro.read_json(path))["parameters_sha256"] == mark:
        return repro.from_json(Proposal, saved["proposal"], str(path))
    proposal = designed(designer, history)
    repro.write_json(path, {"parameters_sha256": mark, "proposal": repro.to_json(proposal)})
    return proposal


def _tidy(folder: Path) -> None:
    """Removes from a recorded round's folder what only an unfinished one needs, and files that were half written."""
    for path in [*folder.glob(PROPOSAL), *folder.glob(".*.json*.tmp")]:
        path.unlink()


def run_arm(
    arm: str,
    settings: RoundSettings,
    history: History,
    *,
    rounds: int,
    sizes: Iterable[int],
    params: EngineerParams | None = None,
    designers: Mapping[str, Mapping[str, Any]] | None = None,
    base: str | Path | None = None,
    told: Sequence[FailureReport] | None = None,
    constant: EnvConfig | None = None,
) -> History:
    """Returns `history` with the next `rounds` rounds of an arm, run or as recorded in `settings.folder`.

    The arm's name, `params` and `designers` are as `params_of` takes them, and `sizes` may be asked for. What only
    some arms need: `base`, the checkpoint of the model before any RL; `told`, other students' reports, one a round
    (`students.told`); `constant`, the configuration of the arm of that name.

    Raises:
        ValueError: The arm is unknown, lacks its base, the reports that it is told or the RL on designs that it begins
            with, or there is no history; or whether its designer has changed cannot be told (`provenance.identity`); or
            as for `run_round`.
        TypeError: The arm is not a name, or as for `run_round`.
        LedgerError, FileNotFoundError: As for `run_round`.
    """
    _check_about(settings)
    trainer, sizes, rounds = settings.trainer, legal_sizes(sizes), whole(rounds, "rounds", 0)
    if not history:
        raise ValueError("an arm branches from a recorded round: run round 0 first")
    arm_params = params_of(arm, params or EngineerParams(), designers)
    if arm.endswith(DYNAMIC) and not trainer.describe().get("redraws"):
        raise ValueError(f"arm {arm!r} is a training with dynamic sampling: redraws of the trainer must be 1 or more")
    if arm_params is not None and arm_params.design_rl == "before" and history[0].before_design_rl_sha256 is None:
        raise ValueError(f"arm {arm!r} begins with RL on designs: its round 0 takes Start(before_design_rl=...)")
    inputs = RuleInputs(sizes, settings.seed, lambda history: trainer.load(history[-1].checkpoint), constant)
    designer = designer_for(arm, inputs, arm_params, base=base, load=trainer.load)
    values = arm_values(arm, arm_params, sizes, sha256=trainer.sha256, base=base, constant=constant)
    about: dict[str, Any] = {**settings.about, **values}
    if arm_params is not None and arm_params.told_others:
        if told is None:
            raise ValueError(f"arm {arm!r} is told reports of other students: told is not given")
        designer = telling(designer, told)
    for _ in range(rounds):
        if arm_params is not None and arm_params.told_others:
            about["told_sha256"] = repro.json_sha256(repro.to_json(list((told or ())[: next_index(history)])))
        history = (*history, _run(replace(settings, arm=arm, about=about), history, designer))
    return history


def _check_about(settings: RoundSettings) -> None:
    """Raises ValueError if `settings.about` has a key that rounds and arms add."""
    if taken := ADDED & {*settings.about}:
        raise ValueError(f"about: {', '.join(sorted(taken))} is said by the round itself; take another key")


def _parameters(settings: RoundSettings, history: History, start: Start | None) -> dict[str, Any]:
    """Returns everything that decides a round's result, as JSON values.

    Not there: later rounds' configurations, which are designed, and the hash of weights that are a result of the round.
    """
    trainer, before = settings.trainer, None
    if not isinstance(described := trainer.describe(), Mapping):
        raise TypeError(f"trainer: its describe returned {shown(described)}; it returns its parameters by name")
    if start:
        parent = trainer.sha256(start.checkpoint)
        before = None if start.before_design_rl is None else trainer.sha256(start.before_design_rl)
    else:
        parent = history[-1].checkpoint_sha256
    if not isinstance(parent, str):
        raise TypeError(f"trainer: its sha256 returned {shown(parent)}; it returns a hash as text")
    parameters = {
        "arm": settings.arm,
        "seed": settings.seed,
        "code_sha256": provenance.code_sha256("mapflake.engineer.rounds"),
        "parent_sha256": parent,
        "before_design_rl_sha256": before,
        "config": repro.to_json(start.config) if start else None,
        "instances": whole(trainer.instances, "trainer: instances", 1),
        "trainer": repro.from_json(dict[str, Any], dict(described), "trainer: what its describe returned"),
        "validation_sha256": repro.json_sha256([task.instance.key for task in settings.validation]),
        "samples": settings.samples,
        "about": dict(settings.about),
        **own_values(),
    }
    if type(trainer).__module__.split(".")[0] != "mapflake":
        parameters["trainer_code"] = provenance.identity(type(trainer))
    return repro.from_json(dict[str, Any], parameters, "parameters")  # as it will be read back


def _check_weights(trainer: TrainingBackend, past_round: Round) -> None:
    """Raises LedgerError if the weights of a recorded round are not those that it recorded."""
    if (sha256 := trainer.sha256(past_round.checkpoint)) != past_round.checkpoint_sha256:
        if Path(past_round.checkpoint).is_absolute() and not Path(past_round.checkpoint).exists():
            raise LedgerError(f"{past_round.checkpoint}: the weights of round {past_round.index} are not there")
        raise LedgerError(
            f"{past_round.checkpoint}: its weights have the hash {sha256}, recorded is {past_round.checkpoint_sha256}"
        )
