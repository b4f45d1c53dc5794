"""Tables and figures say what the records say, whatever was run."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from drawn import texts
from simulated import AGENTS, changed, simulate

from mapflake import plots, repro, study
from mapflake.engineer import Proposal, Round
from mapflake.engineer.boards import sample_boards
from mapflake.engineer.report import FailureReport, SizeReport, environment_statistics
from mapflake.env import KINDS, EnvConfig
from mapflake.env.config import SizeConfig
from mapflake.nb import notebooks
from mapflake.plots import study as figures
from mapflake.plots.loop import loop
from mapflake.study import claim_tables, claims, comparisons, controls, designs, engineers, paper, report, statistics
from mapflake.study.designs import by_round, spent
from mapflake.study.names import name
from mapflake.study.searched import searched_markdown

ROOT = Path(__file__).parents[2]

ARMS = {"fixed": 0.0, "engineer": 0.15, "heuristic": 0.0, "evaluation_matched": -0.15}


@pytest.fixture(scope="module")
def five(tmp_path_factory):
    """Five seeds, in which the engineer is 15 points above fixed and evaluation-matched 15 below."""
    return study.load(simulate(tmp_path_factory.mktemp("five"), ARMS))


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    return study.load(simulate(tmp_path_factory.mktemp("one"), ARMS, seeds=[4]))


@pytest.fixture(scope="module")
def published():
    """The study of the repository: designs up to 10x10, validation boards up to 8x8."""
    return study.load(ROOT / "reports/cells/study")


def test_what_groups_that_are_drawn_again_cost_is_told_from_their_tokens():
    fresh = study.load(ROOT / "reports/cells/controls")
    extra = spent(fresh)["extra"]
    assert extra["fixed_dynamic"] > 0.3 > extra["frontier"] > 0, "groups that are drawn again are samples"
    assert "fixed" not in extra
    rest = study.Study({key: record for key, record in fresh.records.items() if key[0] != "fixed"}, fresh.sets)
    assert spent(rest)["extra"]["fixed_dynamic"] == pytest.approx(extra["fixed_dynamic"], rel=0.1)


def test_the_search_is_judged_on_students_of_all_ages_alike():
    """That its page is made from the records is tested beside README.md."""
    searched, *others = (study.load(ROOT / "reports/cells" / title) for title in controls.SETS[4:7])
    few = study.Study({key: cell for key, cell in searched.records.items() if key[1] != 60}, searched.sets)
    with pytest.raises(ValueError, match=r"^ages: takes one a seed, each as often as any other"):
        searched_markdown([few, *others], 4)


def test_more_rounds_are_not_shown_to_change_anything():
    longer = study.load(ROOT / "reports/cells/six_rounds")
    key, rounds = report.TRAINED, longer.measured_rounds("fixed")

    def by_round(arm):
        return np.array([longer.rates(arm, boards="validation", index=i).mean(axis=1) for i, _ in enumerate(rounds)])

    def growth(curve, baseline):  # a round, in each training seed
        return np.polyfit(rounds, curve - baseline, 1)[0]

    for control in (f"{key}_another", "fixed"):
        estimates = [study.compare(longer, [key], control, agents=agents)[0].estimate for agents in (2, 3)]
        estimates.append(statistics.t_estimate(growth(by_round(key), by_round(control))))
        assert not any(estimate.excludes_zero for estimate in estimates)
    assert statistics.t_estimate(growth(by_round(key), 0)).excludes_zero, "the control: what RL adds a round is seen"


def test_what_is_said_of_all_students_together(published):
    sets = [published, *(study.load(ROOT / "reports/cells" / title) for title in controls.SETS[1:4])]
    shown = controls._pooled(sets).set_index(["against", "agents"])["points"]
    low, high = shown.str.extract(r"\((\S+) to (\S+)\)").astype(float).to_numpy().T
    ahead, behind = (dict(zip(shown.index, flags, strict=True)) for flags in (low > 0, high < 0))
    assert {key for key in ahead if ahead[key]} == {(name(arm), 2) for arm in ("fixed", f"{report.TRAINED}_another")}
    assert {key for key in behind if behind[key]} == {(name("evaluation_matched"), 3)}
    apart = controls._pooled(sets[:2]).set_index(["against", "agents"])["points"]
    assert apart[name("fixed"), 2] != shown[name("fixed"), 2]  # the control


def test_differences_are_paired_corrected_together_and_listed(five):
    diffs = study.compare(five, five.arms, "fixed")
    assert {d.arm: d.significant for d in diffs} == {"engineer": True, "heuristic": False, "evaluation_matched": True}
    question = {**comparisons.ASKED, "against": ["evaluation_matched", "frontier", "fixed", "heuristic"]}
    rows = comparisons.asked(five, question)
    assert [row.against for row in rows] == ["evaluation_matched", "fixed", "heuristic"]
    for row in rows:
        differences = five.rates("engineer") - five.rates(row.against)
        assert row.by_seed == pytest.approx(differences.mean(axis=1))
        assert row.estimate == statistics.estimate(differences)
    for together in (diffs, rows):
        assert [d.holm for d in together] == statistics.holm([d.estimate.p for d in together])
    shown = comparisons.listed(rows)
    assert shown["against"].to_list() == ["evaluation-matched", "fixed configuration", "half-solved rule"]
    assert shown["points"].to_list() == [comparisons.points(row.estimate, row.significant) for row in rows]
    assert study.compare(five, five.arms, "uniform") == []
    assert comparisons.power(five)["detectable, points"].is_monotonic_decreasing


@pytest.mark.parametrize(
    ("key", "legal", "place"),
    [
        ("sizes", [3], "40 boards of 3x3"),
        ("sizes", {4, 3}, "80 boards of 3x3, 4x4"),
        ("agents", [2], "40 boards with 2 agents"),
        ("agents", [2, 3], "80 boards with 2, 3 agents"),
    ],
)
def test_a_question_is_about_the_boards_that_it_names(five, key, legal, place):
    question = {**comparisons.ASKED, key: legal}
    (row,) = comparisons.asked(five, question)
    values = five.rates("engineer") - five.rates("fixed")
    about = {b: {"sizes": 3 + b % 4 // 2, "agents": AGENTS[b % 2]} for b in values}  # as they were simulated
    assert row.estimate == statistics.estimate(values[[b for b in values if about[b][key] in legal]])
    assert report.answers(five, question)["boards"].to_list() == [f"the benchmark's {place}"]
    assert study.metrics(five, question)["asked"]["against"]["fixed"]["mean"] == round(row.estimate.mean, 4)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda cells: cells.rates("fixd"), "'fixd': no such arm; the records have fixed, engineer"),
        (lambda cells: cells.history("fixd", 0), "'fixd', seed 0: no such cell; the records have fixed"),
        (lambda cells: cells.history("fixed", 99), r"under the seeds \[0, 1, 2, 3, 4\]"),
        (lambda cells: cells.rates("fixed", agents=[2, 9]), r"benchmark has no boards of agents 9: there are \[2, 3\]"),
        (lambda cells: cells.rates("fixed", agents="2"), r"benchmark has no boards of agents '2': there are \[2, 3\]"),
        (lambda cells: study.compare(cells, ["engineer"], "fixed", size={5, 3}), r"of size 5: there are \[3, 4\]"),
        (lambda cells: study.compare(cells, ["enginer"], "fixed"), "^'enginer': no such arm; the records have fixed, "),
        (lambda cells: study.compare(cells, ["engineer"], "fixd"), "^'fixd': no such arm"),
        (lambda cells: study.compare(cells, "engineer", "fixed"), "arms: takes a list of names, not 'engineer'"),
        (lambda cells: study.compare(cells, ["engineer"], "fixed", ages=0), "ages: must be at least 1, not 0"),
        (lambda cells: study.against_each(cells, "engineer", "fixed"), "others: takes a list of names, not 'fixed'"),
        (lambda cells: cells.measured_rounds("uniform"), "'uniform': no such arm; the records have fixed, engineer"),
        (lambda cells: study.compare(cells, ["engineer"], "fixed", "vaild"), "metric: 'vaild' is none of valid, optim"),
        (lambda cells: study.compare(cells, ["engineer"], "fixed", waits=True), "waits: boards have agents, size, nee"),
        (lambda cells: cells.rates("fixed", "vaild"), "^metric: 'vaild' is none of valid, optimal, soc_optimal$"),
        (lambda cells: cells.rates("fixed", boards="validation", index=7), r"^index: 7 is not in 0 to 1 .* \[1, 2\]$"),
        (lambda cells: cells.rates("fixed", boards="wr9"), "boards: 'wr9' is none of benchmark, validation, wr025"),
    ],
)
def test_a_question_about_cells_that_are_not_there_says_which_there_are(five, call, said):
    with pytest.raises(ValueError, match=said):
        call(five)
    (row,) = study.compare(five, ["engineer", "engineer_base", "engineer"], "fixed")  # legal: not run, named twice
    assert (row.arm, row.holm) == ("engineer", row.estimate.p)
    assert study.against_each(five, "engineer", ["fixed", "fixed"]) == [row]  # counts once in the correction


def test_an_arm_of_ones_own_may_have_been_run_with_dynamic_sampling_alone(tmp_path):
    cells = study.load(simulate(tmp_path, {"fixed": 0.0, "mine_dynamic": 0.1}))
    assert [row.arm for row in study.compare(cells, cells.arms, "fixed")] == ["mine_dynamic"]
    with pytest.raises(ValueError, match=r"^'mine': no such arm"):
        study.compare(cells, ["mine"], "fixed")


def test_table_shows_rates_and_points_of_the_records_and_one_seed_claims_nothing(five, one):
    row = study.table(five).loc["paper's engineer"]
    assert row["seeds"] == 5
    assert row["valid %, 2 agents"] == f"{100 * five.rates('engineer', agents=2).to_numpy().mean():.1f}"
    assert row["2 agents, against fixed"].endswith(")*")
    (waits,) = study.compare(five, ["engineer"], "fixed", needs_wait=True)
    assert row["boards that need a wait, against fixed"].startswith(comparisons.points(waits.estimate))
    assert comparisons.place(waits) == "the benchmark's 40 boards that need a wait"
    for needs_wait, ending in ((False, " that need no wait"), ([False], " that need no wait"), ([True, False], "")):
        (row,) = study.compare(five, ["engineer"], "fixed", needs_wait=needs_wait)
        assert comparisons.place(row).partition(" boards")[2] == ending
    assert study.table(five).loc["fixed configuration", "2 agents, against fixed"] == ""
    alone = study.table(one).loc["paper's engineer"]
    assert alone["optimal %"] == f"{100 * one.rates('engineer', 'optimal').to_numpy().mean():.1f}"
    assert report.answers(one)["p"].to_list() == [""]
    assert not report.answers(one)["points"].str.contains(r"[(*]").any()
    assert "*|" not in study.results_markdown(one, "smoke").replace(" ", "")


def test_points_per_token_count_what_an_arm_sampled_beside_its_rounds(published):
    arm, (seed, *_) = "engineer_trained", published.seeds("engineer_trained")
    alone = study.load(ROOT / "reports/cells/study", seeds=[seed])
    trainings = [round_.training for round_ in alone.history(arm, seed)]
    extra = sum(trainings[0]["spent before"][key] for key in ("rollouts", "replies"))
    first, *later = (training["sampled_tokens"] / 1e6 for training in trainings)
    million = first * (1 + extra / (640 * 8)) + sum(later)
    assert designs.tokens(alone)[arm] == pytest.approx(million)
    of_fixed = sum(round_.training["sampled_tokens"] for round_ in alone.history("fixed", seed))
    assert designs.tokens(alone)["fixed"] == pytest.approx(of_fixed / 1e6)  # nothing beside its rounds
    gained = (alone.rates(arm, agents=2) - alone.rates("base", agents=2)).to_numpy().mean()
    assert study.table(alone).loc["trained engineer", "points per million tokens"] == f"{100 * gained / million:.1f}"
    assert [*designs.tokens(study.load(ROOT / "reports/cells/study", ["base"])).index] == ["round_0"]


def test_a_study_without_boards_that_need_a_wait_has_a_table_and_a_figure(tmp_path, five):
    sets = {name: rows.assign(needs_wait=False) for name, rows in five.sets.items()}
    table = study.table(study.Study(five.records, sets))
    assert not [column for column in table if "need a wait" in column]
    assert table["2 agents, against fixed"].equals(study.table(five)["2 agents, against fixed"])
    notebook = notebooks.read(ROOT / "notebooks/06_analysis.ipynb")
    (cell,) = (cell for _, cell in notebooks.code_cells(notebook) if cell.id == "forest-figure")
    for cells, panels in ((study.Study(five.records, sets), 2), (five, 3)):
        space = {
            "cells": cells,
            "arms": cells.arms,
            "study": study,
            "figures": figures,
            "plots": plots,
            "out": tmp_path,
        }
        exec(cell.source, space)
        assert len(space["against_fixed"]) == panels


def test_stars_are_corrected_for_all_arms(tmp_path):
    level = ["heuristic", "uniform", "learnability", "constant", "domain_randomisation", "frontier", "fixed_longer"]
    cells = study.load(simulate(tmp_path, {"fixed": 0.0, "engineer": 0.04} | dict.fromkeys(level, 0.0)))
    (alone,) = study.compare(cells, ["engineer"], "fixed")
    among = study.compare(cells, cells.arms, "fixed")[0]
    assert alone.significant
    assert not among.significant
    (two,) = study.compare(cells, ["engineer"], "fixed", agents=2)
    text = study.table(cells).loc["paper's engineer", "2 agents, against fixed"]
    assert text == comparisons.points(two.estimate)  # no star


def test_results_hold_what_was_asked(five):
    results = study.results_markdown(five, "smoke", planned=range(7))
    assert max(line.count("|") for line in results.splitlines()) <= 1 + 7  # wider tables fit on no page
    for row in (*report.answers(five).itertuples(), *report.not_asked(five).itertuples()):
        assert all(str(value) in results for value in row)
    assert "not finished**: 5 of 7 planned training seeds are there (0, 1, 2, 3, 4)." in results
    assert "not finished" not in study.results_markdown(five, "smoke")
    assert "profile smoke" in results
    assert "## The questions (`analysis.comparison` of params.yaml)" in results  # when, only a user knows
    assert "questions that were written down before the first run" in study.results_markdown(five, "study")
    assert "There is no cell of the arm" not in results
    other_results = study.results_markdown(five, "smoke", {**comparisons.ASKED, "arm": "uniform"}, planned=range(5))
    assert "There is no cell of the arm that the questions are about (uniform)." in other_results
    assert "not finished" not in other_results
    mine = {**comparisons.ASKED, "against": ["mine", "engineer"]}  # of a run that is not active, so not known here
    assert report.answers(five, mine).equals(report.answers(five, {**mine, "against": ["engineer"]}))
    assert report.answers(five, {**mine, "arm": "mine"}).empty
    assert "There is no cell of the arm that the questions are about (mine)." in study.results_markdown(
        five, "smoke", {**mine, "arm": "mine"}
    )
    assert "Design RL" not in results  # none was run
    assert results.endswith(
        "made at these commits: c0ffee.\nThe code that decides results has changed since: `dvc repro` would train "
        "these cells anew; a checkout of its commit makes a cell again, on the same kind of processor.\n"
    )


def told(estimate):
    """The difference as a table of claims has it."""
    return f"{comparisons.points(estimate)}, {estimate.seeds} seeds"


def test_a_claim_that_does_not_hold_is_refused(five, one):
    claim = claims.Claim("It helps.", "engineer", "fixed", "more", kept={})
    (row,) = study.compare(five, ["engineer"], "fixed")
    *_, line = claim_tables.table("Does it?", [claim], {"five": five}, first=7).splitlines()
    assert line == f"| 7 | It helps. | {told(row.estimate)} | both 0% |"
    *_, marked = claim_tables.table("Does it?", [replace(claim, marks=(claims.ASKED, ""))], {"five": five}).splitlines()
    assert " seeds† |" in marked
    for wrong in (replace(claim, shows="no difference"), replace(claim, arm="fixed", against="engineer")):
        with pytest.raises(ValueError, match="does not hold"):
            claim_tables.table("Does it?", [wrong], {"five": five})
    for absent, cells in ((replace(claim, arm="uniform"), five), (claim, one)):
        with pytest.raises(ValueError, match="was not measured over two seeds"):
            claim_tables.table("Does it?", [absent], {"cells": cells})


def test_a_claim_is_told_with_the_same_difference_on_other_students(published):
    both = {"study": published, "others": study.load(ROOT / "reports/cells/controls")}
    arms = ("evaluation_matched", "constant", "fixed_dynamic")  # run in both, in the first alone, in the second alone
    rows = [claims.Claim("", arm, "fixed", "no difference" if arm == "constant" else "more") for arm in arms]
    _, _, *lines = claim_tables.table("", rows, both).splitlines()
    for arm, line in zip(arms, lines, strict=True):
        differences = [study.compare(cells, [arm], "fixed", agents=2) for cells in both.values()]
        cells = [cell.strip() for cell in line.split("|")[3:5]]
        assert cells == [told(rows[0].estimate) if rows else "" for rows in differences]
    assert [line.split("|")[5].strip() for line in lines[:2]] == ["both 0%"] * 2
    assert re.fullmatch(r"\d\d% against 0%", lines[2].split("|")[5].strip())
    with pytest.raises(ValueError, match="does not hold"):  # by the first that has its arms
        claim_tables.table("", [replace(rows[2], shows="less")], both)
    with pytest.raises(ValueError, match="does not hold"):  # and by the others
        claim_tables.table("", [replace(rows[0], elsewhere=("no difference",))], both)


def test_differences_that_nobody_asked_for_have_a_table_of_their_own(published):
    arm = "engineer_trained"
    comparison = {"metric": "valid", "arm": arm, "against": ["fixed"], "agents": [2]}
    first, *rest = report.not_asked(published, comparison).itertuples()
    assert first.boards == "the validation boards"
    assert [row.against for row in rest] == ["paper's engineer"] * 2
    for row, agents in zip(rest, (2, 3), strict=True):
        (alone,) = study.compare(published, [arm], "engineer", agents=agents)
        assert row.points.rstrip("*") == comparisons.points(alone.estimate)
        assert float(row.p) >= float(f"{alone.estimate.p:.2g}")
    assert len(report.not_asked(published, {**comparison, "against": ["fixed", "engineer"]})) == 1  # asked for there
    trained = engineers.load(ROOT / "reports/cells/study")
    text = " ".join(study.results_markdown(published, "study", comparison, trained, ages=4).split())
    lost = 100 * np.mean([record["solving"]["mean"] for record in trained])
    assert f"it changes the valid rate on the validation boards by {lost:+.1f} (" in text
    ahead = comparisons.points(engineers.head_start(published, arm))
    assert f"differs from that of the other arms by {ahead} points" in text
    (optimal,) = study.compare(published, [arm], "fixed", "optimal", agents=2)
    assert f"from the fixed configuration by {comparisons.points(optimal.estimate)} points" in text
    response = statistics.t_estimate(engineers.first_designs(published, 4)["response"].to_numpy()).text("+.1f")
    assert f"side length differs by {response} squares" in text


def test_of_designs_that_are_not_there_nothing_is_said(published):
    """Two students of a group of four: the reports of the others are not on record."""
    ages = 4
    said = "it first asks for boards whose mean side length differs by"
    assert said in report.results_markdown(published, "study", ages=ages).replace("\n", " ")
    two = study.load(ROOT / "reports/cells/study", seeds=[0, 1])
    assert engineers.first_designs(two, ages).empty
    assert said not in report.results_markdown(two, "study", ages=ages).replace("\n", " ")


def test_a_head_start_is_seen_before_the_first_design(published):
    claim = claims.Claim("No.", "engineer_trained", "round_0", "late start")
    seeds = published.seeds("engineer_trained")
    own, shared = (
        [published.history(arm, seed)[0].report.valid_rate for seed in seeds] for arm in ("engineer_trained", "round_0")
    )
    assert engineers.head_start(published, "engineer_trained").mean == pytest.approx(np.subtract(own, shared).mean())
    *_, line = claim_tables.table("", [claim], {"study": published}).splitlines()
    assert line == f"| 1 | No. | {told(engineers.head_start(published, 'engineer_trained'))} | |"

    def with_first(change):
        return changed(published, "engineer_trained", lambda seed, record: [record.rounds[0] | change])

    rounds = published.records["engineer_trained", 0].rounds
    solved = [row | {"valid": row["rollouts"]} for row in rounds[0]["report"]["sizes"]]
    with pytest.raises(ValueError, match="does not hold"):  # the control: it would be ahead
        claim_tables.table("", [claim], {"": with_first({"report": rounds[0]["report"] | {"sizes": solved}})})
    with pytest.raises(ValueError, match="another configuration"):
        engineers.head_start(with_first({"config": rounds[1]["config"]}), "engineer_trained")
    with pytest.raises(ValueError, match="uniform_no and round_0 have no training seed in common"):
        engineers.head_start(published, "uniform_no")


def test_the_papers_claims_are_answered_by_their_intervals(tmp_path, five):
    arms = {"fixed": 0.0, "engineer": 0.15, "engineer_base": 0.3, "engineer_trained": 0.15, "engineer_trained_v1": 0.15}
    cells = study.load(simulate(tmp_path, arms))
    answers = paper.claims(cells)
    subset = "the engineer is ahead of the fixed configuration: subset wr025"
    (row,) = study.compare(cells, ["engineer"], "fixed", boards="wr025")
    assert answers.loc[subset, "paper's engineer"] == f"yes: {comparisons.points(row.estimate)}, 5 seeds"
    better = "a trained checkpoint designs better than the untrained model: all boards"
    assert answers.loc[better, "paper's engineer"].startswith("no: -")
    assert answers.loc["context V6 is ahead of V1: all boards"].tolist()[:2] == ["+20.0 on wr025", ""]
    assert answers.loc["context V6 is ahead of V1: all boards", "trained engineer"].startswith("not shown: ")
    assert not any("V2" in claim or "report" in claim for claim in answers.index)  # no such arm was run
    assert paper.claims(five)["trained engineer"].eq("").all()
    asked_in_v5 = {
        key: replace(record, parameters=record.parameters | {"engineer": {"variant": "V5"}})
        for key, record in cells.records.items()
        if key[0] == "engineer_trained"
    }
    others = paper.claims(study.Study({**cells.records, **asked_in_v5}, cells.sets))
    assert [*others.index] == [claim for claim in answers.index if "V6" not in claim]  # nothing was asked in V6
    assert f"| {subset} |" in " ".join(study.results_markdown(cells, "smoke").split())


def sized(valid):
    return tuple(SizeReport(s, 100, round(100 * v), 0, 0, 0, 0, (0,) * len(KINDS)) for s, v in valid.items())


def played(*rounds, before):
    """Returns rounds of these data ratios and the valid rates after them."""
    history = ()
    for index, (ratios, valid) in enumerate(rounds):
        config = EnvConfig({s: SizeConfig(r, 0.1, 0.5) for s, r in ratios.items()})
        report, proposal = FailureReport(sized(valid), before=sized(before)), Proposal("", config, None)
        history, before = (*history, Round("arm", index, config, report, proposal=proposal)), valid
    return history


def test_changes_describe_a_design_in_the_papers_terms():
    half, smaller = {3: 0.5, 4: 0.5}, {3: 0.75, 4: 0.25}
    first, second = (half, {3: 0.9, 4: 0.5}), (smaller, {3: 0.9, 4: 0.4})
    *designed, last = played(first, second, (smaller, {3: 0.2, 4: 0.1}), before={})
    rejected = replace(last, proposal=Proposal("", None, "no JSON"))
    histories = {"engineer": (*designed, rejected), "fixed": played(first, (half, {3: 0.9}), before={})}
    cells = SimpleNamespace(
        records=[(arm, 0) for arm in histories], arms=[*histories], history=lambda arm, seed: histories[arm]
    )
    changes = study.changes(cells).set_index("arm")
    assert changes.loc["fixed", "moved"] == pytest.approx(0.0)
    table = changes.loc["engineer"].set_index("round")
    expected = {"below_frontier": [4 - 3.25, 3 - 3.25], "wait_ratio": [0.5, 0.5], "moved": [0.25, 0.0]}
    expected |= {"kept": [1.0, 1.0], "rejected": [0.0, 1.0]}
    for column, values in expected.items():
        assert table[column].to_dict() == pytest.approx(dict(zip((1, 2), values, strict=True)))


def test_waits_of_a_size_without_boards_do_not_count():
    """A legal design: waits left to chance where there are boards, and given where there are none."""
    first, then = played(({3: 1.0}, {3: 0.5}), ({3: 1.0, 4: 0.0}, {3: 0.5}), before={})
    sizes = {3: SizeConfig(1.0, 0.1, None), 4: SizeConfig(0.0, 0.1, 0.5)}
    history = (first, replace(then, config=EnvConfig(sizes)))
    cells = SimpleNamespace(records=[("engineer", 0)], arms=["engineer"], history=lambda arm, seed: history)
    assert np.isnan(study.changes(cells)["wait_ratio"].item())


def test_overlap_tells_data_that_helped_from_the_rest():
    low, high = {3: 0.1, 4: 0.1}, {3: 0.5, 4: 0.1}
    # Size 3 rose; size 9 is in no report, so that nobody knows whether it helped.
    kept_rounds = played(({3: 0.4, 4: 0.4, 9: 0.2}, high), ({3: 0.8, 9: 0.2}, high), before=low)
    left_rounds = played(({3: 0.4, 4: 0.4, 9: 0.2}, high), ({4: 0.8, 9: 0.2}, high), before=low)
    cells = SimpleNamespace(seeds=lambda arm: [0, 1], history=lambda arm, seed: (kept_rounds, left_rounds)[seed])
    assert designs.overlap(cells, "engineer").to_dict("index") == {
        0: {"helped": 1.0, "others": 0.0},
        1: {"helped": 0.0, "others": 1.0},
    }


def test_doses_are_differences_between_what_was_told_and_the_student(tmp_path):
    folder = simulate(tmp_path, {"fixed": 0.0, "engineer_trained": 0.2, "engineer_trained_another": 0.0}, seeds=[0, 1])
    cells = study.load(folder)
    weak, strong = ({3: rate, 4: rate} for rate in (0.2, 0.7))
    histories = [played(*[({3: 1.0}, level)] * 3, before=level) for level in (weak, strong)]
    object.__setattr__(cells, "history", lambda arm, seed: histories[seed])
    table = engineers.doses(cells, 2)
    assert table["report"].to_list() == ["another", "another"]
    assert table["distance"].to_list() == pytest.approx([50, -50])  # each is told the other
    own_rates, other_rates = (cells.rates(arm).mean(axis=1) for arm in ("engineer_trained", "engineer_trained_another"))
    assert table["gained"].to_list() == pytest.approx((100 * (own_rates - other_rates)).to_list())
    assert "another student's" in texts(figures.doses(table))
    assert engineers.doses(study.Study({}, cells.sets), 2).empty


def test_metrics_hold_every_rate_and_no_interval_of_one_seed(five, one):
    content = study.metrics(five)
    assert content["benchmark"]["engineer"]["all"]["valid"].keys() == {"mean", "seeds", "boards", "low", "high", "p"}
    assert set(content["benchmark"]["engineer"]["by_agents"]) == {"2", "3"}
    assert content["benchmark"]["fixed"]["against_fixed"] == {}
    assert sorted(row["round"] for row in content["validation_by_round"]) == [-1, 0, *[1] * 4, *[2] * 4]
    assert '"low"' not in repro.dumps(study.metrics(one))


def test_the_table_with_the_paper_has_gains_of_both(five):
    both = paper.with_paper(five)
    assert list(both.columns) == [*(f"paper, {n} agents" for n in (3, 4, 5)), "ours, 2 agents", "ours, 3 agents"]
    row = both.loc["GRPO, paper's engineer"]
    assert row["paper, 3 agents"] == "51.7 / 31.7 (+11.2)"
    rates = {arm: 100 * five.rates(arm, "valid", agents=3).to_numpy().mean() for arm in ("engineer", "fixed")}
    assert row["ours, 3 agents"].startswith(f"{rates['engineer']:.1f} / ")
    assert row["ours, 3 agents"].endswith(f"({rates['engineer'] - rates['fixed']:+.1f})")
    assert both.loc["GRPO, base model as engineer", "ours, 3 agents"] == ""
    few = study.Study({key: record for key, record in five.records.items() if key != ("engineer", 0)}, five.sets)
    (paired,) = study.compare(few, ["engineer"], "fixed", agents=3)  # of the seeds that both have
    assert paper.with_paper(few).loc[row.name, "ours, 3 agents"].endswith(f"({100 * paired.estimate.mean:+.1f})")


def test_frontiers_show_rates_and_data_of_every_round_and_size(published):
    success, shares = by_round(published, "fixed")
    assert list(success.columns) == list(shares.columns)
    boards = published.sets["validation"]  # the outcomes of boards, where by_round reads the engineer's reports
    rates = published.rates("fixed", "valid", "validation").mean().loc[boards["board"]].to_numpy()
    expected = boards.assign(valid=rates).groupby("size")["valid"].mean().to_dict()
    assert success.iloc[:, -1].dropna().to_dict() == pytest.approx(expected)
    figure = figures.frontiers(published, ["fixed", "no such arm"])
    heights = [bar.get_height() for bars in figure.axes[0].containers for bar in bars]
    np.testing.assert_allclose(heights, success.fillna(0.0).T.to_numpy().ravel())
    success, shares = by_round(published, "engineer_trained")
    assert shares.sum().to_list() == pytest.approx([1.0] * len(shares.columns))
    assert list(success.index) == list(shares.index) == [3, 4, 5, 6, 7, 8, 9, 10]
    assert success.index[success.isna().all(axis=1)].to_list() == [9, 10]  # validation has no boards of these
    both = [played((ratios, {3: 0.1}), before={}) for ratios in ({3: 0.5, 9: 0.5}, {3: 1.0})]
    two = SimpleNamespace(seeds=lambda arm: [0, 1], history=lambda arm, seed: both[seed])
    (asked_of,) = by_round(two, "engineer")[1].to_dict().values()
    assert asked_of == {3: 0.75, 9: 0.25}


def test_what_designers_spent_is_that_of_their_rounds(published):
    table = spent(published)
    assert "fixed" not in table.index
    cost = engineers.load(ROOT / "reports/cells/study")[0]["cost"]  # the same for all seeds
    assert table.loc["engineer_trained", [*cost]].to_dict() == cost
    a_round = 640 * 8 + 4 * 486  # samples of a round's training, and of its evaluation
    extra = (cost["rollouts"] + cost["replies"]) / (3 * a_round)
    assert table.loc["engineer_trained", "extra"] == pytest.approx(extra)
    assert study.table(published).loc["trained engineer", "extra samples"] == f"{extra:+.0%}"


def test_forest_shows_every_arm_its_seeds_and_its_interval(five, one):
    compared = {"valid": study.compare(five, five.arms, "fixed"), "not run": []}
    figure = figures.forest(compared, against="fixed")
    assert {"paper's engineer", "points against fixed"} <= {*texts(figure).split("\n")}
    strokes = [line for line in figure.axes[0].lines if line.get_marker() == "|" and len(line.get_xdata()) == 5]
    assert strokes[0].get_xdata() == pytest.approx(100 * np.array(compared["valid"][0].by_seed))
    *_, last = (row.arm for row in compared["valid"])
    labels = figures.forest(compared, against="fixed", order=[last]).axes[0].get_yticklabels()
    upper = max(labels, key=lambda label: label.get_position()[1])
    assert upper.get_text().startswith(comparisons.name(last))
    few = [replace(row, estimate=replace(row.estimate, seeds=2)) for row in compared["valid"][:1]]
    all_seeds, two = figures.forest({"all": compared["valid"], "two": few}, against="fixed").axes
    assert {text.get_text() for text in all_seeds.texts} == {"5"}
    assert [text.get_text() for text in two.texts] == ["2"]
    alone = figures.forest({"valid": study.compare(one, one.arms, "fixed")}, against="fixed")
    assert "one seed: no interval" in texts(alone)
    assert not alone.axes[0].collections  # no bar
    for nothing in (figures.forest({"valid": []}, against="fixed"), figures.learning(five, ["oracle"])):
        assert "nothing to compare" in texts(nothing)


def test_leads_have_a_panel_for_each_set_of_students(published):
    drawn = figures.leads({"study": published, "others": study.load(ROOT / "reports/cells/controls")})
    assert [ax.get_title("left") for ax in drawn.axes] == ["study", "others"]
    assert drawn.axes[0].get_xlim() == drawn.axes[1].get_xlim()  # or intervals cannot be compared by eye
    rows = [row for row in study.compare(published, published.arms, "fixed", agents=2) if row.arm in figures.LEADS]
    dots = [line for line in drawn.axes[0].lines if line.get_marker() == "o"]
    assert [dot.get_xdata()[0] for dot in dots] == pytest.approx([100 * row.estimate.mean for row in rows])


def test_the_loop_shows_the_report_and_the_design_of_the_record(published):
    seed = published.seeds("engineer_trained")[0]
    before, after, *_ = history = published.history("engineer_trained", seed)
    drawn = loop({"a student": history})
    _, report_ax, design_ax, *board_axes = drawn.axes
    parts = {s.size: s for s in before.report.sizes}
    solved = [(s.valid - s.wait_valid) / (s.rollouts - s.wait_rollouts) for s in parts.values()]
    solved += [s.wait_valid / s.wait_rollouts for s in parts.values()]
    assert [bar.get_height() for bar in report_ax.patches] == pytest.approx(solved)
    shares = {size: share for size, share in after.config.data_ratios.items() if share}
    tops = [(round(bar.get_x() + bar.get_width() / 2), bar.get_y() + bar.get_height()) for bar in design_ax.patches]
    assert {[*parts][at]: top for at, top in sorted(tops)} == pytest.approx(shares)  # the highest of each size
    waits = [
        bar.get_height() for bar in design_ax.patches if bar.get_facecolor() == report_ax.patches[-1].get_facecolor()
    ]
    assert waits == pytest.approx([share * after.config.sizes[size].wait_ratio for size, share in shares.items()])
    tasks, _ = sample_boards(after.config, after.training["instances"], seed=repro.seed_for(seed, "train", 1))
    assert environment_statistics(tasks) == after.report.training  # those that it trained on
    assert [round(ax.get_xlim()[1]) for ax in board_axes] == [task.instance.size for task in tasks[:4]]
    chance = EnvConfig({size: replace(part, wait_ratio=None) for size, part in after.config.sizes.items()})
    natural = loop({"a student": (before, replace(after, config=chance))}).axes[2].patches
    by_chance = sum(bar.get_height() for bar in natural if bar.get_facecolor() == report_ax.patches[-1].get_facecolor())
    assert 0 < by_chance < sum(waits)  # left to chance, few boards need one
    failed = replace(before.report, examples=tuple(replace(example, moves=()) for example in before.report.examples))
    with pytest.raises(ValueError, match=r"^no failure of round 0 that is on record has a plan$"):
        loop({"a student": (replace(before, report=failed), after)})


def test_learning_shows_paired_differences_from_round_0_on(five):
    (ax, *_) = figures.learning(five, five.arms).axes
    engineer, fixed = (five.rates(arm, "valid", "validation").loc[0].mean() for arm in ("engineer", "fixed"))
    assert np.array(ax.lines[0].get_ydata())[[0, -1]] == pytest.approx([0, 100 * (engineer - fixed)])


@pytest.mark.parametrize("other", [{}, {"engineer": 0.0}])
def test_arms_without_a_common_seed_are_not_compared(tmp_path, other):
    simulate(tmp_path, {"fixed": 0.0}, seeds=[0, 1])
    cells = study.load(simulate(tmp_path, other, seeds=[2, 3]))
    assert report.answers(cells).empty
    assert study.metrics(cells)["asked"] == {**comparisons.ASKED, "against": {}}
    assert comparisons.power(cells).empty
    assert study.compare(cells, cells.arms, "fixed") == []
