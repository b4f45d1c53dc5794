"""A trial of the next laboratory for real, in small, and its page from made-up trials of which the truth is known."""

import itertools

import numpy as np
import pytest
from starts import PARAMS, TASKS

from benchmarks import laboratory
from mapflake import env, repro
from mapflake.engineer import Grpo
from mapflake.env import EnvConfig, generate


def rows(regime, students=laboratory.AGES, seeds=(0, 1), designs=None, dropped=()):
    """Trials in which each student gains most on a size of its own, without `dropped` ones (seed, student, design)."""
    names = designs or list(laboratory.DESIGNS)
    for seed, (i, age), (j, name) in itertools.product(seeds, enumerate(students), enumerate(names)):
        if (seed, age, name) not in dropped:
            gain = 10.0 - 4 * abs(i - j) if j < 6 else 0.0
            key = {"regime": regime, "student": str(age), "design": name, "seed": seed}
            yield key | {"gain": gain, "tokens": 1, "before": {"valid": 10.0}, "student_sha256": f"{age}"}


def test_a_trial_measures_what_a_round_changes(start, tmp_path, monkeypatch):
    monkeypatch.setattr(laboratory, "sample_boards", lambda config, n, *, seed: (TASKS, {}))
    params = PARAMS.model_copy(update={"epochs": 1})
    design = EnvConfig.uniform([3], 0.0, 0.0)
    validation = [*TASKS, *generate(EnvConfig.uniform([4], 0.0, 1.0), 4, seed=1)]
    start_rates = laboratory.rates(start, Grpo(params), validation)
    trial, repeat, other = (
        laboratory.trial(start, design, Grpo(params), validation, tmp_path / "trial", seed=seed) for seed in (0, 0, 1)
    )
    assert {*start_rates["by_size"]} == {"3", "4"}
    assert trial == repeat != other
    assert trial["samples"] == params.epochs * params.instances * params.generations
    assert 0 < trial["tokens"] <= trial["samples"] * params.max_new_tokens
    assert not (tmp_path / "trial").exists()


def test_the_page_has_the_gate_of_what_is_complete():
    screened = laboratory.SCREENED
    part = list(rows("longer", screened["students"], (0, 1), screened["designs"]))
    text = laboratory.page([*rows("half_rate"), *part])
    header, _, *lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")][: 2 + 5]
    assert [name.strip() for name in header[1:]] == ["half_rate, equal samples", "half_rate, equal tokens"]
    assert [line[0].strip() for line in lines] == list(laboratory.COMPARED.values())
    assert lines[0][1].strip().startswith("+10.0")  # every draw gains nothing
    assert all(samples.strip() == tokens.strip() for _, samples, tokens in lines)
    assert "longer, equal" not in text  # it lacks the draws
    waits = list(rows("half_rate", [600], [0], ["3x3 to 5x5, waits 0.0"]))
    with_waits = laboratory.page([*rows("half_rate"), *part, *waits]).splitlines()
    assert {*text.splitlines()} <= {*with_waits}  # the gate is as before
    (shown,) = (line for line in with_waits if line.startswith("| 3x3 to 5x5, waits 0.0"))
    assert shown.split("|")[2].strip() == "+10.0"
    missing = [*rows("longer", dropped=[(1, laboratory.AGES[0], "benchmark")])]
    first, *rest = map(str, laboratory.AGES)
    for seeds, students in (((2,), [first, *rest]), ((2, 3, 4, 5), [first, *rest])):
        subset = laboratory.whole([*missing, *rows("longer", seeds=seeds)])
        assert subset is not None
        assert [*subset.students] == students  # as many as there can be without a gap
        assert subset.seeds == (0, *seeds)
    text = laboratory.page(missing)
    assert f"*longer* is of the {len(rest)} students and 2 training seeds (0, 1)" in text
    assert f"the students of {', '.join(rest)} steps. The p-values of its rows" in text
    assert laboratory.whole(rows("longer", laboratory.AGES[:1])) is None  # no other student to compare with
    assert laboratory.whole(rows("longer", seeds=(0,))) is laboratory.whole([]) is None
    assert laboratory.matrix([], laboratory.DESIGNS).empty


def test_a_round_of_which_only_recipes_are_known_has_no_section():
    recipes = [*rows("quarter", laboratory.SCREENED["students"], (0,), laboratory.SCREENED["designs"])]
    text = laboratory.page([*rows("half_rate"), *recipes])
    assert "## Single designs, half_rate" in text
    assert "## Single designs, quarter" not in text
    head, recipe = text.split("## The trainer's recipe")
    assert "Another round, *half_rate*, has 320 boards" in head
    assert "Another round, *quarter*" not in head
    assert "Another round, *quarter*, has 160 boards" in recipe
    (head,) = (line for line in text.splitlines() if line.startswith("|") and "quarter" in line)
    assert [cell.strip() for cell in head.split("|")[2:-1]] == ["half_rate", "quarter"]  # the recipes
    assert "## Single designs, quarter" in laboratory.page([*rows("half_rate"), *rows("quarter")])


