"""The training of a profile's model, beside the records of its cells: time, tokens, curves, whether it reads.

For a model that others trained, of which one asks what the whole method cost and what it learned where. `measure` reads
a finished run of one training seed and asks its checkpoints once more; `markdown` says what records hold. The page has
no number that is not in a committed record. Not covered: several seeds.

    python -m benchmarks.training record          writes reports/cells/<profile>/training/<seed>.json
    python -m benchmarks.training control         the same for a warm start with `weights: random`: control/<seed>.json
    python -m benchmarks.training page smollm2    writes reports/smollm2.md and its figures; further profiles beside it
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from mapflake import plots, repro, study
from mapflake.engineer import EngineerParams, Grpo, Ledger, read_reply, reading
from mapflake.engineer.compact.base import BaseParams, base_pairs
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.engineer.designers.llm import apply_control
from mapflake.engineer.designers.rules import heuristic_expert
from mapflake.engineer.report import storable
from mapflake.env import Task, load_tasks, render_prompt
from mapflake.env.config import total_variation
from mapflake.nb import params
from mapflake.nb.folders import REPORTS, root
from mapflake.study import engineers
from mapflake.study.cells import Study
from mapflake.study.names import BASE, ROUND_0, name
from mapflake.study.records import METRICS, outcomes
from mapflake.study.report import results_markdown
from mapflake.trainer import evaluate
from mapflake.trainer.params import RLParams

if TYPE_CHECKING:
    from mapflake.trainer.policy import Policy

REWARD = "learnability"
SHOWN = 4  # boards whose replies are recorded
QUOTED = 600  # characters of a reply on the page
CURVE = {
    "rewards/valid/mean": "valid",
    "rewards/optimal/mean": "optimal",
    "frac_reward_zero_std": "groups_without_signal",
    "entropy": "entropy",
    "kl": "kl",
    "num_tokens": "tokens",
}
"""Column of a GRPO curve -> its name here; tokens are counted from the beginning of the round."""


def measure(run: Path, base: BaseParams, asked: EngineerParams, *, seed: int) -> dict[str, Any]:
    """Returns the record of a run's training, as JSON values.

    Args:
        run: `runs/<profile>`, with its stages up to `engineer_loop`.
        base: How its model before RL was made.
        asked: How it was asked for designs.
        seed: Training seed.
    """
    from mapflake.trainer.policy import Policy

    boards, start = run / "env_design", run / "warm_start/checkpoint"
    sizes, validation = repro.read_json(boards / "settings.json")["sizes"], load_tasks(boards / "validation.jsonl")
    trainer = Grpo(RLParams.parse(repro.read_json(run / f"baseline_rl/{seed}/settings.json")["rl"], "rl"))
    stages = ("baseline_rl", "engineer_loop")
    rounds = [one for stage in stages for one in Ledger(run / stage / str(seed) / "rounds.jsonl").rounds]
    steps = [
        {"arm": one.arm, "round": one.index, "step": step["step"]}
        | {ours: step[theirs] for theirs, ours in CURVE.items() if theirs in step}
        for one in rounds
        for step in repro.read_jsonl(one.checkpoint / "curve.jsonl")
    ]
    situations = [made_up(i, sizes, seed=repro.seed_for(seed, "unseen")) for i in range(len(validation) // 4)]
    reads, replies, warm_start = {}, {}, {}
    for stage, checkpoint in {"before RL": start, "after RL": rounds[-1].checkpoint}.items():
        policy = trainer.load(checkpoint)
        assert isinstance(policy, Policy)
        options: dict[str, Any] = {"variant": asked.variant, "max_new_tokens": asked.max_new_tokens, "seed": seed}
        found = reading.reading(policy, situations, sizes, REWARD, **options)
        reads[stage] = {name: None if np.isnan(value) else value for name, value in found.items()}
        replies[stage] = _replies(policy, validation, seed)
        if checkpoint == start and base.training:
            warm_start = _supervised(policy, base, run, seed)
    return {
        "model": base.model_dump(),
        "times": _recorded_times(run),
        "warm start": warm_start,
        "rounds": steps,
        "reading": reads,
        "replies": replies,
        "moved by a rule": _moved_by_a_rule(situations, sizes, seed),
        "made": repro.to_json(study.made()),
    }


def measure_control(run: Path, base: BaseParams, *, seed: int) -> dict[str, Any]:
    """Returns the record of a warm start with random weights, the control of "pretrained", as JSON values.

    Of one that was stopped there is the curve alone, up to its last save.

    Raises:
        ValueError: The weights were not random, or it was not trained.
    """
    from mapflake.trainer.policy import load_policy

    if base.weights != "random" or not base.training:
        raise ValueError("warm_start: the control has `weights: random` and the `training` of the run beside it")
    found: dict[str, Any] = {
        "model": base.model_dump(),
        "times": [row for row in _recorded_times(run) if row["stage"] == "warm_start"],
        "made": repro.to_json(study.made()),
    }
    checkpoint = run / "warm_start/checkpoint"
    if not checkpoint.is_dir():
        saves = checkpoint.with_name("checkpoint.unfinished").glob("**/trainer_state.json")
        newest = max(map(repro.read_json, saves), key=lambda state: state["global_step"])
        return found | {"warm start": {"curve": _losses(newest["log_history"])}}
    policy = load_policy(checkpoint, precision=base.training.precision)
    replies = _replies(policy, load_tasks(run / "env_design/validation.jsonl"), seed)
    return found | {"warm start": _supervised(policy, base, run, seed), "replies": {"before RL": replies}}


def _supervised(policy: Policy, base: BaseParams, run: Path, seed: int) -> dict[str, Any]:
    """Returns what a warm start took, its curve, and what it solves afterwards."""
    from mapflake.trainer.warmstart import encode_pairs

    assert base.training
    boards = run / "env_design"
    validation = load_tasks(boards / "validation.jsonl")
    pairs = base_pairs(base, boards, base.training.steps * base.training.batch_size)
    rows = encode_pairs(policy.tokenizer, pairs)
    found: dict[str, Any] = {
        "pairs": len(pairs),
        "tokens": sum(len(row["input_ids"]) for row in rows),
        "curve": _losses(repro.read_jsonl(run / "warm_start/checkpoint/curve.jsonl")),
        "parsed": {},
    }
    for decoding, options in {"greedy": {"temperature": 0.0}, "sampled": {"samples": 2}}.items():
        rolled = evaluate.rollout(policy, validation, seed=seed, progress=decoding, **options)  # type: ignore[arg-type]
        found[decoding] = repro.to_json(outcomes(rolled, validation))
        found["parsed"][decoding] = float(np.mean([one.plan is not None for one in rolled]))
    return found


def _replies(policy: Policy, validation: Sequence[Task], seed: int) -> list[dict[str, Any]]:
    """Returns what a policy writes greedily on a few boards: prompt, reply, and the rules that its plan breaks."""
    some = validation[:: len(validation) // SHOWN][:SHOWN]
    return [
        {
            "prompt": render_prompt(one.task.instance, prompt_format=one.prompt_format),
            "reply": storable(one.completion),
            "breaks": [violation.kind for violation in one.verdict.violations],
        }
        for one in evaluate.rollout(policy, some, temperature=0.0, seed=seed)
    ]


def _recorded_times(run: Path) -> list[dict[str, Any]]:
    return [row for path in sorted((run / "times").glob("*.jsonl")) for row in repro.read_jsonl(path)]


def _losses(log: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"step": row["step"], "loss": row["loss"]} for row in log if "loss" in row]


def _moved_by_a_rule(situations: Iterable[Any], sizes: Sequence[int], seed: int) -> float:
    """Returns how much of the data the half-solved rule sends elsewhere for a report with shuffled rows."""
    rule, apart = heuristic_expert(sizes), []
    for one in situations:
        ratios = []
        for control in ("current", "shuffled"):
            config = rule(*apply_control(one.report, one.history, control, seed=seed)).config  # type: ignore[arg-type]
            ratios.append(config.data_ratios if config else {})
        apart.append(total_variation(*ratios))
    return float(np.mean(apart))


# ---------------------------------------------------------------- the page


@dataclass(frozen=True)
class Training:
    """The records of a profile's training under one seed: from `measure`, of its cells, from `measure_control`."""

    profile: str
    seed: int
    record: Mapping[str, Any]
    study: Study
    control: Mapping[str, Any] | None


