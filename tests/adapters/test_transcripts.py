"""The golden transcripts through `judge` and through the reward functions; other paths have their own files."""

import tracemalloc
from itertools import product

import pytest
from transcripts import TRANSCRIPTS

from mapflake.env import KINDS, PROMPT_FORMATS, REWARD, judge, reward, reward_functions, to_dataset
from mapflake.repro import dumps, to_json


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
    arguments = columns | {"completions": completions, "prompts": rows["prompt"]}
    scores = {f.__name__: f(**arguments) for f in reward_functions(prompt_format)}
    with pytest.raises(ValueError, match="task: missing; the rows of the training set are those of to_dataset"):
        reward_functions(prompt_format)[0](completions=[""])
    assert scores == {name: [float(getattr(t, name)) for t in chosen] for name in REWARD}


SAID = "".join(t.completion for t in TRANSCRIPTS if (t.name, t.prompt_format) == ("optimal", "chat"))


@pytest.mark.parametrize(
    ("completion", "score"),
    [
        (SAID, 1.0),
        ([{"content": [{"type": "text", "text": SAID[:9]}, {"type": "text", "text": SAID[9:]}]}], 1.0),
        ([{"role": "assistant", "content": "I ask a tool."}, {"role": "tool", "content": "4"}, {"content": SAID}], 1.0),
        ([{"role": "assistant", "content": SAID}, {"role": "assistant", "content": "I do not know."}], 0.0),
        ([{"role": "assistant", "content": None, "tool_calls": []}], 0.0),
        ([{"role": "assistant", "content": [{"type": "image"}]}], 0.0),
        ([], 0.0),
    ],
)
def test_rewards_of_all_shapes_of_a_completion(completion, score):
    (transcript,) = (t for t in TRANSCRIPTS if (t.name, t.prompt_format) == ("optimal", "chat"))
    for function in reward_functions():
        assert function(completions=[completion], task=[dumps(to_json(transcript.task))]) == [score]


@pytest.mark.parametrize(
    ("column", "wrong"),
    [
        ("completions", None),
        ("completions", {"content": SAID}),
        ("completions", [{"content": [None]}]),
        ("completions", [{"content": 4}]),
        ("task", None),
        ("task", TRANSCRIPTS[0].task),
    ],
)
def test_rewards_name_what_they_cannot_read(column, wrong):
    arguments = {"completions": [SAID], "task": [dumps(to_json(TRANSCRIPTS[0].task))]} | {column: [wrong]}
    with pytest.raises(ValueError, match=f"{column}: .* is n"):
        reward_functions()[0](**arguments)


def test_rewards_keep_little_of_what_they_judged():
    """Plans with very many violations: their verdicts take half a megabyte each."""
    task = dumps(to_json(TRANSCRIPTS[0].task))
    valid, optimal = reward_functions()
    completions = [f'{{"plan": ["{"U" * 700}", "{"D" * 700}"]}} {number}' for number in range(20)]
    valid(completions=completions[:1], task=[task])
    tracemalloc.start()
    assert valid(completions=completions, task=[task] * 20) == optimal(completions=completions, task=[task] * 20)
    memory, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert memory < 20 * 5_000
