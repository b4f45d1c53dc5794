"""The small policy's language: demonstrations, the pairs of the warm start, the analysis of designs."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from engineer_samples import REPORTS, SIZES, ScriptedPolicy, history

from mapflake import repro
from mapflake.engineer import VARIANTS, build_prompt, demonstrations, format_config, project, read_reply
from mapflake.engineer import VOCABULARY as ENGINEER_WORDS
from mapflake.engineer.compact import imitation
from mapflake.engineer.compact.base import BaseParams, base_pairs
from mapflake.engineer.compact.demonstrations import DATA_RULES, SyntheticReport, synthetic_report
from mapflake.engineer.report import FailureReport, SizeReport
from mapflake.env import VOCABULARY, EnvConfig, SizeConfig, generate, naive_plan_fails, save_tasks

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
    hard = [task for task in SOLVED if naive_plan_fails(task.instance)]
    with pytest.raises(ValueError, match="no board that the naive plan solves, and hard_share is"):
        pairs_of(tmp_path, hard, 60)
    assert len(pairs_of(tmp_path, hard, 10, hard_share=1.0, engineer_share=0.0)) == 10


# ---------------------------------------------------------------- imitation

SYNTHETIC = [synthetic_report(i, SIZES, seed=4) for i in range(60)]


def test_a_rule_without_noise_is_found_at_distance_0():
    for rule in DATA_RULES.values():
        weights = [rule(one.report.valid_rates, one.last) for one in SYNTHETIC]
        designs = [
            project({s: {"data_ratio": w, "hole_ratio": 0.1, "wait_ratio": None} for s, w in each.items()}, SIZES)
            for each in weights
        ]
        rows = imitation.beside_rules({"x": designs}, SYNTHETIC)
        assert max(row["distance"] for row in rows) < 1e-9
    assert imitation.beside_rules({"x": [None] * 60}, SYNTHETIC) == []


@pytest.mark.parametrize(
    ("label", "levels"),
    [
        ("as before", {3: (0.45, 0.3), 4: (0.1, None)}),
        ("towards half-solved", {3: (0.5, 0.4), 4: (0.0, None)}),  # 90% and 10% valid; holes end at 0.5
        ("near before", {3: (0.4, 0.25), 4: (0.15, None)}),
        ("one level", {3: (0.2, 0.3), 4: (0.2, 0.3)}),
        ("free", {3: (0.2, 0.3), 4: (0.1, None)}),
    ],
)
def test_levels_are_told_apart(label, levels):
    def config(levels):
        return EnvConfig({size: SizeConfig(0.5, *level) for size, level in levels.items()})

    report = FailureReport(tuple(SizeReport(s, 10, v, 0, 0, 0, 0, (0,) * 8) for s, v in ((3, 9), (4, 1))))
    before = config({3: (0.45, 0.3), 4: (0.1, None)})
    one = SyntheticReport(report, (), before, "", before, {}, 0.0)
    assert [row["levels"] for row in imitation.beside_rules({"x": [config(levels)]}, [one])] == [label]
    [row] = imitation.beside_rules({"x": [before]}, [replace(one, last=None)])
    assert row["levels"] is None


def test_demonstrations_lie_between_the_rules_and_random_designs():
    rows = imitation.Survey(SYNTHETIC, {"plain": {}}).beside_rules()
    mean = {name: sum(r["distance"] for r in rows if r["designer"] == name) / 60 for name in ("demonstrated", "random")}
    assert 0.02 < mean["demonstrated"] < mean["random"] - 0.05
    assert len({r["levels"] for r in rows if r["designer"] == "demonstrated"} - {None}) == 5


def test_two_models_side_by_side():
    a = EnvConfig({3: SizeConfig(0.5, 0.1, 0.5), 4: SizeConfig(0.5, 0.1, None)})
    b = EnvConfig({3: SizeConfig(0.75, 0.1, 0.5), 4: SizeConfig(0.25, 0.1, 0.0)})
    found = imitation.between([a, a, None, a], [a, b, b, None])
    assert found == {"designs": 2, "equal": 0.5, "numbers": 0.25, "data": 0.125}
    assert imitation.between([a], [EnvConfig({3: SizeConfig(1.0, 0.1, 0.5)})])["numbers"] == pytest.approx(4 / 6)
    with pytest.raises(ValueError, match="no report has two accepted designs"):
        imitation.between([None], [a])


def test_a_survey_asks_every_model_the_same():
    good, bad = "size3 p100 p10 any end", "size3 end"
    models = {"good": ScriptedPolicy({}, [good]), "bad": ScriptedPolicy({}, [bad])}
    for policy in models.values():
        policy.complete = lambda prompts, policy=policy, **options: (
            policy.calls.append({"prompts": prompts, **options}) or [[policy.replies[0]] for _ in prompts]
        )
    survey = imitation.survey(models, SIZES, 5, seed=3)
    assert survey.accepted() == [
        {"designer": "good", "plain": 1.0, "constrained": 1.0},
        {"designer": "bad", "plain": 0.0, "constrained": 0.0},
    ]
    assert models["good"].calls == models["bad"].calls
    plain, bound, shuffled, other = models["good"].calls
    assert "grammar" in bound
    assert {**bound, "grammar": None} == {**plain, "grammar": None}
    assert [a == b for a, b in zip(plain["prompts"], shuffled["prompts"], strict=True)] == [False] * 5
    assert [sorted(p.split()) for p in plain["prompts"]] == [sorted(p.split()) for p in shuffled["prompts"]]
    assert {**other, "seed": plain["seed"]} == plain
    assert other["seed"] != plain["seed"]
    assert {r["designer"] for r in survey.beside_rules()} == {"good", "demonstrated", "random"}
    same = {"designs": 5, "equal": 1.0, "numbers": 0.0, "data": 0.0}
    titles = ["good / good", "good / told other failures", "good / other noise"]
    assert survey.changes("good", "good") == [{"compared": title} | same for title in titles]
    shown = {prompt for prompt, _ in demonstrations(200, SIZES, seed=3)}
    assert not shown & {one.prompt for one in survey.reports}
