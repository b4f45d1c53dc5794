"""Records of cells: measured and written small, read back whole, refused when they do not belong together."""

import functools
import subprocess

import pytest
from simulated import simulate

from mapflake import repro, study
from mapflake.env import EnvConfig, format_plan, generate, load_tasks, save_tasks
from mapflake.study import records
from mapflake.trainer import evaluate

TASKS = generate(EnvConfig.uniform([3, 4], 0.1), 4, seed=0, split="validation")
BOARDS = [*TASKS, TASKS[0]]  # a board may be there twice


class Solver:
    """A policy that solves the first boards of what it is asked, in its first sample alone."""

    prompt_format = "chat"

    def __init__(self, tasks, solved):
        self.tasks, self.solved = tasks, solved

    def complete(self, prompts, *, n=1, **asked):
        right = [format_plan(t.instance, t.solution.plan, "chat") for t in self.tasks[: self.solved]]
        return [[right[i] if i < len(right) and not k else "?" for k in range(n)] for i in range(len(prompts))]


def change(path, *, parameters=(), **values):
    """Gives a record other values, and other ones among its parameters."""
    record = repro.read_json(path)
    repro.write_json(path, record | values | {"parameters": record["parameters"] | dict(parameters)})


@pytest.fixture
def boards(tmp_path):
    """Notebook 01's folder: four validation boards, five in the one subset of the benchmark."""
    folder = tmp_path / "run/env_design"
    folder.mkdir(parents=True)
    save_tasks(folder / "validation.jsonl", TASKS)
    save_tasks(folder / "benchmark_wr050.jsonl", BOARDS)
    repro.write_json(folder / "settings.json", {"sizes": [3, 4], "subsets": ["wr050"]})
    study.write_boards(tmp_path / "run/cells/boards.json", [3, 4], {"validation": TASKS, "wr050": BOARDS})
    return folder


def test_write_record_keeps_a_digit_a_board_and_load_reads_it(boards):
    path = boards.parent / "cells/engineer-0.json"
    written = []
    for _ in range(2):
        on_benchmark = study.benchmark(Solver(BOARDS, 3), boards, seed=0, samples=2)
        on_validation = evaluate.rollout(Solver(TASKS, 1), load_tasks(boards / "validation.jsonl"), seed=0)
        measured = {"benchmark": on_benchmark, "validation": [on_validation]}
        study.write_record(path, arm="engineer", seed=0, boards_folder=boards, parameters={"samples": 2}, **measured)
        written.append(path.read_bytes())
    assert written[0] == written[1]
    record = repro.read_json(path)
    assert record["benchmark"]["wr050"]["valid"] == "11100"
    assert record["made"]["code_sha256"] == records.code_sha256()
    cells = study.load(boards.parent / "cells")
    assert cells.arms == ["engineer"]
    rates = cells.rates("engineer", "valid").loc[0].tolist()
    assert rates == [0.25, 0.5, 0.5, 0.0]  # the first board is there twice
    assert cells.rates("engineer", "valid", size=4).shape == (1, sum(t.instance.size == 4 for t in TASKS))
    assert cells.rates("engineer", "optimal", "validation").loc[0].tolist() == [1, 0, 0, 0]
    assert cells.boards["size"].tolist() == [t.instance.size for t in TASKS]


def test_outcomes_takes_one_to_nine_answers_to_each_board():
    ten = evaluate.rollout(Solver(BOARDS, 2), BOARDS, samples=10, seed=0)
    for wrong in (ten, [r for r in ten if r.sample < 2][:-1]):
        with pytest.raises(ValueError, match="the same number of answers to each board, 1 to 9, board after board"):
            records.outcomes(wrong, BOARDS)


