"""The page of a run, reports/<profile>.md: what a model learned, a decoded transcript, tables, and what each part took.

It is made for the run `llm`, whose texts can be read, from the records of the run's cells and from what its stages left
in `runs/<profile>`; nothing is trained or sampled. A part that was not run yet is named in a line. Minutes and memory
are those of the machine that ran it.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mapflake.extras import needs

with needs("lab"):
    import pandas as pd

from mapflake import env, plots, repro, study
from mapflake.engineer import History, Ledger, Proposal, Round
from mapflake.engineer.boards import sample_boards
from mapflake.env import KINDS, naive_plan_fails
from mapflake.nb import params
from mapflake.nb.folders import REPORTS, require
from mapflake.plots import tables
from mapflake.plots.boards import describe_all
from mapflake.study import Study, engineers
from mapflake.study.comparisons import points
from mapflake.study.names import BASE, ROUND_0, name
from mapflake.study.statistics import estimate, student
from mapflake.trainer import evaluate
from mapflake.trainer.evaluate import Rollout

TWIN = "{}_random"  # profile -> the folder of the same run with `warm_start.weights: random`, the control
ACROSS = "language_model"  # the arm of the study that is designed by the run's engineer (params.yaml)
FLOORS = {"valid": 0.3, "where the careless plan fails": 0.1, "accepted": 0.95}
"""What a supervised start should reach: less, and RL has little to reinforce. Our choice."""
READING, SOLVING = 0.1, -0.02
"""What RL on designs should reach: the reward that is lost where another's report is told, and the change of the valid
rate on boards. Our choice."""

MISSING = "*Not run yet: {}.*"
DRAWN = 3  # boards of a design that are shown

QWEN = """\
A model of 30 times as many parameters takes 30 times the arithmetic for a token, so it needs a GPU: `make repro
RUN=qwen_1gpu DRY=1` says what a run of Qwen3 with LoRA on one GPU takes. A large model can be asked in full sentences
(the prompt format `chat`, about 400 tokens for a board instead of 72) and needs no supervised start, so its report is
read by a model that was not taught to answer it. Qwen3-4B was not run here."""


def write(root: Path) -> Path:
    """Writes the active run's `reports/<profile>.md` and the figures on it, and returns its path.

    Raises:
        FileNotFoundError: Not even round 0 of the run is there.
    """
    profile = params.load(root).run.profile
    path = root / REPORTS / f"{profile}.md"
    repro.write_text(path, page(root, profile))
    return path


def page(root: Path, profile: str) -> str:
    """Returns the text of a run's page; writes the figures of its curves and a notebook to `reports/<profile>/`."""
    require(f"runs/{profile}", "baseline_rl")
    run, cells, pictures = root / "runs" / profile, root / REPORTS / "cells" / profile, root / REPORTS / profile
    found, designs = study.load(cells), engineers.load(cells)
    seeds = found.seeds(BASE)
    fixed = Ledger(run / f"baseline_rl/{seeds[0]}/rounds.jsonl").rounds
    before = {seed: _before(run, seed) for seed in seeds}
    rewards = [MISSING.format("reinforcement learning on designs")]
    if designs:
        table = engineers.table(designs).reset_index(names=["situations", "engineer"])
        figure = plots.response(engineers.responses(designs))
        plots.show(figure, pictures / "response.png")
        rewards = [
            table.to_markdown(index=False, disable_numparse=True),
            f"![what it asks for as one row of the report changes]({profile}/response.png)",
            "What the trained engineer asks for as one row of a made-up report changes and the others stay; mean of "
            "the training seeds. A flat line means that it does not follow this row.",
        ]
    parts = [
        f"# What the run {profile} learned",
        *_found(found, designs),
        _floors(before, designs),
        _floors_of_rl(found, designs),
        "## One board, before and after reinforcement learning",
        _answers(before[seeds[0]], evaluate.load_rollouts(fixed[0].files["rollouts"])),
        "## One report, the reply, and boards drawn from it",
        *_design(found, seeds[0]),
        _notebook(run / f"engineer_loop/{seeds[0]}/notebook.ipynb", pictures),
        "## The supervised start, and reinforcement learning on boards",
        *_curves(run, fixed, pictures),
        *_solved(run, before),
        "## Reinforcement learning on designs",
        *rewards,
        "## What designs teach",
        study.in_parts(study.table(found)),
        "## What its designs teach another model's students",
        *_across(root),
        "## What it took",
        _costs(run),
        "Time that a stage ran before a kill -9 is not counted.",
    ]
    parts += ["## What would differ with Qwen3-4B", QWEN] if profile == "llm" else []
    return "\n\n".join(filter(None, parts)) + "\n"


