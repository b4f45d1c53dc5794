"""The page of a run, reports/<profile>.md: what a model learned, a decoded transcript, tables, and what each part took.

It is made for the run `llm`, whose texts can be read, from its records and from what its stages left in
`runs/<profile>`; nothing is trained or sampled. A part that was not run yet is named in a line.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mapflake.extras import needs

with needs("lab"):
    import numpy as np
    import pandas as pd

from mapflake import plots, repro, study
from mapflake.engineer import History, Ledger
from mapflake.env import KINDS, naive_plan_fails
from mapflake.nb import floors, params, transcript
from mapflake.nb.folders import REPORTS, require
from mapflake.plots import tables
from mapflake.study import Study, engineers
from mapflake.study.comparisons import Difference, points
from mapflake.study.names import BASE, ROUND_0, name
from mapflake.study.statistics import estimate, t_estimate
from mapflake.trainer import checkpoint, evaluate
from mapflake.trainer.evaluate import Rollout

TWIN = "{}_random"  # profile -> the folder of the same run with `warm_start.weights: random`, the control
LONG = ("fixed", "fixed_longer")  # arms that GRPO's gain is read from, the longest training last
ACROSS = "language_model"  # the arm of the study that is designed by the run's engineer (params.yaml)

MISSING = "*Not run yet: {}.*"

QWEN = """\
A model of 30 times as many parameters takes 30 times the arithmetic for a token, so it needs a GPU: `make repro
RUN=qwen_1gpu DRY=1` says what a run of Qwen3 with LoRA on one GPU takes. A large model can be asked in full sentences
(the prompt format `chat`, about 400 tokens for a board instead of 72) and needs no supervised start, so its report is
read by a model that was not taught to answer it. Qwen3-4B was not run here."""


def write(root: Path) -> Path:
    """Writes the active run's page, with figures and a notebook in `reports/<profile>/`, and returns its path.

    Raises FileNotFoundError if not even round 0 of the run is there.
    """
    active = params.load(root).run
    profile = active.profile
    require(f"runs/{profile}", "baseline_rl")
    run, cells, pictures = root / "runs" / profile, root / REPORTS / "cells" / profile, root / REPORTS / profile
    # Of the run alone: reports/cells may have the published records of other seeds.
    trained = [s for s in active.seeds if (run / f"baseline_rl/{s}/before.jsonl").is_file()]
    results, designs = study.load(cells, seeds=trained), engineers.load(cells, trained)
    seeds = results.seeds(BASE)
    fixed = Ledger(run / f"baseline_rl/{seeds[0]}/rounds.jsonl").rounds
    longer = Ledger(run / f"ablations/fixed_longer-{seeds[0]}/rounds.jsonl").rounds  # none if it was not run
    longer = tuple(r for r in longer if r.index > fixed[-1].index)
    before = {seed: evaluate.load_rollouts(run / f"baseline_rl/{seed}/before.jsonl") for seed in seeds}
    gains = study.compare(results, LONG, BASE, boards="validation")
    fresh_gains, fresh_text = _measured_again(pictures)
    rewards = [MISSING.format("reinforcement learning on designs")]
    if designs:
        table = engineers.table(designs).reset_index(names=["situations", "engineer"])
        plots.show(plots.response(engineers.responses(designs)), pictures / "response.png")
        rewards = [
            "Mean rewards of designs. The columns are explained [beside the study's](results.md#design-rl)"
            + (": a value for each training seed." if len(designs) < 3 else "."),
            table.to_markdown(index=False, disable_numparse=True),
            f"![what it asks for as one row of the report changes]({profile}/response.png)",
            "What the trained engineer asks for as one row of a made-up report changes and the others stay; mean of "
            "the training seeds. A flat line means that it does not follow this row.",
        ]
    executed, notebook = run / f"engineer_loop/{seeds[0]}/notebook.ipynb", ""
    if executed.is_file():
        pictures.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(executed, pictures / "03_engineer_loop.ipynb")
        notebook = f"[The whole loop as an executed notebook]({profile}/03_engineer_loop.ipynb)."
    parts = [
        f"# What the run {profile} learned",
        *_found(results, gains, designs),
        floors.missed([_rates(rollouts) for rollouts in before.values()], fresh_gains or gains[-1:], designs),
        "## One board, before and after reinforcement learning",
        transcript.answers(before[seeds[0]], evaluate.load_rollouts(fixed[0].files["rollouts"])),
        "## One report, the reply, and boards drawn from it",
        *(transcript.design(results, seeds[0]) or [MISSING.format("a round that a model designed")]),
        notebook,
        "## The supervised start, and reinforcement learning on boards",
        *_curves(run, fixed + longer, pictures),
        *_solved(run, before),
        fresh_text,
        "## Reinforcement learning on designs",
        *rewards,
        "## What designs teach",
        study.in_parts(study.table(results)),
        *(("## What its designs teach another model's students", *_across(root)) if profile == "llm" else ()),
        "## What it took",
        _costs(run),
        "Time that a stage ran before a kill -9 is not counted.",
    ]
    parts += ["## What would differ with Qwen3-4B", QWEN] if profile == "llm" else []
    path = root / REPORTS / f"{profile}.md"
    repro.write_text(path, "\n\n".join(filter(None, parts)) + "\n")
    return path


def _found(results: Study, gains: Sequence[Difference], designs: engineers.Records) -> list[str]:
    """Returns what was found of solving, of designing, and of what designs teach."""
    start = estimate(results.rates(BASE)).text(".1f", 100)
    first_gains = study.compare(results, [ROUND_0], BASE)
    agents = " and ".join(map(str, sorted({*results.boards["agents"]})))
    solving = f"After its supervised start the model solves {start}% of the benchmark's boards with {agents} agents"
    solving += f"; one round of GRPO changes this by {points(first_gains[0].estimate)} points." if first_gains else "."
    if gains:
        changes = [
            f"by {points(gain.estimate)} points after {len(results.history(gain.arm, results.seeds(gain.arm)[0]))} "
            f"rounds ({gain.estimate.seeds} training seeds)"
            for gain in gains
        ]
        solving += f" On the validation boards, the fixed configuration changes its valid rate {' and '.join(changes)}."
    rows = engineers.readings(designs) if designs else pd.DataFrame()
    designing = MISSING.format("reinforcement learning on designs")
    if not rows.empty:
        means = rows[rows["situations"] == engineers.MADE_UP].groupby("engineer")[["own", "another's"]].mean()
        before, (after, elsewhere) = means.loc[engineers.BEFORE, "own"], means.loc[engineers.AFTER]
        designing = (
            f"In unseen situations its designs earn a reward of {before:.2f} before reinforcement learning on designs "
            f"and {after:.2f} after it; in the situations of other students the latter earn {elsewhere:.2f}."
        )
    teaching = MISSING.format("rounds that the trained engineer designs")
    if leads := study.compare(results, ["engineer_trained"], "fixed"):
        teaching = (
            f"On the benchmark, the students of the trained engineer differ from those of the fixed configuration by "
            f"{points(leads[0].estimate)} points."
        )
    return [solving, designing, teaching]


def _measured_again(folder: Path) -> tuple[list[Difference], str]:
    """Returns GRPO's gain on many more boards (`benchmarks/gain.py`), and a sentence on it; nothing if not measured."""
    rows = [repro.read_json(path) for path in sorted(folder.glob("gain-*.json"))]
    if not rows:
        return [], ""
    shares = {when: np.array([[int(n) for n in row[when]["valid"]] for row in rows]) for when in ("before", "after")}
    values = (shares["after"] - shares["before"]) / rows[0]["samples"]
    gain = Difference("fixed_longer", BASE, "fresh", {}, estimate(values), tuple(values.mean(axis=1)))
    seeds = " and ".join(points(t_estimate(of_seed)) for of_seed in values)
    means = [f"{100 * share.mean() / rows[0]['samples']:.1f}%" for share in shares.values()]
    text = (
        f"Measured once more on {rows[0]['boards']} fresh boards of 4x4 and 5x5, {rows[0]['samples']} answers each: "
        f"{rows[0]['rounds']} rounds of GRPO on the fixed configuration change valid from {means[0]} to {means[1]}, by "
        f"{seeds} points under the training seeds and by {points(t_estimate(values.mean(axis=0)))} under both together "
        f"(intervals over boards); over training seeds it is {points(gain.estimate)}."
    )
    return [gain], text


