"""The page of a training says what the committed records hold."""

import shutil
from pathlib import Path

import pytest

from benchmarks import training
from mapflake import repro
from mapflake.engineer.compact.base import BaseParams, base_model
from mapflake.env import EnvConfig, generate, save_tasks

REPORTS = Path(__file__).parents[2] / "reports"
PROFILES = ["smollm2", "smollm2_chat"]


@pytest.fixture
def copy(tmp_path):
    for profile in (*PROFILES, "default"):  # the small policy stands beside them
        shutil.copytree(REPORTS / "cells" / profile, tmp_path / "reports/cells" / profile)
    return tmp_path


def test_the_page_is_that_of_the_committed_records(copy):
    page, record = copy / "reports/smollm2.md", copy / "reports/cells/smollm2/training/0.json"
    training.page(copy, PROFILES)
    assert page.read_text() == (REPORTS / "smollm2.md").read_text(), (
        "python -m benchmarks.training page smollm2 smollm2_chat"
    )

    changed = repro.read_json(record)  # the control
    changed["warm start"]["tokens"] += 1
    repro.write_json(record, changed)
    training.page(copy, PROFILES)
    assert page.read_text() != (REPORTS / "smollm2.md").read_text()


def test_a_page_needs_no_twin_and_none_beside_it(copy):
    shutil.rmtree(copy / "reports/cells/smollm2_chat/control", ignore_errors=True)
    training.page(copy, ["smollm2_chat"])
    page = (copy / "reports/smollm2_chat.md").read_text()
    assert page.startswith("# Results, profile smollm2_chat\n")
    assert "andom weights" not in page
    assert len(training.beside([training.load(copy / "reports/cells/smollm2_chat")]).columns) == 1


def test_the_record_of_a_twin_says_what_it_was_and_solves(tmp_path):
    boards = tmp_path / "env_design"
    save_tasks(boards / "demonstrations.jsonl", generate(EnvConfig.uniform([3], 0.2), 24, seed=0))
    save_tasks(boards / "validation.jsonl", generate(EnvConfig.uniform([3], 0.2), 8, seed=0, split="validation"))
    repro.write_json(boards / "settings.json", {"sizes": [3]})
    shape = {"hidden_size": 16, "layers": 1, "heads": 2, "intermediate_size": 16}
    recipe = {"model": shape, "steps": 4, "batch_size": 8, "microbatch": 4, "save_every": 2}
    shares = {"hard_share": 0.5, "engineer_share": 0.25, "engineer_variants": ["schema"]}
    given = {"seed": 0, "weights": "random", "training": recipe, **shares}
    base = BaseParams.parse(given, "warm_start")
    base_model(base, boards, tmp_path / "warm_start")
    record = training.measure_control(tmp_path, base, seed=0)
    assert record["model"] == base.model_dump()
    found = record["warm start"]
    assert [row["step"] for row in found["curve"]] == [2, 4]
    assert (found["pairs"], len(found["greedy"]["valid"]), found["sampled"]["samples"]) == (32, 8, 2)
    assert 0 <= found["parsed"]["sampled"] <= 1
    assert len(record["replies"]["before RL"]) == training.SHOWN
    with pytest.raises(ValueError, match="`weights: random`"):
        training.measure_control(tmp_path, BaseParams.parse(given | {"weights": "pretrained"}, "warm_start"), seed=0)
