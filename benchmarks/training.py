"""The training of a profile's model, with the records of its cells: time, tokens, curves, whether it reads.

For a model that others trained, of which one asks what the whole method cost and what it learned where. `measure` reads
a run of one training seed, as far as it has come, and asks its checkpoints once more; `training_page` says what records
hold, and what has not been run. The page has no number that is not in a committed record. Not covered: several seeds.

    python -m benchmarks.training record          writes reports/cells/<profile>/training/<seed>.json
    python -m benchmarks.training control         the same for a warm start with `weights: random`: control/<seed>.json
    python -m benchmarks.training page llm        writes reports/llm.md and its figures
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.training_page import page
from mapflake import repro, study
from mapflake.engineer import EngineerParams, Grpo, Ledger, build_prompt, read_reply, reading
from mapflake.engineer.actions import reply_format
from mapflake.engineer.boards import sample_boards
from mapflake.engineer.compact.base import BaseParams, StudentParams, base_pairs
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.engineer.designers.llm import apply_control
from mapflake.engineer.designers.rules import heuristic_expert
from mapflake.engineer.report import storable
from mapflake.engineer.situations import Situation
from mapflake.env import Task, load_tasks, naive_plan_fails, render_prompt
from mapflake.env.config import total_variation
from mapflake.nb import params
from mapflake.nb.folders import REPORTS, root, student
from mapflake.study.records import outcomes
from mapflake.trainer import evaluate
from mapflake.trainer.params import RLParams

if TYPE_CHECKING:
    from mapflake.trainer.policy import Policy

SHOWN = 4  # boards whose replies are recorded
CURVE = {
    "rewards/valid/mean": "valid",
    "rewards/optimal/mean": "optimal",
    "frac_reward_zero_std": "groups_without_signal",
    "entropy": "entropy",
    "kl": "kl",
    "num_tokens": "tokens",
}
"""Column of a GRPO curve -> its name here; tokens are counted from the beginning of the round."""


def measure(
    run: Path, base: BaseParams, students: StudentParams, trainer: Grpo, asked: EngineerParams, *, seed: int
) -> dict[str, Any]:
    """Returns the record of a run's training, as JSON values: of all rounds that there are, which may be none.

    Args:
        run: `runs/<profile>`, with the student of the seed.
        base: How its model before RL was made.
        students: How the student of the seed was taught on.
        trainer: The training of its rounds, which says how its policies sample.
        asked: How it was asked for designs.
        seed: Training seed.
    """
    from mapflake.trainer.policy import Policy

    boards, start = run / "env_design", student(str(run), f"student/{seed}")
    settings, validation = repro.read_json(boards / "settings.json"), load_tasks(boards / "validation.jsonl")
    sizes = settings["sizes"]
    stages = ("baseline_rl", "engineer_loop")
    rounds = [one for stage in stages for one in Ledger(run / stage / str(seed) / "rounds.jsonl").rounds]
    steps = [
        {"arm": one.arm, "round": one.index, "step": step["step"]}
        | {ours: step[theirs] for theirs, ours in CURVE.items() if theirs in step}
        for one in rounds
        for step in repro.read_jsonl(one.checkpoint / "curve.jsonl")
    ]
    known: dict[str, Any] = {"seed": repro.seed_for(seed, "unseen"), "reported": settings["validated"]}
    situations = [made_up(i, sizes, **known) for i in range(len(validation) // 4)]
    reads, replies, warm_start, designed = {}, {}, {}, {}
    for stage, checkpoint in {"before RL": start, **({"after RL": rounds[-1].checkpoint} if rounds else {})}.items():
        policy = trainer.load(checkpoint)
        assert isinstance(policy, Policy)
        options: dict[str, Any] = {"variant": asked.variant, "max_new_tokens": asked.max_new_tokens, "seed": seed}
        found = reading.reading(policy, situations, sizes, **options)
        reads[stage] = {name: None if np.isnan(value) else value for name, value in found.items()}
        replies[stage] = _replies(policy, validation, seed)
        designed = _designed(policy, situations[0], sizes, asked, seed)
        if checkpoint == start and base.training:
            warm_start = _supervised(policy, base, run, seed, students)
    return {
        "model": base.model_dump(),
        "times": _recorded_times(run),
        "warm start": warm_start,
        "rounds": steps,
        "reading": reads,
        "replies": replies,
        "designed": designed,
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


def _supervised(
    policy: Policy, base: BaseParams, run: Path, seed: int, students: StudentParams | None = None
) -> dict[str, Any]:
    """Returns what the supervised start took, a student's lessons included, its curve, and what it solves afterwards.

    The digits of `careless` say which boards the careless plan solves, which ignores holes and the other agent.
    """
    from mapflake.trainer.warmstart import encode_pairs

    assert base.training
    boards, pairs = run / "env_design", 0
    validation = load_tasks(boards / "validation.jsonl")
    curve, tokens = _losses(repro.read_jsonl(run / "warm_start/checkpoint/curve.jsonl")), 0
    parts = [(base, base.training.steps * base.training.batch_size)]
    if students and students.age(seed):
        recipe = students.training or base.training
        taught = {"engineer_share": students.engineer_share, "seed": repro.seed_for(base.seed, "student", seed)}
        parts.append((base.model_copy(update=taught), students.age(seed) * recipe.batch_size))
        more = _losses(repro.read_jsonl(run / f"student/{seed}/checkpoint/curve.jsonl"))
        curve += [row | {"step": base.training.steps + row["step"]} for row in more]
    for params_, count in parts:
        rows = encode_pairs(policy.tokenizer, base_pairs(params_, boards, count))
        pairs, tokens = pairs + len(rows), tokens + sum(len(row["input_ids"]) for row in rows)
    careless = "".join(str(int(not naive_plan_fails(task.instance))) for task in validation)
    found: dict[str, Any] = {"pairs": pairs, "tokens": tokens, "curve": curve, "careless": careless, "parsed": {}}
    for decoding, options in {"greedy": {"temperature": 0.0}, "sampled": {"samples": 2}}.items():
        rolled = evaluate.rollout(policy, validation, seed=seed, progress=decoding, **options)  # type: ignore[arg-type]
        found[decoding] = repro.to_json(outcomes(rolled, validation))
        found["parsed"][decoding] = float(np.mean([one.plan is not None for one in rolled]))
    return found


def _designed(
    policy: Policy, situation: Situation, sizes: Sequence[int], asked: EngineerParams, seed: int
) -> dict[str, Any]:
    """Returns one question to the engineer with its reply, and three boards of what it asks for."""
    form = reply_format(policy.prompt_format)
    prompt = build_prompt(situation.report, situation.history, sizes, variant=asked.variant, prompt_format=form)
    ((reply,),) = policy.complete([prompt], max_new_tokens=asked.max_new_tokens or 1024, seed=seed)
    proposal = read_reply(reply, sizes, form)
    drawn = sample_boards(proposal.config, 3, seed=seed)[0] if proposal.config else []
    return {
        "prompt": prompt,
        "reply": storable(reply),
        "rejection": proposal.rejection,
        "boards": [task.instance.to_text() for task in drawn],
    }


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


# ---------------------------------------------------------------- commands


def record(base: Path, what: str) -> None:
    """Writes the record of the active run's training, or of its warm start as a control, of its first seed."""
    run = params.load(base).run
    given = params.prepared(base, "baseline_rl")
    start = BaseParams.parse(given["warm_start"], "warm_start")
    students = StudentParams.parse(given["students"], "students")
    folder, seed = base / "runs" / run.profile, run.seeds[0]
    if what == "control":
        found = measure_control(folder, start, seed=seed)
    else:
        asked = EngineerParams.parse(params.prepared(base, "engineer_loop")["engineer"], "engineer")
        found = measure(folder, start, students, Grpo(RLParams.parse(given["rl"], "rl")), asked, seed=seed)
    repro.write_json(base / REPORTS / "cells" / run.profile / what / f"{seed}.json", found)


def main() -> None:
    """Runs one command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.training", description="What a run's training took.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("record", help="record the active run's training: time, tokens, curves, reading")
    commands.add_parser("control", help="record the active run's warm start with `weights: random`, a control")
    written = commands.add_parser("page", help="write reports/<profile>.md from the records of a profile's training")
    written.add_argument("profile")
    chosen = parser.parse_args()
    if chosen.command == "page":
        page(root(), chosen.profile)
    else:
        record(root(), {"record": "training"}.get(chosen.command, chosen.command))


if __name__ == "__main__":
    main()