def _curves(run: Path, fixed: History, pictures: Path) -> list[str]:
    """Writes the figures of the loss and of the rounds' rewards, and returns their links."""
    links = []
    starts = {"pretrained": run, "random weights": run.with_name(TWIN.format(run.name))}
    paths = {name: folder / "warm_start/checkpoint/curve.jsonl" for name, folder in starts.items()}
    losses = [pd.DataFrame(repro.read_jsonl(path)).assign(arm=name) for name, path in paths.items() if path.is_file()]
    if losses and "loss" in losses[0]:
        figure = plots.curves(pd.concat(losses), metrics=["loss"], xlabel="step of the supervised start")
        plots.show(figure, pictures / "loss.png")
        links.append(f"![loss of the supervised start]({pictures.name}/loss.png)")
    curve = tables.curves(fixed, name("fixed"))
    boundaries = curve.groupby("round")["step"].min().tolist()[1:]
    figure = plots.curves(curve, metrics=["reward", "valid", "optimal"], smooth=5, boundaries=boundaries)
    plots.show(figure, pictures / "grpo.png")
    about = "Thin: one step, first training seed; dotted: smoothed over five steps; a vertical line: a new round."
    return [*links, f"![reward and rates in the rounds of the fixed configuration]({pictures.name}/grpo.png)", about]


