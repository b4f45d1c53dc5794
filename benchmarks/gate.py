r"""The gate of a laboratory: how much is there to be won by designing, and how much of that takes reading?

Asked before a study is paid for, of a table of trials. A trial trains one round of a student (a policy of some age) on
the boards of one design, under one training seed, and measures its gain in valid rate. With the gain $U_{sdk}$ of
student s on design d under seed k,

- the *value of designing* is the best design of each student minus the mean of the random draws;
- the *value of reading* is the best design of each student minus the best constant design, the same for all students.

A maximum over noisy gains is biased upwards. So every choice is cross-fitted: the design that is scored under seed k is
chosen by the mean gain under the other seeds. The best constant design comes in two forms: chosen on all students, and,
as a study would have to do it, chosen on the other students alone. Intervals are over students and training seeds
(`statistics.estimate`). All of it is our choice; the paper has no such table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import f, spearmanr

from mapflake.study.statistics import Estimate, estimate


@dataclass(frozen=True, eq=False)
class Trials:
    """Gains of S students on D designs under K training seeds, and the tokens that each round sampled: `[S, D, K]`."""

    students: tuple[str, ...]
    designs: tuple[str, ...]
    seeds: tuple[int, ...]
    gain: np.ndarray
    tokens: np.ndarray

    def of(self, designs: Sequence[str]) -> np.ndarray:
        """Returns the gains on some designs, `[S, len(designs), K]`; raises ValueError for one that was not tried."""
        if unknown := [name for name in designs if name not in self.designs]:
            raise ValueError(f"design {unknown[0]!r} was not tried; tried: {', '.join(self.designs)}")
        return self.gain[:, [self.designs.index(name) for name in designs], :]

    def at_equal_tokens(self) -> Trials:
        """Returns the trials with gains as if each had sampled the mean number of tokens, gain proportional to tokens.

        Gains fall off as a training goes on, so this favours designs with short answers: an upper bound for these.
        """
        return replace(self, gain=self.gain * self.tokens.mean() / self.tokens)


def trials(rows: Iterable[Mapping[str, Any]]) -> Trials:
    """Returns the trials in rows with the keys student, design, seed, gain and tokens; their order does not matter.

    Raises:
        ValueError: A trial is missing or there twice (names it), or there are fewer than two seeds.
    """
    keys = ["student", "design", "seed"]
    table = pd.DataFrame(rows, columns=[*keys, "gain", "tokens"])
    if table.duplicated(keys).any():
        row = table[table.duplicated(keys)].iloc[0]
        raise ValueError(f"student {row.student}, design {row.design}, seed {row.seed}: this trial is there twice")
    students, designs = (tuple(dict.fromkeys(table[key])) for key in ("student", "design"))
    seeds = tuple(sorted(int(seed) for seed in table["seed"].unique()))
    if len(seeds) < 2:
        raise ValueError(f"a choice is scored under another seed than it is made on: takes 2 seeds, not {len(seeds)}")
    index = pd.MultiIndex.from_product([students, designs, seeds])
    whole = table.set_index(keys).reindex(index)
    if missing := list(index[whole["gain"].isna()]):
        student, design, seed = missing[0]
        raise ValueError(f"student {student}, design {design}, seed {seed}: not tried ({len(missing)} missing in all)")
    gain, tokens = (
        whole[key].to_numpy(float).reshape(len(students), len(designs), len(seeds)) for key in ("gain", "tokens")
    )
    return Trials(students, designs, seeds, gain, tokens)


def of_other_seeds(gain: np.ndarray) -> np.ndarray:
    """Returns the mean gain under the other seeds, `[S, D, K]`, by which choices for a seed are made."""
    return (gain.sum(axis=2, keepdims=True) - gain) / (gain.shape[2] - 1)


def best_of_each(gain: np.ndarray) -> np.ndarray:
    """Returns the cross-fitted gain of each student's best design, `[S, K]`."""
    return _chosen(gain, of_other_seeds(gain))


def _chosen(gain: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Returns the gain of the design with the highest score."""
    return np.take_along_axis(gain, score.argmax(axis=1, keepdims=True), axis=1)[:, 0, :]


def best_constant(gain: np.ndarray, *, on_others: bool = False) -> np.ndarray:
    """Returns the cross-fitted gain of the best constant design, `[S, K]`; `on_others`: chosen on the other students.

    Raises:
        ValueError: There is one student, and the choice is to be made on others.
    """
    if on_others and len(gain) < 2:
        raise ValueError("a constant design is searched for on other students: takes at least 2 students")
    scores = of_other_seeds(gain)
    total = np.broadcast_to(scores.sum(axis=0), gain.shape)
    return _chosen(gain, total - scores if on_others else total)


def values(found: Trials, draws: Sequence[str], constants: Sequence[str]) -> dict[str, Estimate]:
    """Returns how much designing could gain, in the unit of the gains, by name: means of `differences` over trials."""
    return {name: estimate(difference) for name, difference in differences(found, draws, constants).items()}


def differences(found: Trials, draws: Sequence[str], constants: Sequence[str]) -> dict[str, np.ndarray]:
    """Returns how much each student's best design gains more than others, by the name of the comparison, `[S, K]`.

    `designing` (against the mean of the random `draws`) and `reading` are as in the module's docstring, `reading,
    searched` is against the constant that was searched for on other students, and each of `constants`, designs that
    take no search, gives `against <design>`: the best design of each student minus that one.

    Raises:
        ValueError: One of these designs was not tried, or there are too few students.
    """
    best = best_of_each(found.gain)
    against = {
        "designing": found.of(draws).mean(axis=1),
        "reading": best_constant(found.gain),
        "reading, searched": best_constant(found.gain, on_others=True),
        **{f"against {design}": found.of([design])[:, 0] for design in constants},
    }
    return {name: best - baseline for name, baseline in against.items()}


def interaction(gain: np.ndarray) -> tuple[float, int, int, float]:
    """Returns F, its degrees of freedom and p for "designs differ by the same amounts in all students".

    `gain` is `[S, D, K]`.

    The analysis of variance takes out each student's mean under each seed, and what all students have in common.
    """
    students, designs, seeds = gain.shape
    centred = gain - gain.mean(axis=1, keepdims=True)
    cells = centred.mean(axis=2)
    between, within = seeds * ((cells - cells.mean(axis=0)) ** 2).sum(), ((centred - cells[:, :, None]) ** 2).sum()
    df = (students - 1) * (designs - 1), students * (designs - 1) * (seeds - 1)
    with np.errstate(divide="ignore", invalid="ignore"):  # trials without noise
        ratio = float(between / df[0] / (within / df[1]))
    return ratio, *df, float(f.sf(ratio, *df))


def ceiling(gain: np.ndarray) -> list[float]:
    """Returns for each student Spearman's correlation of one seed's gains with the other seeds', a mean over the seeds.

    No score that predicts gains can be expected to rank designs better than two such measurements agree.
    """
    other_means = of_other_seeds(gain)
    return [
        float(np.mean([spearmanr(gains[:, k], means[:, k]).statistic for k in range(gain.shape[2])]))
        for gains, means in zip(gain, other_means, strict=True)
    ]
