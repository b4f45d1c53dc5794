"""The README's numbers are those of the committed records, it is short, and what it shows and names is there."""

import io
import itertools
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from small_repo import ROOT, committed, done, files, repository

from benchmarks import laboratory
from benchmarks.gate import differences, interaction
from mapflake import repro
from mapflake.engineer.reading import waits
from mapflake.engineer.students import group_of, told_seeds
from mapflake.nb import params, publish, readme
from mapflake.nb.__main__ import main
from mapflake.study import Study, compare, controls, designs, engineers, load
from mapflake.study.cells import together
from mapflake.study.claims import FINDINGS
from mapflake.study.comparisons import against_each, corrected, points
from mapflake.study.statistics import Estimate, estimate, holm, paired, t_estimate

README, CLAIMS = ((ROOT / name).read_text(encoding="utf-8") for name in readme.PAGES)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Study]:
    """All committed sets of cells, by the name of their folder."""
    folder = tmp_path_factory.mktemp("committed")
    packed = subprocess.run(["git", "archive", "HEAD", "reports/cells"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder)
    return {name: load(folder / "reports/cells" / name) for name in controls.SETS}


@pytest.fixture(scope="module")
def cells(every: dict[str, Study]) -> dict[str, Study]:
    """Those of `readme.CLAIMED`."""
    return {name: every[name] for name in readme.CLAIMED}


def test_a_claim_that_does_not_hold_is_refused(every: dict[str, Study]) -> None:
    gate = json.loads(committed("reports/laboratory/gate.json"))
    with pytest.raises(ValueError, match=r"claim .* does not hold: -1\.0"):
        readme.all_claims(every, gate | {"designing": {"mean": -1.0, "low": -2.0, "high": 0.5}}, 4)


def test_a_finding_names_the_claims_whose_numbers_it_shows() -> None:
    for text in FINDINGS:
        named = re.findall(r"(\d+)(?: to (\d+))?", text.rpartition("(claim")[2])
        claims = {number for first, last in named for number in range(int(first), int(last or first) + 1)}
        shown = {int(number) for number in re.findall(r"\{(\d+)[a-c]\}", text)}
        assert shown <= claims, text
        assert len(text.split()) <= 60, text


def test_the_command_says_which_claim_does_not_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise ValueError("claim 'x' does not hold: +0.1")

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(readme.study, "claims_markdown", refuse)
    assert main(["readme"]) == 1
    assert capsys.readouterr().err == "claim 'x' does not hold: +0.1\n"


def test_what_claims_say_of_trials_holds_after_correction_as_they_say() -> None:
    gate = json.loads(committed("reports/laboratory/gate.json"))
    rows = [row for row in gate.values() if isinstance(row, dict)]
    p = dict(zip([key for key in gate if isinstance(gate[key], dict)], holm([row["p"] for row in rows]), strict=True))
    assert len(p) == 5
    assert "even that is not shown after correction for the five comparisons of the trials." in CLAIMS
    assert "Corrected for the five comparisons, 1 holds and 2 does not" in CLAIMS
    assert (p["designing"] or 1) < 0.05 < (p["against benchmark"] or 0)
    assert gate["against benchmark"]["high"] < 2 < gate["designing"]["mean"]  # little more
    assert "though [what a design teaches depends on the student]" in CLAIMS
    rows = repro.read_jsonl(ROOT / "reports/laboratory.jsonl")
    trials = laboratory.whole(laboratory.of_designs(rows, laboratory.CHOSEN, laboratory.DESIGNS))
    assert trials is not None
    assert interaction(trials.gain)[-1] < 1e-6
    leads = differences(trials, laboratory.DRAWS, laboratory.CONSTANTS)["reading"]
    fitted = {student for student, lead in zip(trials.students, leads, strict=True) if lead.min() > 1}
    assert fitted == {"3200", "6000"}


def test_what_is_said_of_claims_by_their_number_is_true_of_them() -> None:
    claim_rows = [line for line in CLAIMS.splitlines() if re.match(r"\| \d", line)]
    assert [int(row.split()[1]) for row in claim_rows] == [*range(1, len(claim_rows) + 1)]
    assert f"In 4 to {len(claim_rows)}, †" in CLAIMS
    of_the_study = claim_rows[3:10] + claim_rows[13:28]
    study = {row.split(" | ")[0].strip("| "): row.split(" | ")[2] for row in of_the_study}
    few = {seeds: [number for number, claim in study.items() if f" {seeds} seeds" in claim] for seeds in (8, 10, 3)}
    assert few == {8: ["8", "25", "26"], 10: ["5", "6", "18", "27"], 3: ["20"]}
    assert "claims 8, 25 and 26 have 8 of the study's 16 seeds" in CLAIMS
    assert "Claims 5, 6, 18 and 27 have 10, claim 20 has 3" in CLAIMS


def test_what_the_trained_engineer_gains_by_token(cells: dict[str, Study]) -> None:
    """By seed: points gained since before RL, by million tokens; the control is a choice without an engineer."""
    assert "that it gains more points per sampled token than *fixed* on any set of students;" in README

    def by_token(study: Study, arm: str, seed: int) -> float:
        alone = Study({(a, seed): study.records[a, seed] for a in ("base", "round_0", arm)}, study.sets)
        gained = (alone.rates(arm, agents=2) - alone.rates("base", agents=2)).to_numpy().mean()
        return float(100 * gained / designs.tokens(alone)[arm])

    def ahead(study: Study, arm: str) -> Estimate:
        seeds = [seed for seed in study.seeds(arm) if seed in study.seeds("base")]
        return t_estimate([by_token(study, arm, seed) - by_token(study, "fixed", seed) for seed in seeds])

    shown = [(ahead(study, "engineer_trained").low or 0.0) > 0 for study in cells.values()]
    assert shown == [False, False, False]
    assert [(ahead(study, "evaluation_matched").low or 0.0) > 0 for study in [*cells.values()][:2]] == [True, True]


def test_what_the_readme_says_of_held_out_situations() -> None:
    """On the page of the study: reading, the reward of designs in their own situation minus that in another's."""
    assert "a design hardly earns [more reward](../reports/results.md) for its own student than for another." in CLAIMS
    made_up, real = committed("reports/results.md").split("### Situations: real, held out")
    rows = [line.split("|") for part in (made_up, real) for line in part.splitlines() if "after design RL" in line][-2:]
    highs = [float(re.search(r"to (\S+)\)", row[5])[1]) for row in rows]  # type: ignore[index]
    lows = [float(re.search(r"\((\S+) to", row[5])[1]) for row in rows]  # type: ignore[index]
    assert highs[1] <= 0.01 < lows[0]  # and where it is more: made-up situations


def test_what_claims_say_of_corrected_differences(cells: dict[str, Study]) -> None:
    """Corrected for the questions on dynamic sampling, or for all arms, as on reports/controls.md."""
    _, fresh, last = cells.values()
    assert (
        "With dynamic sampling in both arms, *evaluation-matched* is ahead of *fixed*, but not after correction."
        in CLAIMS
    )
    arms = ["engineer_trained_dynamic", "engineer_trained", "evaluation_matched_dynamic"]
    *_, matched = compare(fresh, arms, "fixed_dynamic", agents=2)
    assert matched.arm == arms[-1]
    assert not matched.significant
    assert "is ahead of *fixed* without it, but not after correction for all arms." in CLAIMS
    assert "*Evaluation-matched* with dynamic sampling is ahead of *fixed* without it, also after correction." in CLAIMS
    ahead = {row.arm: row.significant for row in compare(fresh, fresh.arms, "fixed", agents=2)}
    assert [ahead[f"{arm}_dynamic"] for arm in ("engineer_trained", "evaluation_matched")] == [False, True]
    assert "it is ahead, but this was not asked and does not hold after correction for all arms." in CLAIMS
    assert not ahead["engineer_trained"]
    assert "On the first fresh students this does not hold after correction." in CLAIMS
    published = compare(fresh, controls.PUBLISHED, "fixed", agents=2)
    published += compare(fresh, ["engineer"], "engineer_base", agents=2)
    significant = {row.arm: row.significant for row in corrected(published)}
    assert not ahead["evaluation_matched"]
    assert not significant["evaluation_matched"]
    assert significant["fixed_dynamic"]  # the control
    assert "the lead of claim 4 was not seen there." in CLAIMS
    assert "behind *fixed* on students 44 to 50." in README
    (two,), (three,) = (compare(last, ["engineer_trained"], "fixed", agents=agents) for agents in (2, 3))
    assert two.estimate.low is not None
    assert three.estimate.high is not None
    assert two.estimate.low < 0 < two.estimate.mean < 0.005
    assert three.estimate.high < 0


def test_the_lead_is_seen_with_one_of_the_banks_of_real_students(cells: dict[str, Study]) -> None:
    """Banks are told apart by what the best design of one size earns on their held-out students."""
    assert (
        "The engineers of the study's seeds 4 and 6 and of students 44 to 50 had a bank A, the study's others had"
        " a bank B, and students 52 to 55 and 76 to 83 a bank C." in CLAIMS
    )
    banks: dict[str, list[float]] = {"first": [], "second": []}
    for folder, study in cells.items():
        ahead = study.rates("engineer_trained", agents=2).mean(axis=1) - study.rates("fixed", agents=2).mean(axis=1)
        for seed, lead in ahead.dropna().items():
            path = ROOT / f"reports/cells/{folder}/design_rl/{seed}.json"  # of 36 to 42 the log alone says the bank
            real = json.loads(path.read_text())["yardsticks"]["real, held out"] if path.is_file() else {}
            banks["second" if real.get("best of one size", 0.0) > 0.12 else "first"].append(lead)
    first, second = (t_estimate(banks[bank]) for bank in ("first", "second"))
    assert (first.seeds, second.seeds) == (21, 9)
    assert (first.low or 0) > 0 > (second.low or 0)
    best = {
        json.loads((ROOT / f"reports/cells/{name}.json").read_text())["yardsticks"]["real, held out"][
            "best of one size"
        ]
        for name in (
            "study/design_rl/0",
            "study/design_rl/4",
            *(f"six_rounds/design_rl/{seed}" for seed in range(52, 56)),
            *(f"lessons/design_rl/{seed}" for seed in range(76, 84)),
        )
    }
    assert len(best) == 3
    sentence = (
        f"is {first.text('+.1f', 100)} on the 21 students of the first and {second.text('+.1f', 100)} on the nine"
    )
    assert sentence in committed("reports/log.md")


def flipped(differences: Sequence[float]) -> float:
    """Returns the p-value of a mean difference if each sign is as likely as the other."""
    sums = np.array(list(itertools.product((1, -1), repeat=len(differences)))) @ differences
    return float((abs(sums) >= abs(sum(differences)) - 1e-12).mean())


def test_the_lead_in_the_study_holds_for_its_questions_alone(cells: dict[str, Study]) -> None:
    assert (
        "In the study, the trained engineer's lead survives correction for the three questions that open"
        " [results](reports/results.md), or for all arms in its table, but not if the two arms of the language model"
        " [are added](docs/claims.md#corrected)." in README
    )
    study, *_ = cells.values()
    against = ["fixed", "engineer_trained_another", "evaluation_matched"]
    row = against_each(study, "engineer_trained", against, agents=2)[0]
    assert row.significant
    assert "On the 16 of claim 4 it gives nearly the p of Student's test." in CLAIMS
    p = flipped(row.by_seed)
    assert row.estimate.p == pytest.approx(p, rel=0.1)
    assert 3 * p < 0.05  # for three questions
    (of_all,) = (row for row in compare(study, study.arms, "fixed", agents=2) if row.arm == "engineer_trained")
    assert not of_all.significant
    arms = [arm for arm in study.arms if not arm.startswith("language_model")]
    (without,) = (row for row in compare(study, arms, "fixed", agents=2) if row.arm == "engineer_trained")
    assert without.significant  # as in reports/results.md


def test_what_is_said_of_the_search(every: dict[str, Study]) -> None:
    """What eight students were asked beforehand is told apart from what was seen over all sixteen."""
    *earlier, asked = [every[name] for name in readme.SEARCHED]
    arms = [f"engineer_search{suffix}" for suffix in ("", "_another")]
    both, sixteen, matched = together(*earlier), together(*earlier, asked), "evaluation_matched"
    assert len(sixteen.seeds(arms[0])) == 16
    by_set = [
        {row.against: row for row in against_each(study, arms[0], [arms[1], "fixed"], agents=2)}
        for study in (*earlier, both)
    ]
    assert [rows["fixed"].significant for rows in by_set] == [True, False, True]
    assert (by_set[-1]["fixed"].holm or 1) < 0.025 < (by_set[-1][arms[1]].holm or 0)  # a second look
    assert min(by_set[-1]["fixed"].by_seed) > 0

    assert (
        "if students are compared within their age, as was asked of 68 to 75: {12b}. If ages are taken as random,"
        in (" ".join(FINDINGS))
    )
    within = {row.against: row for row in against_each(asked, arms[0], [arms[1], matched], agents=2, ages=4)}
    assert [within[against].significant for against in (arms[1], matched)] == [True, False]
    usual = {row.against: row for row in against_each(asked, arms[0], [arms[1], matched], agents=2)}
    assert "By the usual interval, over students and ages alike, 12 is not shown on 68 to 75" in CLAIMS
    assert not usual[arms[1]].estimate.excludes_zero
    others = [lead for lead, seed in zip(usual[arms[1]].by_seed, asked.seeds(arms[0]), strict=True) if seed % 4 != 2]
    assert f"the six others gain a mean of {100 * sum(others) / len(others):+.1f} points." in CLAIMS
    assert "On 68 to 75 it had not been shown: " in README
    ahead = [
        (name, arm)
        for name, study in every.items()
        for arm in (arms[0], "engineer_trained")
        for row in compare(study, [arm], matched, agents=2)
        if (row.estimate.low or 0) > 0
    ]
    assert ahead == [("lessons", arms[0]), ("search_matched", arms[0])]  # asked of 84 to 91 alone of these
    assert "beats it on students 84 to 91, where this was the one question: {32b}" in " ".join(FINDINGS)
    (question,) = compare(every["search_matched"], arms[:1], matched, agents=2)
    assert question.significant
    assert len(question.by_seed) == 8
    (control,) = compare(every["search_matched"], arms[:1], matched, agents=3)
    assert not control.estimate.excludes_zero
    assert "On all sixteen it is ahead by a little." in CLAIMS
    (row,) = compare(sixteen, arms[:1], matched, agents=2)
    assert 0 < (row.estimate.low or 0) < row.estimate.mean < 0.02

    page = committed("reports/controls.md")
    apart = paired(*(both.rates(arm, agents=2) for arm in arms))
    first_interval = estimate(apart, [seed % 4 for seed in apart.index])
    assert f"own - another's is {points(first_interval)} points" in page.replace("\n", " ")
    assert first_interval.excludes_zero
    assert not estimate(apart).excludes_zero  # the control: ages taken for chance


def test_what_is_said_of_lessons(every: dict[str, Study]) -> None:
    """None of the three differences that were asked together is shown; the control is one that was not asked."""
    lessons, kept = every["lessons"], {"agents": 2}
    told = [("engineer_search", "engineer_search_mean"), ("engineer_trained", "engineer_trained_another")]
    (mean,), (another,) = (compare(lessons, [arm], other, ages=4, **kept) for arm, other in told)
    (lead,) = compare(lessons, ["engineer_trained"], "fixed", **kept)
    assert not any(row.significant for row in corrected([mean, lead, another]))
    assert "So none of the three is shown." in committed("reports/controls.md")
    assert "it is not shown to beat *fixed*," in README.replace("\n", " ")
    (search,) = compare(lessons, ["engineer_search"], "fixed", **kept)
    assert search.estimate.excludes_zero
    ours, of_the_study = (
        engineers.readings(engineers.load(ROOT / "reports/cells" / folder)) for folder in ("lessons", "study")
    )
    for column in ("own", "reading"):  # in made-up situations more than the study's engineers, in real ones not
        means = [
            {
                key: rows[column].mean()
                for key, rows in table.query("engineer == @engineers.AFTER").groupby("situations")
            }
            for table in (ours, of_the_study)
        ]
        assert means[0][engineers.MADE_UP] > means[1][engineers.MADE_UP] + 0.01
        assert abs(means[0][engineers.REAL] - means[1][engineers.REAL]) < 0.02


def test_signs_are_flipped_as_claims_say(every: dict[str, Study]) -> None:
    *earlier, asked = [every[name] for name in readme.SEARCHED]
    (first,) = compare(together(*earlier), ["engineer_search"], "fixed", agents=2)
    (reading,) = against_each(asked, "engineer_search", ["engineer_search_another"], agents=2)
    p = [flipped(row.by_seed) for row in (first, reading)]
    assert f"On 60 to 67, which all gain in claim 11, it gives {p[0]:.4f};" in CLAIMS
    assert f"on 68 to 75 in claim 12, where it takes ages for chance, {p[1]:.2f}." in CLAIMS


def test_another_report_costs_students_the_boards_that_need_a_wait(every: dict[str, Study]) -> None:
    """Those of the third age lose them; the control: students of other ages, and boards that need no wait."""
    assert "Most of it comes from [one age](reports/controls.md#" in README
    sixteen = together(*[every[name] for name in readme.SEARCHED])
    lost = {
        wait: paired(
            *(sixteen.rates(f"engineer_search{suffix}", agents=2, needs_wait=wait) for suffix in ("", "_another"))
        )
        for wait in (True, False)
    }
    by_student = {wait: frame.mean(axis=1) for wait, frame in lost.items()}
    third = [seed for seed in by_student[True].index if seed % 4 == 2]
    assert (by_student[True][third] > 0.2).all()
    assert (by_student[True].drop(third) < 0.15).all()
    assert (by_student[False][third] < 0.1).all()
    assert "the students of the third age were given no boards that need a wait" in committed(
        "reports/controls.md"
    ).replace("\n", " ")
    for seed in third:
        assert waits(sixteen.history("engineer_search_another", seed)[1].config) == 0
        (other_seed,) = told_seeds("another", seed, 4)
        valid = {member: sixteen.history("round_0", member)[0].report.valid_rate for member in group_of(seed, 4)}
        assert valid[other_seed] == min(valid.values())


def test_neither_the_report_nor_the_context_is_shown_to_help(cells: dict[str, Study]) -> None:
    """Corrected as in the tables of reports/controls.md."""
    assert "But its own student's report is not shown to teach more than another's, in the study," in README
    assert "that the paper's best [context](docs/method.md#what-the-engineer-reads), V6, helps." in README
    _, fresh, last = cells.values()
    questions = [(fresh, "another", "none"), (fresh, "near", "mean"), (fresh, "v1", "v2"), (last, "v3", "v4", "v5")]
    for study, *variants in questions:
        rows = against_each(
            study, "engineer_trained", [f"engineer_trained_{variant}" for variant in variants], agents=2
        )
        assert len(rows) == len(variants)
        assert not any(row.significant for row in rows), variants
    (control,) = against_each(fresh, "engineer_trained", ["fixed"], agents=2)
    assert control.significant


def test_the_figures_and_the_claims_are_made_from_the_records(tmp_path: Path) -> None:
    root = repository(tmp_path, "params.yaml")
    for folder in controls.SETS:
        shutil.copytree(ROOT / "reports/cells" / folder, root / "reports/cells" / folder)
    for page in readme.PAGES:
        emptied = readme.MARKS.sub(r"\1\2", (ROOT / page).read_text(encoding="utf-8"))
        repro.write_text(root / page, emptied)
    (root / "reports/laboratory").mkdir()
    shutil.copyfile(ROOT / "reports/laboratory/gate.json", root / "reports/laboratory/gate.json")
    readme.write(root)
    for picture in ("reports/leads.png", "reports/loop.png"):
        made, published = (np.asarray(PIL.Image.open(base / picture).convert("L"), int) for base in (root, ROOT))
        assert made.shape == published.shape, "python -m mapflake.nb readme"
        assert abs(made - published).mean() < 0.5
        assert abs(made[:, ::-1] - published).mean() > 5  # the control: another picture
    for page in (*readme.PAGES, "reports/controls.md"):
        made_page, published_page = ((base / page).read_text(encoding="utf-8") for base in (root, ROOT))
        assert made_page == published_page, "python -m mapflake.nb readme"
    repro.write_text(root / "README.md", README.replace("<!-- /findings -->", ""))
    with pytest.raises(ValueError, match=r"^README\.md has no marks <!-- findings: "):
        readme.write(root)


def test_nothing_published_is_removed_before_there_is_something_to_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = repository(tmp_path, "params.yaml")
    repro.write_text(root / "reports/figures/analysis_old.png", "")
    repro.write_text(root / "reports/notebooks/.ipynb_checkpoints/06_analysis-checkpoint.ipynb", "")
    for name in ("figures/notes.txt", "notebooks/mine.ipynb"):
        repro.write_text(root / "reports" / name, "")
    repro.write_text(root / "runs/default/analysis/notebook.ipynb", "{}")
    monkeypatch.chdir(root)
    with pytest.raises(FileNotFoundError, match=r"^runs/default/analysis/results\.md is missing: run notebooks/06_"):
        publish.publish(root)
    assert (root / "reports/figures/analysis_old.png").is_file()
    repro.write_text(root / "runs/default/analysis/results.md", "new")
    repro.write_json(root / "runs/default/analysis/metrics.json", {"benchmark": {}, "validation_by_round": []})
    publish.publish(root)
    made = {"results.md", "metrics.json", "summary.json", "validation.json", "notebooks/06_analysis.ipynb"}
    opened = {"notebooks/.ipynb_checkpoints/06_analysis-checkpoint.ipynb"}  # by Jupyter
    opened |= {"figures/notes.txt", "notebooks/mine.ipynb"}  # the user's own
    assert {*files(root / "reports")} == made | opened  # without the old figure


def test_it_names_the_ages_of_students() -> None:
    *ages, last = (f"{age:,}" for age in params.effective(params.load(ROOT), "study").students.ages)
    assert f"its supervised steps after those that all students share: {', '.join(ages)} or {last}." in README


def test_it_fits_on_two_screens() -> None:
    assert len(README.splitlines()) <= 120


def test_links_and_pictures_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", README)
    local = [t for t in targets if not t.startswith("http")]
    assert sum(t.startswith("reports/notebooks/") for t in local) == 6
    assert [t for t in local if not (ROOT / t).exists()] == []


def test_the_layout_names_what_is_there() -> None:
    tree = re.search(r"## Layout\n\n```\n(.*?)```", README, re.DOTALL)
    assert tree is not None
    named = [word for line in tree[1].splitlines() for word in line.split("  ")[0].split()]
    named += [f"mapflake/{w}" for line in re.findall(r"^  (\S.*?)  ", tree[1], re.MULTILINE) for w in line.split()]
    assert len(named) > 14
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_its_commands_are_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    commands = {*re.findall(r"make ([a-z-]+)", README)}
    assert {"repro", "test", "study", "lab"} <= commands
    assert [c for c in commands if not re.search(rf"^{c}:", makefile, re.MULTILINE)] == []


def test_make_help_names_every_run() -> None:
    output = done("make", "--no-print-directory", "help", cwd=ROOT)
    assert output.splitlines()[-1].partition(":")[2].split() == [*params.load(ROOT).runs]
    typo = subprocess.run(["make", "repro", "DRY=1", "RUN=lm"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert typo.returncode
    assert "RUN=lm: no such run; one of: default study" in typo.stderr
    assert "Installing" not in typo.stdout


def test_summary_is_an_extract_of_the_metrics() -> None:
    metrics = json.loads(committed("reports/metrics.json"))
    shown = publish.summary(metrics)
    assert shown == json.loads(committed("reports/summary.json"))
    assert shown["fixed"]["valid"] == metrics["benchmark"]["fixed"]["all"]["valid"]["mean"]


@pytest.mark.skipif(not shutil.which("nproc") or bool(shutil.which("nvidia-smi")), reason="JOBS is 1 there")
def test_cells_run_on_all_cores_also_where_numpy_is_told_to_take_one() -> None:
    """`nproc` follows OMP_NUM_THREADS, which is about the threads of one process."""
    command = ["make", "--no-print-directory", "--eval", "jobs: ; @echo $(JOBS)", "jobs"]
    shown = done(*command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert int(shown) == len(os.sched_getaffinity(0))
