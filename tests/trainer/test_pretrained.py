"""Small models that others trained: a folder without a manifest, a GGUF file; as they are and with random weights."""

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from small_repo import ROOT
from starts import TASKS, TEMPLATE, byte_level_model, byte_level_tokenizer
from transformers import LlamaForCausalLM

from mapflake.env import render_prompt
from mapflake.repro import read_json
from mapflake.study.board_sets import boards_sha256
from mapflake.trainer import checkpoint, pretrained
from mapflake.trainer.policy import encode_prompts, load_policy
from mapflake.trainer.pretrained import starting_point

WIDTH = 32


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """A folder as anyone might save it: no manifest; its eos does not end an answer of its chat template."""
    folder, heads = tmp_path_factory.mktemp("theirs"), {"num_attention_heads": 4, "num_key_value_heads": 2}
    for part in byte_level_model(LlamaForCausalLM, WIDTH, num_hidden_layers=2, tie_word_embeddings=True, **heads):
        part.save_pretrained(folder)
    return folder


def test_a_policy_stops_where_its_chat_template_ends_an_answer(theirs, tmp_path):
    folder = shutil.copytree(theirs, tmp_path / "other")
    tokenizer = load_policy(theirs, sealed=False).tokenizer
    tokenizer.eos_token = "<|endoftext|>"
    tokenizer.save_pretrained(folder)
    assert load_policy(folder, sealed=False).tokenizer.eos_token == "<|im_end|>"
    tokenizer.chat_template = tokenizer.chat_template.replace("'<|im_end|>' + ", "")  # nothing ends an answer
    tokenizer.save_pretrained(folder)
    assert load_policy(folder, sealed=False).tokenizer.eos_token == "<|endoftext|>"


def test_a_folder_becomes_a_sealed_checkpoint_that_remembers_how_it_is_asked(theirs, tmp_path):
    with pytest.raises(checkpoint.CheckpointError, match=r"no manifest\.json"):
        load_policy(theirs)
    before = load_policy(theirs, sealed=False)
    policy = load_policy(starting_point(str(theirs), tmp_path / "out", prompt_format="brief"))
    assert (before.prompt_format, policy.prompt_format) == ("chat", "brief")
    prompts = [render_prompt(task.instance, "brief") for task in TASKS]
    assert policy.complete(prompts, max_new_tokens=8) == before.complete(prompts, max_new_tokens=8)
    mtime = (tmp_path / "out/model.safetensors").stat().st_mtime_ns
    starting_point(str(theirs), tmp_path / "out", prompt_format="brief")
    assert (tmp_path / "out/model.safetensors").stat().st_mtime_ns == mtime


def test_the_page_scores_a_folder_on_the_boards_of_the_study(theirs, capsys):
    """With few boards and short answers."""
    page = (ROOT / "docs/runs.md").read_text(encoding="utf-8")
    (block,) = (code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "load_policy" in code)
    sets = read_json(ROOT / "reports/cells/study/boards.json")["sets"]
    names = {}
    exec(block[: block.index("policy = ")], names)
    assert {name: boards_sha256(tasks) for name, tasks in names["subsets"].items()} == {
        name: sets[name]["sha256"] for name in names["subsets"]
    }
    for old, new in (
        ("boards=27", "boards=1"),
        ("2048", "8"),
        ("samples=4", "samples=1"),
        ("checkpoint-100", str(theirs)),
    ):
        assert block.count(old) == 1
        block = block.replace(old, new)
    exec(block, names)
    assert names["policy"].template == {"enable_thinking": False}
    assert re.search(rf"^boards +{len(names['two_agents'])}\.0\n.*^valid +0\.0\n", capsys.readouterr().out, re.M | re.S)


def test_brief_prompts_have_no_default_system_message(theirs, tmp_path):
    def asked(template, prompt_format):
        tokenizer = load_policy(theirs, sealed=False).tokenizer
        tokenizer.chat_template = template
        tokenizer.save_pretrained(theirs)
        out = starting_point(str(theirs), tmp_path / f"{prompt_format}{len(template)}", prompt_format=prompt_format)
        policy = load_policy(out)
        return policy.tokenizer.decode(encode_prompts(policy.tokenizer, ["<|im_end|> Hi"])[0])

    default = """{% if messages[0].role != 'system' %}<|im_start|>system
You are a helpful assistant that was made by someone.<|im_end|>
{% endif %}"""
    plain = asked(TEMPLATE, "brief")
    assert plain == "<|im_start|>user\n<|im_end|> Hi<|im_end|>\n<|im_start|>assistant\n"  # and nothing more is said
    assert asked(default + TEMPLATE, "brief") == "<|im_start|>system\n<|im_end|>\n" + plain
    assert "made by someone" in asked(default + TEMPLATE, "chat")  # the control
    asked(TEMPLATE, "chat")  # as the other tests expect it


