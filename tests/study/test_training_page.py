"""The record of a training, and the page that says what it holds."""

import pytest

from benchmarks import training
from mapflake import repro
from mapflake.engineer import EngineerParams, Grpo
from mapflake.engineer.compact.base import BaseParams, StudentParams, base_model, student_of
from mapflake.env import EnvConfig, generate, load_tasks, naive_plan_fails, save_tasks
from mapflake.trainer.params import RLParams

SHAPE = {"hidden_size": 16, "layers": 1, "heads": 2, "intermediate_size": 16}
RECIPE = {"model": SHAPE, "steps": 4, "batch_size": 8, "microbatch": 4, "save_every": 2}
BASE = {
    "seed": 0, "hard_share": 0.5, "engineer_share": 0.25, "engineer_variants": ["schema"], "training": RECIPE
}  # fmt: skip


@pytest.fixture
def boards(tmp_path):
    """Notebook 01's folder in a run's, in small."""
    folder = tmp_path / "run/env_design"
    save_tasks(folder / "demonstrations.jsonl", generate(EnvConfig.uniform([3], 0.2), 24, seed=0))
    save_tasks(folder / "validation.jsonl", generate(EnvConfig.uniform([3], 0.2), 8, seed=0, split="validation"))
    repro.write_json(folder / "settings.json", {"sizes": [3], "validated": [3]})
    return folder


def test_a_run_that_has_only_begun_has_a_page_that_says_so(boards, tmp_path):
    run, base = boards.parent, BaseParams.parse(BASE, "warm_start")
    students = StudentParams(ages=[2], engineer_share=0.5)
    start = base_model(base, boards, run / "warm_start")
    student_of(base, students, start, boards, run / "student/0", seed=0)
    trainer = Grpo(RLParams(max_new_tokens=8))
    record = training.measure(run, base, students, trainer, EngineerParams(variant="schema"), seed=0)
    assert [row["step"] for row in record["warm start"]["curve"]] == [2, 4, 6]
    assert record["warm start"]["pairs"] == 4 * 8 + 2 * 8
    hard = sum(naive_plan_fails(task.instance) for task in load_tasks(boards / "validation.jsonl"))
    assert record["warm start"]["careless"].count("0") == hard
    assert (record["rounds"], [*record["reading"]]) == ([], ["before RL"])
    path = tmp_path / "reports/cells/mine/training/0.json"
    repro.write_json(path, record | {"times": [{"stage": "warm_start", "seconds": 60, "cpu_seconds": 30}]})

    training.page(tmp_path, "mine")
    page = (tmp_path / "reports/mine.md").read_text()
    assert page.startswith("# Results, profile mine\n")
    assert "Not run: GRPO on boards" in page
    assert "Floors that were not reached: valid 0.0% of 30%" in page
    assert f"{record['warm start']['tokens']:,} tokens" in page
    assert (tmp_path / "reports/mine/loss.png").is_file()

    solved = record["warm start"]["sampled"] | {"valid": "2" * 8}  # the control: 16 of 16 answers, 4 of them careless
    record["warm start"] |= {"sampled": solved, "careless": "1" * 2 + "0" * 6}
    record["reading"]["before RL"]["accepted"] = 1.0
    repro.write_json(path, record | {"times": [{"stage": "warm_start", "seconds": 60, "cpu_seconds": 30}]})
    training.page(tmp_path, "mine")
    assert "All floors of a start are met." in (tmp_path / "reports/mine.md").read_text()


def test_the_record_of_a_twin_says_what_it_was_and_solves(boards):
    run, given = boards.parent, BASE | {"weights": "random"}
    base = BaseParams.parse(given, "warm_start")
    base_model(base, boards, run / "warm_start")
    record = training.measure_control(run, base, seed=0)
    assert record["model"] == base.model_dump()
    found = record["warm start"]
    assert [row["step"] for row in found["curve"]] == [2, 4]
    assert (found["pairs"], len(found["greedy"]["valid"]), found["sampled"]["samples"]) == (32, 8, 2)
    assert 0 <= found["parsed"]["sampled"] <= 1
    assert len(record["replies"]["before RL"]) == training.SHOWN
    with pytest.raises(ValueError, match="`weights: random`"):
        training.measure_control(run, BaseParams.parse(given | {"weights": "pretrained"}, "warm_start"), seed=0)
