"""The golden transcripts through `judge` and through the reward functions; other paths have their own files."""

import importlib
import subprocess
import sys
from itertools import product

import pytest
from transcripts import TRANSCRIPTS

from mapflake.env import KINDS, PROMPT_FORMATS, REWARD, judge, reward, reward_functions, to_dataset


def test_every_kind_of_answer_is_there():
    alone = {(t.prompt_format, *t.violations) for t in TRANSCRIPTS if len(t.violations) == 1}
    assert alone >= {*product(("chat", "compact"), KINDS)}  # answers in brief are read as those in chat
    assert {(t.prompt_format, t.reward) for t in TRANSCRIPTS} == {*product(PROMPT_FORMATS, (0, 0.5, 1))}


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda t: f"{t.prompt_format}: {t.name}")
def test_judge(transcript):
    verdict = judge(transcript.task, transcript.completion, transcript.prompt_format)
    assert verdict.kinds == transcript.violations
    for name in ("valid", "optimal", "soc_optimal"):
        assert getattr(verdict, name) == getattr(transcript, name)
    assert reward(verdict) == transcript.reward


@pytest.mark.parametrize("prompt_format", PROMPT_FORMATS)
def test_rewards_of_trl(prompt_format):
    """As TRL calls them: a column is a list, a chat is a list of one message."""
    chosen = [t for t in TRANSCRIPTS if t.prompt_format == prompt_format]
    rows = to_dataset([t.task for t in chosen], prompt_format)
    texts = [t.completion for t in chosen]
    completions = texts if prompt_format == "compact" else [[{"role": "assistant", "content": text}] for text in texts]
    columns = rows.remove_columns("prompt")[:]
    asked = columns | {"completions": completions, "prompts": rows["prompt"]}
    scores = {f.__name__: f(**asked) for f in reward_functions(prompt_format)}
    assert scores == {name: [float(getattr(t, name)) for t in chosen] for name in REWARD}


def test_wrong_calls_of_rewards_name_what_is_missing():
    with pytest.raises(ValueError, match="prompt_format: 'json' is none of chat, brief, compact"):
        reward_functions("json")
    valid, _ = reward_functions("compact")
    with pytest.raises(ValueError, match="task: missing; the rows of the training set are those of to_dataset"):
        valid(completions=[""], prompts=["size4"])


def test_the_environment_imports_no_framework():
    code = "import sys, mapflake, mapflake.env, mapflake.adapters; print({*sys.argv[1:]} & {*sys.modules})"
    heavy = [
        "pettingzoo",
        "inspect_ai",
        "verifiers",
        "trl",
        "torch",
        "transformers",
        "datasets",
        "pandas",
        "matplotlib",
    ]
    done = subprocess.run([sys.executable, "-c", code, *heavy], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("module", "package", "install"),
    [
        ("parallel_env", "pettingzoo", r"pip install 'mapflake\[adapters\]'"),
        ("inspect_task", "inspect_ai", r"pip install 'mapflake\[adapters\]'"),
        ("taskset", "verifiers", "pip install -c requirements/verifiers.txt"),
    ],
)
def test_a_missing_package_is_named_with_what_installs_it(module, package, install, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"mapflake.adapters.{module}", raising=False)
    with pytest.raises(ImportError, match=f" is not installed: {install}"):
        importlib.import_module(f"mapflake.adapters.{module}")


@pytest.mark.slow
def test_grpo_by_trl_itself(example):
    log = example("grpo_trl")
    steps = [row for row in log if "reward" in row]
    assert len(steps) == 2
    for row in steps:
        total = sum(REWARD[name] * row[f"rewards/{name}/mean"] for name in REWARD)
        assert row["reward"] == pytest.approx(total)
