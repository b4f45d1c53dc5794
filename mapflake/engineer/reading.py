"""What an engineer's designs are worth in given situations, and whether they depend on the report.

The designs of an engineer that uses its report are worth more in the situation that they were made for than in others.
So the same designs are also scored in all situations of other runs, and the engineer is asked again with the rows of
the report exchanged. `response` says which rows it uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mapflake.extras import needs

with needs("train"):
    import pandas as pd

from mapflake import repro
from mapflake.engineer.designers.llm import answers
from mapflake.engineer.designers.rules import heuristic_expert, learnability, random_config
from mapflake.engineer.ledger import History, Round, next_index
from mapflake.engineer.prompt import build_prompt
from mapflake.engineer.reply import reply_format
from mapflake.engineer.report import FailureReport, SizeReport
from mapflake.engineer.situations import Reward, Situation, best_of_one_size, expected_gain, kind_shares
from mapflake.engineer.variants import DEFAULT_VARIANT, Variant
from mapflake.env import KINDS, EnvConfig
from mapflake.env.config import total_variation
from mapflake.trainer.evaluate import Completer

Answers = Sequence[EnvConfig | None]
"""The designs of replies; None for a rejected one."""


def ask(
    policy: Completer,
    situations: Sequence[Situation],
    sizes: Sequence[int],
    *,
    variant: str | Variant = DEFAULT_VARIANT,
    shuffled: bool = False,
    max_new_tokens: int | None = None,
    seed: int,
) -> list[EnvConfig | None]:
    """Returns one design at temperature 1 for each situation, None for a rejected reply.

    If `shuffled`, the rows of its report belong to other sizes (`exchanged`).
    """
    form, prompts = reply_format(policy.prompt_format), []
    for s in situations:
        inputs = exchanged(s.report, s.history, seed=seed) if shuffled else (s.report, s.history)
        prompts.append(build_prompt(*inputs, sizes, variant=variant, prompt_format=form))
    return answers(policy, prompts, sizes, max_new_tokens=max_new_tokens, seed=seed)


def exchanged(report: FailureReport, history: History, *, seed: int) -> tuple[FailureReport, History]:
    """Returns a report and the rounds before it in which every row of the tables belongs to another size, if any.

    All rounds are changed in one way, drawn from `seed` and the round's index, and examples stay.
    """
    sizes = [s.size for s in report.sizes]
    order = repro.rng_for(seed, "shuffled", next_index(history)).permutation(len(sizes)).tolist()
    new_size = {sizes[order[i - 1]]: sizes[order[i]] for i in range(len(sizes))}  # one cycle: no size keeps its row
    return _renamed(report, new_size), tuple(replace(r, report=_renamed(r.report, new_size)) for r in history)


def _renamed(report: FailureReport, new_size: Mapping[int, int]) -> FailureReport:
    def renamed(rows: Sequence[SizeReport]) -> tuple[SizeReport, ...]:
        return tuple(sorted((replace(s, size=new_size.get(s.size, s.size)) for s in rows), key=lambda s: s.size))

    return replace(report, sizes=renamed(report.sizes), before=renamed(report.before))


def worth(designs: Answers, situations: Sequence[Situation], reward: Reward = expected_gain) -> float:
    """Returns the mean reward of designs, each in its situation; a rejected one is worth 0."""
    scored = [reward(situation, c) if c else 0.0 for c, situation in zip(designs, situations, strict=True)]
    return float(np.mean(scored))


def elsewhere(designs: Answers, situations: Sequence[Situation], reward: Reward = expected_gain) -> float:
    """Returns the mean worth of designs in the situations of other runs; ValueError if all are of one run."""
    distinct = list({id(s): s for s in situations}.values())
    other_runs = {mine.origin: [s for s in distinct if s.origin != mine.origin] for mine in distinct}
    if len(other_runs) < 2:
        raise ValueError("situations: all are of one run, so that none is another's")
    scored = [
        [reward(other, config) for other in other_runs[situation.origin]] if config else [0.0]
        for config, situation in zip(designs, situations, strict=True)
    ]
    return float(np.mean([np.mean(values) for values in scored]))


def reading(
    policy: Completer,
    situations: Sequence[Situation],
    sizes: Sequence[int],
    *,
    reward: Reward = expected_gain,
    variant: str | Variant = DEFAULT_VARIANT,
    max_new_tokens: int | None = None,
    seed: int,
) -> dict[str, float]:
    """Returns what an engineer's designs are worth, and how far they depend on what it is told.

    `accepted` is the share of replies that are not rejected; `own` their worth, `another's` what the same designs are
    worth in situations of other runs, `shuffled` that of designs for shuffled tables; `reading` is own minus another's.
    `moved` is the mean total variation of data ratios between designs for the true and the shuffled report, left out
    where no situation has both.

    Raises:
        ValueError: All situations are of one run.
    """
    options: dict[str, Any] = {"variant": variant, "max_new_tokens": max_new_tokens, "seed": seed}
    designs = ask(policy, situations, sizes, **options)
    shuffled = ask(policy, situations, sizes, shuffled=True, **options)
    own_worth, other_worth = worth(designs, situations, reward), elsewhere(designs, situations, reward)
    distances = [
        total_variation(a.data_ratios, b.data_ratios) for a, b in zip(designs, shuffled, strict=True) if a and b
    ]
    return {
        "accepted": float(np.mean([config is not None for config in designs])),
        "own": own_worth,
        "another's": other_worth,
        "reading": own_worth - other_worth,
        "shuffled": worth(shuffled, situations, reward),
        **({"moved": float(np.mean(distances))} if distances else {}),
    }


def yardsticks(
    situations: Sequence[Situation], sizes: Sequence[int], *, reward: Reward = expected_gain, seed: int
) -> dict[str, float]:
    """Returns the worth of baseline designs: random ones, those of the hand rules, and the best design of one size.

    The rule `learnability` reads kinds of boards from the report; made-up reports have none, and it is left out there.
    The best of one size (`best_of_one_size`) is the largest of many noisy values where a table was measured, and so
    too high. If the situations are of several runs, its worth in the situations of other runs is returned, too.
    """
    rules = {"half-solved rule": heuristic_expert(sizes)}
    if all(s.report.bins for s in situations):
        rules["learnability rule"] = learnability(sizes)
    drawn = [random_config(sizes, repro.rng_for(seed, "random", i)) for i in range(len(situations))]
    worths = {"random": worth(drawn, situations, reward)}
    for name, rule in rules.items():
        worths[name] = worth([rule(s.report, s.history).config for s in situations], situations, reward)
    best = [best_of_one_size(s, reward) for s in situations]
    worths["best of one size"] = worth(best, situations, reward)
    if len({s.origin for s in situations}) > 1:
        worths["best of one size for another's"] = elsewhere(best, situations, reward)
    return worths


LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)  # the success rates that `response` tells, one after the other


def response(
    policy: Completer,
    sizes: Sequence[int],
    reported: Sequence[int],
    *,
    variant: str | Variant = DEFAULT_VARIANT,
    replies: int = 16,
    max_new_tokens: int | None = None,
    seed: int,
) -> pd.DataFrame:
    """Returns what an engineer asks for as one row of a made-up report is moved and the others stay.

    The report is one after round 0, on the sizes `reported`, a part of `sizes`. Its success falls evenly from 0.9 on
    the smallest size to 0.1 on the largest; half of the boards need a wait, and there success is the same. All of it is
    our choice. A size's row is moved as a whole. The row `waits` moves success on the boards that need a wait, of all
    sizes, as a share of that on the others. To each report there are so many `replies`.

    Returns:
        A row for each of `LEVELS` and each row of the report that was moved, with the columns `moved` (a size as text,
        or `waits`), `told` (the level), `asked` and `accepted`. `asked` is the mean over the accepted replies: of a
        size its share of the boards, of `waits` the share of boards that need one; NaN if no reply was accepted.
    """
    reported = sorted(reported)
    usual = dict(zip(reported, np.linspace(0.9, 0.1, len(reported)), strict=True))
    moves: list[tuple[int | None, float]] = [(row, level) for row in (*reported, None) for level in LEVELS]
    form, prompts = reply_format(policy.prompt_format), []
    for row, level in moves:
        success = {size: level if size == row else rate for size, rate in usual.items()}
        report = _report(success, level if row is None else 1.0)
        history = (Round("made up", 0, EnvConfig.uniform(sizes, 0.15, 0.5), report),)
        prompts += [build_prompt(report, history, sizes, variant=variant, prompt_format=form)] * replies
    designs = answers(policy, prompts, sizes, max_new_tokens=max_new_tokens, seed=seed)
    rows = []
    for i, (row, level) in enumerate(moves):
        accepted = [config for config in designs[i * replies : (i + 1) * replies] if config is not None]
        shares = [waits(config) if row is None else config.data_ratios.get(row, 0.0) for config in accepted]
        moved, mean = "waits" if row is None else str(row), float(np.mean(shares)) if shares else float("nan")
        rows.append({"moved": moved, "told": level, "asked": mean, "accepted": len(accepted) / replies})
    return pd.DataFrame(rows)


def _report(success: Mapping[int, float], wait_factor: float) -> FailureReport:
    """Returns a report with these success rates by size on boards without a wait; with a wait, times `wait_factor`."""
    rows = []
    for size, rate in success.items():
        wait = round(40 * rate * wait_factor)
        valid = round(40 * rate) + wait
        failures = tuple(80 - valid if kind == "goal" else 0 for kind in KINDS)
        rows.append(SizeReport(size, 80, valid, valid, 40, wait, 0, failures))
    return FailureReport(tuple(rows))


def waits(config: EnvConfig) -> float:
    """Returns the share of a configuration's boards that need a wait."""
    return sum(share for (_, _, wait), share in kind_shares(config).items() if wait)


def data_ratios(designs: Answers, sizes: Sequence[int]) -> pd.Series:
    """Returns the mean share of boards by size over the accepted designs."""
    rows = [c.data_ratios for c in designs if c is not None]
    return pd.DataFrame(rows, columns=list(sizes)).fillna(0.0).mean()
