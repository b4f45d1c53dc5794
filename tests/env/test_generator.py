import itertools
import json
import math
import operator
import pickle
import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from boards import boards
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import layers

from mapflake.env import (
    PROMPT_FORMATS,
    SPLITS,
    EnvConfig,
    GenerationError,
    Instance,
    SizeConfig,
    Task,
    apportion,
    cells_needed,
    format_plan,
    generate,
    judge,
    judge_plan,
    kernel,
    load_tasks,
    naive_plan_fails,
    num_holes,
    render_prompt,
    save_tasks,
    split_of,
    tasks_of,
    to_dataset,
    transform,
    transform_task,
)
from mapflake.env import generator as generator_module
from mapflake.env.generator import board_statistics, plan_tasks
from mapflake.env.plain import ANALYSE, SOLVED
from mapflake.env.splits import ALL_BUCKETS, bucket, canonical
from mapflake.repro import from_json, json_sha256, seed_for, to_json

MIXED = EnvConfig(
    {3: SizeConfig(0.2, 0.1, 0.5), 4: SizeConfig(0.5, 0.25, 0.25), 6: SizeConfig(0.3, 0.3, None)}, num_agents=2
)


@pytest.fixture(scope="module")
def mixed() -> list[Task]:
    return generate(MIXED, 60, seed=7)


@pytest.mark.parametrize("prompt_format", PROMPT_FORMATS)
def test_the_oracle_plan_is_valid_and_optimal(mixed, prompt_format):
    for task in mixed + generate(EnvConfig.uniform([4, 5], 0.2, None, 4), 10, seed=1):
        verdict = judge(task, format_plan(task.instance, task.solution.plan, prompt_format), prompt_format)
        assert verdict.valid
        assert verdict.optimal
        assert verdict.makespan == task.solution.makespan
        assert verdict.soc_optimal == (task.solution.sum_of_costs == task.best_sum_of_costs)


def test_tasks_are_what_was_asked_for(mixed):
    assert Counter(task.instance.size for task in mixed) == {3: 12, 4: 30, 6: 18}
    for size, waits in ((3, 6), (4, 8)):  # 7.5 goes up
        assert sum(task.needs_wait for task in mixed if task.instance.size == size) == waits
    for task in mixed:
        board = task.instance
        assert len(board.holes) == {3: 1, 4: 4, 6: 11}[board.size]
        assert board.num_agents == 2
        assert all(start != goal for start, goal in zip(board.starts, board.goals, strict=True))
        assert split_of(board) == "train"
        assert task == Task.of(board)


@st.composite
def configs(draw):
    sizes = draw(st.lists(st.integers(3, 10), min_size=1, max_size=8, unique=True))
    weights = [draw(st.integers(0, 20)) for _ in sizes]
    weights[0] += 1
    waits = st.none() | st.integers(0, 20).map(lambda w: w / 20)
    holes = st.integers(0, 8).map(lambda h: h / 20)
    return EnvConfig(
        {s: SizeConfig(w / sum(weights), draw(holes), draw(waits)) for s, w in zip(sizes, weights, strict=True)}
    )


@given(configs(), st.integers(0, 500))
def test_ratios_are_met_exactly(config, n):
    specs = plan_tasks(config, n, seed=0)
    assert len(specs) == n
    counts = Counter(spec.size for spec in specs)
    assert len(set(specs)) == n
    for size, part in config.sizes.items():
        assert abs(counts[size] - n * part.data_ratio) < 1
        labels = Counter(spec.waits for spec in specs if spec.size == size)
        assert (None in labels) == (part.wait_ratio is None and counts[size] > 0)
        if part.wait_ratio is not None:
            assert labels[True] == (2 * round(20 * part.wait_ratio) * counts[size] + 20) // 40  # in 20ths
            assert labels[True] + labels[False] == counts[size]
    # largest remainder: whoever was rounded up had no smaller remainder than whoever was rounded down
    rest = {s: n * p.data_ratio - counts[s] for s, p in config.sizes.items()}
    assert max(rest.values()) - min(rest.values()) <= 1 + 1e-6
    assert apportion(n, config.data_ratios) == {s: counts[s] for s in config.sizes}


