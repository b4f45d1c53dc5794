"""The training of a profile's model, beside the records of its cells: time, tokens, curves, whether it reads.

For a model that others trained, of which one asks what the whole method cost and what it learned where. `measure` reads
a finished run of one training seed and asks its checkpoints once more; `markdown` says what records hold. The page has
no number that is not in a committed record. Not covered: several seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mapflake import repro
from mapflake.engineer import EngineerParams, Grpo, Ledger, read_reply, reading
from mapflake.engineer.compact.base import BaseParams, base_pairs
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.engineer.designers.llm import apply_control
from mapflake.engineer.designers.rules import heuristic_expert
from mapflake.env import load_tasks
from mapflake.env.config import total_variation
from mapflake.study import engineers
from mapflake.study.names import BASE, METRICS, ROUND_0, name
from mapflake.study.records import Study, made, outcomes
from mapflake.study.report import measured_rounds, results_markdown
from mapflake.trainer import evaluate
from mapflake.trainer.params import RLParams

REWARD = "learnability"
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
    run: Path, base: BaseParams, asked: EngineerParams, *, seed: int, control: Path | None = None
) -> dict[str, Any]:
    """Returns the record of a run's training, as JSON values.

    Args:
        run: `runs/<profile>`, with its stages up to `engineer_loop`.
        base: How its model before RL was made.
        asked: How it was asked for designs.
        seed: Training seed.
        control: A save of another warm start, with random weights and all else equal; None: there is none.
    """
    from mapflake.trainer.policy import Policy
    from mapflake.trainer.warmstart import encode_pairs

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
    situations = [made_up(i, sizes, seed=repro.seed_for(seed, "unseen")) for i in range(len(validation) // 2)]
    reads, warm_start = {}, {}
    for stage, checkpoint in {"before RL": start, "after RL": rounds[-1].checkpoint}.items():
        policy = trainer.load(checkpoint)
        assert isinstance(policy, Policy)
        options: dict[str, Any] = {"variant": asked.variant, "max_new_tokens": asked.max_new_tokens, "seed": seed}
        reads[stage] = reading.reading(policy, situations, sizes, REWARD, **options)
        if checkpoint == start and base.training:
            pairs = base_pairs(base, boards, base.training.steps * base.training.batch_size)
            rows = encode_pairs(policy.tokenizer, pairs)
            greedy = evaluate.rollout(policy, validation, temperature=0.0, seed=seed, progress="greedy")
            warm_start = {
                "pairs": len(pairs),
                "tokens": sum(len(row["input_ids"]) for row in rows),
                "curve": _losses(repro.read_jsonl(start / "curve.jsonl")),
                "control": _losses(repro.read_json(control / "trainer_state.json")["log_history"]) if control else [],
                "greedy": repro.to_json(outcomes(greedy, validation)),
            }
    return {
        "model": {"base": base.base, "prompt_format": base.prompt_format, "weights": base.weights},
        "times": [row for path in sorted((run / "times").glob("*.jsonl")) for row in repro.read_jsonl(path)],
        "warm start": warm_start,
        "rounds": steps,
        "reading": reads,
        "moved by a rule": _moved_by_a_rule(situations, sizes, seed),
        "made": repro.to_json(made()),
    }


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


def curve(record: Mapping[str, Any]) -> pd.DataFrame:
    """Returns a row a GRPO step, for `plots.curves`: steps are counted on from round 0, which the arms share."""
    rows = pd.DataFrame(record["rounds"])
    length = rows.groupby("round")["step"].max()
    rows["step"] += rows["round"].map(length.cumsum().shift(fill_value=0))
    first = rows[rows["round"] == 0]
    arms = rows[rows["round"] > 0]
    both = [pd.concat([first, own]).assign(arm=name(str(arm))) for arm, own in arms.groupby("arm", sort=False)]
    return pd.concat(both, ignore_index=True)


def losses(record: Mapping[str, Any]) -> pd.DataFrame:
    """Returns the curve of the warm start beside the control's, for `plots.curves`."""
    found = {"pretrained": record["warm start"]["curve"], "random weights": record["warm start"]["control"]}
    return pd.concat([pd.DataFrame(rows).assign(arm=which) for which, rows in found.items() if rows])