def load(cells: Path) -> Training:
    """Returns the records in a profile's folder of cells, of the first seed whose training was measured."""
    seed = min(int(path.stem) for path in (cells / "training").glob("*.json"))
    found, path = repro.read_json(cells / "training" / f"{seed}.json"), cells / "control" / f"{seed}.json"
    control = repro.read_json(path) if path.is_file() else None
    if control is None and found["warm start"].get("control"):  # as earlier records have it: the curve alone
        control = {"warm start": {"curve": found["warm start"]["control"]}}
    return Training(cells.name, seed, found, study.load(cells, seeds=[seed]), control)


def curve(record: Mapping[str, Any]) -> pd.DataFrame:
    """Returns a row a GRPO step, for `plots.curves`: steps are counted on from round 0, which the arms share."""
    rows = pd.DataFrame(record["rounds"])
    length = rows.groupby("round")["step"].max()
    rows["step"] += rows["round"].map(length.cumsum().shift(fill_value=0))
    first = rows[rows["round"] == 0]
    arms = rows[rows["round"] > 0]
    both = [pd.concat([first, own]).assign(arm=name(str(arm))) for arm, own in arms.groupby("arm", sort=False)]
    return pd.concat(both, ignore_index=True)


def losses(record: Mapping[str, Any], control: Mapping[str, Any] | None) -> pd.DataFrame:
    """Returns the curve of the warm start beside the control's, for `plots.curves`."""
    found = {"pretrained": record, "random weights": control}
    return pd.concat([pd.DataFrame(one["warm start"]["curve"]).assign(arm=name) for name, one in found.items() if one])