def _found(found: Study, designs: engineers.Records) -> list[str]:
    """Returns what was found, in one sentence for solving, for designing, and for what designs teach."""
    start = estimate(found.rates(BASE)).text(".1f", 100)
    gained = study.compare(found, [ROUND_0], BASE)
    said = [f"After its supervised start the model solves {start}% of the benchmark"]
    said[0] += f"; one round of GRPO changes this by {points(gained[0].estimate)} points." if gained else "."
    if learned := study.compare(found, ["fixed"], BASE, boards="validation"):
        said[0] += (
            f" On the validation boards, all rounds of the fixed configuration change its valid rate by "
            f"{points(learned[0].estimate)} points ({learned[0].estimate.seeds} training seeds)."
        )
    rows = engineers.readings(designs) if designs else pd.DataFrame()
    if rows.empty:
        said.append(MISSING.format("reinforcement learning on designs"))
    else:
        means = rows[rows["situations"] == engineers.MADE_UP].groupby("engineer")[["own", "another's"]].mean()
        before, (after, elsewhere) = means.loc[engineers.BEFORE, "own"], means.loc[engineers.AFTER]
        said.append(
            f"In unseen situations its designs earn a reward of {before:.2f} before reinforcement learning on designs "
            f"and {after:.2f} after it; in the situations of other students the latter earn {elsewhere:.2f}."
        )
    taught = study.compare(found, ["engineer_trained"], "fixed")
    said.append(
        f"Students that the trained engineer designed for differ from those of the fixed configuration by "
        f"{points(taught[0].estimate)} points."
        if taught
        else MISSING.format("rounds that the trained engineer designs")
    )
    return said


def _floors(before: Mapping[int, Sequence[Rollout]], designs: engineers.Records) -> str:
    """Returns which floors of a supervised start were missed; "" if none was."""
    rates = [_rates(rollouts) for rollouts in before.values()]
    reached = {key: [one[key] for one in rates if key in one] for key in FLOORS}
    reached["accepted"] = [
        measured["accepted"]
        for record in designs
        for key, measured in record["reading"].items()
        if key == f"{engineers.MADE_UP} / {engineers.BEFORE}"
    ]
    means = {key: sum(values) / len(values) for key, values in reached.items() if values}
    missed = [f"{key} {mean:.1%} (floor {FLOORS[key]:.0%})" for key, mean in means.items() if mean < FLOORS[key]]
    return f"Before reinforcement learning it misses these floors: {'; '.join(missed)}." if missed else ""


def _floors_of_rl(found: Study, designs: engineers.Records) -> str:
    """Returns which floors of RL on boards and on designs were missed; "" if none was, or nothing was run."""
    missed = []
    for gain in study.compare(found, ["fixed"], BASE, boards="validation"):
        if not (gain.estimate.excludes_zero and gain.estimate.mean > 0):
            missed.append(f"GRPO on boards gains {points(gain.estimate)} points (floor: clear of zero)")
    if designs:
        rows = engineers.readings(designs)
        last = rows[(rows["situations"] == engineers.MADE_UP) & (rows["engineer"] == engineers.AFTER)].mean(
            numeric_only=True
        )
        others = pd.DataFrame([record["yardsticks"][engineers.MADE_UP] for record in designs]).mean()
        rule, best = others.filter(like="rule").max(), others["best of one size"]
        if last["own"] <= rule:
            missed.append(f"designs earn {last['own']:.2f} (floor: above {rule:.2f}, the best hand rule)")
        if last["reading"] < READING:
            lost, most = round(last["reading"], 2) + 0, best - others["best of one size for another's"]
            missed.append(
                f"told another's report, designs lose {lost:.2f} (floor {READING:.2f}; the best design of one size for "
                f"each situation loses {most:.2f})"
            )
        solving = sum(record["solving"]["mean"] for record in designs) / len(designs)
        if solving < SOLVING:
            missed.append(f"RL on designs changes valid by {100 * solving:+.1f} points (floor {100 * SOLVING:+.0f})")
    return f"After reinforcement learning it misses these floors: {'; '.join(missed)}." if missed else ""


def _before(run: Path, seed: int) -> list[Rollout]:
    """Returns the answers on the validation boards before any RL."""
    return evaluate.load_rollouts(run / f"baseline_rl/{seed}/before.jsonl")


