"""Measures of designs: known designs get the known answer."""

import pytest
from engineer_samples import SIZES, ScriptedPolicy

from mapflake.engineer import demonstrations, format_config, imitation, project
from mapflake.engineer.demonstrations import DATA_RULES, data_ratios, situation
from mapflake.env import EnvConfig, SizeConfig

SITUATIONS = [situation(i, SIZES, seed=4) for i in range(60)]


def test_situations_are_those_behind_demonstrations():
    pairs = [(one.prompt, format_config(one.answer, "compact")) for one in SITUATIONS]
    assert pairs == demonstrations(60, SIZES, seed=4)


def test_a_rule_without_noise_is_found_at_distance_0():
    for rule in DATA_RULES:
        designs = [
            project({s: {"data_ratio": r, "hole_ratio": 0.1, "wait_ratio": None} for s, r in ratios.items()}, SIZES)
            for ratios in (data_ratios(rule, one, SIZES) for one in SITUATIONS)
        ]
        rows = imitation.beside_rules({"x": designs}, SITUATIONS, SIZES)
        assert max(row["distance"] for row in rows) < 1e-9
    assert imitation.beside_rules({"x": [None] * 60}, SITUATIONS, SIZES) == []


def test_levels_are_told_apart():
    one = next(s for s in SITUATIONS if s.last is not None and len({c.hole_ratio for c in s.last.sizes.values()}) > 1)

    def label(change):
        sizes = {s: change(s, c) for s, c in one.last.sizes.items()}
        [row] = imitation.beside_rules({"x": [EnvConfig(sizes)]}, [one], SIZES)
        return row["levels"]

    def clipped(value, top):
        return min(max(value, 0.0), top)

    rates = {s.size: s.valid_rate for s in one.report.sizes}
    assert label(lambda s, c: c) == "as before"
    assert label(lambda s, c: SizeConfig(c.data_ratio, 0.3, 0.4)) == "one level"
    assert label(lambda s, c: SizeConfig(c.data_ratio, (c.hole_ratio + 0.25 + s / 1000) % 0.5, 0.5)) == "free"

    def towards(s, c):
        step = 0.1 * ((rates[s] > 0.7) - (rates[s] < 0.3))
        wait = None if c.wait_ratio is None else clipped(c.wait_ratio + step, 1)
        return SizeConfig(c.data_ratio, clipped(c.hole_ratio + step, 0.5), wait)

    moved = any(v > 0.7 or v < 0.3 for v in rates.values())
    assert label(towards) == ("towards half-solved" if moved else "as before")
    nudged = {s: 0.1 if i % 2 else -0.1 for i, s in enumerate(SIZES)}
    assert label(lambda s, c: SizeConfig(c.data_ratio, clipped(c.hole_ratio + nudged[s], 0.5), c.wait_ratio)) in (
        "near before",
        "towards half-solved",
    )
    hidden = next(s for s in SITUATIONS if s.last is None)
    assert imitation.beside_rules({"x": [hidden.answer]}, [hidden], SIZES)[0]["levels"] is None


def test_demonstrations_lie_between_the_rules_and_random_designs():
    survey = imitation.Survey(SIZES, SITUATIONS, {}, {}, {}, {})
    rows = survey.beside_rules()
    mean = {name: sum(r["distance"] for r in rows if r["designer"] == name) / 60 for name in ("demonstrated", "random")}
    assert 0.02 < mean["demonstrated"] < mean["random"] - 0.05
    assert len({r["levels"] for r in rows if r["designer"] == "demonstrated"} - {None}) == 5


def test_two_models_side_by_side():
    a = EnvConfig({3: SizeConfig(0.5, 0.1, 0.5), 4: SizeConfig(0.5, 0.1, None)})
    b = EnvConfig({3: SizeConfig(0.75, 0.1, 0.5), 4: SizeConfig(0.25, 0.1, 0.0)})
    found = imitation.between([a, a, None, a], [a, b, b, None])
    assert found == {"designs": 2, "equal": 0.5, "numbers": 0.25, "data": 0.125}
    assert imitation.between([a], [EnvConfig({3: SizeConfig(1.0, 0.1, 0.5)})])["numbers"] == pytest.approx(4 / 6)
    with pytest.raises(ValueError, match="no situation has two accepted designs"):
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
    assert not shown & {one.prompt for one in survey.situations}
