"""The small policy's language: demonstrations, the pairs of the warm start, the analysis of designs."""

import re
from collections import Counter

import numpy as np
import pytest
from engineer_samples import REPORTS, SIZES, history

from mapflake import repro
from mapflake.engineer import ENGINEER_WORDS, VARIANTS, build_prompt, demonstrations, format_config, read_reply
from mapflake.engineer.compact.base import BaseParams, base_pairs
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.env import VOCABULARY, EnvConfig, generate, naive_plan_fails, save_tasks

MANY = demonstrations(400, SIZES, seed=11)


@pytest.mark.parametrize("sizes", [tuple(range(3, 11)), (5,)])
def test_every_word_is_in_the_vocabulary_and_every_answer_is_accepted(sizes):
    for prompt, completion in demonstrations(80, sizes, seed=3, variants=list(VARIANTS)):
        assert {*prompt.split(" "), *completion.split(" ")} <= {*VOCABULARY, *ENGINEER_WORDS}
        proposal = read_reply(completion, sizes, "compact")
        assert format_config(proposal.config, "compact") == completion


def test_a_pair_depends_on_its_number_alone():
    assert demonstrations(20, SIZES, seed=11) == MANY[:20]
    assert demonstrations(20, SIZES, seed=12) != MANY[:20]


def form(prompt):
    """A prompt without its numbers."""
    return re.sub(r"\bp\d+\b|\bnone\b|\bany\b", "#", prompt)


def test_real_prompts_have_the_form_of_demonstrated_ones():
    forms = {form(prompt) for prompt, _ in MANY}
    for rounds in (1, 2):
        assert form(build_prompt(REPORTS[0], history(rounds), SIZES, prompt_format="compact")) in forms


def test_what_is_reported_is_a_part_of_the_sizes():
    for reported, message in (([5], "reported: 5 is none of the sizes 3, 4"), ([], "sizes: ")):
        with pytest.raises(ValueError, match=message):
            made_up(0, [3, 4], seed=0, reported=reported)


def test_words_that_a_run_may_need_are_all_shown():
    words = {word for pair in MANY for text in pair for word in text.split(" ")}
    later_rounds = {f"round{i}" for i in range(4, 10)}
    assert set(ENGINEER_WORDS) - words == {*later_rounds, "summary", "details"}
    pairs = demonstrations(40, SIZES, seed=1, variants=["V5", "V6-full"])
    assert {"summary", "details"} <= {word for prompt, _ in pairs for word in prompt.split(" ")}


def design(completion):
    """Data, hole and wait ratio of each size that an answer names, in percent."""
    words = completion.split(" ")[:-1]
    return {words[i]: [w if w == "any" else int(w[1:]) for w in words[i + 1 : i + 4]] for i in range(0, len(words), 4)}


def test_answers_are_a_wide_mixture_that_still_depends_on_the_report():
    answers = [design(c) for _, c in MANY]
    full = [(int(p.split(" ")[3][1:]), a) for (p, _), a in zip(MANY, answers, strict=True) if len(a) == len(SIZES)]
    rates, shares = np.array([(v, a["size3"][0]) for v, a in full], dtype=float).T
    assert -0.9 < np.corrcoef(rates, shares)[0, 1] < -0.15  # the better 3x3 goes, the less of it, on average
    assert np.std(shares) > 10
    commonest, count = Counter(c for _, c in MANY).most_common(1)[0]
    assert count < 0.02 * len(MANY), commonest
    # "abandon": now and then sizes are left out, but never all of them; levels go over their whole range
    assert 0.02 < np.mean([len(a) < len(SIZES) for a in answers]) < 0.3
    holes = [a[s][1] for a in answers for s in a]
    assert (min(holes), max(holes)) == (0, 50)


SOLVED = generate(EnvConfig.uniform(SIZES, 0.2, 0.3), 40, seed=1)


def pairs_of(folder, tasks, n, **changes):
    params = {"seed": 3, "hard_share": 0.5, "engineer_share": 0.2, "engineer_variants": ["V1", "V6"]} | changes
    save_tasks(folder / "demonstrations.jsonl", tasks)
    repro.write_json(folder / "settings.json", {"sizes": SIZES})
    return base_pairs(BaseParams.parse(params | {"training": {"model": {}, "steps": 1}}, "warm_start"), folder, n)


def test_base_pairs_show_boards_then_demonstrations(tmp_path):
    pairs = pairs_of(tmp_path, SOLVED, 60)
    assert len(pairs) == 60
    assert pairs[48:] == demonstrations(12, SIZES, seed=3, variants=["V1", "V6"])
    assert all(prompt.endswith(" plan") and answer.endswith(";") for prompt, answer in pairs[:48])


def test_base_pairs_need_boards_of_each_kind(tmp_path):
    tasks = [task for task in SOLVED if naive_plan_fails(task.instance)]
    with pytest.raises(ValueError, match="no board that the naive plan solves, and hard_share is"):
        pairs_of(tmp_path, tasks, 60)
    assert len(pairs_of(tmp_path, tasks, 10, hard_share=1.0, engineer_share=0.0)) == 10
