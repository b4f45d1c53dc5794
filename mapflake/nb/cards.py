"""Folders for the Hugging Face hub, with their cards: the boards as a dataset, a checkpoint as a model.

`hf upload <name> <folder>` is all that is left to do. What a card says is read from the run and its records.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from mapflake import env, repro
from mapflake.engineer import Ledger
from mapflake.extras import needs
from mapflake.nb import params
from mapflake.nb.folders import REPORTS, require
from mapflake.study.names import name
from mapflake.study.records import Record
from mapflake.trainer.weights import whole

with needs("train"):
    from huggingface_hub import DatasetCardData, EvalResult, ModelCardData

BOUNDS = {1_000: "n<1K", 10_000: "1K<n<10K", 100_000: "10K<n<100K", 1_000_000: "100K<n<1M"}  # the hub's words
TAGS = ["multi-agent-path-finding", "reinforcement-learning", "planning", "mapflake"]


def cards(root: Path, arm: str = "engineer") -> list[Path]:
    """Writes `runs/<profile>/hub/boards` and `hub/<arm>` of the active run's first seed, and returns both.

    Raises FileNotFoundError, which names the stage, if one is missing, and ParamError if the run has no such arm.
    """
    run = params.load(root).run
    run_path, seed = f"runs/{run.profile}", run.seeds[0]
    if arm not in (arms := ("fixed", "engineer", *run.arms)):
        raise repro.ParamError(f"cards: {repro.shown(arm)} is not legal: one of {', '.join(arms)}")
    stages = {"fixed": f"baseline_rl/{seed}", "engineer": f"engineer_loop/{seed}"}
    stage = stages.get(arm, f"ablations/{arm}-{seed}")
    history = Ledger(require(run_path, f"{stage}/rounds.jsonl")).rounds
    record = repro.from_json(Record, repro.read_json(root / REPORTS / f"cells/{run.profile}/{arm}-{seed}.json"), arm)
    boards, model = root / run_path / "hub/boards", root / run_path / "hub" / arm
    write_boards(require(run_path, "env_design/settings.json").parent, boards)
    write_model(history[-1].checkpoint, record, model)
    return [boards, model]


def write_boards(source: Path, out: Path) -> None:
    """Writes notebook 01's folder as a dataset folder, anew: a Parquet file for each set of boards, and a card."""
    shutil.rmtree(out, ignore_errors=True)
    settings = repro.read_json(source / "settings.json")
    files = {"train": "demonstrations", "validation": "validation"}
    files |= {subset: f"benchmark_{subset}" for subset in settings["subsets"]}
    rows, counts = [], {}
    (out / "data").mkdir(parents=True)
    for split, stem in files.items():
        tasks = env.load_tasks(source / f"{stem}.jsonl")
        env.to_dataset(tasks).to_parquet(out / "data" / f"{split}.parquet")
        agents = sorted({task.instance.num_agents for task in tasks})
        counts[split] = len(tasks)
        waits = sum(task.needs_wait for task in tasks) / len(tasks)
        rows.append(f"| {split} | {len(tasks)} | {', '.join(map(str, agents))} | {waits:.0%} |")
    paths = [{"split": split, "path": f"data/{split}.parquet"} for split in counts]
    data = DatasetCardData(
        license="mit",
        language="en",
        pretty_name="MAPF-FrozenLake boards",
        task_categories=["text-generation"],
        size_categories=[next(word for bound, word in BOUNDS.items() if sum(counts.values()) < bound)],
        tags=TAGS,
        configs=[{"config_name": "default", "data_files": paths}],
    )
    text = f"""---
{data.to_yaml()}
---
# MAPF-FrozenLake boards

Multi-agent path finding on a frozen lake: each agent goes from its start to its goal, none may enter a hole, meet
another in a cell or swap cells with it. Every board comes with a plan of the least makespan. Sizes are
{", ".join(f"{size}x{size}" for size in settings["sizes"])}.

| split | boards | agents | need a wait |
|---|---|---|---|
{chr(10).join(rows)}

No board is in two of the splits train, validation and the others, whatever way it is turned, mirrored or its agents are
renamed. Columns: `prompt` (format `chat`), `task` (board, plan and labels as JSON), `size`, `num_agents`,
`needs_wait`. In Python, `mapflake.env.tasks_of(dataset)` gives the tasks back, and `reward_functions` judges answers.
"""
    repro.write_text(out / "README.md", text)


def write_model(checkpoint: Path, record: Record, out: Path) -> None:
    """Writes a model folder anew: the files of a checkpoint, and a card with what its record measured."""
    shutil.rmtree(out, ignore_errors=True)
    with whole(checkpoint) as folder:
        shutil.copytree(folder, out)
    shares = {
        subset: [
            sum(map(int, digits)) / (outcomes.samples * len(digits)) for digits in (outcomes.valid, outcomes.optimal)
        ]
        for subset, outcomes in record.benchmark.items()
    }
    results = [
        EvalResult(
            task_type="text-generation",
            dataset_type="mapflake-boards",
            dataset_name="MAPF-FrozenLake boards",
            dataset_split=subset,
            metric_type="valid",
            metric_name="share of valid plans",
            metric_value=round(valid, 4),
        )
        for subset, (valid, _) in shares.items()
    ]
    title = f"mapflake, {name(record.arm)}, seed {record.seed}"
    data = ModelCardData(
        license="mit",
        language="en",
        library_name="transformers",
        pipeline_tag="text-generation",
        tags=TAGS,
        model_name=title,
        eval_results=results,
    )
    rows = [f"| {subset} | {valid:.1%} | {optimal:.1%} |" for subset, (valid, optimal) in shares.items()]
    rl, made = record.parameters["rl"], record.made
    text = f"""---
{data.to_yaml()}
---
# {title}

A policy for multi-agent path finding, trained by GRPO on boards of which its designer chose the distribution
({record.parameters["rounds"]} designed rounds of {rl["instances"]} boards, {rl["generations"]} answers each, learning
rate {rl["learning_rate"]:g}).

| boards | valid | optimal |
|---|---|---|
{chr(10).join(rows)}

Shares of {next(iter(record.benchmark.values())).samples} answers a board at temperature 1. This is one training seed;
another may change more than the designer does. It was made at commit `{made.commit}`, with torch
{made.versions["torch"]}. It answers in the prompt format of its training and is of no use for anything else.
"""
    repro.write_text(out / "README.md", text)