def test_made_names_the_commit_and_whether_more_than_results_was_changed(tmp_path, monkeypatch):
    def git(*command):
        whole = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *command]
        return subprocess.run(whole, capture_output=True, text=True, check=True).stdout

    (tmp_path / "mapflake").mkdir()
    monkeypatch.setattr(records.provenance, "PACKAGE", tmp_path / "mapflake")
    assert records._commit() == (None, False)
    for name in ("__init__.py", "repro.py"):
        (tmp_path / "mapflake" / name).touch()
    git("init", "-q")
    git("commit", "-qm", "none", "--allow-empty")
    (tmp_path / ".gitignore").write_text("mapflake")
    assert records._commit() == (None, False)  # an environment in somebody's repository, which is not the package's
    (tmp_path / ".gitignore").unlink()
    git("add", ".")
    git("commit", "-qm", "one")
    head = git("rev-parse", "HEAD").strip()
    for name in ("reports/x.md", "runs/x", "dvc.lock"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert records._commit() == (head, True)
    (tmp_path / "mapflake/repro.py").write_text("pass")
    assert records._commit() == (head, False)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("schema", 7, r"\.schema: 7 is not legal: input should be 2"),
        ("arm", "fixed", "holds the cell fixed-1: a record has its cell's name"),
        ("parameters.samples", 3, "samples 3 is not that of base-0, 8"),
        ("benchmark.wr050.valid", "12", r"wr050\.valid: takes a digit up to 8 for each board"),
        ("benchmark.wr050.boards_sha256", "0", "was measured on other wr050 boards than boards.json has: run the cell"),
        ("validation", [], "validation: not the sets of boards.json"),
    ],
)
def test_load_refuses_records_that_do_not_belong_together(tmp_path, key, value, said):
    path = simulate(tmp_path, {"engineer": 0.0, "fixed": 0.0}, seeds=[0, 1]) / "heuristic-1.json"
    record = repro.read_json(tmp_path / "fixed-1.json") | {"arm": "heuristic"}
    *outer, last = key.split(".")
    functools.reduce(dict.__getitem__, outer, record)[last] = value
    repro.write_json(path, record)
    with pytest.raises(ValueError, match=said) as caught:
        study.load(tmp_path, ["engineer", "fixed", "heuristic"])
    assert str(caught.value).startswith(str(path))


def test_load_refuses_a_record_with_other_rounds(tmp_path):
    simulate(tmp_path, {"fixed": 0.0}, seeds=[0, 1])
    path = tmp_path / "fixed-1.json"
    change(path, validation=repro.read_json(path)["validation"] * 2)
    with pytest.raises(ValueError, match=r"fixed-1\.json: was measured 4 times, fixed-0 2 times"):
        study.load(tmp_path)


def test_load_refuses_arms_with_other_numbers_of_rounds(tmp_path):
    simulate(tmp_path, {"fixed": 0.0, "fixed_longer": 0.0}, seeds=[0])
    change(tmp_path / "fixed_longer-0.json", parameters={"rounds": 6})
    assert study.load(tmp_path).seeds("fixed_longer") == [0]  # the control
    change(tmp_path / "fixed-0.json", parameters={"rounds": 4})
    with pytest.raises(ValueError, match=r"fixed-0\.json: 4 rounds, and base-0 has 2: they are no comparison"):
        study.load(tmp_path)


def test_load_refuses_an_arm_whose_beginning_is_not_on_record(tmp_path):
    simulate(tmp_path, {"engineer": 0.0}, seeds=[0])
    shared, arm_path = tmp_path / "round_0-0.json", tmp_path / "engineer-0.json"
    change(shared, rounds=[{"index": 0, "checkpoint_sha256": "a"}])
    first, second, third = ({"index": index, "parent_sha256": "a"} for index in (1, 2, 3))
    change(arm_path, rounds=[first, second, third])
    assert study.load(tmp_path).arms == ["engineer"]  # the control
    for rounds in ([second], [first, third], [{"parent_sha256": "a"}]):
        change(arm_path, rounds=rounds)
        with pytest.raises(ValueError, match=r"engineer-0\.json: has the rounds \[.*\]; takes one after the other"):
            study.load(tmp_path)
    change(arm_path, rounds=[first])
    shared.unlink()
    with pytest.raises(ValueError, match=r"no round_0-0\.json: engineer-0 is compared with what it begins with"):
        study.load(tmp_path)


def test_load_refuses_an_arm_that_continues_from_another_round_0(tmp_path):
    simulate(tmp_path, {"engineer": 0.0}, seeds=[0])
    shared, arm_path = tmp_path / "round_0-0.json", tmp_path / "engineer-0.json"
    first = {"index": 0, "checkpoint_sha256": 64 * "a", "parent_sha256": 64 * "c"}
    change(shared, rounds=[first])
    own_round_0 = {"index": 0, "parent_sha256": 64 * "b", "before_design_rl_sha256": 64 * "c"}
    for row in ({"index": 1, "parent_sha256": 64 * "a"}, own_round_0):  # the controls
        change(arm_path, rounds=[row])
        assert study.load(tmp_path).arms == ["engineer"]
    change(arm_path, rounds=[{"index": 1, "parent_sha256": 64 * "b"}])
    message = r"engineer-0 continues from another round 0 \(bbbbbbbb\) than round_0-0 \(aaaaaaaa\): trained on another"
    with pytest.raises(ValueError, match=message):
        study.load(tmp_path)
    other_row = own_round_0 | {"before_design_rl_sha256": 64 * "d"}
    change(arm_path, rounds=[other_row])
    with pytest.raises(
        ValueError, match=r"engineer-0 continues from another student \(dddddddd\) than round_0-0 \(cccc"
    ):
        study.load(tmp_path)


