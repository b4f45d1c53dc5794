"""Trained engineers over seeds of design RL: the reward of their designs, whether these use the report, and solving.

Notebook 04 writes one record for each seed. Real situations, of training and evaluation, are the same for all seeds of
a bank; made-up ones are drawn anew for each seed. Intervals are Student's t intervals over the seeds of design RL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd

from mapflake import repro
from mapflake.engineer import FailureReport
from mapflake.engineer.students import Other, group_of, told, told_seeds
from mapflake.env import EnvConfig
from mapflake.study.cells import Study
from mapflake.study.names import ROUND_0
from mapflake.study.statistics import Estimate, t_estimate

BEFORE, AFTER, LATER = "before design RL", "after design RL", "after a round on boards"
REAL, MADE_UP = "real, held out", "made up, unseen"
Records = Sequence[Mapping[str, Any]]


def load(folder: Path, seeds: Sequence[int] | None = None) -> Records:
    """Returns the records of design RL in a profile's folder of cells, in the order of their seeds; None: all."""
    paths = sorted((folder / "design_rl").glob("*.json"), key=lambda path: int(path.stem))
    return [repro.read_json(path) for path in paths if seeds is None or int(path.stem) in seeds]


def readings(records: Records) -> pd.DataFrame:
    """Returns a row for each record, set of situations and stage of the engineer: its columns of `reading.reading`.

    The stages are: before design RL, after it, and after a further round of RL on boards.
    """
    rows = []
    for record in records:
        later = {f"{situations} / {LATER}": measures for situations, measures in record["after boards"].items()}
        for key, measures in (record["reading"] | later).items():
            situations, stage = key.split(" / ")
            rows.append({"situations": situations, "engineer": stage, **measures})
    return pd.DataFrame(rows)


def table(records: Records) -> pd.DataFrame:
    """Returns a table as text, with a row for each set of situations and stage or baseline: means and 95% intervals.

    With fewer than three seeds it has their values instead.
    """
    frame = readings(records)
    if frame.empty:
        return frame
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for situations, set_rows in frame.groupby("situations", sort=False):
        for stage, group in set_rows.groupby("engineer", sort=False):
            measures = group.drop(columns=["situations", "engineer"])
            rows[str(situations), str(stage)] = {name: _said(measures[name].tolist()) for name in measures}
        baselines = [record["yardsticks"][situations] for record in records]
        for name in dict.fromkeys(name for rewards in baselines for name in rewards):  # older records have another one
            rows[str(situations), name] = {"own": _said([rewards[name] for rewards in baselines if name in rewards])}
    return pd.DataFrame(rows).T.fillna("")


def solving(records: Records) -> Estimate:
    """Returns how design RL changes the valid rate of the policy on the validation boards, over the records' seeds."""
    return t_estimate([record["solving"]["mean"] for record in records])


def earns_more(folder: Path, other: Path) -> dict[str, Estimate]:
    """Returns by set of situations how much more the designs of one kind of engineer earn than those of another.

    It is the reward in the engineer's own situation after design RL. The folders have the records of both kinds, as for
    `load`; differences are paired by seed. A rejected reply earns 0.

    Raises:
        ValueError: The folders have records of different seeds.
    """
    seeds = [{path.name for path in (cells / "design_rl").glob("*.json")} for cells in (folder, other)]
    if seeds[0] != seeds[1]:
        raise ValueError(f"{folder} and {other} have records of different seeds: {sorted(seeds[0] ^ seeds[1])}")
    tables = [readings(load(cells)).query("engineer == @AFTER") for cells in (folder, other)]
    own_rewards, other_rewards = (dict([*rows.groupby("situations", sort=False)["own"]]) for rows in tables)
    differences = {
        str(situations): rewards.to_numpy() - other_rewards[situations].to_numpy()
        for situations, rewards in own_rewards.items()
    }
    return {situations: t_estimate(difference) for situations, difference in differences.items()}


def responses(records: Records) -> pd.DataFrame:
    """Returns `reading.response` as a mean over trained engineers: what they ask for as one row of a report moves."""
    rows = pd.concat([pd.DataFrame(record["response"]) for record in records])
    return rows.groupby(["moved", "told"], sort=False, as_index=False)["asked"].mean()