def test_equal_remainders_go_to_the_first_and_halves_of_holes_go_up():
    assert apportion(10, dict.fromkeys(range(3, 7), 0.25)) == {3: 3, 4: 3, 5: 2, 6: 2}
    assert apportion(20, {"a": 2, "b": 1, "c": 0}) == {"a": 13, "b": 7, "c": 0}
    with pytest.raises(ValueError, match="n: a number from 0 on, not -3"):
        apportion(-3, {1: 1.0})
    assert [num_holes(*kind) for kind in ((3, 0.5), (5, 0.1), (4, 0.0), (10, 0.125))] == [5, 3, 0, 13]
    assert [num_holes(10, ratio) for ratio in (0.285, 0.235, 0.295, 0.415, 0.284)] == [29, 24, 30, 42, 28]


def test_the_same_call_gives_the_same_tasks_for_ever(mixed):
    assert generate(MIXED, 60, seed=7) == mixed
    rows = [to_json(task) for task in mixed]
    for row, task in zip(rows, mixed, strict=True):
        row |= row.pop("solution") | {"plan": task.solution.plan.moves}
    assert json_sha256(rows)[:16] == "eff26a4ac151622e"  # with the compiled solver


def test_numbers_of_numpy_are_taken_and_kept_as_pythons():
    assert seed_for(np.int64(3), "x", np.int64(1), np.str_("y")) == seed_for(3, "x", 1, "y") != seed_for(3, "x", 1.0)
    config = EnvConfig.uniform(np.array([4, 5]), np.float32(0.25), None, np.int64(2))
    assert repr(config) == repr(EnvConfig.uniform([4, 5], 0.25))
    assert generate(config, np.int64(3), seed=np.int64(0)) == generate(config, 3, seed=0)
    assert EnvConfig.uniform([10], np.float32(0.285)) == EnvConfig.uniform([10], 0.285)
    number = np.int64(4)
    assert board_statistics(number, 2, 0.2, boards=9, seed=0) == board_statistics(4, 2, 0.2, boards=9, seed=0)
    board = Instance(np.int64(2), np.argwhere([[1, 0], [0, 0]]), ((np.int64(0), 1),), [[1, 0]])
    assert repr(board) == repr(Instance(2, {(0, 0)}, ((0, 1),), ((1, 0),)))
    for sizes in (4, []):
        with pytest.raises(ValueError, match=r"sizes: .* is not one or more integers in 3\.\.10"):
            EnvConfig.uniform(sizes, 0.2)


def test_any_slice_can_be_made_alone(mixed):
    steps: list[int] = []
    tasks = generate(MIXED, 60, seed=7, indices=[41, 3, 59], progress=steps.append)
    assert (tasks, steps) == ([mixed[41], mixed[3], mixed[59]], [1, 1, 1])
    assert generate(MIXED, 60, seed=7, indices=[]) == generate(MIXED, 0, seed=7) == []