def test_load_refuses_an_arm_of_ones_own_whose_designer_changed_between_its_cells(tmp_path):
    simulate(tmp_path, {"mine": 0.0, "fixed": 0.0}, seeds=[0, 1])
    for cell, sha256 in (("mine-0", "a"), ("mine-1", "a"), ("fixed-0", "a"), ("fixed-1", "b")):
        change(tmp_path / f"{cell}.json", parameters={"designer": {"sha256": sha256}})
    assert study.load(tmp_path).seeds("mine") == [0, 1]  # the control; our own code was rewritten, to do the same
    change(tmp_path / "mine-1.json", parameters={"designer": {"sha256": "b"}})
    with pytest.raises(
        ValueError, match=r"mine-1\.json: designer is not that of mine-0: run all cells of this arm anew"
    ):
        study.load(tmp_path)
    for model in ("base", "runs/mine"):
        for seed, sha256 in ((0, "a"), (1, "b")):
            by = {"designer": None, "engineer": {"model": model}, "model_sha256": sha256}
            change(tmp_path / f"mine-{seed}.json", parameters=by)
        if model == "base":  # each student has its own
            assert study.load(tmp_path).seeds("mine") == [0, 1]
    with pytest.raises(ValueError, match=r"mine-1\.json: model_sha256 is not that of mine-0"):
        study.load(tmp_path)


def test_sets_are_one_if_no_student_is_in_two_and_all_were_measured_alike(tmp_path):
    folders = [simulate(tmp_path / str(i), {"fixed": 0.0}, seeds=[i, i + 10]) for i in range(2)]
    first, second = map(study.load, folders)
    assert study.together(first, second).seeds("fixed") == [0, 1, 10, 11]
    with pytest.raises(ValueError, match="seeds: 0, 10 are in more than one set"):
        study.together(first, second, first)
    for key, value in (("rounds", 6), ("samples", 4)):
        for path in folders[1].glob("*-*.json"):
            change(path, parameters={"rounds": 2, "samples": 8} | {key: value})
        with pytest.raises(ValueError, match=rf"^{key}: not the same in all sets"):
            study.together(first, study.load(folders[1]))
    boards = repro.read_json(folders[1] / "boards.json")
    boards["sets"]["wr050"]["sha256"] = "another"
    repro.write_json(folders[1] / "boards.json", boards)
    for path in folders[1].glob("*-*.json"):
        record = repro.read_json(path)
        record["benchmark"]["wr050"]["boards_sha256"] = "another"
        repro.write_json(path, record)
        change(path, parameters={"rounds": 2, "samples": 8})
    with pytest.raises(ValueError, match=r"^wr050 boards: not the same in all sets"):
        study.together(first, study.load(folders[1]))


def test_load_says_which_of_the_arms_and_seeds_asked_for_have_no_record(tmp_path, caplog):
    simulate(tmp_path, {"fixed": 0.0}, seeds=[0, 1])
    assert study.load(tmp_path, ["fixed"], [0]).seeds("fixed") == [0]
    assert not caplog.messages
    study.load(tmp_path, ["fixed", "uniform"], [0, 52])
    assert [line.partition(": ")[2] for line in caplog.messages] == [
        "no records of uniform under these seeds",
        "no records of seed 52",
    ]
    for wrong, message in (("01", "takes a list of training seeds, not '01'"), (5, "seeds, not 5"), (["0"], "integer")):
        with pytest.raises(ValueError, match=f"^seeds: .*{message}"):
            study.load(tmp_path, seeds=wrong)


def test_load_names_what_is_missing_or_torn_and_says_how_to_make_it(tmp_path):
    with pytest.raises(ValueError, match=r"no boards\.json: notebook 01 makes it; in the pipeline"):
        study.load(tmp_path)
    repro.write_json(tmp_path / "boards.json", {})
    with pytest.raises(ValueError, match=r"no records: notebook 02 makes the first; in the pipeline"):
        study.load(tmp_path)
    path = simulate(tmp_path, {"fixed": 0.0}, seeds=[0]) / "base-0.json"
    whole = repro.read_json(tmp_path / "boards.json")
    for damaged in ({}, [], {"sets": {**whole["sets"], "wr025": {"board": [1]}}}):
        repro.write_json(tmp_path / "boards.json", damaged)
        with pytest.raises(
            ValueError, match=r"boards\.json: takes sets, each with board, agents, size, needs_wait and"
        ):
            study.load(tmp_path)
    repro.write_json(tmp_path / "boards.json", whole)
    with pytest.raises(ValueError, match="arms: 'fixd': no records; there are base, fixed, round_0"):
        study.load(tmp_path, ["fixd"])
    with pytest.raises(ValueError, match="takes a list of names, not 'fixed'"):
        study.load(tmp_path, "fixed")
    with pytest.raises(ValueError, match=r"^seeds: .* has no records of \[52, 53\]; there are 0$"):
        study.load(tmp_path, seeds=[52, 53])
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"base-0\.json: not JSON"):
        study.load(tmp_path)