def markdown(
    record: Mapping[str, Any], study: Study, profile: str, small: engineers.Records, *, seed: int, pictures: str
) -> str:
    """Returns the page of a profile's training: results first, then time, curves, designs and what they depend on.

    Args:
        record: From `measure`.
        study: The profile's cells.
        profile: Its name.
        small: Records of design RL of another policy to stand beside: the small one of the default profile.
        seed: Training seed of the record.
        pictures: Folder of the figures loss.png and grpo.png, as the page's links name it.
    """
    start, steps = record["warm start"], pd.DataFrame(record["rounds"])
    solved = np.frombuffer(start["greedy"]["valid"].encode(), np.uint8) - ord("0")
    words = "our closed vocabulary in place of its own: a pretrained body, which reads no English and writes no JSON"
    asked = words if record["model"]["prompt_format"] == "compact" else "its own vocabulary"
    parts = [
        results_markdown(study, profile),
        f"The model is `{record['model']['base']}` with {asked}." if record["model"]["base"] else "",
        "## Time and tokens",
        _times(record["times"]).to_markdown(disable_numparse=True),
        f"Supervised: {start['pairs']} demonstrations, {start['tokens']:,} tokens, each read once. GRPO: "
        f"{int(steps.groupby(['arm', 'round'])['tokens'].max().sum()):,} tokens of prompts and completions, in "
        f"{len(steps)} steps of all rounds. A stage that was interrupted counts its parts, unless it was killed.",
        "## The supervised start",
        f"![loss]({pictures}/loss.png)",
        _loss_words(start),
        f"After it {solved.mean():.1%} of {len(solved)} validation boards are solved greedily.",
        "## Valid plans on the validation boards, temperature 1, percent",
        _by_size(study, seed).to_markdown(disable_numparse=True),
        _gains(study, seed),
        f"![GRPO]({pictures}/grpo.png)",
        "## What the engineer wrote",
        _written(study, seed),
        "## Whether it reads",
        _reading_table(record, small).to_markdown(disable_numparse=True),
        "Of each engineer: the share of replies that are accepted; what its designs are worth in the made-up situation "
        "that it was asked in (`own`), and in the others (`another's`); `moved` is the share of the data that goes "
        "elsewhere if the rows of the report belong to other sizes, with the same noise. The rule does as the report "
        "says, without noise. The small policy was asked about other sizes, those of its own profile.",
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _times(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    found = pd.DataFrame(rows).groupby("stage", sort=False)[["cpu_seconds", "seconds"]].sum() / 60
    found.loc["all"] = found.sum()
    return found.map("{:.0f}".format).rename(columns={"cpu_seconds": "CPU minutes", "seconds": "minutes"})


def _loss_words(start: Mapping[str, Any]) -> str:
    own = {row["step"]: row["loss"] for row in start["curve"]}
    said = f"Its loss, a token of the completion, ends at {start['curve'][-1]['loss']:.2f}."
    beside = [f"{row['loss']:.2f} against {own[row['step']]:.2f}" for row in start["control"] if row["step"] in own]
    if beside:
        last = start["control"][-1]["step"]
        said += f" With random weights, all else equal, up to step {last}: {', '.join(beside)} with its own."
    return said


def _by_size(study: Study, seed: int) -> pd.DataFrame:
    sizes = study.sets["validation"].drop_duplicates("board").set_index("board")["size"]
    rows = {}
    for arm in (BASE, ROUND_0, "fixed", "engineer"):
        for i, index in enumerate(measured_rounds(study, arm)):
            rates = study.validation(arm, "valid", i).loc[seed]
            of = rates.groupby(sizes.loc[rates.index].to_numpy()).mean()
            title = name(arm) if index < 1 else f"{name(arm)}, round {index}"
            rows[title] = {"all": rates.mean()} | {f"{size}x{size}": rate for size, rate in of.items()}
    return (100 * pd.DataFrame(rows).T).map("{:.1f}".format)


def _gains(study: Study, seed: int) -> str:
    """Returns the differences over boards in words; they are about these policies, not about other runs."""
    said = []
    for arm, other in (("fixed", BASE), ("engineer", BASE), ("engineer", "fixed")):
        for metric in METRICS[:2]:
            apart = 100 * (study.validation(arm, metric).loc[seed] - study.validation(other, metric).loc[seed])
            mean, low, high = engineers.interval(apart.tolist())
            said.append(f"- *{name(arm)}* against *{name(other)}*, {metric}: {mean:+.1f} ({low:+.1f} to {high:+.1f})")
    return "Differences in points after the last round, with 95% intervals over boards:\n\n" + "\n".join(said)


def _written(study: Study, seed: int) -> str:
    lines, accepted, drawn = [], 0, 0
    for one in study.history("engineer", seed)[1:]:
        proposal = one.proposal
        assert proposal is not None
        form = proposal.prompt_format or "json"
        legal = [read_reply(text, proposal.sizes, form).config is not None for text in proposal.replies]
        accepted, drawn = accepted + sum(legal), drawn + len(legal)
        lines += [f"Round {one.index}:", "", "```text", *proposal.replies, "```", ""]
    return "\n".join([*lines, f"{accepted} of {drawn} replies are accepted; the first of a round that is counts."])


def _reading_table(record: Mapping[str, Any], small: engineers.Records) -> pd.DataFrame:
    rows = {f"this model, {stage}": dict(measured) for stage, measured in record["reading"].items()}
    found = engineers.readings(small)
    if not found.empty:
        unseen = found[found["situations"] == "made up, unseen"]
        for stage, group in unseen.groupby("engineer", sort=False):
            rows[f"the small policy, {stage}"] = group.drop(columns=["seed", "situations", "engineer"]).mean().to_dict()
    rows["half-solved rule"] = {"moved": record["moved by a rule"]}
    columns = ["accepted", "own", "another's", "moved"]
    return pd.DataFrame(rows).T[columns].map(lambda value: "" if pd.isna(value) else f"{value:.3f}")
