"""What a run would take: counted against the models, the pipeline and a run that was made."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from ruamel.yaml import YAML
from small_repo import ROOT
from transformers import Qwen3Config, Qwen3ForCausalLM

from mapflake.nb import dry, params
from mapflake.nb.__main__ import main
from mapflake.repro import ParamError, read_json
from mapflake.trainer.params import LoraParams, RLParams


@pytest.mark.parametrize("name", dry.SHAPES)
def test_parameters_and_adapters_are_those_of_the_architecture(name: str) -> None:
    shape, lora = dry.SHAPES[name], LoraParams(rank=8, alpha=16)
    config = Qwen3Config(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim,
        intermediate_size=shape.intermediate, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.device("meta"):  # no memory
        whole = Qwen3ForCausalLM(config)
    assert shape.parameters == pytest.approx(whole.num_parameters(), rel=1e-3)  # all but norms
    adapted = get_peft_model(whole, LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))
    trained = sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)
    assert shape.adapters(lora) == trained
    billions = {"Qwen/Qwen3-0.6B": 0.6, "Qwen/Qwen3-1.7B": 1.72, "smollm2": 0.1345}  # as they are called
    assert shape.parameters / 1e9 == pytest.approx(billions.get(name, shape.parameters / 1e9), rel=0.01)


def test_the_stages_are_those_of_the_pipeline() -> None:
    file = params.load(ROOT)
    run = file.runs["qwen_1gpu"]
    said = dry.stages(run, params.effective(file, run.profile)).splitlines()[1:]
    names = [re.match(r"  (\w+)", line)[1] for line in said]  # type: ignore[index]
    pipeline = [*YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]]
    assert {*names} == {*pipeline} - {"prepare", "publish"}
    for stage in ("student", "baseline_rl", "engineer_loop", "others", "trained_engineer"):
        assert names.count(stage) == len(run.seeds)
    assert names.count("ablations") == len(run.seeds) * len(run.arms)


def test_work_is_what_the_parameters_say() -> None:
    file = params.load(ROOT)
    run, sections = file.runs["qwen_1gpu"], params.effective(file, "qwen_1gpu")
    work = {one.name: one for one in dry.works(run, sections)}
    rl = sections.baseline_rl.rl
    # Of each seed: round 0 twice, and two rounds each of fixed, the engineer and the two arms; of the bank one a run.
    assert work["a round of GRPO"].times == 2 * (1 + 1 + 4 * 2) + 2
    assert work["a round of GRPO"].tokens == 22 * rl.instances * rl.generations * rl.max_new_tokens
    assert work["a design"].times == 2 * 3 * 2
    assert work["the benchmark"].completions == 10 * 12 * 3
    assert work["lessons of students and of the bank"].completions == (0 + 100 + 0 + 50) * 16
    assert 300 < work["a round of GRPO"].prompt < 500  # a chat prompt of 3x3 to 6x6 has 369 to 422 tokens (SmolLM2)


def test_rounds_of_a_supervised_bank_are_lessons_and_validation_has_its_own_sizes() -> None:
    file = params.load(ROOT)
    run, sections = file.runs["study"], params.effective(file, "study")
    work = {one.name: one for one in dry.works(run, sections)}
    record = read_json(ROOT / "reports/cells/study/fixed_longer-5.json")
    longer = record["parameters"]["rounds"] - 2  # as it was run, after the rounds of fixed
    assert work["a round of GRPO"].times == 16 * (1 + 1 + (2 + 4) * 2 + longer)  # none of the bank
    assert work["a design"].times == 16 * (1 + 2) * 2  # of the current policy and of the two trained engineers
    assert work["validation after a round"].times == work["a round of GRPO"].times + 4
    ages = 4 * (800 + 1800 + 2600 + 4400) + 600 + 1200 + 2200 + 3400
    assert work["lessons of students and of the bank"].completions == (ages + 4 * 200) * 32
    boards = read_json(ROOT / "reports/cells/study/boards.json")["sets"]  # as notebook 01 drew them
    assert dry.board_counts(sections) == (
        len(boards["validation"]["board"]), sum(len(boards[name]["board"]) for name in boards if name != "validation")
    )  # fmt: skip


def test_memory_and_hours_follow_the_parameters() -> None:
    file = params.load(ROOT)
    shape, rl = dry.SHAPES["Qwen/Qwen3-1.7B"], params.effective(file, "qwen_1gpu").baseline_rl.rl
    assert sum(dry.memory_parts(shape, rl, 400).values()) < dry.GPU_MEMORY
    full = RLParams.parse(rl.model_dump() | {"lora": None}, "rl")  # the control: all weights do not fit
    assert sum(dry.memory_parts(shape, full, 400).values()) > dry.GPU_MEMORY
    half = RLParams.parse(rl.model_dump() | {"microbatch": 2}, "rl")
    parts, halved = (dry.memory_parts(shape, one, 400) for one in (rl, half))
    assert halved["logits"] == parts["logits"] / 2
    assert halved["weights"] == parts["weights"]
    work = dry.Work("a round", 2, 100, 400, 1000, True)
    found = re.search(r"in all ([\d.]+) h", dry.hours(shape, [work]))
    assert found
    rate = 64 * dry.BANDWIDTH / (2 * shape.parameters + 64 * 900 * shape.cached)
    by_hand = 200_000 / rate + 8 * shape.parameters * 280_000 / dry.FLOPS
    assert float(found[1]) == pytest.approx(by_hand / 3600, abs=0.05)


@pytest.mark.parametrize(("name", "verdict"), [("qwen_1gpu", " of 24: fits"), ("paper", " on each of 8")])
def test_a_verdict_is_of_one_card(name: str, verdict: str) -> None:
    file = params.load(ROOT)
    sections = params.effective(file, name)
    said = dry.memory(dry.shape_of(sections), sections, dry.works(file.runs[name], sections)).splitlines()
    assert said[1].endswith(verdict)


def test_the_disk_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of 3.2 GiB, and 26 adapters of 0.13 GiB twice."""
    for free, said in ((9, "TOO LITTLE"), (11, "enough")):
        monkeypatch.setattr(dry.shutil, "disk_usage", lambda path, free=free: SimpleNamespace(free=free * dry.GIB))
        assert f"disk: {free} GiB are free: {said} for 10.0" in dry.dry(ROOT, "qwen_1gpu")


def test_the_command_says_it_and_writes_nothing(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    before = (ROOT / "params.yaml").read_bytes()
    assert main(["dry", "qwen_1gpu"]) == 0
    said = capsys.readouterr().out
    parts = ("Stages", "Tokens", "Memory", "GPU-hours", "Disk", "This machine", "CUDA", "vLLM", "engineer_trained_ano")
    assert [part for part in parts if part not in said] == []
    assert (ROOT / "params.yaml").read_bytes() == before
    assert main(["dry"]) == 0  # the active run, whatever is written there
    assert f"student@{params.load(ROOT).run.seeds[-1]}: " in capsys.readouterr().out
    assert main(["dry", "qwen_9gpu"]) == 1
    assert "runs: 'qwen_9gpu' is not legal: one of default" in capsys.readouterr().err
    sections = params.effective(params.load(ROOT), "qwen_1gpu")
    other = sections.warm_start.model_copy(update={"base": "theirs/model"})
    with pytest.raises(ParamError, match=r"^warm_start\.base: the shape of 'theirs/model' is not known here: one of"):
        dry.shape_of(sections.model_copy(update={"warm_start": other}))