def _answers(before: Sequence[Rollout], after: Sequence[Rollout]) -> str:
    """Returns a board with two answers to it: of those that were solved only after RL the first of the largest size."""
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if a.sample == 0]
    gained = [(a, b) for a, b in pairs if b.verdict.valid and not a.verdict.valid]
    one, other = max(gained or pairs, key=lambda pair: pair[0].task.instance.size)
    lines = ["No board was solved only after it; this one was not." if not gained else ""]
    lines.append(_text(f"{one.task.instance.to_text()}\n\n{env.render_prompt(one.task.instance, one.prompt_format)}"))
    for when, answer in (("Before", one), ("After", other)):
        verdict = "; ".join(describe_all(answer.verdict.violations)) or f"valid, {answer.verdict.makespan} steps"
        lines += [f"{when} ({verdict}):", _text(answer.completion)]
    return "\n\n".join(filter(None, lines))


def _text(said: str) -> str:
    """Returns model text as a block of Markdown that nothing in it can close."""
    return "\n".join(f"    {line}" for line in said.splitlines() or [""])


def _design(found: Study, seed: int) -> list[str]:
    """Returns the first design that a model made: its prompt, its reply, the ratios, and boards drawn from it."""
    for arm in ("engineer_trained", "engineer"):
        history: History = found.history(arm, seed) if seed in found.seeds(arm) else ()
        for one in history:
            if one.proposal and one.proposal.prompt:
                return _transcript(arm, one, one.proposal)
    return [MISSING.format("a round that a model designed")]


def _transcript(arm: str, one: Round, proposal: Proposal) -> list[str]:
    lines = [f"The *{name(arm)}* was asked after round {one.index - 1}:", _text(proposal.prompt), "It replied:"]
    lines.append(_text(proposal.reply))
    if proposal.config is None:
        return [*lines, f"The reply was rejected: {proposal.rejection}. The configuration stayed as it was."]
    ratios = pd.DataFrame([{"size": f"{size}x{size}"} | c.ratios for size, c in sorted(one.config.sizes.items())])
    boards, _ = sample_boards(
        one.config, int(one.training["instances"]), seed=repro.seed_for(one.seed, "train", one.index)
    )
    shown = {task.instance.size: task for task in reversed(boards)}
    drawn = [_text(task.instance.to_text()) for _, task in sorted(shown.items())][:DRAWN]
    lines += ["The ratios that were trained on:", ratios.to_markdown(index=False, floatfmt=".2f")]
    return [*lines, "The first of its boards of each size:", "\n\n---\n\n".join(drawn)]


def _notebook(executed: Path, target: Path) -> str:
    """Copies the executed notebook of the engineer's loop, and returns its link; "" if there is none."""
    if not executed.is_file():
        return ""
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(executed, target / "03_engineer_loop.ipynb")
    return f"[The whole loop as an executed notebook]({target.name}/03_engineer_loop.ipynb)."


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
    return [*links, f"![reward and rates in the rounds of the fixed configuration]({pictures.name}/grpo.png)"]


def _solved(run: Path, before: Mapping[int, Sequence[Rollout]]) -> list[str]:
    """Returns a table of rates on the validation boards: before RL, after round 0, and the last round of each arm."""
    rows: list[dict[str, Any]] = []
    changes = []
    twin = run.with_name(TWIN.format(run.name))
    for seed, rollouts in before.items():
        measured = {name(BASE): rollouts}
        if (twin / f"baseline_rl/{seed}/before.jsonl").is_file():
            measured[f"{name(BASE)}, random weights"] = _before(twin, seed)
        first, *fixed = Ledger(run / f"baseline_rl/{seed}/rounds.jsonl").rounds
        ledgers = {ROUND_0: [first], "fixed": fixed}
        ledgers["engineer"] = [*Ledger(run / f"engineer_loop/{seed}/rounds.jsonl").rounds]
        for folder in sorted(run.glob(f"ablations/*-{seed}")):
            ledgers[folder.name.rpartition("-")[0]] = [*Ledger(folder / "rounds.jsonl").rounds]
        measured |= {
            name(arm): evaluate.load_rollouts(rounds[-1].files["rollouts"]) for arm, rounds in ledgers.items() if rounds
        }
        rows += [{"": arm, **_rates(found)} for arm, found in measured.items()]
        last = name("fixed") if fixed else name(ROUND_0)
        after, start = (evaluate.frame(measured[arm]) for arm in (last, name(BASE)))
        change = evaluate.paired_difference(after, start, "valid")
        changes.append("{:+.1f} ({:+.1f} to {:+.1f})".format(*(100 * x for x in change)))
    table = 100 * pd.DataFrame(rows).groupby("", sort=False).mean()
    about = f"Percent of answers on the validation boards at temperature 1, mean of training seeds {[*before]}."
    about += (
        f" From before RL to the last round of the fixed configuration, valid changes by {', '.join(changes)} points,"
    )
    about += " one number for each training seed, with 95% intervals over boards."
    missing = "" if twin.is_dir() else MISSING.format("the same architecture with random weights")
    return [table.to_markdown(floatfmt=".1f"), about, missing]


