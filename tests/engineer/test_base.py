"""The model before any RL, made from a tiny "pretrained" one or from scratch, and the students made from it."""

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
TINY = {"hidden_size": 32, "layers": 1, "heads": 2, "intermediate_size": 32}
PARAMS = {
    "seed": 0,
    "prompt_format": "compact",
    "hard_share": 0.5,
    "engineer_share": 0.25,
    "engineer_variants": ["schema"],
    "training": {"model": TINY, "steps": 8, "batch_size": 8, "microbatch": 4, "learning_rate": 3e-3, "warmup_steps": 1},
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
    mtime = (start / "model.safetensors").stat().st_mtime_ns
    assert base_model(params, tmp_path, tmp_path / "warm") == start
    assert (start / "model.safetensors").stat().st_mtime_ns == mtime
    assert load_policy(start).prompt_format == "brief"


def test_demonstrations_in_json_say_what_those_in_words_say():
    compact_pairs, json_pairs, brief_pairs = (
        demonstrations(10, (3, 4, 5), seed=2, prompt_format=form) for form in ("compact", "json", "brief")
    )
    assert [text for _, text in brief_pairs] == [text for _, text in json_pairs]
    for (_, words), (prompt, text), (brief_prompt, _) in zip(compact_pairs, json_pairs, brief_pairs, strict=True):
        assert len(brief_prompt) < len(prompt) / 3
        proposals = read_reply(words, (3, 4, 5), "compact"), read_reply(text, (3, 4, 5))
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
    hub, params = "Qwen/Qwen3-4B", PARAMS | {"training": None, "prompt_format": "chat"}
    assert BaseParams.parse(params | {"base": hub}, "warm_start").taken_as_it_is == hub
    for changes in ({"weights": "random"}, {"prompt_format": "brief"}, {"training": PARAMS["training"]}):
        assert BaseParams.parse(params | {"base": hub} | changes, "warm_start").taken_as_it_is is None
    for base in (str(theirs), "models/some.gguf", "smollm2"):
        assert BaseParams.parse(params | {"base": base}, "warm_start").taken_as_it_is is None


def test_seeds_take_the_ages_in_turn_and_a_made_student_is_not_taught_again(tmp_path, monkeypatch):
    save_tasks(tmp_path / "demonstrations.jsonl", generate(EnvConfig.uniform(SIZES, 0.2), 24, seed=1))
    repro.write_json(tmp_path / "settings.json", {"sizes": SIZES})
    params, ages = BaseParams.parse(PARAMS, "warm_start"), StudentParams(ages=[0, 2, 3])
    start = base_model(params, tmp_path, tmp_path / "warm_start")
    folders = [tmp_path / f"student/{seed}" for seed in range(5)]
    students = [student_of(params, ages, start, tmp_path, folder, seed=i) for i, folder in enumerate(folders)]
    assert students[0] == students[3] == start
    assert [repro.read_json(folder / "student.json")["age"] for folder in folders] == [0, 2, 3, 0, 2]
    assert len({weights_sha256(checkpoint) for checkpoint in students}) == 4
    for folder, checkpoint in zip(folders, students, strict=True):
        assert (folder / repro.read_json(folder / "student.json")["checkpoint"]).resolve() == checkpoint
    assert [repro.read_jsonl(students[i] / "curve.jsonl")[-1]["step"] for i in (1, 2, 4)] == [2, 3, 2]
    twin = student_of(params, ages, start, tmp_path, tmp_path / "again", seed=1)
    assert weights_sha256(twin) == weights_sha256(students[1])
    bank_student = bank_start(params, ages, BankParams(rounds=1, ages=[2]), start, tmp_path, tmp_path / "bank/1", 1)
    # The bank's lessons are others, though age and number are the same.
    assert weights_sha256(bank_student) != weights_sha256(students[1])
    with monkeypatch.context() as context:
        context.setattr("mapflake.engineer.compact.base.student", None)
        # Nothing is written either, because several cells may ask for the same student at the same time.
        context.setattr(repro, "write_json", None)
        assert [student_of(params, ages, start, tmp_path, folders[i], seed=i) for i in (0, 1)] == students[:2]
    new_ages = StudentParams(ages=[0, 4])
    # The path is the same, the weights are others.
    assert student_of(params, new_ages, start, tmp_path, folders[1], seed=1) == students[1]
    assert repro.read_jsonl(folders[1] / "checkpoint/curve.jsonl")[-1]["step"] == 4

    def killed(*args, **options):
        student(*args, **options)
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("mapflake.engineer.compact.base.student", killed)
        with pytest.raises(KeyboardInterrupt):  # the weights of a student of 3 steps are there
            student_of(params, StudentParams(ages=[0, 3]), start, tmp_path, folders[1], seed=1)
    assert student_of(params, new_ages, start, tmp_path, folders[1], seed=1) == students[1]
    assert repro.read_jsonl(folders[1] / "checkpoint/curve.jsonl")[-1]["step"] == 4
    for changes, age in (({}, 0), ({"training": None}, 2)):
        with pytest.raises(ValueError, match=f"a student of age {age}: takes at least one step"):
            student(params.model_copy(update=changes), start, tmp_path, tmp_path / "none", age=age, seed=0)


def test_the_student_of_a_model_taken_as_it_is_is_that_model(tmp_path):
    params = BaseParams.parse(PARAMS | {"base": "Qwen/Qwen3-4B", "training": None, "prompt_format": "chat"}, "")
    checkpoint = student_of(params, StudentParams(), "Qwen/Qwen3-4B", tmp_path, tmp_path / "student/0", seed=0)
    assert checkpoint == "Qwen/Qwen3-4B" == repro.read_json(tmp_path / "student/0/student.json")["checkpoint"]
