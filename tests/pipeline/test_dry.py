"""What a run would take: counted against the models, the pipeline and a run that was made."""

import re
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from peft import LoraConfig, get_peft_model
from ruamel.yaml import YAML
from small_repo import ROOT

from mapflake.nb import dry, params
from mapflake.nb.__main__ import main
from mapflake.repro import ParamError, read_json
from mapflake.trainer.params import RLParams

FILE = params.load(ROOT)
QWEN = params.effective(FILE, "qwen_1gpu")


@pytest.mark.parametrize(
    ("name", "billions"), [("Qwen/Qwen3-0.6B", 0.6), ("Qwen/Qwen3-1.7B", 1.72), ("smollm2", 0.1345)]
)
def test_parameters_are_as_a_model_is_called_and_adapters_those_of_peft(name: str, billions: float) -> None:
    model = dry.model_of.__wrapped__(name)  # which peft changes
    assert model.num_parameters() / 1e9 == pytest.approx(billions, rel=0.01)
    count = dry.adapters(model, 8)
    adapted = get_peft_model(model, LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))
    assert count == sum(weight.numel() for weight in adapted.parameters() if weight.requires_grad)


def test_the_stages_are_those_of_the_pipeline() -> None:
    names = re.findall(r"^  (\w+):", dry.stages(FILE.runs["qwen_1gpu"], QWEN), re.MULTILINE)
    pipeline = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert sorted(names) == sorted(pipeline.keys() - {"prepare"})


def test_work_is_what_the_parameters_say() -> None:
    work, rl = dry.works(FILE.runs["qwen_1gpu"], QWEN), QWEN.baseline_rl.rl
    # Of each seed: round 0 twice, and two rounds each of fixed, the engineer and the two arms; of the bank one a run.
    assert work.times["a round of GRPO"] == 2 * (1 + 1 + 4 * 2) + 2
    millions = 22 * rl.instances * rl.generations * rl.max_new_tokens / 1e6
    assert work["tokens, M"]["a round of GRPO"] == pytest.approx(millions)
    assert work.times["a design"] == 2 * 3 * 2
    assert work.completions["the benchmark"] == 10 * 12 * 3
    assert work.completions["lessons of students and of the bank"] == (0 + 100 + 0 + 50) * 16
    before = QWEN.trained_engineer.before.rl  # a part of its prompts are boards, which are answered, too
    assert work.completions["design RL"] == before.instances * before.generations
    assert 300 < work.prompt["a round of GRPO"] < 500  # a chat prompt of 3x3 to 6x6 has 369 to 422 tokens (SmolLM2)


def test_rounds_of_a_supervised_bank_are_lessons_and_validation_has_its_own_sizes() -> None:
    sections = params.effective(FILE, "study")
    work = dry.works(FILE.runs["study"], sections)
    record = read_json(ROOT / "reports/cells/study/fixed_longer-5.json")
    longer = record["parameters"]["rounds"] - 2  # as it was run, after the rounds of fixed
    assert work.times["a round of GRPO"] == 16 * (1 + 1 + (2 + 4) * 2 + longer)  # none of the bank
    assert work.times["a design"] == 16 * (1 + 2) * 2  # of the current policy and of the two trained engineers
    assert work.times["validation after a round"] == work.times["a round of GRPO"] + 4
    ages = 4 * (800 + 1800 + 2600 + 4400) + 600 + 1200 + 2200 + 3400
    assert work.completions["lessons of students and of the bank"] == (ages + 4 * 200) * 32
    assert "lessons in designing" not in work.index
    little = sections.trained_engineer.before.model_copy(update={"real_share": 0.0, "boards_share": 0.0})
    little = little.model_copy(update={"rl": little.rl.model_copy(update={"instances": 16})})
    designing = sections.trained_engineer.model_copy(update={"before": little})
    small = sections.model_copy(update={"trained_engineer": designing})
    assert dry.rounds_of("fixed_longer", FILE.runs["study"], small) == 1  # not none, which would be `fixed`
    smoke = dry.works(FILE.runs["smoke"], params.effective(FILE, "smoke"))
    assert (smoke.times["lessons in designing"], smoke.completions["lessons in designing"]) == (1, 10 * 16)
    boards = read_json(ROOT / "reports/cells/study/boards.json")["sets"]  # as notebook 01 drew them
    counts = {name: len(drawn["board"]) for name, drawn in boards.items()}
    validation = counts.pop("validation")
    assert dry.board_counts(sections) == (validation, sum(counts.values()))


def test_memory_and_hours_follow_the_parameters() -> None:
    model, rl = dry.model_of("Qwen/Qwen3-1.7B"), QWEN.baseline_rl.rl
    full, half = (RLParams.parse(rl.model_dump() | change, "rl") for change in ({"lora": None}, {"microbatch": 2}))
    parts, full_parts, half_parts = (dry.memory_parts(model, variant, 400) for variant in (rl, full, half))
    assert sum(parts.values()) < dry.GPU_MEMORY < sum(full_parts.values())  # the control: all weights do not fit
    assert half_parts["logits"] == parts["logits"] / 2
    assert half_parts["weights"] == parts["weights"]
    work = {"times": 2, "completions": 100, "prompt": 400, "longest": 1000, "trained": True, "tokens, M": 0.2}
    costs, parameters = dry.hours(model, pd.DataFrame([work])).loc[0], model.num_parameters()
    rate = 64 * dry.BANDWIDTH / (2 * parameters + 64 * 900 * 4 * 28 * 8 * 128)  # keys and values of 28 layers, 8 heads
    assert costs["sampling, h"] == pytest.approx(200_000 / rate / 3600)
    assert costs["training, h"] == pytest.approx(8 * parameters * 280_000 / dry.FLOPS / 3600)


@pytest.mark.parametrize(("name", "verdict"), [("qwen_1gpu", " of 24: fits"), ("paper", " on each of 8")])
def test_a_verdict_is_of_one_card(name: str, verdict: str) -> None:
    sections = params.effective(FILE, name)
    text = dry.memory(dry.model_of(str(sections.warm_start.base)), sections)
    assert text.splitlines()[1].endswith(verdict)


def test_the_disk_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of 3.2 GiB, and 26 adapters of 0.13 GiB twice."""
    for free, verdict in ((9, "TOO LITTLE"), (11, "enough")):
        monkeypatch.setattr(dry.shutil, "disk_usage", lambda path, free=free: SimpleNamespace(free=free * dry.GIB))
        assert f"disk: {free} GiB are free: {verdict} for 10.0" in dry.dry(ROOT, "qwen_1gpu")


def test_the_command_says_it_and_writes_nothing(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    before = (ROOT / "params.yaml").read_bytes()
    assert main(["dry", "qwen_1gpu"]) == 0
    output = capsys.readouterr().out
    parts = ("Stages", "Tokens", "Memory", "GPU-hours", "Disk", "This machine", "CUDA", "vLLM", "engineer_trained_ano")
    assert [part for part in parts if part not in output] == []
    assert (ROOT / "params.yaml").read_bytes() == before
    assert main(["dry"]) == 0  # the active run, whatever is written there
    assert f"seeds {', '.join(map(str, FILE.run.seeds))}\n" in capsys.readouterr().out
    assert main(["dry", "qwen_9gpu"]) == 1
    assert "runs: 'qwen_9gpu' is not legal: one of default" in capsys.readouterr().err
    with pytest.raises(ParamError, match=r"^warm_start\.base: the shape of 'theirs/model' is not known here: one of"):
        dry.model_of("theirs/model")
