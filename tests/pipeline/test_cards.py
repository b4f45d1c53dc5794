"""The folders for the hub are read back by the hub's own libraries, and say what was measured."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from datasets import load_dataset
from huggingface_hub import DatasetCard, ModelCard
from small_repo import repository
from transformers import AutoModelForCausalLM

from mapflake import env, repro
from mapflake.nb import params
from mapflake.nb.cards import cards, write_boards, write_model
from mapflake.study.records import Record
from mapflake.trainer.params import ModelParams
from mapflake.trainer.policy import from_scratch, save_policy

CELLS = Path(__file__).parents[2] / "reports/cells/study"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Notebook 01's folder, in small."""
    folder = tmp_path / "env_design"
    sets = {"demonstrations": ("train", 30), "validation": ("validation", 12), "benchmark_wr050": ("benchmark", 8)}
    for stem, (split, n) in sets.items():
        tasks = env.generate(env.EnvConfig.uniform([3, 4], 0.2, 0.5), n, seed=1, split=split)
        env.save_tasks(folder / f"{stem}.jsonl", tasks)
    repro.write_json(folder / "settings.json", {"sizes": [3, 4], "subsets": ["wr050"]})
    return folder


def test_the_boards_are_a_dataset_of_the_hub(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "boards"
    write_boards(source, out)
    dataset = load_dataset(str(out), cache_dir=str(tmp_path / "cache"))
    assert {split: len(rows) for split, rows in dataset.items()} == {"train": 30, "validation": 12, "wr050": 8}
    for split, stem in (("validation", "validation"), ("wr050", "benchmark_wr050")):
        assert env.tasks_of(dataset[split]) == env.load_tasks(source / f"{stem}.jsonl")
    card = DatasetCard.load(out / "README.md")
    assert card.data.size_categories == ["n<1K"]
    assert [entry["split"] for entry in card.data.configs[0]["data_files"]] == ["train", "validation", "wr050"]
    assert "| wr050 | 8 | 2 | 50% |" in card.text


@pytest.mark.parametrize(
    ("arm", "said"),
    [
        ("fixed", "runs/smoke/baseline_rl/0/rounds.jsonl is missing: make it by `dvc repro baseline_rl@0`"),
        ("heuristic", "heuristic-0/rounds.jsonl is missing: make it by `dvc repro ablations@heuristic-0`"),
        ("nosuch", "cards: 'nosuch' is not legal: one of fixed, engineer, engineer_trained, engineer_base, heuristic"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arm: str, said: str) -> None:
    root = repository(tmp_path, "params.yaml")
    params.choose(root, "smoke")
    (root / "runs/smoke/locks").mkdir(parents=True)  # the pipeline's
    monkeypatch.chdir(root)
    with pytest.raises((FileNotFoundError, repro.ParamError), match=f"{re.escape(said)}$"):
        cards(root, arm)


def test_a_checkpoint_is_a_model_of_the_hub(tmp_path: Path) -> None:
    shape = ModelParams(hidden_size=32, layers=1, heads=2, intermediate_size=32)
    policy = from_scratch(shape, env.VOCABULARY, seed=0)
    save_policy(policy.model, policy.tokenizer, tmp_path / "checkpoint")
    record = repro.from_json(Record, repro.read_json(sorted(CELLS.glob("engineer_trained-*.json"))[0]), "record")
    out = tmp_path / "model"
    write_model(tmp_path / "checkpoint", record, out)
    assert AutoModelForCausalLM.from_pretrained(out).num_parameters() > 0
    card = ModelCard.load(out / "README.md")
    shown = {result.dataset_split: result.metric_value for result in card.data.eval_results}
    for subset, outcomes in record.benchmark.items():
        answers = outcomes.samples * len(outcomes.valid)
        assert shown[subset] == pytest.approx(sum(map(int, outcomes.valid)) / answers, abs=5e-5)
        assert f"| {subset} | {shown[subset]:.1%} |" in card.text
    assert record.made.commit in card.text
