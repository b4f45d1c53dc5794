"""Which reward of designs ranks them as trainings do: judged by the laboratory's trials, on students held out.

A reward scores a design before anything is trained. Here each is held against the gains that trials measured
(`benchmarks.laboratory`): how far the design that it ranks first goes from the mean design to the student's best one,
and how its scores rank all designs of a student (Spearman). The numbers of `ExpectedGain` are chosen from `GRID` for
each student by the trials of the other students alone.

    python -m benchmarks.rewards measure       measures the students of the laboratory: laboratory_students.jsonl
    python -m benchmarks.rewards table groups_of_8       judges the rewards by a regime's trials, by those that did not
                                                         set them, and with the designs that engineers asked for
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from benchmarks import gate, laboratory
from mapflake import env, repro
from mapflake.engineer import diagnose
from mapflake.engineer.report import FailureReport
from mapflake.engineer.situations import (
    ExpectedGain,
    KindTable,
    Reward,
    Situation,
    TableParams,
    expected_gain,
    kind_shares,
    measure,
)
from mapflake.env import EnvConfig
from mapflake.nb.folders import REPORTS, root
from mapflake.study.statistics import t_estimate
from mapflake.trainer import evaluate

STUDENTS = "laboratory_students.jsonl"
CHOSEN_ON = {"1000": (0,)} | dict.fromkeys(("600", "1500", "3200", "6000"), (0, 1))  # seeds whose trials set the reward
TABLES = TableParams(boards=12, samples=8)
GRID: dict[str, tuple[float, ...]] = {
    "near_sizes": (0.7, 1.0, 1.5, 2.5),
    "other_waits": (0.25, 0.5, 0.75, 1.0),
    "size_power": (0.0, 1.0, 2.0, 3.0),
    "forgetting": (0.0, 0.25, 0.5, 1.0),
    "kept": (0.15, 0.3, 0.5),
}


def mean_learnability(situation: Situation, config: EnvConfig) -> float:
    """Returns the mean of 4 p (1 - p) over a design's boards: what "sampling for learnability" would ask for."""
    table = situation.learnability
    return sum(share * table.value(kind) for kind, share in kind_shares(config).items() if kind[0] in table.values)


def candidates() -> list[ExpectedGain]:
    """Returns the rewards of `GRID`."""
    return [ExpectedGain(**dict(zip(GRID, values, strict=True))) for values in itertools.product(*GRID.values())]


def measure_students() -> None:
    """Measures the laboratory's students that are there, and writes what a reward may know of them."""
    folder, noise = root() / "runs/laboratory", repro.seed_for(0, "validation")
    validation, trainer = env.load_tasks(folder / "boards/validation.jsonl"), laboratory.trainer_of("default")
    rows = []
    for age in laboratory.AGES:
        if not (checkpoint := folder / f"students/{age}").is_dir():
            continue
        policy = trainer.load(checkpoint)
        report = diagnose(evaluate.rollout(policy, validation, samples=laboratory.SAMPLES, seed=noise))
        success, learnability = measure(policy, laboratory.SPACE, TABLES, seed=repro.seed_for(0, "tables"))
        measures = {"report": report, "success": success, "learnability": learnability}
        origin = {"student": str(age), "student_sha256": trainer.sha256(checkpoint)}
        rows.append(origin | {key: repro.to_json(value) for key, value in measures.items()})
    repro.write_jsonl(root() / REPORTS / STUDENTS, rows)


def situations(rows: Sequence[Mapping[str, Any]]) -> dict[str, Situation]:
    """Returns the situation of each student that was measured."""
    return {
        row["student"]: Situation(
            repro.from_json(FailureReport, row["report"], STUDENTS),
            (),
            repro.from_json(KindTable, row["success"], STUDENTS),
            repro.from_json(KindTable, row["learnability"], STUDENTS),
            f"student {row['student']}",
        )
        for row in rows
    }


def scores(reward: Reward, found: gate.Trials, known: Mapping[str, Situation]) -> np.ndarray:
    """Returns the scores of all designs for all students, `[S, D]`."""
    configs = [laboratory.DESIGNS[name] for name in found.designs]
    return np.array([[reward(known[student], config) for config in configs] for student in found.students])