def doses(study: Study, ages: int, **asked: Any) -> pd.DataFrame:
    """Returns how far the reports told to the trained engineer were from its own student's, and what they cost.

    A row for each training seed and control (another student's report, that of the next of the `ages`, the mean of
    all), with the columns `seed`, `report`, `distance` and `gained`. `distance` is the valid rate that was told, by the
    cells of `fixed`, minus the student's own, in points, a mean over the designs. `gained` is how many points of
    `asked` (as for `Study.rates`) the engineer that is told its own report ends above the one that is not. A seed is
    left out if the cells do not have a report for each of its designs.
    """
    arm, rows = "engineer_trained", []
    for other in get_args(Other):
        control = f"{arm}_{other}"
        for seed in sorted({*study.seeds(arm)} & {*study.seeds(control)}):
            *rounds, _ = study.history(control, seed)
            reports = _told(study, other, seed, ages)[: len(rounds)]
            if len(reports) < len(rounds):
                continue
            pairs = zip(reports, rounds, strict=True)
            distance = np.mean([report.valid_rate - before.report.valid_rate for report, before in pairs])
            rates = [study.rates(key, **asked).loc[seed].mean() for key in (arm, control)]
            rows.append((seed, other, 100 * distance, 100 * (rates[0] - rates[1])))
    return pd.DataFrame(rows, columns=["seed", "report", "distance", "gained"])


def _told(study: Study, other: Other, seed: int, ages: int) -> tuple[FailureReport, ...]:
    """Returns the reports that an engineer is told in place of its own, as far as they are on record."""
    recorded = [s for s in group_of(seed, ages) if {("fixed", s), (ROUND_0, s)} & {*study.records}]
    if not {*told_seeds(other, seed, ages)} <= {*recorded}:
        return ()
    return told(other, seed, ages, {s: study.history("fixed", s) for s in recorded})


def first_designs(study: Study, ages: int, arm: str = "engineer_trained") -> pd.DataFrame:
    """Returns what an engineer asks for first, told its own student's report and told another one's.

    Both designs come from the same weights after the same round, so that only the report differs. The other report is
    that of another student in the cells of `fixed`; `ages` is the number of ages. A row a training seed, with the
    columns `own_valid` and `other_valid`, the valid rate that the report states; `own_size` and `other_size`, the mean
    size of the boards asked for; and `response`, how much larger the boards are that the engineer asks for where the
    report states the higher rate: below 0 if they are smaller. A seed is left out if one of its replies was rejected,
    or if the other report is not on record.

    Raises:
        ValueError: The two designs do not come from the same weights.
    """
    rows, control = {}, f"{arm}_another"
    for seed in sorted({*study.seeds(arm)} & {*study.seeds(control)}):
        first, own_round = study.history(arm, seed)[:2]
        other_round = study.history(control, seed)[1]
        if not first.checkpoint_sha256 == own_round.parent_sha256 == other_round.parent_sha256:
            raise ValueError(f"{arm}-{seed} and {control}-{seed} did not design with the same weights")
        reports = _told(study, "another", seed, ages)
        if own_round.was_rejected or other_round.was_rejected or not reports:
            continue
        valid = first.report.valid_rate, reports[0].valid_rate
        size = [mean_size(round_.config) for round_ in (own_round, other_round)]
        rows[seed] = [*valid, *size, float(np.sign(valid[1] - valid[0]) * (size[1] - size[0]))]
    columns = ["own_valid", "other_valid", "own_size", "other_size", "response"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("seed")


def mean_size(config: EnvConfig) -> float:
    """Returns the mean side length of a configuration's boards, in cells."""
    return sum(size * share for size, share in config.data_ratios.items())


def _said(values: Sequence[float]) -> str:
    values = [value for value in values if not np.isnan(value)]  # NaN where all replies were rejected
    if len(values) < 3:  # an interval over two seeds says nothing
        return ", ".join(f"{value:.2f}" for value in values)
    return t_estimate(values).text(".2f")


def head_start(study: Study, arm: str) -> Estimate:
    """Returns how far an arm with a round 0 of its own is ahead of the shared round 0, before its first design.

    Both train on the same configuration, the arm from weights of its own. The valid rates are those of their reports,
    on the validation boards; Student's interval over the training seeds.

    Raises:
        ValueError: The arm was not run, or its round 0 has another configuration than the shared one.
    """
    ahead = []
    for seed in sorted({*study.seeds(arm)} & {*study.seeds(ROUND_0)}):
        own, shared = (study.history(name, seed)[0] for name in (arm, ROUND_0))
        if own.config != shared.config:
            raise ValueError(f"{arm}-{seed}: its round 0 has another configuration than {ROUND_0}-{seed}")
        ahead.append(own.report.valid_rate - shared.report.valid_rate)
    if not ahead:
        raise ValueError(f"{arm} and {ROUND_0} have no training seed in common")
    return t_estimate(ahead)
