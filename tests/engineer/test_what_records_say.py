"""A record says what its arm was run with: arms that the smoke pipeline has not, and every published record."""

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
RUN = {"seed": 3, "samples": 2, "rl": {"instances": 6, "epochs": 1}, "start": None}


def run(folder: Path, arm: str, rounds: int) -> tuple[dict[str, Any], History]:
    """Runs an arm as the notebooks do; returns its record and its own rounds as its ledgers have them."""
    trainer, boards = ScriptedTrainer(TASKS, REPLIES), folder / "env_design"
    for name in ("base", "engineer"):
        repro.write_json(folder / name / "weights.json", name)
    for name in ("validation", "benchmark_wr050"):
        save_tasks(boards / f"{name}.jsonl", TASKS)
    repro.write_json(boards / "settings.json", {"subsets": ["wr050"]})
    settings = RoundSettings(folder / "first", trainer, TASKS, 3, 2)
    history: History = ()
    first = (run_round(settings, (), start=Start(folder / "base", FIRST)),)
    if arm.startswith("engineer_trained"):
        trained = Start(folder / "engineer", FIRST, {"replies": 7}, folder / "base")
        settings = replace(settings, folder=folder / "trained", arm="engineer_trained")
        first = history = (run_round(settings, (), start=trained),)
    options = {"params": PROFILE, "designers": {"mine": {"variant": "V1"}}, "base": folder / "base"}
    run_arm(arm, replace(settings, folder=folder / "arm"), first, rounds=rounds, sizes=SIZES, **options)
    history = (*history, *Ledger(folder / "arm/rounds.jsonl").rounds)
    path, samples = folder / "record.json", {"seed": 0, "samples": 2}
    outcomes = {"benchmark": study.benchmark(trainer.policy, boards, **samples), "validation": []}
    inputs = {"boards_folder": boards, "history": history, "parameters": {**RUN, "rounds": rounds}}
    study.write_record(path, arm=arm, seed=3, **outcomes, **inputs)
    return repro.read_json(path), history


@pytest.mark.parametrize("arm", ["fixed_longer", "engineer_base", "mine", "engineer_trained_v2"])
def test_a_record_agrees_with_its_ledger(tmp_path: Path, arm: str) -> None:
    record, history = run(tmp_path, arm, 3 if arm == "fixed_longer" else 2)
    assert disagreements(record, history) == []
    weights = {name: repro.file_sha256(tmp_path / name / "weights.json") for name in ("base", "engineer")}
    variant = record["parameters"].get("engineer", {}).get("variant")
    if arm == "mine":
        assert variant == "V1"
    if arm == "engineer_base":
        assert (variant, record["parameters"]["model_sha256"]) == ("V5", weights["base"])
    if arm == "engineer_trained_v2":
        (first, *_) = record["rounds"]
        assert (variant, first["training"]["spent before"]) == ("V2", {"replies": 7})
        assert first["before_design_rl_sha256"] == weights["base"]
        assert first["parent_sha256"] == weights["engineer"]


def test_a_record_that_says_otherwise_is_found(tmp_path: Path) -> None:
    record, history = run(tmp_path, "mine", 2)
    parameters = record["parameters"]
    changes: list[tuple[Any, str, Any]] = [
        (parameters, "engineer", PROFILE.model_dump(mode="json")),
        (parameters, "rounds", 3),
        (parameters, "samples", 1),
        (parameters, "rl", {**parameters["rl"], "epochs": 2}),
        (record["rounds"][1], "parent_sha256", history[0].parent_sha256),
        (record["rounds"][0], "seed", 4),
    ]
    for table, key, value in changes:
        original, table[key] = table[key], value
        assert disagreements(record, history), key
        table[key] = original
    assert disagreements(record, history) == []


def test_every_published_record_agrees_with_its_rounds() -> None:
    assert len(PUBLISHED) >= 20
    records = {path.relative_to(path.parents[2]).as_posix(): json.loads(path.read_bytes()) for path in PUBLISHED}
    mistakes = {name: lines for name, record in records.items() if (lines := disagreements(record))}
    assert mistakes == {}