def test_wrong_calls():
    for change, message in (
        ({"n": 1.5}, "n: must be an integer, not 1.5"),
        ({"n": True}, "n: must be an integer, not True"),
        ({"seed": -1}, "seed: must be at least 0, not -1"),
        ({"split": "test"}, "split: 'test' is none of train, validation, benchmark"),
        ({"indices": [60]}, "indices: 60 is not in 0..59"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            generate(MIXED, **({"n": 60, "seed": 0} | change))
    with pytest.raises(ValueError, match="boards: must be at least 0, not -1"):
        board_statistics(4, 2, 0.2, boards=-1, seed=0)
    for shares in ({"a": 0.0}, {"a": -1.0, "b": 2.0}):
        with pytest.raises(ValueError, match="shares: takes numbers from 0 on"):
            apportion(10, shares)


@given(configs(), st.integers(0, 60), st.integers(0, 60), st.booleans())
def test_when_a_larger_set_contains_a_smaller_one(config, n, more, equal):
    """If no size has fewer tasks, which holds of equal shares; the docstring of the module says so."""
    if equal:
        config = EnvConfig({s: replace(p, data_ratio=1 / len(config.sizes)) for s, p in config.sizes.items()})
    small, large = (plan_tasks(config, count, seed=0) for count in (n, n + more))
    missing = Counter(spec.size for spec in small) - Counter(spec.size for spec in large)
    assert {*small} <= {*large} or (missing and not equal)


def test_configurations_share_the_tasks_of_a_kind():
    single = generate(EnvConfig({4: SizeConfig(1, 0.25, 0.5)}), 20, seed=0)
    mixture = generate(EnvConfig({4: SizeConfig(0.5, 0.25, 1.0), 5: SizeConfig(0.5, 0.1, 0.2)}), 20, seed=0)
    waiting = [{t.instance.key for t in tasks if t.needs_wait and t.instance.size == 4} for tasks in (single, mixture)]
    assert waiting[0] == waiting[1]
    assert len(waiting[0]) == 10


@pytest.mark.usefixtures("in_python")
def test_the_same_boards_and_costs_without_a_compiler(mixed):
    for task, same in zip(mixed, generate(MIXED, 60, seed=7), strict=True):
        assert replace(same, solution=replace(same.solution, plan=task.solution.plan)) == task


@pytest.mark.usefixtures("compiled")
@given(st.integers(2, 10), st.integers(1, 5), st.integers(0, 50), st.integers(0, 2**64 - 1), st.integers(0, 9))
def test_the_kernel_samples_and_hashes_as_python_does(size, agents, holes, state, k):
    assume(size * size - holes > agents)
    state_after, cells = generator_module._random_cells(state, size, holes, agents)
    board = kernel.board_of(size, holes, agents, cells)
    answer = kernel.search(board, ANALYSE, 1_000)
    for buckets in (1 << k, ALL_BUCKETS):
        sample = kernel.sample(state, size, holes, agents, None, buckets, 1, 1_000)
        assert sample.state == state_after
        assert sample.found == (board if answer.status == SOLVED and buckets >> bucket(board) & 1 else None)
        assert not sample.found or sample.answer == answer


def test_splits_have_no_board_in_common_in_any_orientation():
    config = EnvConfig({3: SizeConfig(1, 0.5)}, 2)  # so few boards that seeds alone would not keep them apart
    forms_of = {split: {canonical(t.instance) for t in generate(config, 150, seed=0, split=split)} for split in SPLITS}
    assert all(len(forms) > 5 for forms in forms_of.values())
    assert len(frozenset().union(*forms_of.values())) == sum(map(len, forms_of.values()))


@given(boards(agents=(1, 5)), st.integers(0, 7), st.data())
def test_the_canonical_form_is_that_of_all_images_and_all_names(board, k, data):
    image = transform(board, k, data.draw(st.permutations(range(board.num_agents))))
    assert canonical(image) == canonical(board)


def test_boards_that_are_no_images_of_each_other_have_different_forms():
    texts = ("S1 G1 .\n. . .\n. . H", "S1 G1 .\n. . .\nH . .", "G1 S1 .\n. . .\n. . H")
    assert len({canonical(Instance.from_text(text)) for text in texts}) == 3


def test_excluded_boards_do_not_occur_in_any_orientation():
    config = EnvConfig({3: SizeConfig(1, 0.5)}, 2)
    first = generate(config, 40, seed=0)
    excluded = [transform(task.instance, k=3, agent_order=(1, 0)) for task in first[:20]]
    rest = generate(config, 40, seed=0, exclude=excluded)
    banned = {canonical(board) for board in excluded}
    assert not banned & {canonical(task.instance) for task in rest}
    assert rest == generate(config, 40, seed=0, exclude=first[:20])  # tasks are boards too
    indices = [i for i, task in enumerate(first) if canonical(task.instance) not in banned]
    assert indices
    assert all(rest[i] == first[i] for i in indices)


def test_configurations_are_values():
    again = from_json(EnvConfig, json.loads(json.dumps(to_json(MIXED))), "config")
    for same in (again, pickle.loads(pickle.dumps(MIXED))):
        assert (same, hash(same)) == (MIXED, hash(MIXED))
    assert to_json(MIXED)["sizes"]["6"] == {"data_ratio": 0.3, "hole_ratio": 0.3, "wait_ratio": None}
    assert EnvConfig({5: SizeConfig(0.5, 0), 3: SizeConfig(0.5, 0)}) == EnvConfig.uniform((3, 5), 0)
    assert list(EnvConfig.uniform((5, 3), 0).sizes) == [3, 5]
    minus, zero = (EnvConfig.uniform([3], nothing, nothing) for nothing in (-0.0, 0.0))
    assert json.dumps(to_json(minus)) == json.dumps(to_json(zero))
    with pytest.raises(TypeError):
        MIXED.sizes[3] = SizeConfig(1, 0)  # type: ignore[index]


def test_configurations_that_cannot_be():
    crowded = "0.5 leaves 4 free cells for 5 agents, which need 6; legal for this size: below 0.388"
    for sizes, agents, message in (
        ({3: (1, 0.5)}, 5, f"sizes.3.hole_ratio: {crowded}"),
        ({"3": (1, 0.1)}, 2, "sizes: '3' is not an integer in 3..10"),
        ({3: (0.5, 0.1), 4: (0.4, 0.1)}, 2, "data_ratio: the ratios of all sizes sum to 0.9, not to 1"),
        ({3: (1, 0.1)}, 10, "num_agents: 10 is not an integer in 1..9"),
        ({3: (math.nan, 0)}, 2, "data_ratio: nan is not in [0, 1]"),
        ({3: (1, 0, True)}, 2, "wait_ratio: True is not a number in [0, 1]"),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            EnvConfig({size: SizeConfig(*ratios) for size, ratios in sizes.items()}, agents)


def some_board_moves_everyone(agents: int, free: int) -> bool:
    """By exhaustion: on some 3x3 board with that many free cells every agent can leave its start for another cell."""
    cells = set(itertools.product(range(3), repeat=2))
    for ice in itertools.combinations(sorted(cells), free):
        for starts in [ice] if agents == free else itertools.combinations(ice, agents):
            board = Instance(3, frozenset(cells - {*ice}), starts, starts)
            if any(all(map(operator.ne, state, starts)) for layer in layers(board) for state in layer):
                return True
    return False


@pytest.mark.parametrize("agents", range(1, 7))
def test_the_least_number_of_free_cells_is_enough_and_one_less_is_not(agents):
    assert some_board_moves_everyone(agents, cells_needed(agents))
    assert cells_needed(agents) == agents or not some_board_moves_everyone(agents, agents)


def test_full_boards_are_found():
    rotation = generate(EnvConfig({3: SizeConfig(1, 0.5)}, 4), 1, seed=0)[0]  # 4 agents on 4 free cells
    assert next(set(moves) for moves in zip(*rotation.solution.plan.moves, strict=False)) == {*"UDLR"}


def test_what_cannot_be_found_is_said_with_the_numbers(monkeypatch):
    monkeypatch.setattr(generator_module, "MAX_ATTEMPTS", 50)
    config = EnvConfig({10: SizeConfig(1, 0.0, 1.0)})  # one board in 260
    message = (
        "no solvable board that needs a wait found in 50 attempts: size 10, 2 agents, 100 free cells, "
        "split 'train', 0 dropped over budget"
    )
    with pytest.raises(GenerationError, match=re.escape(message)) as error:
        generate(config, 1, seed=0)
    elsewhere = pickle.loads(pickle.dumps(error.value))  # as a pool of processes passes it on
    assert (str(elsewhere), elsewhere.size) == (message, 10)
    monkeypatch.setattr(generator_module, "SEARCH_BUDGET", 0)
    with pytest.raises(GenerationError, match=r" [1-9]\d* dropped over budget"):
        generate(EnvConfig.uniform([5], 0.0, 1.0), 1, seed=0)


def test_one_agent_waits_for_nobody():
    with pytest.raises(GenerationError, match="wait_ratio: one agent waits for nobody") as error:
        generate(EnvConfig.uniform([4], 0.1, 0.5, 1), 2, seed=0)
    assert error.value.size == 4
    assert len(generate(EnvConfig.uniform([4], 0.1, 0.0, 1), 2, seed=0)) == 2


@settings(max_examples=25)
@given(st.integers(3, 6), st.integers(2, 4), st.sampled_from([None, 1.0]), st.integers(0, 99))
def test_boards_are_the_same_however_many_are_drawn_at_once(size, agents, waits, seed):
    config, results = EnvConfig.uniform([size], 0.2, waits, agents), []
    for at_once in (1, 100, generator_module.MAX_ATTEMPTS * agents**2):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(generator_module, "AT_ONCE", at_once)
            results.append(generate(config, 2, seed=seed))
    assert results[0] == results[1] == results[2]


def test_feasibility_counts_every_board(in_both):
    for agents, holes in ((1, 0.0), (2, 0.3), (3, 0.4)):
        statistics = board_statistics(4, agents, holes, boards=60, seed=0)
        assert statistics.boards == 60 >= statistics.connected >= statistics.solved + statistics.over_budget
        assert statistics.waits <= statistics.solved
    assert board_statistics(4, 2, 0.3, boards=60, seed=0) != board_statistics(4, 2, 0.3, boards=60, seed=1)


@settings(max_examples=40)
@given(st.data())
def test_a_transformed_task_is_the_task_of_the_transformed_board(mixed, data):
    task = data.draw(st.sampled_from(mixed))
    k, order = data.draw(st.integers(0, 7)), data.draw(st.permutations(range(2)))
    image = transform_task(task, k, order)
    assert transform_task(task, k, np.array(order)) == image
    assert image.instance == transform(task.instance, k, order)
    assert judge_plan(image, image.solution.plan).optimal
    fresh = Task.of(image.instance)
    assert replace(fresh, solution=replace(fresh.solution, plan=image.solution.plan)) == image
    assert split_of(image.instance) == split_of(task.instance)


def test_naive_plan_fails():
    both_down, apart = "S1 . .\nS2 . .\nG2 . G1", "S1 H .\n. H .\n. . G1"  # into each other; down, then right
    for text, fails in ((both_down, True), ("S1 H G1\n. . .\nS2 . G2", True), (apart, False)):
        assert naive_plan_fails(Instance.from_text(text)) is fails


def test_files_of_tasks(tmp_path, mixed):
    path = tmp_path / "tasks.jsonl"
    for tasks in (mixed, []):
        save_tasks(path, tasks)
        assert load_tasks(path) == tasks
    save_tasks(path, mixed)
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))  # an editor may have done so
    assert load_tasks(path) == mixed
    with pytest.raises(ValueError, match=r"^tasks: .* is not a Task \(Task\.of makes one of a board\)$"):
        save_tasks(path, [task.instance for task in mixed])
    assert load_tasks(path) == mixed  # nothing was written


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tasks/2", "tasks/1", "line 1: expected schema 'mapflake.tasks/2', found 'map"),
        ('"needs_wait"', '"wait"', "line 3.needs_wait: missing"),
        ('"best_sum_of_costs": ', '"best_sum_of_costs": 9', "line 3: best_sum_of_costs: 9"),
        ('"makespan": ', '"makespan": 9', "line 3: makespan: 9"),
        ('"moves": [', '"moves": ["U", ', "is not valid (agents)"),
        ('"makespan": ', '"makespan": 1e400, "was": ', "line 3: has NaN, or a number too large for a float"),
        ("{", "\xff{", "line 3: not JSON"),
    ],
)
def test_files_and_rows_that_are_wrong_name_line_and_key(tmp_path, mixed, old, new, message):
    path = tmp_path / "tasks.jsonl"
    save_tasks(path, mixed[:2])
    changed = new.join(path.read_text().rsplit(old, 1))
    path.write_text(changed, encoding="latin-1")
    with pytest.raises(ValueError, match=re.escape(f"{path}, ") + ".*" + re.escape(message)):
        load_tasks(path)
    if "line 3" in message and "not JSON" not in message:  # the same as a row of a dataset
        with pytest.raises(ValueError, match="^" + re.escape(message.replace("line 3", "row 1"))):
            tasks_of([{"task": line} for line in changed.splitlines()[1:]])


