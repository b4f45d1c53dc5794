"""The study's laboratory, tried before it: boards that need waits, students of different strength, and its gate.

A trial trains one round of a student on the boards of one design and measures the gain on the validation boards. The
gate (`benchmarks.gate`) says of all trials of a regime how much there is to be won by designing and by reading. What
was written down before which run is in reports/log.md.

    python -m benchmarks.laboratory student 600         draws the boards and trains a student, in runs/laboratory
    python -m benchmarks.laboratory screen default --part 0/2    runs half of a regime's trials on a part of the table
    python -m benchmarks.laboratory trials groups_of_8 --part 0/2    the same with the whole table
    python -m benchmarks.laboratory waits groups_of_8   the same with other shares of boards that need a wait
    python -m benchmarks.laboratory asked groups_of_8   the same with designs that the study's engineers asked for
    python -m benchmarks.laboratory page                collects them, and writes reports/laboratory.md
"""

from __future__ import annotations

import argparse
import functools
import itertools
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from tqdm import tqdm

from benchmarks import gate
from mapflake import env, provenance, repro
from mapflake.engineer import Grpo, random_config
from mapflake.engineer.boards import sample_boards
from mapflake.engineer.compact.base import base_model, student
from mapflake.env import EnvConfig, Task
from mapflake.nb import params
from mapflake.nb.folders import REPORTS, root
from mapflake.plots.style import show, styled
from mapflake.study import cells
from mapflake.study.statistics import Estimate, holm, t_estimate
from mapflake.trainer import evaluate

ROOT = Path(__file__).parents[1]
STUDY = params.effective(params.load(ROOT), "study")
BOARDS = STUDY.env_design
SIZES = tuple(BOARDS.validation.sizes or BOARDS.sizes)  # of validation boards
SPACE = tuple(BOARDS.sizes)  # of designs
AGES = (600, 1_000, 1_500, 3_200, 6_000)  # the study has other ages and seeds
SEEDS = (0, 1, 2)
SAMPLES = 8  # answers to each validation board
LANGUAGE = STUDY.warm_start.model_copy(update={"seed": 3930038407})
LESSONS = STUDY.warm_start.model_copy(update={"seed": 100, "engineer_share": STUDY.students.engineer_share})
CHOSEN = "groups_of_8"  # the regime whose round the study has
REGIMES = {  # of a round: boards, boards a step, answers to each, learning rate
    "default": (320, 32, 16, 2e-4),
    "half_rate": (320, 32, 16, 1e-4),
    "quarter_rate": (320, 32, 16, 5e-5),
    "longer": (640, 32, 16, 1e-4),
    "few_longer": (160, 8, 16, 1e-4),
    "groups_of_8": (640, 32, 8, 1e-4),
    "quarter": (160, 32, 8, 1e-4),
    "quarter_double_rate": (160, 32, 8, 2e-4),
}
DRAWS = tuple(f"draw {number}" for number in range(6))
CONSTANTS = ("uniform", "benchmark")  # designs that take no search
COMPARED = {  # a value of the gate -> what the best design of each student is compared with
    "designing": "a random draw, as *fixed* has it: the value of designing",
    "reading": "the best design that all students share: the value of fitting designs to students",
    "reading, searched": "one design for all, chosen on the other students",
    "against uniform": "uniform over sizes 3 to 10, half waits",
    "against benchmark": "evaluation-matched: the benchmark's own mixture",
}
DESIGNS = {
    **{f"{size}x{size}, waits 0.5": EnvConfig.uniform([size], 0.15, 0.5) for size in SIZES[1:]},
    "3x3 to 5x5, waits 0.5": EnvConfig.uniform([3, 4, 5], 0.15, 0.5),
    "5x5 to 7x7, waits 0.5": EnvConfig.uniform([5, 6, 7], 0.15, 0.5),
    "benchmark": EnvConfig.uniform(SIZES, 0.2, 0.5),
    "benchmark, natural": EnvConfig.uniform(SIZES, 0.2),
    "uniform": EnvConfig.uniform(SPACE, 0.25, 0.5),
    **{name: random_config(SPACE, repro.rng_for(i, "round 0")) for i, name in enumerate(DRAWS)},  # as `fixed` draws
}
SHOWN = {"benchmark": "evaluation-matched", "benchmark, natural": "evaluation-matched, waits left to chance"}
WAITS = {  # two of the mixtures with all shares of boards that need a wait; the gate's table has those with half
    f"{name}, waits {waits}": EnvConfig.uniform(sizes, 0.15, waits)
    for name, sizes in (("3x3 to 5x5", (3, 4, 5)), ("5x5 to 7x7", (5, 6, 7)))
    for waits in (0.0, 0.25, 0.5, 0.75, 1.0)
}
ENGINEERS = {  # the study's trained engineers, one of each age in a group -> the steps of its student
    f"engineer {seed}": STUDY.students.ages[seed % len(STUDY.students.ages)] for seed in (0, 1, 2, 3, 12, 13, 14, 15)
}
WHOLE = (600, 1_500, 3_200, 6_000)  # students that have all designs
SCREENED: dict[str, Any] = {  # the part of the table by which recipes are compared
    "seeds": (0,),
    "students": (600, 1_500, 3_200),
    "designs": ("4x4, waits 0.5", "6x6, waits 0.5", "benchmark"),
}