def judged(scored: np.ndarray, found: gate.Trials) -> pd.DataFrame:
    """Returns for each student the gain of the design ranked first, its share of the way, and the rank correlation.

    The share goes from the mean design, 0, to the student's best design, 1; the best is cross-fitted.
    """
    gain, best = found.gain.mean(axis=2), gate.best_of_each(found.gain).mean(axis=1)
    first = gain[np.arange(len(gain)), scored.argmax(axis=1)]
    share = (first - gain.mean(axis=1)) / (best - gain.mean(axis=1))
    ranks = [spearmanr(a, b).statistic for a, b in zip(scored, gain, strict=True)]
    return pd.DataFrame({"first": first, "mean": gain.mean(axis=1), "best": best, "share": share, "rank": ranks})


def held_out(scored: Sequence[np.ndarray], found: gate.Trials) -> tuple[list[int], int, pd.DataFrame]:
    """Returns for each student the candidate that the others choose, the one that all choose, and how the former do.

    Students choose the candidate whose first choices gain most on them, with the rank correlation added in points.
    """
    tables = [judged(candidate, found) for candidate in scored]
    value = np.array([table["first"] + table["rank"] for table in tables])  # [candidates, S]
    chosen = [int(np.delete(value, s, axis=1).mean(axis=1).argmax()) for s in range(value.shape[1])]
    ours = pd.concat([tables[c].iloc[[s]] for s, c in enumerate(chosen)], ignore_index=True)
    return chosen, int(value.mean(axis=1).argmax()), ours


def under_new_seeds(found: gate.Trials, known: Mapping[str, Situation]) -> pd.DataFrame:
    """Returns how the reward as it is set does in trials that did not set it: all but those of `CHOSEN_ON`.

    Points that the design it ranks first gains more than others, and the rank correlation of scores and gains: of each
    student, and the mean with a 95% interval over students. Empty if there are no such trials.
    """
    new = np.array([[seed not in CHOSEN_ON.get(name, ()) for seed in found.seeds] for name in found.students])
    students = np.flatnonzero(new.any(axis=1))
    if not len(students):
        return pd.DataFrame()
    weights = new / np.maximum(new.sum(axis=1, keepdims=True), 1)  # [S, K], the mean over the new seeds
    gain, best = (found.gain * weights[:, None]).sum(axis=2), (gate.best_of_each(found.gain) * weights).sum(axis=1)
    scored, place = scores(expected_gain, found, known), found.designs.index
    first = gain[np.arange(len(gain)), scored.argmax(axis=1)]
    values = {
        "ahead of a random draw": first - gain[:, [place(name) for name in laboratory.DRAWS]].mean(axis=1),
        "ahead of evaluation-matched": first - gain[:, place("benchmark")],
        "ahead of the best design under the other seeds": first - best,
        "rank correlation": np.array([spearmanr(a, b).statistic for a, b in zip(scored, gain, strict=True)]),
    }
    names = [found.students[s] for s in students]
    rows = {
        name: [f"{v:+.2f}" for v in value[students]] + [t_estimate(value[students]).text("+.2f")]
        for name, value in values.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=[*names, "under new seeds"])


