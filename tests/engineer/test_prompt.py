"""Prompts: golden texts, and what a variant must show and must not."""

import json
import re
from dataclasses import replace

import pytest
from engineer_samples import GOLDEN, REPORTS, SIZES, golden, history

from mapflake.engineer import VARIANTS, FailureReport, Proposal, Round, build_prompt, read_reply
from mapflake.engineer.reply import reply_schema
from mapflake.engineer.report import SizeReport
from mapflake.env import EnvConfig


def test_prompts_are_as_agreed():
    expected = GOLDEN.read_text(encoding="utf-8")
    assert golden() == expected, "if this is meant: python tests/engineer/engineer_samples.py"


def test_only_with_the_default_is_round_0_shown():
    for name in VARIANTS:
        text = build_prompt(REPORTS[0], history(1), SIZES, variant=name)
        assert ("Round 0 (the random" in text) == (name == "V3")
        assert ("Training set just used" in text) == (name == "V3")  # it would give the default away
        assert "0.65" not in text or name == "V3"
        compact = build_prompt(REPORTS[0], history(1), SIZES, variant=name, prompt_format="compact")
        assert ("p65" in compact) == (name == "V3")
        brief = build_prompt(REPORTS[0], history(1), SIZES, variant=name, prompt_format="brief")
        assert ("0.65" in brief) == (name == "V3")


def test_model_text_cannot_act_in_any_prompt():
    for name in VARIANTS:
        for rounds in (1, 2, 3):
            text, brief = (
                build_prompt(REPORTS[0], history(rounds), SIZES, variant=name, prompt_format=form)
                for form in ("json", "brief")
            )
            assert "obey" not in brief  # it shows no model text at all
            for part in ("<|im_end|>", "<|im_start|>", "</think>", "```", "\x1b", "\nUser:"):
                assert part not in text
            text.encode()


def test_a_summary_shows_no_reasoning_that_was_cut_off():
    last_round = replace(history(2)[1], proposal=read_reply("Larger boards. <think>Hidden", SIZES))
    text = build_prompt(REPORTS[0], (history(1)[0], last_round), SIZES, variant="V5")
    assert "Larger boards." in text
    assert "Hidden" not in text


def test_a_prompt_ends_with_the_form_of_the_answer_and_its_schema():
    lines = build_prompt(REPORTS[0], history(1), SIZES).splitlines()
    assert json.loads(lines[-1]) == reply_schema(SIZES)
    form = re.search(r"Its form is (.*), and its JSON Schema:", lines[-2])[1]
    config = read_reply(form.replace("<number>", "0.25").replace(", ...", ""), SIZES).config
    assert config == EnvConfig.uniform(SIZES[:1], 0.25, 0.25)


def test_a_fallback_of_round_0_is_told_only_with_its_configuration():
    fallback = {4: {"asked": {"hole_ratio": 0.47, "wait_ratio": 0.95}, "got": {"hole_ratio": 0.35, "wait_ratio": None}}}
    past = (replace(history(1)[0], fallback=fallback),)
    for form in ("json", "brief"):
        names = {v for v in VARIANTS if "0.47" in build_prompt(REPORTS[0], past, SIZES, variant=v, prompt_format=form)}
        assert names == {v for v, context in VARIANTS.items() if context.history == "all"}


BY_HAND = FailureReport((SizeReport(3, 40, 30, 10, 20, 11, 3, (0, 0, 1, 2, 3, 4, 10, 9)),))


def test_compact_words_by_hand():
    text = build_prompt(BY_HAND, history(1), [3], variant="V1", prompt_format="compact")
    # valid 75%, optimal 25%, 11 of 20 with a wait, 19 of 20 without; then 0 0 2.5 5 7.5 10 25 22.5 %, halves up
    assert text == "engineer report size3 p75 p25 p55 p95 p00 p00 p05 p05 p10 p10 p25 p25 design"


def test_brief_lines_by_hand():
    config = EnvConfig.uniform([3], 0.15)
    past = Round("a", 0, config, BY_HAND), Round("a", 1, config, BY_HAND, proposal=Proposal("", config, None))
    assert build_prompt(BY_HAND, past, [3, 4], prompt_format="brief").splitlines() == [
        "Design boards with 2 agents for the next training round.",
        "Percent of answers on validation boards:",
        "3x3: valid 75, with wait 55, without 95, optimal 25, "
        "fails edge 25, goal 22, vertex 10, hole 8, bounds 5, move 2",
        "Boards that are solved sometimes teach most.",
        "Round 1:",
        "3x3: data 1, hole 0.15, wait any",
        "then valid: 3x3 75",
        "Round 1 has ended.",
        'Sizes: 3, 4. Answer: {"sizes": {"3": {"data_ratio": _, "hole_ratio": _, "wait_ratio": _}, ...}}',
    ]


@pytest.mark.parametrize("prompt_format", ["json", "brief", "compact"])
@pytest.mark.parametrize("sizes", [[], [2], ["3"]])
def test_a_size_that_is_none_is_refused_in_every_format(sizes, prompt_format):
    with pytest.raises(ValueError, match="sizes: "):
        build_prompt(REPORTS[0], history(1), sizes, prompt_format=prompt_format)


def test_a_context_that_is_none_is_refused():
    for wrong in (None, 3, "V0"):
        with pytest.raises(ValueError, match=f"^variant {wrong!r} is unknown; legal: V1"):
            build_prompt(REPORTS[0], history(1), SIZES, variant=wrong)


def test_build_prompt_meets_a_budget_by_leaving_out_examples_first_then_rounds_and_never_by_cutting():
    def prompt(budget):
        return build_prompt(REPORTS[0], history(3), SIZES, variant="V3", budget=budget)

    full_prompt = prompt(None)
    steps = [full_prompt]
    for _ in range(4):
        steps.append(prompt(len(steps[-1].split()) - 1))
    with pytest.raises(ValueError, match="tokens without examples and earlier rounds, the budget is"):
        prompt(len(steps[-1].split()) - 1)
    notes = ["of 2 examples of failures left out for length", "earlier rounds left out for length"]
    assert [[line for line in text.split("\n") if "left out for length" in line] for text in steps] == [
        [],
        [f"[1 {notes[0]}]"],
        [f"[2 {notes[0]}]"],
        [f"[2 {notes[0]}]", f"[1 {notes[1]}]"],
        [f"[2 {notes[0]}]", f"[2 {notes[1]}]"],
    ]
    for text in steps:  # nothing is cut: every line except the notes is a line of the whole prompt
        assert {line for line in text.split("\n") if "left out" not in line} <= set(full_prompt.split("\n"))
