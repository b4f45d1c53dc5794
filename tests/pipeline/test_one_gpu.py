"""The run `qwen_1gpu` at a thousandth of its scale: all stages, a tiny Qwen3, vLLM on a CPU; `make test-one-gpu`.

`SMALL` has the numbers that differ. Everything else is what a GPU would run: the stages of dvc.yaml and the notebooks,
a model that is known by its name on the hub (here in a cache, as if it had been fetched), chat prompts, adapters, two
students, an engineer that is trained by GRPO over designs, and the arm that is told the other student's report.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed: make test-one-gpu")

from ruamel.yaml import YAML
from starts import byte_level_model, byte_level_tokenizer, demonstrations
from test_smoke_pipeline import clone, command
from transformers import Qwen3ForCausalLM

from mapflake.engineer import Ledger
from mapflake.engineer.compact.demonstrations import synthetic_report
from mapflake.env import EnvConfig, generate
from mapflake.nb import params
from mapflake.repro import read_jsonl
from mapflake.trainer.params import WarmStartParams
from mapflake.trainer.policy import save_policy
from mapflake.trainer.warmstart import warm_start

NAME = "Qwen/Qwen3-1.7B"
DESIGN = {"max_new_tokens": 600}  # the longest that the grammar takes in the tiny model's tokens
ENGINE = {"gpu_memory_utilization": 0.05}
SMALL: dict[str, Any] = {
    "env_design": {
        "feasibility_boards": 2,
        "validation": {"boards": 1},
        "benchmark": {"boards": 1},
        "demonstrations": [{"agents": 2, "boards": 60, "sizes": [3, 4, 5, 6], "wait_ratio": 0.5}],
    },
    "students": {"ages": [0, 4], "training": {"steps": 4, "batch_size": 4, "warmup_steps": 1, "save_every": 2}},
    "baseline_rl": {
        "rl": {
            "instances": 8, "prompts": 4, "generations": 4, "max_new_tokens": 96,  # 3,072 tokens a round, of 3,145,728
            "vllm_engine": ENGINE,
        },
    },
    "engineer_loop": {"engineer": {"constrained": True, **DESIGN}},  # it cannot write JSON by itself
    "trained_engineer": {
        "bank": {"ages": [0, 2]},
        "before": {
            "tables": {"boards": 1, "samples": 2},
            "rl": {"instances": 4, "prompts": 4, "generations": 4, "vllm_engine": ENGINE, **DESIGN},
        },
    },
}  # fmt: skip


def tiny(folder: Path) -> None:
    """Writes a Qwen3 of two layers that has learned to write plans of small boards, right and wrong ones."""
    tasks = generate(EnvConfig.uniform([3, 4], 0.1, 0.2), 400, seed=1)
    pairs = demonstrations(tasks, "chat")
    designs = [synthetic_report(i, range(3, 9), seed=0, prompt_format="json").prompt for i in range(8)]
    tokenizer = byte_level_tokenizer([*designs, *(text for pair in pairs[:40] for text in pair)], 1500)
    shape = {"num_hidden_layers": 2, "num_key_value_heads": 1, "head_dim": 32, "tie_word_embeddings": True}
    model, _ = byte_level_model(Qwen3ForCausalLM, 64, padded=7, tokenizer=tokenizer, **shape)
    save_policy(model, tokenizer, folder / "random")
    recipe = WarmStartParams(steps=150, batch_size=8, microbatch=8, learning_rate=5e-3, warmup_steps=10)
    warm_start(pairs, folder / "random", recipe, folder / "taught", seed=0)


def fetched(model: Path, home: Path) -> dict[str, str]:
    """Puts a model into a cache of the hub under `NAME`, and returns the environment in which it is found there."""
    stored = home / "hub" / f"models--{NAME.replace('/', '--')}"
    (stored / "snapshots").mkdir(parents=True)
    model.rename(stored / "snapshots/0123abc")
    (stored / "refs").mkdir()
    (stored / "refs/main").write_text("0123abc")
    return {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1"}


def overlaid(base: Any, changes: dict[str, Any]) -> Any:
    """Changes mappings in place, key by key, and returns the outermost."""
    for key, value in changes.items():
        base[key] = overlaid(base.get(key, {}), value) if isinstance(value, dict) else value
    return base


@pytest.mark.slow
def test_the_run_at_a_thousandth_of_its_scale(tmp_path: Path) -> None:
    tiny(tmp_path)
    environment = fetched(tmp_path / "taught", tmp_path / "home")
    folder = clone(tmp_path / "clone")
    yaml = YAML(typ="safe", pure=True)
    written = yaml.load((folder / "params.yaml").read_text())
    with open(folder / "params.yaml", "w") as file:
        yaml.dump(overlaid(written, {"profiles": {"qwen_1gpu": SMALL}}), file)
    params.choose(folder, "qwen_1gpu")
    environment |= {"CUDA_VISIBLE_DEVICES": "", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    command(folder, "dvc", "repro", **environment)
    arms = ("fixed", "engineer", "engineer_trained", "engineer_trained_another")
    records = {path.stem for path in (folder / "reports/cells/qwen_1gpu").glob("*.json")}
    assert {f"{arm}-{seed}" for arm in arms for seed in (0, 1)} <= records
    for seed in (0, 1):
        for suffix in ("", "_another"):
            rounds = Ledger(folder / f"runs/qwen_1gpu/ablations/engineer_trained{suffix}-{seed}/rounds.jsonl").rounds
            assert [r.index for r in rounds] == [1, 2]
            for round_ in rounds:
                assert round_.proposal is not None
                assert round_.proposal.config is not None
                files = {path.name for path in round_.checkpoint.iterdir()}
                assert "adapter_model.safetensors" in files  # an adapter alone, not the whole model
                assert "model.safetensors" not in files
                (step, *later_steps) = read_jsonl(round_.checkpoint / "curve.jsonl")
                assert 0 < step["sampled_tokens"] + sum(row["sampled_tokens"] for row in later_steps) <= 8 * 4 * 96