def test_a_seed_whose_students_have_other_weights_is_told_apart():
    first, (*last,) = rows("half_rate", seeds=(0, 1)), rows("half_rate", seeds=(2,))
    first = [*first]
    assert "other weights" not in laboratory.page([*first, *last])
    for row in last:
        row["student_sha256"] += " made anew"
        row["gain"] += 1.0 if row["design"] == "uniform" else 0.0
    text = laboratory.page([*first, *last])
    anew = ", ".join(map(str, laboratory.AGES))
    assert f"Under the seed 2 the students of {anew} steps have other weights: they were made anew" in text
    (line,) = (line for line in text.splitlines() if line.startswith("| uniform over") and line.count("|") == 5)
    assert [cell.split()[0] for cell in line.split("|")[2:5]] == ["+10.0", "+10.0", "+9.0"]


def test_engineers_designs_are_compared_under_their_own_seed():
    """The matched design gains 5, others 3, draws 0; the best searched one is chosen under the other seeds."""
    gate = [*rows("groups_of_8", laboratory.WHOLE, (0, 1)), *rows("groups_of_8", laboratory.WHOLE, (2,))]
    for row in gate:
        row["gain"] = {"6x6, waits 0.5": 6.0 if row["seed"] < 2 else 4.0, "benchmark": 4.5}.get(row["design"], 0.0)
    trials = [*rows("groups_of_8", laboratory.WHOLE, (2,), list(laboratory.ENGINEERS))]
    for row in trials:
        place = laboratory.WHOLE.index(int(row["student"]))
        matched = laboratory.ENGINEERS[row["design"]] == laboratory.STUDY.students.ages[place]
        row["gain"] = 5.0 if matched else 3.0
    *_, table = laboratory.engineers(trials, gate)
    gains = {line.split("|")[1].strip(): line.split("|")[2].split()[0] for line in table.splitlines()[2:]}
    assert [*gains.values()] == ["+2.0", "+5.0", "+1.0", "+0.5"], gains
    assert table in laboratory.page([*gate, *trials])
    part = [row for row in trials if row["student"] in ("1500", "6000")]  # the others were not run
    *_, part_table = laboratory.engineers(part, [row for row in gate if row["student"] != "3200"])
    assert [line.split("|")[2].split()[0] for line in part_table.splitlines()[2:]] == ["+2.0", "+5.0", "+1.0", "+0.5"]
    assert laboratory.engineers(part, [row for row in gate if row["seed"] < 2])[-1].startswith("|")  # gains alone
    gate_part = [row for row in gate if row["seed"] < 2 or row["design"] not in laboratory.DRAWS]
    assert laboratory.engineers(trials, gate_part)[-1].startswith("|")
    assert {*laboratory.first_designs()} == {*laboratory.ENGINEERS}


def test_the_page_collects_trials_and_not_what_students_solve_before(tmp_path):
    trials = [*rows("quarter", [600], [0])]
    for row in trials:
        repro.write_json(tmp_path / f"trials/quarter-0-600-{row['design'].replace(' ', '_')}.json", row)
    repro.write_json(tmp_path / "trials/before-600-abcdef01.json", {"valid": 10.0})
    repro.write_jsonl(tmp_path / "records.jsonl", [])
    collected = laboratory.collect(tmp_path, tmp_path / "records.jsonl")
    assert collected == sorted(trials, key=laboratory.trial_key)
    assert repro.read_jsonl(tmp_path / "records.jsonl") == collected


def test_parts_do_not_teach_one_student_at_once(tmp_path):
    env.save_tasks(tmp_path / "boards/validation.jsonl", TASKS)
    with pytest.raises(SystemExit, match=r"^--part: the student 600 is missing: `student 600` makes it first$"):
        laboratory.run("default", laboratory.SCREENED, 0, 2, tmp_path, tmp_path / "records.jsonl")


@pytest.mark.parametrize("part", ["2/2", "3/2", "-1/2", "0/0", "5", "a/b"])
def test_a_part_is_one_of_so_many(tmp_path, monkeypatch, capsys, part):
    """Whoever counts them from 1 would never run the first trials."""
    monkeypatch.setattr(laboratory, "root", lambda: tmp_path)
    repro.write_json(tmp_path / "runs/laboratory/boards/settings.json", {})
    monkeypatch.setattr("sys.argv", ["laboratory", "trials", "default", f"--part={part}"])
    with pytest.raises(SystemExit):
        laboratory.main()
    assert f"--part: '{part}' is none; of two parts there are 0/2 and 1/2" in capsys.readouterr().err


def test_validation_is_drawn_as_the_benchmark_is(tmp_path, monkeypatch):
    settings = laboratory.BOARDS.model_dump() | {"demonstrations": [{"agents": 2, "boards": 40, "wait_ratio": 0.5}]}
    settings["validation"] |= {"boards": 4}
    monkeypatch.setattr(laboratory, "BOARDS", type(laboratory.BOARDS).parse(settings, "env_design"))
    laboratory.draw_boards(tmp_path)
    tasks = env.load_tasks(tmp_path / "validation.jsonl")
    assert len(tasks) == 4 * len(laboratory.SIZES) * 3
    assert np.mean([task.needs_wait for task in tasks]) == pytest.approx(0.5)
    demonstrated = {task.instance.key for task in env.load_tasks(tmp_path / "demonstrations.jsonl")}
    assert not demonstrated & {task.instance.key for task in tasks}