def trainer_of(regime: str) -> Grpo:
    """Returns the training of a round in a regime."""
    instances, prompts, generations, rate = REGIMES[regime]
    batch = {"prompts": prompts, "generations": generations, "microbatch": prompts * generations}
    changed = batch | {"instances": instances, "learning_rate": rate}
    return Grpo(STUDY.baseline_rl.rl.model_copy(update=changed))


def draw_boards(folder: Path) -> None:
    """Writes demonstrations, validation boards and settings as notebook 01 does, unless they are there."""
    if (folder / "settings.json").is_file():
        return
    solved = []
    for part in BOARDS.demonstrations:
        for holes in BOARDS.hole_ratios:
            config = EnvConfig.uniform(part.sizes or SPACE, holes, part.wait_ratio, part.agents)
            solved += env.generate(config, part.boards // len(BOARDS.hole_ratios), seed=0, split="train")
    validation = BOARDS.validation
    options: dict[str, Any] = {
        "wait_ratios": validation.wait_ratios,
        "boards": validation.boards,
        "split": "validation",
    }
    subsets = env.benchmark_sets(
        0, strata={validation.agents: SIZES}, hole_ratio=BOARDS.benchmark.hole_ratio, **options
    )
    env.save_tasks(folder / "demonstrations.jsonl", solved)
    env.save_tasks(folder / "validation.jsonl", [task for tasks in subsets.values() for task in tasks])
    repro.write_json(folder / "settings.json", {"sizes": SIZES})


def make_student(folder: Path, age: int) -> Path:
    """Returns the checkpoint of a student, made unless it is there already."""
    out = folder / f"students/{age}"
    if not (out / "curve.jsonl").is_file():
        boards = folder / "boards"
        start = Path(base_model(LANGUAGE, boards, folder / "language"))
        student(LESSONS, start, boards, out, age=age, seed=0)
    return out


def trial(
    checkpoint: Path, config: EnvConfig, trainer: Grpo, validation: Sequence[Task], folder: Path, *, seed: int
) -> dict[str, Any]:
    """Returns what one round on the boards of a design does to a policy, rates in percent.

    The training is in `folder`, which is removed; `seed` decides boards, training and noise.
    """
    tasks, fallback = sample_boards(config, trainer.instances, seed=repro.seed_for(seed, "train"))
    curve = trainer.train(checkpoint, tasks, folder / "checkpoint", seed=repro.seed_for(seed, "grpo"))
    after = rates(folder / "checkpoint", trainer, validation)
    shutil.rmtree(folder)
    return {
        **after,
        "tokens": round(sum(row["sampled_tokens"] for row in curve)),
        "samples": len(curve) * trainer.params.prompts * trainer.params.generations,
        "groups_without_signal": sum(row["frac_reward_zero_std"] for row in curve) / len(curve),
        "fallback": repro.to_json(fallback) if fallback else {},
    }


def rates(checkpoint: Path, trainer: Grpo, validation: Sequence[Task]) -> dict[str, Any]:
    """Returns valid rates in percent: of all boards, of those that need a wait, of the others, and by size."""
    noise = repro.seed_for(0, "validation")
    frame = evaluate.frame(evaluate.rollout(trainer.load(checkpoint), validation, samples=SAMPLES, seed=noise))
    waits = frame.groupby("needs_wait")["valid"].mean()
    return {
        "valid": 100 * frame["valid"].mean(),
        "valid_wait": 100 * waits[True],
        "valid_no_wait": 100 * waits[False],
        "by_size": {str(size): 100 * share for size, share in frame.groupby("size")["valid"].mean().items()},
    }


def run(regime: str, table: Mapping[str, Any], part: int, parts: int, folder: Path, records: Path) -> None:
    """Runs a table's trials that are neither in `records` nor in `folder`: each `parts`-th, from `part` on.

    Trials of a seed come before those of the next one, so that a part of them is a whole table of fewer seeds.
    """
    trainer, configs = trainer_of(regime), DESIGNS | WAITS | first_designs()
    validation = env.load_tasks(folder / "boards/validation.jsonl")
    code = provenance.code_sha256("mapflake.engineer.rounds")
    keys = list(itertools.product(table["seeds"], table["students"], table["designs"]))
    untaught = [age for age in table["students"] if not (folder / f"students/{age}/curve.jsonl").is_file()]
    if parts > 1 and untaught:  # both would train it at once
        raise SystemExit(f"--part: the student {untaught[0]} is missing: `student {untaught[0]}` makes it first")
    done = {trial_key(row) for row in repro.read_jsonl(records)}
    for seed, age, name in tqdm(keys[part::parts], desc=regime, unit="trial"):
        out = folder / "trials" / f"{regime}-{seed}-{age}-{name.replace(' ', '_')}.json"
        row = {"regime": regime, "student": str(age), "design": name, "seed": seed}
        if trial_key(row) in done or out.is_file():
            continue
        checkpoint = make_student(folder, age)
        path = folder / "trials" / f"before-{age}-{trainer.sha256(checkpoint)[:8]}.json"
        if not path.is_file():
            repro.write_json(path, rates(checkpoint, trainer, validation))
        before = repro.read_json(path)
        after = trial(checkpoint, configs[name], trainer, validation, out.with_suffix(""), seed=seed)
        row |= {"gain": after["valid"] - before["valid"], "before": before, "config": repro.to_json(configs[name])}
        made = {"code_sha256": code, "student_sha256": trainer.sha256(checkpoint), "versions": provenance.versions()}
        repro.write_json(out, row | after | made)


@functools.cache
def first_designs() -> dict[str, EnvConfig]:
    """Returns what each of `ENGINEERS` asked for first, told its own student's report."""
    arm = "engineer_trained"
    study = cells.load(ROOT / REPORTS / "cells/study", [arm])
    return {name: study.history(arm, int(name.split()[1]))[1].config for name in ENGINEERS}


def trial_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns what tells a trial from all others."""
    return row["regime"], row["seed"], row["student"], row["design"]


def collect(folder: Path, records: Path) -> list[dict[str, Any]]:
    """Adds the trials in `folder` to the file of records and returns all of them."""
    # The folder also has what students solved before: before-<age>-<hash>.json.
    rows = repro.read_jsonl(records) + [repro.read_json(path) for path in (folder / "trials").glob("*-*-*-*.json")]
    trials = sorted({trial_key(row): row for row in rows}.values(), key=trial_key)
    repro.write_jsonl(records, trials)
    return trials


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns reports/laboratory.md: of each regime its gate and the matrix of its trials."""
    head = [
        "# How much there is to be won by designing",
        "Trials of single designs on students of different strength. The study's round and the reward of designs were "
        "chosen by the first trials, of seed 0 and a part of seed 1. The students are not the study's, and "
        "no engineer takes part in the comparison of designs: the study is in [results.md](results.md).",
        "A trial is one round of GRPO on the boards of a design. Its gain is in points of valid plans on "
        f"{BOARDS.validation.boards * len(SIZES) * len(BOARDS.validation.wait_ratios)} entries, half of "
        f"which need a wait ({SAMPLES} answers to each); some are the same [board](../docs/glossary.md). "
        "`python -m benchmarks.laboratory` runs more. The [log](log.md) says what was planned; an empty cell was not "
        "run.",
        "Columns of the matrices are students, named by their age: supervised steps after the warm start. Rows are "
        "designs: *draw 0* to *draw 5* "
        f"are random configurations. {rounds_of(tabled(rows))} At *equal tokens*, a gain is scaled to the mean number "
        "of sampled tokens.",
    ]
    parts: list[str] = []
    notes: list[str] = []
    table: dict[str, dict[str, str]] = {}
    if len((screened := recipes(rows)).columns) > 1:
        untabled = rounds_of([regime for regime in screened if regime not in tabled(rows)])
        parts += [
            "## The trainer's recipe, one seed",
            f"Points gained by one round under seed 0, for a student (its supervised steps) and a design. {untabled}",
            screened.to_markdown(floatfmt="+.1f"),
        ]
    for regime in tabled(rows):
        regime_rows = of_designs(rows, regime, DESIGNS)
        picture = f"![Gains by student and design](laboratory/{regime}.png)"
        parts += [f"## Single designs, {regime}", picture, shown(matrix(regime_rows, DESIGNS))]
        trials = whole(regime_rows)
        if trials is None or not {*DRAWS, *CONSTANTS} <= {*trials.designs}:
            parts.append(
                f"There is no gate yet: it takes all {len(DESIGNS)} designs of two students under two seeds; "
                f"there are {len(regime_rows)} trials, of {len({row['student'] for row in regime_rows})} students "
                f"under {len({row['seed'] for row in regime_rows})} seeds."
            )
        else:
            budgets = gates(trials)
            corrected = holm([e.p for e in budgets["samples"].values()])
            notes.append(
                f"*{regime}* is of the {len(trials.students)} students and {len(trials.seeds)} training seeds "
                f"({', '.join(map(str, trials.seeds))}) that have all {len(trials.designs)} designs: the students of "
                f"{', '.join(sorted(trials.students, key=int))} steps. The p-values of its rows at equal samples, "
                f"corrected together (Holm), are {', '.join('none' if p is None else f'{p:.2g}' for p in corrected)}."
            )
            for budget, values in budgets.items():
                table[f"{regime}, equal {budget}"] = {COMPARED[name]: e.text("+.1f") for name, e in values.items()}
            ratio, first, second, p = gate.interaction(trials.gain)
            parts += [
                "The same by the seed that scores, at equal samples, with intervals over the students:",
                by_seed(trials).to_markdown(disable_numparse=True),
                "And by student, a mean over the seeds that score, with the lowest and the highest of them:",
                by_student(trials).to_markdown(disable_numparse=True),
                f"What a design teaches depends on the student: F({first}, {second}) = {ratio:.1f}, p = {p:.0e} for "
                "the interaction of students and designs, in an analysis of variance whose error is between seeds.",
            ]
        for seed, ages in made_anew(regime_rows).items():
            parts.append(
                f"Under the seed {seed} the students of {', '.join(sorted(ages, key=int))} steps have other weights: "
                "they were made anew on another processor. A gain is over the student that it began with, and a matrix "
                "has means over seeds; a design that is chosen under one seed and scored under another may so be "
                "scored on another student that was supervised as long."
            )
        wait_trials = of_designs(rows, regime, WAITS)
        if {row["design"] for row in wait_trials} - {*DESIGNS}:
            seed_trials = [row for row in wait_trials if row["seed"] == SEEDS[0]]
            parts += [
                f"Gain by the share of boards that need a wait, seed {SEEDS[0]}:",
                shown(matrix(seed_trials, WAITS)),
            ]
        if engineer_trials := of_designs(rows, regime, ENGINEERS):
            parts += engineers(engineer_trials, regime_rows)
    if table:
        head += [
            "Points by which, after a round, each student's best design leads another one, with 95% intervals over "
            "students and training seeds. One seed scores the best design, and the others choose it.",
            pd.DataFrame(table).rename_axis("compared with").to_markdown(disable_numparse=True),
            *notes,
        ]
    return "\n\n".join(head + parts) + "\n"


def tabled(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Returns the regimes of which more was tried than the part of the table that compares recipes."""
    screened = {*SCREENED["designs"]}
    return [*dict.fromkeys(row["regime"] for row in rows if row["design"] not in screened)]


def rounds_of(regimes: Iterable[str]) -> str:
    """Returns what a round has in each of some regimes."""
    shapes = {name: REGIMES[name] for name in regimes}
    sentences = [
        f"{'The round of the study' if name == CHOSEN else 'Another round'}, *{name}*, has {boards} boards, {step} a "
        f"step, {answers} answers each, at a learning rate of {rate:g}."
        for name, (boards, step, answers, rate) in shapes.items()
    ]
    return " ".join(sentences)


def gates(found: gate.Trials) -> dict[str, dict[str, Estimate]]:
    """Returns the gate (`gate.values`) at equal samples and at equal tokens, in points a round."""
    budgets = {"samples": found, "tokens": found.at_equal_tokens()}
    return {budget: gate.values(trials, DRAWS, CONSTANTS) for budget, trials in budgets.items()}


def engineers(asked: Sequence[Mapping[str, Any]], own: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the page's part on designs that engineers asked for; `own` are the trials of `DESIGNS`.

    All are compared under the seed of `asked`, which is one. An engineer's own student is that of the trials who has
    the same place by age. The best searched design of a student is chosen under the other seeds.
    """
    (seed,) = {row["seed"] for row in asked}
    gains, seed_gains = matrix(asked, ENGINEERS), matrix([row for row in own if row["seed"] == seed], DESIGNS)
    complete = seed_gains.reindex([*DESIGNS]).notna().all()
    rest = matrix([row for row in own if row["seed"] != seed], DESIGNS)
    labels = {name: f"{name}, told of a student of age {ENGINEERS[name]:,}" for name in gains.index}
    parts = [
        "## Designs that trained engineers asked for",
        "The first designs of trained engineers of the study, each told its own student's report, tried on the "
        f"students above under training seed {seed}:",
        shown(gains.rename(index=labels)),
    ]
    ages, rows = sorted({*ENGINEERS.values()}), []
    for column in [s for s in gains if complete.get(s, False) and s in rest]:
        age = ages[WHOLE.index(int(column))]
        mask = [ENGINEERS[name] == age for name in gains.index]
        baselines = {
            "those asked for the other students": gains.loc[[not m for m in mask], column].mean(),
            "a random draw": seed_gains.loc[[*DRAWS], column].mean(),
            "the best searched design, chosen under the other seeds": seed_gains.loc[rest[column].idxmax(), column],
            SHOWN["benchmark"]: seed_gains.loc["benchmark", column],
        }
        rows.append({name: gains.loc[mask, column].mean() - gain for name, gain in baselines.items()})
    if rows:
        leads = {name: t_estimate(values).text("+.1f") for name, values in pd.DataFrame(rows).items()}
        parts += [
            "Points by which, after a round, the design asked for the study's student of the same rank by age leads "
            f"another one, with 95% intervals over {len(rows)} students:",
            pd.DataFrame({"ahead": leads}).rename_axis("compared with").to_markdown(disable_numparse=True),
        ]
    return parts


def by_seed(found: gate.Trials) -> pd.DataFrame:
    """Returns the gate's differences at equal samples as text: a column for each seed that scores."""
    differences = gate.differences(found, DRAWS, CONSTANTS).items()
    columns = {
        f"seed {seed}": {COMPARED[name]: t_estimate(values[:, k]).text("+.1f") for name, values in differences}
        for k, seed in enumerate(found.seeds)
    }
    return pd.DataFrame(columns).rename_axis("compared with")


def by_student(found: gate.Trials) -> pd.DataFrame:
    """Returns the gate's differences at equal samples as text: a column for each student."""
    texts = {
        COMPARED[name]: [f"{gains.mean():+.1f} ({gains.min():+.1f} to {gains.max():+.1f})" for gains in differences]
        for name, differences in gate.differences(found, DRAWS, CONSTANTS).items()
    }
    table = pd.DataFrame.from_dict(texts, orient="index", columns=[*found.students]).rename_axis("compared with")
    return table[sorted(table, key=int)]


def made_anew(rows: Sequence[Mapping[str, Any]]) -> dict[int, set[str]]:
    """Returns by seed the students that have other weights than under their first seed."""
    first: dict[str, str] = {}
    anew: dict[int, set[str]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        if row["student_sha256"] != first.setdefault(row["student"], row["student_sha256"]):
            anew.setdefault(row["seed"], set()).add(row["student"])
    return anew


def recipes(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Returns the gains of `SCREENED`, a row for each student and design and a column for each regime tried on it."""
    gains = {(int(row["student"]), row["design"], row["regime"]): row["gain"] for row in rows if row["seed"] == 0}
    pairs = [(student, design) for student in SCREENED["students"] for design in SCREENED["designs"]]
    columns = {name: [gains.get((*pair, name)) for pair in pairs] for name in REGIMES}
    labels = [f"{student}: {SHOWN.get(design, design)}" for student, design in pairs]
    return pd.DataFrame(columns, index=labels).dropna(axis=1, how="all")


def whole(rows: Iterable[Mapping[str, Any]]) -> gate.Trials | None:
    """Returns the largest whole table of these trials: students who have all designs under the same two seeds or more.

    None if no two students have one. The table with most students is taken, and of those the one with most seeds: a
    seed counts when it is there for all of them.
    """
    table = pd.DataFrame(rows)
    if table.empty:
        return None
    complete = table.groupby(["student", "seed"])["design"].nunique().unstack(fill_value=0) == table["design"].nunique()
    tables = []
    for count in range(2, complete.shape[1] + 1):
        for seeds in map(list, itertools.combinations(complete, count)):
            students = complete.index[complete[seeds].all(axis=1)]
            tables.append((len(students), count, [*students], seeds))
    largest = max(tables, default=(0, 0, [], []), key=lambda entry: entry[:2])
    if largest[0] < 2:
        return None
    chosen = table["student"].isin(largest[2]) & table["seed"].isin(largest[3])
    return gate.trials(table[chosen].to_dict("records"))


def of_designs(rows: Iterable[Mapping[str, Any]], regime: str, some: Iterable[str]) -> list[Mapping[str, Any]]:
    """Returns the trials of a regime on some designs."""
    chosen = {*some}
    return [row for row in rows if row["regime"] == regime and row["design"] in chosen]


def matrix(rows: Iterable[Mapping[str, Any]], order: Iterable[str]) -> pd.DataFrame:
    """Returns the mean gain of each student on each design, over the seeds that were run; students by age."""
    table = pd.DataFrame([*rows], columns=["gain", "design", "student"])
    table = table.pivot_table("gain", "design", "student", aggfunc="mean")
    return table[sorted(table, key=int)].reindex([name for name in order if name in table.index])


@styled
def figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Returns the matrix of a regime's trials: mean gain of each student (column) on each design (row)."""
    gains = matrix(rows, DESIGNS).rename(index=SHOWN)
    before = pd.DataFrame({row["student"]: row["before"]["valid"]} for row in rows).mean()  # weights may differ by seed
    chart = Figure(figsize=(1.2 * len(gains.columns) + 3.4, 0.33 * len(gains) + 1.6), layout="constrained")
    axes = chart.subplots()
    sns.heatmap(gains, ax=axes, annot=True, fmt="+.1f", center=0, cmap="RdBu", linewidths=1, cbar=False)
    for column, age in enumerate(gains.columns):
        best = gains.index.get_loc(gains[age].idxmax())
        axes.add_patch(Rectangle((column, best), 1, 1, fill=False, edgecolor="black", linewidth=2))
    axes.set_xticklabels([f"{int(s):,} steps\n{before[s]:.0f}% valid" for s in gains.columns])
    axes.set(xlabel="student: supervised steps, valid rate before the round", ylabel="")
    seeds = len({row["seed"] for row in rows})
    axes.set_title(
        f"Points gained by one round on a design's boards\n(mean of up to {seeds} seeds; box: best of a student)"
    )
    return chart


def shown(gains: pd.DataFrame) -> str:
    """Returns a matrix of gains as Markdown, empty where nothing was tried."""
    text = gains.map(lambda gain: "" if pd.isna(gain) else f"{gain:+.1f}")
    return text.rename(index=SHOWN).to_markdown(disable_numparse=True)


def main() -> None:
    """Runs one of the commands above."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.laboratory", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("student", help="draws the boards and trains a student")
    command.add_argument("age", type=int, choices=AGES)
    tables = {
        "screen": (SCREENED, "on a part of the table"),
        "trials": ({"seeds": SEEDS, "students": AGES, "designs": tuple(DESIGNS)}, "on the whole table"),
        "waits": ({"seeds": SEEDS[:1], "students": AGES, "designs": tuple(WAITS)}, "with other shares of waits"),
        "asked": ({"seeds": SEEDS[2:], "students": WHOLE, "designs": tuple(ENGINEERS)}, "on designs of engineers"),
    }
    for name, (_, scope) in tables.items():
        command = commands.add_parser(name, help=f"runs the trials of a regime that are missing, {scope}")
        command.add_argument("regime", choices=REGIMES)
        command.add_argument("--part", default="0/1", help="which part of how many, e.g. 0/2")
    commands.add_parser("page", help="collects the trials and writes the page")
    args, folder, reports = parser.parse_args(), root() / "runs/laboratory", root() / REPORTS
    draw_boards(folder / "boards")
    if args.command == "student":
        make_student(folder, args.age)
    elif args.command in tables:
        part, _, parts = args.part.partition("/")
        if not (part.isdecimal() and parts.isdecimal() and int(part) < int(parts)):
            parser.error(f"--part: {args.part!r} is none; of two parts there are 0/2 and 1/2")
        run(args.regime, tables[args.command][0], int(part), int(parts), folder, reports / "laboratory.jsonl")
    else:
        rows = collect(folder, reports / "laboratory.jsonl")
        for regime in tabled(rows):
            show(figure(of_designs(rows, regime, DESIGNS)), reports / f"laboratory/{regime}.png")
        repro.write_text(reports / "laboratory.md", page(rows))
        trials = whole(of_designs(rows, CHOSEN, DESIGNS))
        if trials is not None:
            intervals = {
                name: {"mean": estimate.mean, "low": estimate.low, "high": estimate.high, "p": estimate.p}
                for name, estimate in gates(trials)["samples"].items()
            }
            about = {"students": len(trials.students), "seeds": len(trials.seeds)}
            repro.write_json(reports / "laboratory/gate.json", about | intervals)


if __name__ == "__main__":
    main()
