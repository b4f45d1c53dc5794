"""A fourth dimension, as an engineer has it: told, asked for, projected, decoded, given up, recorded, shown.

docs/examples/own_dimension.py, whose output is tested, has the prompt in JSON and an arm that draws it at random.
"""

from dataclasses import replace

import pytest
from engineer_samples import REPORTS, SIZES, ScriptedTrainer
from test_actions import allowed

from mapflake.engineer import (
    ENGINEER_WORDS,
    Ledger,
    Round,
    RoundSettings,
    Start,
    build_prompt,
    format_config,
    random_config,
    read_reply,
    replay,
    reply_grammar,
    run_arm,
    run_round,
)
from mapflake.env import VOCABULARY, EnvConfig, generate
from mapflake.env.config import DIMENSIONS, Dimension
from mapflake.plots import figures, tables
from mapflake.repro import rng_for


def rotated(board, level, rng):
    return replace(board, goals=board.starts[1:] + board.starts[:1]) if rng.random() < level else board


@pytest.fixture(autouse=True)
def swap_ratio(monkeypatch):
    monkeypatch.setitem(
        DIMENSIONS, "swap_ratio", Dimension("share of boards on which agents change places.", 1.0, False, rotated)
    )


@pytest.mark.parametrize("prompt_format", ["json", "compact"])
def test_what_is_written_is_read_and_follows_the_grammar(prompt_format):
    for config in (random_config(SIZES, rng_for(i, "own")) for i in range(10)):
        text = format_config(config, prompt_format)
        assert read_reply(text, SIZES, prompt_format).config == config
        assert prompt_format == "compact" or allowed(text, SIZES)
    assert "s3: <size3> unit half (unit | <any>) unit" in reply_grammar(SIZES, "compact")


def test_a_reply_must_say_it():
    rejection = read_reply("size3 p100 p00 any any end", SIZES, "compact").rejection
    assert rejection == "size3: swap_ratio is 'any', not one of p00, p05, ... p100"
    assert not allowed('{"sizes": {"3": {"data_ratio": 1, "hole_ratio": 0, "wait_ratio": null}}}', SIZES)


@pytest.mark.parametrize("name", ["title", "default"])
def test_it_may_have_a_name_that_a_schema_uses(monkeypatch, name):
    monkeypatch.setitem(DIMENSIONS, name, Dimension("a ratio.", transform=rotated))
    config = EnvConfig.uniform(SIZES, 0.1, 0.5, **{"swap_ratio": 0.5, name: 0.75})
    text = format_config(config)
    assert read_reply(text, SIZES).config == config
    assert allowed(text, SIZES)


def test_it_is_told():
    past = (Round("a", 1, EnvConfig.uniform(SIZES, 0.1, None, swap_ratio=0.75), REPORTS[1]),)
    assert '"swap_ratio": <number>}, ...}}, and its JSON Schema' in build_prompt(REPORTS[1], past, SIZES)
    words = build_prompt(REPORTS[1], past, SIZES, variant="V6", prompt_format="compact").split()
    assert set(words) <= {*ENGINEER_WORDS, *VOCABULARY}
    round_words = words[words.index("round1") + 1 :]  # of each size its name, four ratios, the valid rate
    assert round_words[:6] == ["size3", "p25", "p10", "any", "p75", "p90"]


def test_a_whole_arm_is_recorded_replayed_and_shown(tmp_path):
    first = EnvConfig.uniform((3, 4), 0.1, 0.0, swap_ratio=0.5)
    validation = generate(EnvConfig.uniform((3, 4), 0.1), 6, seed=1, split="validation")
    settings = RoundSettings(tmp_path / "shared", ScriptedTrainer(validation), validation, 3)
    before = (run_round(settings, (), start=Start("warm", first)),)
    history = run_arm("heuristic", replace(settings, folder=tmp_path / "arm"), before, rounds=2, sizes=(3, 4))
    assert Ledger(tmp_path / "arm/rounds.jsonl").rounds == history[1:]
    assert replay(tmp_path / "arm/rounds.jsonl", before) == [r.config for r in history[1:]]
    rows = tables.configurations(history, "heuristic")
    assert rows["swap_ratio"].tolist() == [0.5] * 6
    panels = figures.configurations(rows).axes
    assert [ax.get_ylabel() for ax in panels] == ["data ratio", "hole ratio", "wait ratio", "swap ratio"]