def _rates(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Returns shares of answers: parsed, valid, and valid by kind of board."""
    kinds = {
        "valid": rollouts,
        "where the careless plan fails": [r for r in rollouts if naive_plan_fails(r.task.instance)],
        "where a wait is needed": [r for r in rollouts if r.task.needs_wait],
    }
    kinds |= {
        f"{size}x{size}": [r for r in rollouts if r.task.instance.size == size]
        for size in sorted({r.task.instance.size for r in rollouts})
    }
    parsed = sum(KINDS[0] not in r.verdict.kinds for r in rollouts) / len(rollouts)
    return {"parsed": parsed} | {
        kind: sum(r.verdict.valid for r in some) / len(some) for kind, some in kinds.items() if some
    }


def _across(root: Path) -> list[str]:
    """Returns how the study's students do under the designs of the model, told their own reports and others'."""
    cells, control = root / REPORTS / "cells/study", f"{ACROSS}_another"
    units = sorted(int(path.stem.rpartition("-")[2]) for path in cells.glob(f"{control}-*.json"))
    if not units:
        return [MISSING.format("the model as engineer of another model's students")]
    found, ages = study.load(cells), len(params.effective(params.load(root), "study").students.ages)
    sets: dict[str, dict[str, Any]] = {"2 agents": {"agents": 2}, "boards that need a wait": {"needs_wait": True}}
    sets |= {"validation": {"boards": "validation"}}
    pairs = {"own report, against fixed": (ACROSS, "fixed"), "another's report, against fixed": (control, "fixed")}
    pairs |= {"own report, against another's": (ACROSS, control)}
    rows = {
        title: {where: points(study.compare(found, [arm], other, **kept)[0].estimate) for where, kept in sets.items()}
        for title, (arm, other) in pairs.items()
    }
    asked = [one.proposal for arm in (ACROSS, control) for s in units for one in found.history(arm, s) if one.proposal]
    legal = sum(one.config is not None for one in asked) / len(asked)
    how = found.history(ACROSS, units[0])[-1].parameters["about"]["engineer"]
    grammar = ", decoded under the grammar of legal replies" if how["constrained"] else ""
    follow = student(engineers.first_designs(found, ages, ACROSS)["response"].to_numpy())
    about = (
        f"Differences of valid plans in points, over the training seeds {units} of the study (the small policy), after "
        f"two designed rounds; 95% intervals. {legal:.0%} of {len(asked)} designs were legal{grammar}. Where the "
        f"report told is that of a stronger student, the first design has boards that are {follow.text('+.2f')} cells "
        f"larger."
    )
    return [pd.DataFrame(rows).T.to_markdown(), about]


def _costs(run: Path) -> str:
    """Returns a table of minutes, memory and tokens, one row for each stage of the run that has ended."""
    rows = []
    for path in sorted((run / "times").glob("*.jsonl")):
        times = repro.read_jsonl(path)
        stage = times[0]["stage"]
        curves = [repro.read_jsonl(curve) for curve in sorted((run / stage).rglob("curve.jsonl"))]
        rows.append(
            {
                "stage": stage,
                "minutes": round(sum(row["seconds"] for row in times) / 60, 1),
                "CPU minutes": round(sum(row["cpu_seconds"] for row in times) / 60, 1),
                "peak memory, GiB": max(row.get("peak_gib", 0) for row in times) or "",
                "tokens taught": sum(
                    max((row.get("num_input_tokens_seen", 0) for row in c), default=0) for c in curves
                ),
                "tokens sampled": round(sum(row.get("sampled_tokens", 0) for c in curves for row in c)),
            }
        )
    if not rows:
        return MISSING.format("a stage of the pipeline, which notes its time")
    return pd.DataFrame(rows).to_markdown(index=False, disable_numparse=True)