def with_asked(rows: Sequence[Mapping[str, Any]], known: Mapping[str, Situation]) -> pd.DataFrame:
    """Returns, for each student, how the reward predicts gains on the gate's designs and on those engineers asked for.

    Both are in points against the mean of the gate's designs. Columns: points gained for each one that the reward
    promises, the share of the gains' variance that this line explains, and the rank correlation; and the last two for
    the reward of `GRID` that explains most for the other students, each with a line of its own. Empty if there are no
    two students that have all these designs.
    """
    designs = laboratory.first_designs()
    configs = laboratory.DESIGNS | designs
    table = pd.DataFrame(row for row in rows if row["design"] in configs)
    tried = table.groupby("student")["design"].nunique()
    students = [name for name in known if tried.get(name, 0) == len(configs)]
    if len(students) < 2:
        return pd.DataFrame()
    of_gate = table[table["design"].isin(laboratory.DESIGNS)].groupby(["student", "seed"])["gain"].mean()
    table["ahead"] = table["gain"] - of_gate.loc[pd.MultiIndex.from_frame(table[["student", "seed"]])].to_numpy()
    gain = table.pivot_table("ahead", "student", "design").loc[students, [*configs]].to_numpy()
    grid = candidates()
    ours = grid.index(expected_gain)
    promised = 100 * np.array(
        [[[reward(known[name], c) for c in configs.values()] for name in students] for reward in grid]
    )
    promised -= promised[:, :, : len(laboratory.DESIGNS)].mean(axis=2, keepdims=True)  # [rewards, S, D]
    slope = (promised * gain).sum(axis=2) / (promised**2).sum(axis=2)  # [rewards, S]
    explained = 1 - ((gain - slope[:, :, None] * promised) ** 2).sum(axis=2) / (gain**2).sum(axis=1)
    lines = []
    for s in range(len(students)):
        fitted = int(np.delete(explained, s, axis=1).mean(axis=1).argmax())
        ranks = [spearmanr(promised[i, s], gain[s]).statistic for i in (ours, fitted)]
        lines.append([slope[ours, s], explained[ours, s], ranks[0], explained[fitted, s], ranks[1]])
    columns = [
        "gained for each point promised",
        "explained",
        "rank",
        "explained, fitted to others",
        "rank, fitted to others",
    ]
    return pd.DataFrame(lines, index=students, columns=columns)


def table(rows: Sequence[Mapping[str, Any]], known: Mapping[str, Situation]) -> str:
    """Returns the rewards judged by the trials in `rows`, as Markdown; trials of students that were not measured go."""
    trials = laboratory.whole([row for row in rows if row["student"] in known and row["design"] in laboratory.DESIGNS])
    if trials is None:
        return "The trials are too few: a choice takes two seeds of all students and designs."
    grid = candidates()
    chosen, by_all, ours = held_out([scores(reward, trials, known) for reward in grid], trials)
    rewards = {
        "expected gain, numbers of the other students": ours,
        "expected gain, as it is set": judged(scores(expected_gain, trials, known), trials),
        "mean learnability": judged(scores(mean_learnability, trials, known), trials),
    }
    lines = {name: [t["first"].mean(), t["share"].mean(), *t["rank"]] for name, t in rewards.items()}
    best = [ours["best"].mean(), 1.0, *gate.ceiling(trials.gain)]
    lines["the best design of each student; ranks of one seed by the others"] = best
    lines["the mean design"] = [ours["mean"].mean(), 0.0] + [np.nan] * len(trials.students)
    columns = ["first choice", "share", *(f"rank, {student}" for student in trials.students)]
    shown = pd.DataFrame.from_dict(lines, orient="index", columns=columns).to_markdown(floatfmt=".2f")
    picked = "\n".join(f"- {s}: {asdict(grid[c])}" for s, c in zip(trials.students, chosen, strict=True))
    new = under_new_seeds(trials, known).to_markdown(disable_numparse=True)
    asked_text = with_asked(rows, known).to_markdown(floatfmt=".2f")
    chosen_by = f"Chosen by the other students:\n\n{picked}\n\nChosen by all: {asdict(grid[by_all])}"
    return f"{shown}\n\n{new}\n\n{chosen_by}\n\nWith designs that engineers asked for:\n\n{asked_text}\n"


def main() -> None:
    """Runs one of the commands above."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rewards", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("measure", help="measures the students of the laboratory")
    commands.add_parser("table", help="judges the rewards").add_argument("regime", choices=laboratory.REGIMES)
    args = parser.parse_args()
    if args.command == "measure":
        measure_students()
        return
    rows = laboratory.collect(root() / "runs/laboratory", root() / REPORTS / "laboratory.jsonl")
    students = situations(repro.read_jsonl(root() / REPORTS / STUDENTS))
    print(table([row for row in rows if row["regime"] == args.regime], students))


if __name__ == "__main__":
    main()
