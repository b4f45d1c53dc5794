"""Demonstrations speak the language that real prompts and replies speak, in closed words, and show a wide mixture."""

import re
from collections import Counter

import numpy as np
import pytest
from engineer_samples import REPORTS, SIZES, history

from mapflake.engineer import VOCABULARY as ENGINEER_WORDS
from mapflake.engineer import build_prompt, demonstrations, format_config, read_reply
from mapflake.engineer.context import VARIANTS
from mapflake.env import VOCABULARY

MANY = demonstrations(1500, SIZES, seed=11)


@pytest.mark.parametrize("sizes", [(3, 4, 5, 6), tuple(range(3, 11)), (5,)])
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_word_is_in_the_vocabulary_and_every_answer_is_accepted(sizes, variant):
    for prompt, completion in demonstrations(40, sizes, seed=3, variants=[variant]):
        assert {*prompt.split(" "), *completion.split(" ")} <= {*VOCABULARY, *ENGINEER_WORDS}
        proposal = read_reply(completion, sizes, "compact")
        assert proposal.rejection is None
        assert proposal.config is not None
        assert format_config(proposal.config, "compact") == completion


def test_a_pair_depends_on_its_number_alone():
    assert demonstrations(20, SIZES, seed=11) == MANY[:20]
    assert demonstrations(20, SIZES, seed=12) != MANY[:20]


def form(prompt):
    """A prompt without its numbers."""
    return re.sub(r"\bp\d+\b|\bnone\b|\bany\b", "#", prompt)


def test_real_prompts_have_the_form_of_demonstrated_ones():
    shown = {form(prompt) for prompt, _ in MANY}
    for rounds in (1, 2):
        assert form(build_prompt(REPORTS[0], history(rounds), SIZES, prompt_format="compact")) in shown


def test_words_that_a_run_may_need_are_all_shown():
    shown = {word for pair in MANY for text in pair for word in text.split(" ")}
    later = {f"round{i}" for i in range(4, 10)}
    assert set(ENGINEER_WORDS) - shown == {*later, "summary", "details"}
    other = demonstrations(40, SIZES, seed=1, variants=["V5", "V6-full"])
    assert {"summary", "details"} <= {word for prompt, _ in other for word in prompt.split(" ")}


def test_reports_range_from_hopeless_to_solved():
    rates = [int(p.split(" ")[3][1:]) for p, _ in MANY]  # valid rate on 3x3
    assert min(rates) < 30
    assert max(rates) == 100
    assert np.mean([20 <= r <= 80 for r in rates]) > 0.25


def design(completion):
    """Data, hole and wait ratio of each size that an answer names, in percent."""
    words = completion.split(" ")[:-1]
    return {words[i]: [w if w == "any" else int(w[1:]) for w in words[i + 1 : i + 4]] for i in range(0, len(words), 4)}


def test_answers_are_a_wide_mixture_that_still_depends_on_the_report():
    answers = [design(c) for _, c in MANY]
    full = [(int(p.split(" ")[3][1:]), a) for (p, _), a in zip(MANY, answers, strict=True) if len(a) == len(SIZES)]
    easy, small = np.array([(v, a["size3"][0]) for v, a in full], dtype=float).T
    assert -0.9 < np.corrcoef(easy, small)[0, 1] < -0.15  # the better 3x3 goes, the less of it, on average
    assert np.std(small) > 10
    commonest, count = Counter(c for _, c in MANY).most_common(1)[0]
    assert count < 0.02 * len(MANY), commonest
    # "abandon": now and then sizes are left out, but never all of them; levels go over their whole range
    assert 0.02 < np.mean([len(a) < len(SIZES) for a in answers]) < 0.3
    holes = [a[s][1] for a in answers for s in a]
    assert (min(holes), max(holes)) == (0, 50)


def test_wrong_calls_are_errors():
    with pytest.raises(ValueError, match="-1 is negative"):
        demonstrations(-1, SIZES, seed=0)
    with pytest.raises(ValueError, match=r"\['V9'\] is not among V1"):
        demonstrations(1, SIZES, seed=0, variants=["V9"])
    with pytest.raises(ValueError, match="2 is not an integer"):
        demonstrations(1, [2], seed=0)
    assert demonstrations(0, SIZES, seed=0) == []
