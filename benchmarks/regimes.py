"""Pilots of regimes: in which laboratory does the choice of boards matter, asked before a study is paid for.

A regime is the default profile with one thing changed. The criterion was named before the first run (reports/log.md):
how far the best arm is ahead of the mean of two fixed draws, in standard deviations of that over pilot seeds.

    python -m benchmarks.regimes run weak 0    trains the arms of a regime under a seed, on the boards in runs/default
    python -m benchmarks.regimes page          writes reports/regimes.md of reports/regimes.jsonl
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mapflake import env, repro
from mapflake.engineer import FailureReport, Grpo, Proposal, RoundSettings, Start, run_arm, run_round
from mapflake.engineer.compact.base import base_model
from mapflake.engineer.designers.rules import random_config
from mapflake.engineer.ledger import Designer, History
from mapflake.engineer.situations import TableParams, measure
from mapflake.env import EnvConfig
from mapflake.nb import params
from mapflake.nb.folders import REPORTS, root
from mapflake.study.names import BASE, ROUND_0, name
from mapflake.study.records import code_sha256
from mapflake.trainer import evaluate

WEAK: dict[str, Any] = {"warm_start": {"training": {"steps": 800}}}
REGIMES: dict[str, dict[str, Any]] = {
    "default": {},
    "few": {},  # of the demonstrations: see `_few`
    "weak": WEAK,
    "steps20": {"baseline_rl": {"rl": {"instances": 640}}},
    "far": {"warm_start": {"training": {"steps": 3000}}},
    "anneal20": {"baseline_rl": {"rl": {"instances": 640, "schedule": "linear"}}},
    "weak6": WEAK | {"baseline_rl": {"rounds": 6}},
}
"""Name -> what differs from the parameters of the default profile."""

DRAWS, RIVALS = ("fixed", "fixed_draw_2"), ("learnability", "frontier")
ARMS = (BASE, ROUND_0, *DRAWS, *RIVALS)
SAMPLES = 8  # answers a board
HOLES = 0.1  # of the boards that `frontier` asks for
FRONTIER = 0.8  # share of the best size's worth from which it takes a size
EVALUATIONS = {"boards of all sizes": range(3, 9), "boards of 5x5 to 7x7": range(5, 8)}


def run(regime: str, seed: int, folder: Path, records: Path) -> None:
    """Trains what is missing of a regime under a seed, and adds a line for each arm to `records`.

    Args:
        regime: One of `REGIMES`.
        seed: Training seed.
        folder: Of all regimes; a round that is there is not trained again.
        records: A file of JSON lines.
    """
    here = params.load(root())
    sections = params.effective(here.model_copy(update={"profiles": {regime: REGIMES[regime]}}), regime)
    sizes, own = sections.env_design.sizes, folder / regime
    boards = root() / "runs/default/env_design"
    validation = env.load_tasks(boards / "validation.jsonl")
    if regime == "few":
        boards = _few(boards, own / "env_design")
    start = base_model(sections.warm_start, boards, own)
    trainer, rounds = Grpo(sections.baseline_rl.rl), sections.baseline_rl.rounds

    def settings(arm: str) -> RoundSettings:
        return RoundSettings(own / f"{arm}-{seed}", trainer, validation, seed, 2, arm=arm, stale="replace")

    def record(arm: str, checkpoint: str | Path, history: History) -> None:
        rows = evaluate.frame(
            evaluate.rollout(trainer.load(checkpoint), validation, samples=SAMPLES, seed=repro.seed_for(seed, "pilot"))
        )
        repro.append_jsonl(
            records,
            {
                "regime": regime,
                "seed": seed,
                "arm": arm,
                "code_sha256": code_sha256(),
                "by_size": {
                    size: round(100 * share, 1) for size, share in rows.groupby("size")["valid"].mean().items()
                },
                "rounds": [round(100 * one.metrics["valid"], 1) for one in history],
                "asked": [{size: round(share, 2) for size, share in one.config.data_ratios.items()} for one in history],
            },
        )

    done = {row["arm"] for row in read(records) if (row["regime"], row["seed"]) == (regime, seed)}
    begin = Start(start, random_config(sizes, repro.rng_for(seed, "round 0")))
    first = (run_round(settings(ROUND_0), (), start=begin),)
    if BASE not in done:
        record(BASE, start, ())
    if ROUND_0 not in done:
        record(ROUND_0, first[-1].checkpoint, first)
    for arm in [arm for arm in (*DRAWS, *RIVALS) if arm not in done]:
        history: History = first
        if arm == "frontier":
            designer = frontier(trainer, sizes, seed)
            for _ in range(rounds):
                history = (*history, run_round(settings(arm), history, designer))
        else:
            history = run_arm(arm, settings(arm), first, rounds=rounds, sizes=sizes)
        record(arm, history[-1].checkpoint, history)


def frontier(trainer: Grpo, sizes: Sequence[int], seed: int) -> Designer:
    """Returns a designer that measures in place of reading: natural boards of sizes whose `transfer` is near the best.

    A yardstick: what it measures is charged to nobody, and no arm of a study is given it.
    """

    def designer(_: FailureReport, history: History) -> Proposal:
        policy, own = trainer.load(history[-1].checkpoint), repro.seed_for(seed, "frontier", len(history))
        table = measure(policy, sizes, TableParams(boards=8, samples=4), seed=own)["transfer"]
        worth = {size: table.mean(EnvConfig.uniform([size], HOLES, None)) for size in sizes}
        near = [size for size in sizes if worth[size] >= FRONTIER * max(worth.values())]
        return Proposal(reply="frontier", rejection=None, config=EnvConfig.uniform(near, HOLES, None))

    return designer


def _few(boards: Path, folder: Path) -> Path:
    """Returns a folder with the demonstrations of another but for boards of 5x5 and larger that have holes."""
    solved = env.load_tasks(boards / "demonstrations.jsonl")
    some = [task for task in solved if task.instance.size < 5 or not task.instance.holes]
    env.save_tasks(folder / "demonstrations.jsonl", some)
    repro.write_json(folder / "settings.json", repro.read_json(boards / "settings.json"))
    return folder


def table(rows: Sequence[Mapping[str, Any]], sizes: Iterable[int]) -> pd.DataFrame:
    """Returns the means of arms over seeds, in percent, and the criterion; a row for each regime that was run.

    Columns beside the arms: `best`, the rival with the larger mean; `ahead`, its points over the mean of the draws;
    `deviation` of that over seeds; `criterion`, their ratio; `gain` of the best over the model before RL.

    Args:
        rows: Records of `run`.
        sizes: The board sizes.
    """
    found = {}
    for regime in dict.fromkeys(row["regime"] for row in rows):
        valid = [
            {"seed": row["seed"], "arm": row["arm"], "valid": np.mean([row["by_size"][str(n)] for n in sizes])}
            for row in rows
            if row["regime"] == regime
        ]
        arms = pd.DataFrame(valid).pivot(index="seed", columns="arm", values="valid").reindex(columns=ARMS)
        best = arms[[*RIVALS]].mean().idxmax()
        ahead = arms[best] - arms[[*DRAWS]].mean(axis=1, skipna=False)
        spread = ahead.std()
        more = {"best": name(best), "ahead": ahead.mean(), "deviation": spread, "criterion": ahead.mean() / spread}
        found[regime] = arms.mean().rename(name).to_dict() | more | {"gain": arms[best].mean() - arms[BASE].mean()}
    return pd.DataFrame(found).T


def chosen(found: pd.DataFrame) -> list[str]:
    """Returns the regimes whose criterion is larger than the default's, and whose gain is not smaller."""
    own = found.loc["default"]
    return [*found.index[(found["criterion"] > own["criterion"]) & (found["gain"] >= own["gain"])]]


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns reports/regimes.md of the records of `run`."""
    seeds = sorted({row["seed"] for row in rows})
    parts = [
        "# Regimes, held against each other",
        "Pilots, of which `python -m benchmarks.regimes` runs more: valid plans in percent, means over the pilot "
        f"seeds {', '.join(map(str, seeds))}, {SAMPLES} answers to each validation board. *frontier* measures the "
        "policy before each round and asks for the sizes that teach most: a yardstick, no arm of a study. A regime "
        "with a larger criterion than the default's and at least its gain would be the next study's; what was written "
        "down before which run is in [log.md](log.md).",
        "*weak* has a warm start of 800 steps in place of 1,500, *far* of 3,000; *few* no demonstrations of 5x5 and "
        "larger with holes; *steps20* 20 steps a round in place of 10; *anneal20* these with a learning rate that "
        "falls to zero; *weak6* is *weak* with six designed rounds in place of two.",
    ]
    for title, sizes in EVALUATIONS.items():
        found = table(rows, sizes)
        shown = found.map(lambda value: value if isinstance(value, str) else f"{value:.1f}".replace("nan", ""))
        parts += [f"## {title}", shown.to_markdown(disable_numparse=True)]
        parts.append(f"By the rule: {', '.join(f'*{one}*' for one in chosen(found)) or 'none'}.")
    return "\n\n".join(parts) + "\n"


def read(records: Path) -> list[dict[str, Any]]:
    """Returns the lines of a file of records; none if it is not there."""
    return repro.read_jsonl(records) if records.is_file() else []


def main() -> None:
    """Runs one of the commands above."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.regimes", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("run", help="trains the arms of a regime")
    command.add_argument("regime", choices=REGIMES)
    command.add_argument("seed", type=int)
    commands.add_parser("page", help="writes the page")
    given, reports = parser.parse_args(), root() / REPORTS
    if given.command == "run":
        run(given.regime, given.seed, root() / "runs/regimes", reports / "regimes.jsonl")
    else:
        repro.write_text(reports / "regimes.md", page(read(reports / "regimes.jsonl")))


if __name__ == "__main__":
    main()