def _solved(run: Path, before: Mapping[int, Sequence[Rollout]]) -> list[str]:
    """Returns a table of rates on the validation boards: before RL, after round 0, and the last round of each arm."""
    rows: list[dict[str, Any]] = []
    changes: dict[str, list[str]] = {}
    twin = run.with_name(TWIN.format(run.name))
    for seed, rollouts in before.items():
        by_arm = {name(BASE): rollouts}
        if (path := twin / f"baseline_rl/{seed}/before.jsonl").is_file():
            by_arm[f"{name(BASE)}, random weights"] = evaluate.load_rollouts(path)
        fixed = Ledger(run / f"baseline_rl/{seed}/rounds.jsonl").rounds
        ledgers = {ROUND_0: fixed[:1], "fixed": fixed[1:]}
        folders = {"engineer": run / f"engineer_loop/{seed}"}
        folders |= {path.name.rpartition("-")[0]: path for path in sorted(run.glob(f"ablations/*-{seed}"))}
        ledgers |= {arm: Ledger(folder / "rounds.jsonl").rounds for arm, folder in folders.items()}
        for arm, rounds in ledgers.items():
            if rounds:
                by_arm[name(arm)] = evaluate.load_rollouts(rounds[-1].files["rollouts"])
        rows += [{"": arm, **_rates(answers)} for arm, answers in by_arm.items()]
        start = evaluate.frame(by_arm[name(BASE)])
        for arm in (ROUND_0, *LONG):
            if name(arm) in by_arm:
                change = evaluate.paired_difference(evaluate.frame(by_arm[name(arm)]), start, "valid")
                text = "{:+.1f} ({:+.1f} to {:+.1f})".format(*(100 * x for x in change))
                changes.setdefault(name(arm), []).append(text)
    table = 100 * pd.DataFrame(rows).groupby("", sort=False).mean()
    change_text = "; ".join(f"{arm} {', '.join(texts)}" for arm, texts in changes.items())
    about = (
        f"Percent of answers on the validation boards at temperature 1, mean of training seeds {[*before]}. Points by "
        "which valid has changed since before RL, for each training seed with its interval over boards: "
        f"{change_text}. The naive plan sends every agent straight to its goal and ignores holes and other agents."
    )
    missing = "" if twin.is_dir() else MISSING.format("the same architecture with random weights")
    return [table.to_markdown(floatfmt=".1f"), about, missing]