def test_the_random_twin_has_the_shape_alone(theirs, tmp_path):
    def weights(name, **options):
        out = starting_point(str(theirs), tmp_path / name, prompt_format="brief", **options)
        return load_policy(out).model.state_dict()

    original, twin, again = weights("own"), weights("twin", random_weights=True), weights("again", random_weights=True)
    assert {k: w.shape for k, w in original.items()} == {k: w.shape for k, w in twin.items()}
    projections = [k for k in original if "proj" in k]
    assert projections
    assert not any(torch.equal(original[k], twin[k]) for k in projections)
    assert all(torch.equal(twin[k], again[k]) for k in twin)


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    with pytest.raises(checkpoint.CheckpointError, match=r"none\.gguf: no such file"):
        starting_point(str(tmp_path / "none.gguf"), tmp_path / "out", prompt_format="chat")
    monkeypatch.setitem(pretrained.PACKAGED, "smollm2", ("no_such_package", "x.gguf"))
    message = r"'smollm2' is in the package no_such_package, .*make install EXTRAS=dev,smol"
    with pytest.raises(ValueError, match=message):
        starting_point("smollm2", tmp_path / "out", prompt_format="chat")


@pytest.fixture
def gguf_file(tmp_path) -> tuple[Path, dict[str, np.ndarray]]:
    """A quantised GGUF of a tiny Llama with a byte-level tokenizer, its eos as wrong as SmolLM2's; and its weights."""
    gguf = pytest.importorskip("gguf", reason="gguf is not installed: make test EXTRAS=dev,smollm2")
    tokenizer = byte_level_tokenizer()
    tokens = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    path, tensors = tmp_path / "tiny.gguf", {}
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in {
        "context_length": 256, "embedding_length": WIDTH, "block_count": 1, "feed_forward_length": WIDTH,
        "head_count": 2, "head_count_kv": 1, "layer_norm_rms_eps": 1e-5, "rope_freq_base": 10_000.0,
        "rope_dimension_count": WIDTH // 2, "vocab_size": len(tokens),
    }.items():  # fmt: skip
        getattr(writer, f"add_{key}")(value)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if i < 3 else 1 for i in range(len(tokens))])  # control, normal
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(1)
    writer.add_chat_template(TEMPLATE)
    rng, kind = np.random.default_rng(0), gguf.GGMLQuantizationType.Q8_0
    half = WIDTH // 2
    shapes = {"token_embd": (len(tokens), WIDTH), "blk.0.attn_k": (half, WIDTH), "blk.0.attn_v": (half, WIDTH)}
    for name in ("attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"):
        shapes[f"blk.0.{name}"] = (WIDTH, WIDTH)
    for name, shape in shapes.items():
        quantised = gguf.quantize(rng.normal(0, 0.05, shape).astype(np.float32), kind)
        tensors[name] = gguf.dequantize(quantised, kind)
        writer.add_tensor(f"{name}.weight", quantised, raw_dtype=kind)
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path, tensors


def test_a_gguf_file_becomes_a_checkpoint(gguf_file, tmp_path):
    path, tensors = gguf_file
    policy = load_policy(starting_point(str(path), tmp_path / "out", prompt_format="chat"))
    state = policy.model.state_dict()
    for key, name in {"embed_tokens": "token_embd", "layers.0.mlp.down_proj": "blk.0.ffn_down"}.items():
        assert np.allclose(state[f"model.{key}.weight"].numpy(), tensors[name])
    assert policy.tokenizer.eos_token == "<|im_end|>"
    assert policy.model.generation_config.eos_token_id == policy.model.config.eos_token_id == 2
    assert "quantization_config" not in read_json(tmp_path / "out/config.json")
    texts = ["b1 c2", " two  blanks , a comma", "é <|im_end|>"]
    ids = policy.tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert policy.tokenizer.batch_decode(ids) == texts
    assert ids == byte_level_tokenizer()(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    with torch.no_grad():  # and it is a language model: no token is certain
        assert -math.log(0.5) < policy.model(torch.tensor([[5, 6, 7]]), labels=torch.tensor([[5, 6, 7]])).loss < 20