def markdown(training: Training, small: engineers.Records, *, pictures: str, level: int = 1) -> str:
    """Returns the page of a profile's training: results first, then time, curves, designs and what they depend on.

    Args:
        training: The profile's records.
        small: Records of design RL of another policy to stand beside: the small one of the default profile.
        pictures: Folder of the figures loss.png and grpo.png, as the page's links name it.
        level: Of the page's heading; the others are below it.
    """
    record, study, seed = training.record, training.study, training.seed
    start, steps, title = record["warm start"], pd.DataFrame(record["rounds"]), "#" * (level + 1)
    words = "our closed vocabulary in place of its own: a pretrained body, which reads no English and writes no JSON"
    asked = (
        words if record["model"]["prompt_format"] == "compact" else "its own vocabulary, and plans and designs are JSON"
    )
    parts = [
        "#" * (level - 1) + results_markdown(study, training.profile),
        f"The model is `{record['model']['base']}` with {asked}." if record["model"]["base"] else "",
        f"{title} Time and tokens",
        _times(record["times"]).to_markdown(disable_numparse=True),
        f"Supervised: {start['pairs']} demonstrations, {start['tokens']:,} tokens, each read once. GRPO: "
        f"{int(steps.groupby(['arm', 'round'])['tokens'].max().sum()):,} tokens of prompts and completions, in "
        f"{len(steps)} steps of all rounds. A stage that was interrupted counts its parts, unless it was killed.",
        f"{title} The supervised start",
        f"![loss]({pictures}/loss.png)",
        _loss_words(training),
        f"{title} Valid plans on the validation boards, temperature 1, percent",
        _by_size(study, seed).to_markdown(disable_numparse=True),
        _gains(study, seed),
        f"![GRPO]({pictures}/grpo.png)",
        f"{title} What it wrote on boards, greedily" if "replies" in record else "",
        _replies_said(training),
        f"{title} What the engineer wrote",
        _written(study, seed),
        f"{title} Whether it reads",
        _reading_table(record, small).to_markdown(disable_numparse=True),
        "Of each engineer: the share of replies that are accepted; what its designs are worth in the made-up situation "
        "that it was asked in (`own`), and in the others (`another's`); `moved` is the share of the data that goes "
        "elsewhere if the rows of the report belong to other sizes, with the same noise (total variation). The rule "
        "does as the report says, without noise. The small policy was asked about the sizes of its own profile; what "
        "its designs are worth is measured by another reward, in [results.md](results.md).",
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


HOW_TO_READ = (
    "Losses of two formats are not comparable: a token is a word of ours in one and a piece of text in the other. Nor "
    "are rates over all boards where the sizes differ; those of 3x3 and 4x4 are. What follows is each in full."
)


def beside(trainings: Sequence[Training]) -> pd.DataFrame:
    """Returns as text a column a profile, so that two formats of one model stand beside each other."""
    return pd.DataFrame({f"`{one.profile}`": _summary(one) for one in trainings}).fillna("")


def _summary(one: Training) -> dict[str, str]:
    record, study, start = one.record, one.study, one.record["warm start"]
    sets = study.sets["validation"]
    times = _times(record["times"])["CPU minutes"]
    found = {
        "format": record["model"]["prompt_format"],
        "board sizes": ", ".join(f"{size}x{size}" for size in sorted({*sets["size"]})),
        "demonstrations": f"{start['pairs']:,}",
        "tokens of these": f"{start['tokens']:,} ({start['tokens'] / start['pairs']:.0f} each)",
        "CPU minutes, supervised / all": f"{times['warm_start']} / {times['all']}",
        "last loss": f"{start['curve'][-1]['loss']:.2f} at step {start['curve'][-1]['step']}",
        "solved greedily": _solved(start["greedy"]),
    }
    if one.control:
        twin = one.control["warm start"]
        last = twin["curve"][-1]
        found["last loss, random weights"] = f"{last['loss']:.2f} at step {last['step']}"
        if "greedy" in twin:
            found["solved greedily, random weights"] = _solved(twin["greedy"])
            found["solved at temperature 1, random weights"] = _solved(twin["sampled"])
            found["plans that parse at temperature 1, random weights"] = f"{twin['parsed']['sampled']:.1%}"
    if "parsed" in start:
        found["plans that parse at temperature 1"] = f"{start['parsed']['sampled']:.1%}"
    for title, rates in _by_size(study, one.seed).iterrows():
        small = ", ".join(f"{size} {rates[size]}" for size in ("3x3", "4x4"))
        found[f"solved at temperature 1, percent: {title}"] = f"{rates['all']} ({small})"
    accepted, drawn = _accepted(study, one.seed)
    found["designs accepted in the loop"] = f"{accepted} of {drawn}"
    for stage, measured in record["reading"].items():
        other = measured["another's"]
        found[f"designs accepted in made-up situations, {stage}"] = f"{measured['accepted']:.1%}"
        found[f"worth of a design, {stage}: own / another's"] = f"{measured['own']:.3f} / {other:.3f}"
        found[f"moved by shuffled tables, {stage}"] = _or_none(measured["moved"])
    return found


def _solved(given: Mapping[str, Any]) -> str:
    """Returns the share of answers that are valid, with their number."""
    digits = np.frombuffer(given["valid"].encode(), np.uint8) - ord("0")
    answers = len(digits) * given["samples"]
    return f"{digits.sum() / answers:.1%} of {answers}"


def _or_none(value: float | None) -> str:
    return "none to compare" if value is None else f"{value:.3f}"


def _times(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    found = pd.DataFrame(rows).groupby("stage", sort=False)[["cpu_seconds", "seconds"]].sum() / 60
    found.loc["all"] = found.sum()
    return found.map("{:.0f}".format).rename(columns={"cpu_seconds": "CPU minutes", "seconds": "minutes"})


def _loss_words(training: Training) -> str:
    start, control = training.record["warm start"], training.control
    said = f"Its loss, a token of the completion, ends at {start['curve'][-1]['loss']:.2f}"
    solved = f"After it {_solved(start['greedy'])} validation boards are solved greedily"
    if not control:
        return f"{said}.\n\n{solved}."
    twin, own = control["warm start"], {row["step"]: row["loss"] for row in start["curve"]}
    steps = [row for row in twin["curve"] if row["step"] in own]
    some = steps[:: max(1, len(steps) // 4)] + steps[-1:]
    pairs = {row["step"]: f"{own[row['step']]:.2f} against {row['loss']:.2f} at step {row['step']}" for row in some}
    said = f"{said}. Against random weights of the same shape, all else equal: {', '.join(pairs.values())}.\n\n{solved}"
    if "greedy" not in twin:
        return f"{said}. The twin was stopped at step {twin['curve'][-1]['step']}, and what it solves was not counted."
    return (
        f"{said}, with random weights {_solved(twin['greedy'])}; at temperature 1 these solve "
        f"{_solved(twin['sampled'])} answers, and {twin['parsed']['sampled']:.1%} of their plans parse."
    )


def _replies_said(training: Training) -> str:
    """Returns recorded replies: of each board the prompt, then what each model wrote."""
    found = dict(training.record.get("replies", {}))
    if training.control and "replies" in training.control:
        found["random weights"] = training.control["replies"]["before RL"]
    lines = []
    for i, one in enumerate(next(iter(found.values()), [])):
        lines += ["~~~text", one["prompt"], "~~~", ""]
        for stage, replies in found.items():
            breaks = ", ".join(dict.fromkeys(replies[i]["breaks"])) or "nothing"
            lines += [f"{stage}, breaks {breaks}:", "", "~~~text", replies[i]["reply"][:QUOTED], "~~~", ""]
    return "\n".join(lines)


def _by_size(study: Study, seed: int) -> pd.DataFrame:
    sizes = study.sets["validation"].drop_duplicates("board").set_index("board")["size"]
    rows = {}
    for arm in (BASE, ROUND_0, "fixed", "engineer"):
        for i, index in enumerate(study.measured_rounds(arm)):
            rates = study.rates(arm, "valid", "validation", index=i).loc[seed]
            of = rates.groupby(sizes.loc[rates.index].to_numpy()).mean()
            title = name(arm) if index < 1 else f"{name(arm)}, round {index}"
            rows[title] = {"all": rates.mean()} | {f"{size}x{size}": rate for size, rate in of.items()}
    return (100 * pd.DataFrame(rows).T).map("{:.1f}".format)


def _gains(study: Study, seed: int) -> str:
    """Returns the differences over boards in words; they are about these policies, not about other runs."""
    said = []
    for arm, other in (("fixed", BASE), ("engineer", BASE), ("engineer", "fixed")):
        for metric in METRICS[:2]:
            own, theirs = (study.rates(one, metric, "validation").loc[seed] for one in (arm, other))
            apart = 100 * (own - theirs)
            mean, low, high = engineers.interval(apart.tolist())
            said.append(f"- *{name(arm)}* against *{name(other)}*, {metric}: {mean:+.1f} ({low:+.1f} to {high:+.1f})")
    return "Differences in points after the last round, with 95% intervals over boards:\n\n" + "\n".join(said)


def _written(study: Study, seed: int) -> str:
    lines = []
    for one in study.history("engineer", seed)[1:]:
        assert one.proposal is not None
        lines += [f"Round {one.index}:", "", "~~~text", *(text[:QUOTED] for text in one.proposal.replies), "~~~", ""]
    accepted, drawn = _accepted(study, seed)
    return "\n".join([*lines, f"{accepted} of {drawn} replies are accepted; the first of a round that is counts."])


def _accepted(study: Study, seed: int) -> tuple[int, int]:
    """Returns how many of the engineer's replies are designs, and how many there are."""
    legal = []
    for one in study.history("engineer", seed)[1:]:
        assert one.proposal is not None
        form = one.proposal.prompt_format or "json"
        legal += [read_reply(text, one.proposal.sizes, form).config is not None for text in one.proposal.replies]
    return sum(legal), len(legal)


def _reading_table(record: Mapping[str, Any], small: engineers.Records) -> pd.DataFrame:
    rows = {f"this model, {stage}": dict(measured) for stage, measured in record["reading"].items()}
    found = engineers.readings(small)
    if not found.empty:
        unseen = found[found["situations"] == "made up, unseen"]
        for stage, group in unseen.groupby("engineer", sort=False):
            rows[f"the small policy, {stage}"] = group[["accepted", "moved"]].mean().to_dict()  # its reward is another
    rows["half-solved rule"] = {"moved": record["moved by a rule"]}
    columns = ["accepted", "own", "another's", "moved"]
    return pd.DataFrame(rows).T[columns].map(lambda value: "" if pd.isna(value) else f"{value:.3f}")


# ---------------------------------------------------------------- commands


def record(base: Path, what: str) -> None:
    """Writes the record of the active run's training, or of its warm start as a control, of its first seed."""
    run = params.load(base).run
    start = BaseParams.parse(params.prepared(base, "warm_start"), "warm_start")
    folder, seed = base / "runs" / run.profile, run.seeds[0]
    if what == "control":
        found = measure_control(folder, start, seed=seed)
    else:
        asked = EngineerParams.parse(params.prepared(base, "engineer_loop")["engineer"], "engineer")
        found = measure(folder, start, asked, seed=seed)
    repro.write_json(base / REPORTS / "cells" / run.profile / what / f"{seed}.json", found)


def page(base: Path, profiles: Sequence[str]) -> None:
    """Writes reports/<first profile>.md, and each profile's figures, of the committed records of their training."""
    found = [load(base / REPORTS / "cells" / profile) for profile in profiles]
    small, parts, several = engineers.load(base / REPORTS / "cells/default"), [], len(found) > 1
    if several:
        parts = [
            f"# Training of {' and '.join(profiles)}",
            beside(found).to_markdown(disable_numparse=True),
            HOW_TO_READ,
        ]
    for one in found:
        out, steps = base / REPORTS / one.profile, curve(one.record)
        of = losses(one.record, one.control)
        plots.show(plots.curves(of, metrics=["loss"], xlabel="step of the warm start"), out / "loss.png")
        starts = steps.groupby("round")["step"].min().tolist()[1:]
        metrics = ["valid", "optimal", "entropy", "kl"]
        plots.show(plots.curves(steps, metrics=metrics, smooth=3, boundaries=starts), out / "grpo.png")
        parts.append(markdown(one, small, pictures=one.profile, level=1 + several))
    repro.write_text(base / REPORTS / f"{profiles[0]}.md", "\n\n".join(part.strip() for part in parts) + "\n")


def main() -> None:
    """Runs one command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description="What a run's training took.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("record", help="record the active run's training: time, tokens, curves, reading")
    commands.add_parser("control", help="record the active run's warm start with `weights: random`, a control")
    written = commands.add_parser("page", help="write reports/<profile>.md from the records of profiles' training")
    written.add_argument("profiles", nargs="+", metavar="profile")
    chosen = parser.parse_args()
    if chosen.command == "page":
        page(root(), chosen.profiles)
    else:
        record(root(), {"record": "training"}.get(chosen.command, chosen.command))


if __name__ == "__main__":
    main()