def _rates(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Returns shares of answers: parsed, valid, and valid by kind of board."""
    kinds: dict[str, Sequence[Rollout]] = {
        "valid": rollouts,
        "where the naive plan fails": [r for r in rollouts if naive_plan_fails(r.task.instance)],
        "where a wait is needed": [r for r in rollouts if r.task.needs_wait],
    }
    for size in sorted({r.task.instance.size for r in rollouts}):
        kinds[f"{size}x{size}"] = [r for r in rollouts if r.task.instance.size == size]
    rates = {"parsed": sum(KINDS[0] not in r.verdict.kinds for r in rollouts) / len(rollouts)}
    return rates | {kind: sum(r.verdict.valid for r in part) / len(part) for kind, part in kinds.items() if part}


def _across(root: Path) -> list[str]:
    """Returns how the study's students do under the designs of the model, told their own reports and others'."""
    cells, control = root / REPORTS / "cells/study", f"{ACROSS}_another"
    if not any(cells.glob(f"{control}-*.json")):
        return [MISSING.format("the model as engineer of another model's students")]
    everything, ages = study.load(cells), len(params.effective(params.load(root), "study").students.ages)
    seeds = everything.seeds(control)
    results = study.load(cells, ["fixed", ACROSS, control], seeds)
    histories = [results.history(arm, seed) for arm in (ACROSS, control) for seed in seeds]
    replies = [r.proposal for history in histories for r in history if r.proposal]
    legal = sum(reply.config is not None for reply in replies) / len(replies)
    model = histories[0][-1].parameters["about"]
    grammar = ", decoded under the grammar of legal replies" if model["engineer"]["constrained"] else ""
    (lead,) = study.compare(results, [ACROSS], control, agents=2)
    designs = engineers.first_designs(everything, ages, ACROSS)["response"].to_numpy()
    wider = ""
    if len(designs):  # of both reports, and not rejected
        size = t_estimate(designs).text("+.2f")
        wider = f"Told the report of a stronger student, it asks first for boards that are {size} squares wider. "
    about = (
        f"The training seeds are {seeds} of the study, the students those of the small policy. {legal:.0%} of "
        f"{len(replies)} designs are legal{grammar}. Told its student's own report, the engineer's student ends "
        f"{points(lead.estimate)} points above one whose engineer is told another's (boards of two agents). {wider}"
        "Brackets hold 95% intervals; a star marks p < 5% after Holm's correction. The samples that trained the "
        f"engineer are not counted.{_earlier(root, model)}"
    )
    return [study.in_parts(study.table(results)), about]


def _earlier(root: Path, model: Mapping[str, Any]) -> str:
    """Returns a sentence if the weights that a record names are not those of the run that is here now."""
    folder, weights = root / str(model["engineer"]["model"]), model["model_sha256"]
    if weights is None or (folder.is_dir() and checkpoint.weights_sha256(folder) == weights):
        return ""
    return f" It has the weights of an earlier run (sha256 {weights[:8]}), not of this one."


def _costs(run: Path) -> str:
    """Returns a table of minutes, memory and tokens, one row for each stage of the run that has ended."""
    rows = []
    for times in filter(None, map(repro.read_jsonl, sorted((run / "times").glob("*.jsonl")))):  # a file may be torn
        stage = times[0]["stage"]
        curves = [repro.read_jsonl(curve) for curve in sorted((run / stage).rglob("curve.jsonl"))]
        row = {
            "stage": stage,
            "minutes": round(sum(row["seconds"] for row in times) / 60, 1),
            "CPU minutes": round(sum(row["cpu_seconds"] for row in times) / 60, 1),
            "peak memory, GiB": max(row.get("peak_gib", 0) for row in times) or "",
            "tokens taught": sum(max((row.get("num_input_tokens_seen", 0) for row in c), default=0) for c in curves),
            "tokens sampled": round(sum(row.get("sampled_tokens", 0) for c in curves for row in c)),
        }
        rows.append(row)
    if not rows:
        return MISSING.format("a stage of the pipeline, which notes its time")
    return pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)
