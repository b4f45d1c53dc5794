"""The model before any RL, of a tiny "pretrained" one or from scratch, and the students that are made of it."""

import pytest
from starts import byte_level_model
from transformers import LlamaForCausalLM

from mapflake import repro
from mapflake.engineer import read_reply
from mapflake.engineer.bank import BankParams, bank_start
from mapflake.engineer.compact.base import BaseParams, StudentParams, base_model, student, student_of
from mapflake.engineer.compact.demonstrations import demonstrations
from mapflake.env import EnvConfig, generate, save_tasks
from mapflake.repro import ParamError
from mapflake.trainer.checkpoint import weights_sha256
from mapflake.trainer.policy import load_policy

SIZES = (3,)
PARAMS = {
    "seed": 0,
    "prompt_format": "compact",
    "hard_share": 0.5,
    "engineer_share": 0.25,
    "engineer_variants": ["schema"],
    "training": {"steps": 8, "batch_size": 8, "microbatch": 4, "learning_rate": 3e-3, "warmup_steps": 1},
}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A folder with a tiny Llama of random weights and a chat template."""
    folder = tmp_path_factory.mktemp("theirs")
    for part in byte_level_model(LlamaForCausalLM, 16, tie_word_embeddings=True, max_position_embeddings=4096):
        part.save_pretrained(folder)
    return folder


def test_a_pretrained_model_is_taught_once_and_asked_in_its_format(theirs, tmp_path):
    save_tasks(tmp_path / "demonstrations.jsonl", generate(EnvConfig.uniform(SIZES, 0.2), 24, seed=1))
    repro.write_json(tmp_path / "settings.json", {"sizes": SIZES})
    params = BaseParams.parse(PARAMS | {"base": str(theirs), "prompt_format": "brief"}, "warm_start")
    start = base_model(params, tmp_path, tmp_path / "warm")
    assert start == tmp_path / "warm/checkpoint"
    assert repro.read_jsonl(start / "curve.jsonl")[-1]["step"] == 8
    written = (start / "model.safetensors").stat().st_mtime_ns
    assert base_model(params, tmp_path, tmp_path / "warm") == start
    assert (start / "model.safetensors").stat().st_mtime_ns == written
    assert load_policy(start).prompt_format == "brief"


def test_demonstrations_in_json_say_what_those_in_words_say():
    words, written, brief = (
        demonstrations(10, (3, 4, 5), seed=2, prompt_format=form) for form in ("compact", "json", "brief")
    )
    assert [text for _, text in brief] == [text for _, text in written]
    for (_, compact), (prompt, text), (few, _) in zip(words, written, brief, strict=True):
        assert len(few) < len(prompt) / 3
        proposals = read_reply(compact, (3, 4, 5), "compact"), read_reply(text, (3, 4, 5))
        assert proposals[0].config == proposals[1].config is not None
        assert "JSON Schema" in prompt
        assert len(text) < 220


def test_what_does_not_fit_together_is_said():
    for changes, message in (
        ({"training": None}, r"a policy from scratch \(base null\) needs `training`, and prompt_format com"),
        ({"prompt_format": "brief"}, "a policy from scratch"),
        ({"base": "Qwen/Qwen3-4B"}, r"a pretrained model \(base\) needs prompt_format chat or brief"),
    ):
        with pytest.raises(ParamError, match=message):
            BaseParams.parse(PARAMS | changes, "warm_start")


def test_only_an_unchanged_model_of_the_hub_is_taken_as_it_is(theirs):
    hub, unchanged = "Qwen/Qwen3-4B", PARAMS | {"training": None, "prompt_format": "chat"}
    assert BaseParams.parse(unchanged | {"base": hub}, "warm_start").taken_as_it_is == hub
    for changes in ({"weights": "random"}, {"prompt_format": "brief"}, {"training": PARAMS["training"]}):
        assert BaseParams.parse(unchanged | {"base": hub} | changes, "warm_start").taken_as_it_is is None
    for base in (str(theirs), "models/some.gguf", "smollm2"):
        assert BaseParams.parse(unchanged | {"base": base}, "warm_start").taken_as_it_is is None


def test_seeds_take_the_ages_in_turn_and_a_made_student_is_not_taught_again(tmp_path, monkeypatch):
    save_tasks(tmp_path / "demonstrations.jsonl", generate(EnvConfig.uniform(SIZES, 0.2), 24, seed=1))
    repro.write_json(tmp_path / "settings.json", {"sizes": SIZES})
    params, ages = BaseParams.parse(PARAMS, "warm_start"), StudentParams(ages=[0, 2, 3])
    start = base_model(params, tmp_path, tmp_path / "warm_start")
    folders = [tmp_path / f"student/{seed}" for seed in range(5)]
    made = [student_of(params, ages, start, tmp_path, folder, seed=i) for i, folder in enumerate(folders)]
    assert made[0] == made[3] == start
    assert [repro.read_json(folder / "student.json")["age"] for folder in folders] == [0, 2, 3, 0, 2]
    assert len({weights_sha256(one) for one in made}) == 4
    for folder, one in zip(folders, made, strict=True):
        assert (folder / repro.read_json(folder / "student.json")["checkpoint"]).resolve() == one
    assert [repro.read_jsonl(made[i] / "curve.jsonl")[-1]["step"] for i in (1, 2, 4)] == [2, 3, 2]
    again = student_of(params, ages, start, tmp_path, tmp_path / "again", seed=1)
    assert weights_sha256(again) == weights_sha256(made[1])
    banked = bank_start(params, ages, BankParams(rounds=1, ages=[2]), start, tmp_path, tmp_path / "bank/1", 1)
    assert weights_sha256(banked) != weights_sha256(made[1])  # lessons of its own, of the same age and number
    with monkeypatch.context() as context:
        context.setattr("mapflake.engineer.compact.base.student", None)
        context.setattr(repro, "write_json", None)  # nor is anything written: cells ask for one student at once
        assert [student_of(params, ages, start, tmp_path, folders[i], seed=i) for i in (0, 1)] == made[:2]
    other = StudentParams(ages=[0, 4])
    assert student_of(params, other, start, tmp_path, folders[1], seed=1) == made[1]  # the same place, other weights
    assert repro.read_jsonl(folders[1] / "checkpoint/curve.jsonl")[-1]["step"] == 4

    def killed(*given, **named):
        student(*given, **named)
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("mapflake.engineer.compact.base.student", killed)
        with pytest.raises(KeyboardInterrupt):  # the weights of a student of 3 steps are there
            student_of(params, StudentParams(ages=[0, 3]), start, tmp_path, folders[1], seed=1)
    assert student_of(params, other, start, tmp_path, folders[1], seed=1) == made[1]
    assert repro.read_jsonl(folders[1] / "checkpoint/curve.jsonl")[-1]["step"] == 4
    for changes, age in (({}, 0), ({"training": None}, 2)):
        with pytest.raises(ValueError, match=f"a student of age {age}: takes at least one step"):
            student(params.model_copy(update=changes), start, tmp_path, tmp_path / "none", age=age, seed=0)


def test_the_student_of_a_model_taken_as_it_is_is_that_model(tmp_path):
    params = BaseParams.parse(PARAMS | {"base": "Qwen/Qwen3-4B", "training": None, "prompt_format": "chat"}, "")
    found = student_of(params, StudentParams(), "Qwen/Qwen3-4B", tmp_path, tmp_path / "student/0", seed=0)
    assert found == "Qwen/Qwen3-4B" == repro.read_json(tmp_path / "student/0/student.json")["checkpoint"]
