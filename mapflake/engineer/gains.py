"""What a configuration really teaches: the gain of a short training on it, and which scores predict that.

`Progress` is the grounded reward of a design: it trains. Everything else predicts it for less, and `correlations` says
how well: rank correlations within checkpoints, for between checkpoints gains differ anyway.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from mapflake import repro
from mapflake.engineer.backend import TrainingBackend
from mapflake.engineer.boards import sample_boards
from mapflake.engineer.designers.rules import (
    evaluation_matched,
    heuristic_expert,
    learnability,
    random_config,
    uniform,
)
from mapflake.engineer.report import FailureReport
from mapflake.engineer.situations import Situation
from mapflake.env import EnvConfig, GenerationError, Task
from mapflake.env.config import total_variation
from mapflake.provenance import code_sha256
from mapflake.trainer import evaluate


@dataclass(frozen=True)
class Progress:
    """The grounded score: by how much a short training on the design's boards beats one on the present configuration.

    Both begin with the situation's checkpoint and have the same noise; the measure is the valid rate on the validation
    boards. A design whose boards cannot be drawn gets no training. It costs, for each new (checkpoint, configuration),
    `trainer.instances` x epochs x generations rollouts, and the validation.
    Source: SOAR (arXiv 2601.18778) rewards a proposer by its student's measured improvement; the rest is our choice.

    Attributes:
        folder: Keeps a small file for each training that was done; one is never done twice.
        trainer: The short training.
        validation: Boards on which the gain is measured.
        samples: Completions of each.
        seed: Root of boards and noise.
    """

    folder: Path
    trainer: TrainingBackend
    validation: Sequence[Task] = field(repr=False)
    samples: int
    seed: int

    def __call__(self, situation: Situation, config: EnvConfig) -> float:
        """Returns the difference of the valid rates, in [-1, 1]."""
        last = situation.history[-1]
        return self.valid_rate(last.checkpoint, config) - self.valid_rate(last.checkpoint, last.config)

    def valid_rate(self, start: Path, config: EnvConfig | None) -> float:
        """Returns the valid rate after the short training on `config`; None: without any."""
        key = repro.json_sha256(
            [
                code_sha256("mapflake.engineer.gains"),
                self.trainer.sha256(start),
                None if config is None else repro.to_json(config),
                self.trainer.instances,
                self.trainer.describe(),
                repro.json_sha256([task.instance.key for task in self.validation]),
                [self.samples, self.seed],
            ]
        )
        done = self.folder / f"{key}.json"
        if not done.is_file():
            repro.write_json(done, self._train(start, config, self.folder / key))
            shutil.rmtree(self.folder / key, ignore_errors=True)
        return float(repro.read_json(done))

    def _train(self, start: Path, config: EnvConfig | None, folder: Path) -> float:
        checkpoint = start
        if config is not None:
            try:
                tasks, _ = sample_boards(config, self.trainer.instances, seed=repro.seed_for(self.seed, "train"))
            except GenerationError:
                return self.valid_rate(start, None)
            checkpoint = folder / "checkpoint"
            self.trainer.train(start, tasks, checkpoint, seed=repro.seed_for(self.seed, "grpo"))
        rollouts = evaluate.rollout(
            self.trainer.load(checkpoint),
            self.validation,
            samples=self.samples,
            seed=repro.seed_for(self.seed, "validation"),
        )
        return float(np.mean([r.verdict.valid for r in rollouts]))


def rule_scores(report: FailureReport) -> dict[str, Callable[[EnvConfig], float]]:
    """Returns scores of a configuration by what hand rules look for, from the report alone; higher is better.

    With r the data ratio and v the valid rate of a size: half-solved, sum of r (1 - |2 v - 1|), as in the heuristic;
    weakest, sum of r (1 - v); strongest, sum of r v; evaluation-matched, minus the total variation between r and the
    rollouts of the report.
    """
    valid = {s.size: s.valid_rate for s in report.sizes}
    total = sum(s.rollouts for s in report.sizes)
    matched = {s.size: s.rollouts / total for s in report.sizes}

    def over_sizes(score: Callable[[float], float]) -> Callable[[EnvConfig], float]:
        return lambda config: sum(c.data_ratio * score(valid[s]) for s, c in config.sizes.items() if s in valid)

    return {
        "half-solved": over_sizes(lambda v: 1 - abs(2 * v - 1)),
        "weakest": over_sizes(lambda v: 1 - v),
        "strongest": over_sizes(lambda v: v),
        "evaluation-matched": lambda config: -total_variation(config.data_ratios, matched),
    }


def scores(situation: Situation, config: EnvConfig) -> dict[str, float]:
    """Returns all scores of a configuration in a situation that train nothing: its tables', and the hand rules'."""
    tabled = {name: table.mean(config) for name, table in situation.tables.items()}
    return tabled | {name: score(config) for name, score in rule_scores(situation.report).items()}


def candidates(situation: Situation, sizes: Sequence[int], n: int, *, seed: int) -> dict[str, EnvConfig]:
    """Returns n designs to try out in a situation, by name: those of rules, then random draws."""
    rules = {
        "uniform": uniform(sizes),
        "evaluation-matched": evaluation_matched(sizes),
        "heuristic": heuristic_expert(sizes),
        "learnability rule": learnability(sizes),
    }
    found: dict[str, EnvConfig] = {}
    for name, designer in list(rules.items())[:n]:
        config = designer(situation.report, situation.history).config
        if config is not None:
            found[name] = config
    index = situation.history[-1].index
    for number in range(n - len(found)):
        drawn = repro.rng_for(seed, "candidate", situation.origin, index, number)
        found[f"random {number}"] = random_config(sizes, drawn, situation.history[-1].config.num_agents)
    return found


def try_out(
    situations: Sequence[Situation], progress: Progress, sizes: Sequence[int], n: int, *, seed: int
) -> list[dict[str, Any]]:
    """Returns a row for each of n designs in each situation: what it teaches, and what scores say of it.

    `checkpoint` names the situation, `before` and `present` are the valid rates without training and after one on the
    present configuration, `gain` is the progress, `scores` the rest.
    """
    rows: list[dict[str, Any]] = []
    for situation in situations:
        last = situation.history[-1]
        before, present = (progress.valid_rate(last.checkpoint, config) for config in (None, last.config))
        designs = candidates(situation, sizes, n, seed=seed)
        for name, config in tqdm(designs.items(), desc=f"{situation.origin}, round {last.index}", unit="design"):
            rows.append(
                {
                    "checkpoint": f"{situation.origin}, round {last.index}",
                    "design": name,
                    "config": repro.to_json(config),
                    "before": before,
                    "present": present,
                    "gain": progress(situation, config),
                    "scores": scores(situation, config),
                }
            )
    return rows


COLUMNS = ("checkpoint", "design", "before", "present", "gain")
"""Columns of `pairs` that are no scores."""


def pairs(records: Iterable[Sequence[Mapping[str, Any]]]) -> pd.DataFrame:
    """Returns the rows that `try_out` gave, one table: `COLUMNS`, then a column a score."""
    rows = [row for record in records for row in record]
    return pd.DataFrame([{key: row[key] for key in COLUMNS} | row["scores"] for row in rows])


def sentence(found: pd.DataFrame) -> str:
    """Returns in words which scores predict the gain, from `pairs`."""
    if found.empty:
        return "No design has been tried out yet: `gains` in the line `run` lists the runs of the bank that are."
    table = correlations(found, [name for name in found if name not in COLUMNS])
    said = [f"{name} {r.correlation:+.2f} ({r.low:+.2f} to {r.high:+.2f})" for name, r in table.iterrows()]
    head = f"Over {len(found)} designs of {found['checkpoint'].nunique()} checkpoints, rank correlation with the gain"
    seen = [str(name) for name, r in table.iterrows() if r.low > 0]
    return f"{head}: {'; '.join(said)}. Above 0 with 95% confidence: {', '.join(seen) or 'none'}."


def correlations(pairs: pd.DataFrame, names: Iterable[str], *, resamples: int = 2000) -> pd.DataFrame:
    """Returns for each score its mean rank correlation with the gain within checkpoints, and a 95% interval.

    The interval is a bootstrap over checkpoints and, in each, over designs.

    Args:
        pairs: A row for each (checkpoint, design), with the columns `checkpoint`, `gain` and those of the scores.
        names: The scores.
        resamples: Number of bootstrap samples.
    """
    groups = [rows for _, rows in pairs.groupby("checkpoint", sort=True)]
    rng = repro.rng_for(0, "correlations")
    resampled = []  # the same for all scores
    for _ in range(resamples):
        some = [groups[i] for i in rng.integers(len(groups), size=len(groups))]
        resampled.append([rows.iloc[rng.integers(len(rows), size=len(rows))] for rows in some])

    def within(rows: Sequence[pd.DataFrame], name: str) -> float:
        found = pd.Series([_spearman(one[name].to_numpy(), one["gain"].to_numpy()) for one in rows])
        return float(found.mean())  # NaN, of what does not vary, is left out

    found: dict[str, dict[str, float]] = {}
    for name in names:
        low, high = np.nanpercentile([within(rows, name) for rows in resampled] or [np.nan], [2.5, 97.5])
        found[name] = {"correlation": within(groups, name), "low": low, "high": high}
    return pd.DataFrame(found).T.rename_axis("score").sort_values("correlation", ascending=False)


def _spearman(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the rank correlation; NaN if one does not vary."""
    from scipy.stats import rankdata

    a, b = rankdata(x), rankdata(y)
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(np.corrcoef(a, b)[0, 1])