@pytest.mark.parametrize("prompt_format", ["chat", "compact"])
def test_tasks_come_back_from_a_dataset(prompt_format):
    config = EnvConfig({3: SizeConfig(0.5, 0.1, 0.5), 5: SizeConfig(0.5, 0.3)}, num_agents=3)
    tasks = generate(config, 25, seed=4)
    dataset = to_dataset(tasks, prompt_format)
    for row, task in zip(dataset, tasks, strict=True):
        prompt = render_prompt(task.instance, prompt_format)
        assert row["prompt"] == (prompt if prompt_format == "compact" else [{"role": "user", "content": prompt}])
        assert (row["size"], row["num_agents"]) == (task.instance.size, 3)
    assert tasks_of(dataset) == tasks
    filtered = dataset.filter(lambda row: row["needs_wait"]).map(lambda row: {"length": len(row["prompt"])})
    assert 0 < len(filtered) < len(tasks)
    assert tasks_of(filtered) == [task for task in tasks if task.needs_wait]
    assert to_dataset([], prompt_format).features == dataset.features
    assert tasks_of(to_dataset([], prompt_format)) == []
    with pytest.raises(ValueError, match=re.escape("row 0: task: None is not the JSON text")):
        tasks_of(dataset.remove_columns("task"))
    with pytest.raises(ValueError, match=r"^tasks: Instance.* is not a Task \(Task.of makes one of a board\)"):
        to_dataset([tasks[0].instance], prompt_format)
