"""Pairs that teach a small policy to speak the engineer's language; they favour no design.

A from-scratch policy cannot read a report or write a configuration until it is shown how. Exactly this is shown:

- Reports of synthetic runs of 1 to 4 rounds. A made-up policy has a skill, and its chance of success falls with the
  size of a board and where a wait is needed, at random rates; counts are binomial; the kinds of failure are a random
  mix. From round to round its skill rises a little; now and then a reply is marked as rejected. Prompts are written by
  `build_prompt`, as real ones are.
- Answers of a wide mixture of rules, drawn at random for each pair and each round, independent of what would help:
  data by one of `DATA_RULES` (to the half-solved sizes, the weakest, the strongest, around the frontier, all sizes
  equally, none where success is rare, as before), holes and waits by one of `LEVEL_RULES` (as before, 0.1 towards
  half-solved, mutated, one level for all, independent of the report), custom dimensions at random. Weights get
  log-normal noise (sigma 0.3). One answer in eight is a random legal configuration that ignores the report.

So nothing here is evidence for one design over another: a policy trained on it writes legal replies that depend on
the report in the ways of these rules. That is language, not insight (`reading` measures it). Not shown: prose,
examples of failures, what guidelines mean (they stand in all prompts of a variant), any reward for a design.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mapflake.engineer.actions import legal_sizes, project
from mapflake.engineer.designers.rules import half_solved, random_config, towards_half
from mapflake.engineer.ledger import History, Round
from mapflake.engineer.prompt import build_prompt
from mapflake.engineer.reply import Proposal, format_config, rounded
from mapflake.engineer.report import FailureReport, SizeReport
from mapflake.engineer.situations import VALIDATED_HOLES, Situation, kinds, table
from mapflake.engineer.variants import DEFAULT_VARIANT, VARIANTS, known_variant
from mapflake.env import KINDS, EnvConfig
from mapflake.env.config import custom_dimensions
from mapflake.repro import rng_for

ROUNDS_SHOWN = (0.4, 0.3, 0.2, 0.1)  # chance that the last round of a pair's run is 0, 1, 2, 3
RANDOM_DESIGN = 1 / 8  # chance that an answer ignores the report
PER_HOLE = 8.0
REJECTED = 0.05  # chance that a past round's reply is marked as rejected
FAILURE_MIX = {  # concentrations of the Dirichlet distribution of a made-up policy's failures
    "parse": 0.3, "agents": 0.1, "move": 0.1, "bounds": 0.3, "hole": 1.0, "vertex": 1.0, "edge": 0.3, "goal": 1.0,
}  # fmt: skip


def demonstrations(
    n: int,
    sizes: Iterable[int],
    *,
    seed: int,
    variants: Sequence[str] = (DEFAULT_VARIANT,),
    prompt_format: str = "compact",
    reported: Iterable[int] | None = None,
) -> list[tuple[str, str]]:
    """Returns n (prompt, completion) pairs, made as the module's docstring says, in compact words or in JSON.

    Pair i depends on (seed, sizes, reported, variants, i) alone; each of the variants is shown as often as the others.
    In JSON too ratios are multiples of 1/20: a full float takes a language model a dozen tokens. Reports have the sizes
    in `reported`, a part of `sizes`; None: all of them.
    """
    options: dict[str, Any] = {"seed": seed, "variants": variants, "prompt_format": prompt_format, "reported": reported}
    runs = [synthetic_report(i, sizes, **options) for i in range(n)]
    return [(run.prompt, format_config(rounded(run.answer), prompt_format)) for run in runs]


@dataclass(frozen=True)
class SyntheticReport:
    """A made-up run at the point where its engineer is asked, and the design that a demonstration answers.

    `logits` are by size the made-up policy's log-odds of success on boards that need no wait, `per_wait` is their loss
    where a wait is needed.
    """

    report: FailureReport
    history: History
    prompt: str
    answer: EnvConfig
    logits: Mapping[int, float]
    per_wait: float


def synthetic_report(
    number: int,
    sizes: Iterable[int],
    *,
    seed: int,
    variants: Sequence[str] = (DEFAULT_VARIANT,),
    prompt_format: str = "compact",
    reported: Iterable[int] | None = None,
) -> SyntheticReport:
    """Returns the report behind pair `number` of `demonstrations`; another seed gives ones that were not shown."""
    sizes, rng = legal_sizes(sizes), rng_for(seed, "demonstrations", number)
    report_sizes = sizes if reported is None else legal_sizes(reported)
    if unknown := {*report_sizes} - {*sizes}:
        raise ValueError(f"reported: {min(unknown)} is none of the sizes {', '.join(map(str, sizes))}")
    variant = variants[int(rng.integers(len(variants)))]
    context = VARIANTS[known_variant(variant)]
    learner = _Learner.draw(rng)
    config, proposal = random_config(sizes, rng), None
    history: tuple[Round, ...] = ()
    for index in range(1 + int(rng.choice(len(ROUNDS_SHOWN), p=ROUNDS_SHOWN))):
        rows = {size: learner.size_report(size, rng) for size in sizes}
        report = FailureReport(tuple(rows[size][0] for size in report_sizes))
        history = (*history, Round("synthetic", index, config, report, proposal=proposal))
        visible = config if context.history != "none" and context.tells(index) else None
        answer = _design(report, sizes, visible, rng)
        proposal = Proposal(format_config(answer, prompt_format), answer, None)
        if rng.random() < REJECTED:
            proposal = Proposal("", None, "synthetic")
        config = proposal.config or config
        learner = replace(learner, skill=learner.skill + rng.uniform(0, 0.8))
    prompt = build_prompt(report, history, sizes, variant=variant, prompt_format=prompt_format)
    logits = {size: logit for size, (_, logit) in rows.items()}
    return SyntheticReport(report, history, prompt, answer, logits, learner.per_wait)


def made_up(number: int, sizes: Iterable[int], *, seed: int, reported: Iterable[int] | None = None) -> Situation:
    """Returns a made-up situation, whose learnability is 4 p (1 - p) with p the made-up policy's success.

    Holes cost it up to `PER_HOLE` log-odds a unit of the hole ratio, at random; the reported rates are at the ratio
    `VALIDATED_HOLES`. All of it is our choice. `reported` is as for `demonstrations`.
    """
    run = synthetic_report(number, sizes, seed=seed, reported=reported)
    per_hole = rng_for(seed, "per hole", number).uniform(0, PER_HOLE)
    chances = {
        (size, hole, waits): _sigmoid(run.logits[size] - per_hole * (hole - VALIDATED_HOLES) - run.per_wait * waits)
        for size, hole, waits in kinds(run.logits)
    }
    learnability = table({kind: 4 * p * (1 - p) for kind, p in chances.items()})
    return Situation(run.report, run.history, table(chances), learnability, f"made up {number}")


@dataclass(frozen=True)
class _Learner:
    """A made-up policy: log-odds of success on a 3x3 board, their loss by size and by wait, and how it fails."""

    skill: float
    per_size: float
    per_wait: float
    optimal: float
    kinds: tuple[float, ...]
    boards: int
    waits: float

    @classmethod
    def draw(cls, rng: np.random.Generator) -> _Learner:
        return cls(
            skill=rng.uniform(-1.5, 4.0),
            per_size=rng.uniform(0.1, 1.2),
            per_wait=rng.uniform(0.0, 3.0),
            optimal=rng.uniform(0.4, 1.0),
            kinds=tuple(rng.dirichlet([FAILURE_MIX[kind] for kind in KINDS])),
            boards=int(rng.integers(40, 400)),
            waits=rng.choice([0.0, rng.uniform(0.0, 0.3), rng.uniform(0.3, 1.0)], p=[0.1, 0.6, 0.3]),
        )

    def size_report(self, size: int, rng: np.random.Generator) -> tuple[SizeReport, float]:
        """Returns its report on the boards of one size, and its log-odds there."""
        logit = self.skill - self.per_size * (size - 3) + rng.normal(0, 0.3)
        waits = int(rng.binomial(self.boards, self.waits))
        wait_valid = int(rng.binomial(waits, _sigmoid(logit - self.per_wait)))
        valid = wait_valid + int(rng.binomial(self.boards - waits, _sigmoid(logit)))
        failed = self.boards - valid
        first = rng.multinomial(failed, self.kinds)
        counts = [int(k + rng.binomial(failed - k, 0.1 * share)) for k, share in zip(first, self.kinds, strict=True)]
        optimal = int(rng.binomial(valid, self.optimal))
        return SizeReport(size, self.boards, valid, optimal, waits, wait_valid, valid - optimal, tuple(counts)), logit


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


Rates = Mapping[int, float]
"""The valid rate of every size."""


def _frontier(valid: Rates, last: EnvConfig | None) -> Rates:
    """Returns weights that peak at the largest size solved at least half of the time, the smallest if none is."""
    peak = max((s for s in valid if valid[s] >= 0.5), default=min(valid))
    return {s: math.exp(-abs(s - peak)) for s in valid}


DATA_RULES: dict[str, Callable[[Rates, EnvConfig | None], Rates]] = {
    "half-solved": lambda valid, last: {s: half_solved(v) for s, v in valid.items()},
    "weakest": lambda valid, last: {s: 1.05 - v for s, v in valid.items()},
    "strongest": lambda valid, last: {s: 0.05 + v for s, v in valid.items()},
    "frontier": _frontier,
    "uniform": lambda valid, last: dict.fromkeys(valid, 1.0),
    "abandon": lambda valid, last: {s: 1.0 for s, v in valid.items() if v >= 0.2} or {min(valid): 1.0},
    "as before": lambda valid, last: {s: last.data_ratios.get(s, 0.0) if last else 1.0 for s in valid},
}
"""Weights of the sizes, from their valid rates and the last configuration if the prompt shows it; all equally likely. A
size without an entry is left out of the answer."""

Levels = dict[int, tuple[float, float | None]]
"""Hole and wait ratio of every size, not yet projected."""


def _before(valid: Rates, last: EnvConfig | None, rng: np.random.Generator) -> Levels:
    """Returns the last hole and wait ratios; where the prompt does not show any, one random moderate level for all."""
    level = (rng.uniform(0, 0.3), rng.uniform(0, 0.6))
    last_levels = {s: (part.hole_ratio, part.wait_ratio) for s, part in last.sizes.items()} if last else {}
    return {s: last_levels.get(s, level) for s in valid}


def _towards_half(valid: Rates, last: EnvConfig | None, rng: np.random.Generator) -> Levels:
    levels, steps = _before(valid, last, rng), {s: towards_half(v) for s, v in valid.items()}
    return {s: (h + steps[s], None if w is None else w + steps[s]) for s, (h, w) in levels.items()}


def _mutated(valid: Rates, last: EnvConfig | None, rng: np.random.Generator) -> Levels:
    def nudge() -> float:
        return float(rng.choice([-0.1, -0.05, 0.0, 0.05, 0.1]))

    return {s: (h + nudge(), None if w is None else w + nudge()) for s, (h, w) in _before(valid, last, rng).items()}


def _one_level(valid: Rates, last: EnvConfig | None, rng: np.random.Generator) -> Levels:
    hole, wait = rng.uniform(0, 0.45), rng.choice([rng.uniform(0, 1), math.nan], p=[0.75, 0.25])
    return dict.fromkeys(valid, (hole, None if math.isnan(wait) else float(wait)))


LEVEL_RULES: dict[str, Callable[[Rates, EnvConfig | None, np.random.Generator], Levels]] = {
    "as before": _before,
    "towards half-solved": _towards_half,
    "mutated": _mutated,
    "one level": _one_level,
    "independent": lambda valid, last, rng: {s: (rng.uniform(0, 0.5), rng.uniform(0, 1)) for s in valid},
}
"""Hole and wait ratios of the sizes; all equally likely."""


def _design(report: FailureReport, sizes: Sequence[int], last: EnvConfig | None, rng: np.random.Generator) -> EnvConfig:
    valid = dict.fromkeys(sizes, 0.0) | report.valid_rates  # a size that is not reported counts as never solved
    if rng.random() < RANDOM_DESIGN:
        return random_config(sizes, rng)
    weights = _pick(DATA_RULES, rng)(valid, last)
    levels = _pick(LEVEL_RULES, rng)(valid, last, rng)
    requested = {
        s: {"data_ratio": w * math.exp(rng.normal(0, 0.3)), "hole_ratio": levels[s][0], "wait_ratio": levels[s][1]}
        for s, w in weights.items()
    }
    for name, dimension in custom_dimensions().items():
        requested = {s: {**ratios, name: rng.uniform(0, dimension.top)} for s, ratios in requested.items()}
    return project(requested, valid)


def _pick(rules: Mapping[str, Any], rng: np.random.Generator) -> Any:
    return rules[list(rules)[int(rng.integers(len(rules)))]]
