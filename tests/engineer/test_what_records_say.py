"""A record says what its arm was run with: each kind of arm against its ledger, and every published record."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from engineer_samples import ScriptedTrainer
from on_record import disagreements

from mapflake import repro, study
from mapflake.engineer import EngineerParams, History, Ledger, RoundSettings, Start, run_arm, run_round
from mapflake.env import EnvConfig, generate, save_tasks

PUBLISHED = sorted(Path(__file__).parents[2].glob("reports/cells/*/*-*.json"))
SIZES = (3, 4)
TASKS = generate(EnvConfig.uniform(SIZES, 0.15), 4, seed=1, split="validation")
FIRST = EnvConfig.uniform(SIZES, 0.2, 0.25)
REPLIES = ["no", "size3 p50 p10 p50 size4 p50 p00 any end"]
PROFILE = EngineerParams(samples=2, variant="V5")
RUN = {"seed": 3, "rounds": 2, "samples": 2, "rl": {"instances": 6, "epochs": 1}, "start": None}

ARMS = {  # kind -> arm, number of rounds
    "round 0": ("round_0", 0),
    "rule": ("heuristic", 2),
    "rule that pays for answers": ("frontier", 2),
    "trained longer": ("fixed_longer", 3),
    "model": ("engineer", 2),
    "another model": ("engineer_base", 2),
    "of params.yaml": ("mine", 2),
    "trained before": ("engineer_trained_v2", 2),
    "trained in every round": ("engineer_cotrained", 2),
}


def train_engineer(history: History, folder: Path) -> tuple[Path, dict[str, int]]:
    repro.write_json(folder / "engineer/weights.json", {"from": history[-1].checkpoint_sha256})
    return folder / "engineer", {"rollouts": 5}


def run(folder: Path, arm: str, rounds: int) -> tuple[dict[str, Any], History]:
    """Runs an arm as the notebooks do; returns its record and its own rounds as its ledgers have them."""
    trainer, boards = ScriptedTrainer(TASKS, REPLIES), folder / "env_design"
    for name in ("base", "engineer"):
        repro.write_json(folder / name / "weights.json", name)
    for name in ("validation", "benchmark_wr050"):
        save_tasks(boards / f"{name}.jsonl", TASKS)
    repro.write_json(boards / "settings.json", {"subsets": ["wr050"]})
    settings = RoundSettings(folder / "first", trainer, TASKS, 3, 2)
    own: History = ()
    if arm.startswith("engineer_trained"):
        trained = Start(folder / "engineer", FIRST, {"replies": 7}, folder / "base")
        first = own = (run_round(replace(settings, arm="engineer_trained"), (), start=trained),)
    else:
        first = (run_round(settings, (), start=Start(folder / "base", FIRST)),)
    given = {"params": PROFILE, "designers": {"mine": {"variant": "V1"}}, "base": folder / "base"}
    if arm == "round_0":
        own = first
    else:
        arms = replace(settings, folder=folder / "arm")
        run_arm(arm, arms, first, rounds=rounds, sizes=SIZES, train_engineer=train_engineer, **given)
        own = (*own, *Ledger(folder / "arm/rounds.jsonl").rounds)
    path, samples = folder / "record.json", {"seed": 0, "samples": 2}
    measured = {"benchmark": study.benchmark(trainer.policy, boards, **samples), "validation": []}
    parameters = {**RUN, "rounds": rounds or RUN["rounds"]}
    kept = {"boards_folder": boards, "history": own, "parameters": parameters}
    study.write_record(path, arm=arm, seed=3, **measured, **kept)
    return repro.read_json(path), own


@pytest.mark.parametrize("kind", ARMS)
def test_a_record_agrees_with_its_ledger(tmp_path: Path, kind: str) -> None:
    arm, rounds = ARMS[kind]
    record, own = run(tmp_path, arm, rounds)
    assert disagreements(record, own) == []
    asked = {"heuristic": None, "mine": "V1", "engineer": "V5", "engineer_trained_v2": "V2"}
    if arm in asked:
        assert record["parameters"].get("engineer", {}).get("variant") == asked[arm]
    weights = {name: repro.file_sha256(tmp_path / name / "weights.json") for name in ("base", "engineer")}
    if arm == "engineer_trained_v2":
        assert record["rounds"][0]["training"]["spent before"] == {"replies": 7}
        assert record["rounds"][0]["before_design_rl_sha256"] == weights["base"]
        assert record["rounds"][0]["parent_sha256"] == weights["engineer"]
    if arm == "engineer_base":
        assert record["parameters"]["model_sha256"] == weights["base"]
    if arm == "engineer_cotrained":  # what the training on boards was really given
        made_of = [repro.read_json(one.checkpoint / "weights.json")["start"] for one in own]
        assert [row["parent_sha256"] for row in record["rounds"]] == made_of
        assert {row["before_design_rl_sha256"] for row in record["rounds"]}.isdisjoint(made_of)


def test_a_record_that_says_otherwise_is_found(tmp_path: Path) -> None:
    record, own = run(tmp_path, "mine", 2)
    said = record["parameters"]
    wrong: list[tuple[Any, str, Any]] = [
        (said, "engineer", PROFILE.model_dump(mode="json")),
        (said, "rounds", 3),
        (said, "samples", 1),
        (said, "rl", {**said["rl"], "epochs": 2}),
        (record["rounds"][1], "parent_sha256", own[0].parent_sha256),
        (record["rounds"][0], "seed", 4),
    ]
    for inside, key, value in wrong:
        kept, inside[key] = inside[key], value
        assert disagreements(record, own), key
        inside[key] = kept
    assert disagreements(record, own) == []


def test_every_published_record_agrees_with_its_rounds() -> None:
    assert len(PUBLISHED) >= 20
    found = {path.relative_to(path.parents[2]).as_posix(): json.loads(path.read_bytes()) for path in PUBLISHED}
    wrong = {name: lines for name, record in found.items() if (lines := disagreements(record))}
    assert wrong == {}
