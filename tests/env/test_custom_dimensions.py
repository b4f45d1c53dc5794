"""Custom dimensions: the boards they make, what they leave alone, and the errors of a transform that does too much."""

import pickle
import re
from dataclasses import replace

import pytest

from mapflake.engineer import FailureReport, Round
from mapflake.engineer.designers import rules
from mapflake.engineer.designers.search import reward_search
from mapflake.engineer.report import SizeReport
from mapflake.env import EnvConfig, SizeConfig, check, generate, needs_wait, split_of, transform
from mapflake.env.config import DIMENSIONS, Dimension
from mapflake.repro import from_json, to_json


def rotated(board, level, rng):
    """Every agent goes where the next one starts, on `level` of the boards."""
    return replace(board, goals=board.starts[1:] + board.starts[:1]) if rng.random() < level else board


@pytest.fixture
def swap_ratio(monkeypatch):
    monkeypatch.setitem(DIMENSIONS, "swap_ratio", Dimension("share with agents that change places", transform=rotated))


def is_rotated(task):
    return task.instance.goals == task.instance.starts[1:] + task.instance.starts[:1]


def test_boards_are_transformed_and_all_else_is_as_asked(swap_ratio):
    ratios = {"data_ratio": 0.5, "hole_ratio": 0.2, "wait_ratio": 0.5, "swap_ratio": 1.0}
    config = EnvConfig({4: SizeConfig.from_ratios(ratios), 5: SizeConfig(0.5, 0.1)}, num_agents=3)
    tasks = generate(config, 40, seed=1)
    size_4 = [task for task in tasks if task.instance.size == 4]
    assert all(map(is_rotated, size_4))
    assert not any(is_rotated(task) for task in tasks if task.instance.size == 5)
    assert [len(task.instance.holes) for task in size_4] == [3] * 20
    assert sum(task.needs_wait for task in size_4) == 10
    for task in size_4:
        assert needs_wait(task.instance) == task.needs_wait
        assert check(task.instance, task.solution.plan).valid
        assert split_of(task.instance) == "train"
    assert generate(config, 40, seed=1, indices=[7, 3]) == [tasks[7], tasks[3]]


def test_a_ratio_of_0_changes_nothing(swap_ratio, monkeypatch):
    config = EnvConfig.uniform([5], 0.1, swap_ratio=0.0)
    tasks = generate(config, 20, seed=0)
    assert to_json(config) == to_json(EnvConfig.uniform([5], 0.1))
    num_rotated = sum(map(is_rotated, generate(EnvConfig.uniform([5], 0.1, swap_ratio=0.5), 40, seed=0)))
    assert 0 < num_rotated < 40
    monkeypatch.delitem(DIMENSIONS, "swap_ratio")
    assert generate(EnvConfig.uniform([5], 0.1), 20, seed=0) == tasks


def test_rules_leave_a_dimension_that_they_do_not_know_as_it_is(swap_ratio):
    last = Round("shared", 0, EnvConfig.uniform([3, 4], 0.2, 0.5, swap_ratio=0.4), FailureReport(()))
    report = FailureReport(tuple(SizeReport(s, 40, 20, 20, 20, 10, 0, (0,) * 7 + (20,)) for s in (3, 4)))
    last = replace(last, report=report)
    for rule in (rules.fixed(), rules.heuristic_expert((3, 4)), rules.uniform((3, 4)), reward_search((3, 4))):
        assert {part.ratios["swap_ratio"] for part in rule(last.report, (last,)).config.sizes.values()} == {0.4}
    proposal = rules.constant(EnvConfig.uniform([3], 0.2, 0.5, swap_ratio=0.1), (3, 4))(last.report, (last,))
    assert proposal.config.sizes[3].ratios["swap_ratio"] == 0.1


def test_ratios_that_cannot_be(swap_ratio, monkeypatch):
    with pytest.raises(ValueError, match=re.escape("swap_ratio: 1.5 is not in [0, 1]")):
        EnvConfig.uniform([3], 0.1, swap_ratio=1.5)
    with pytest.raises(ValueError, match=re.escape("top: 0.3 is neither 0.5 nor 1")):
        Dimension("", top=0.3)
    with pytest.raises(ValueError, match="nullable: a dimension with a transform takes a number"):
        Dimension("", nullable=True, transform=rotated)
    record = to_json(EnvConfig.uniform([3], 0.1, swap_ratio=0.25))
    monkeypatch.delitem(DIMENSIONS, "swap_ratio")
    message = r"config\.sizes\.3: 'swap_ratio': unknown key; legal keys: data_ratio, hole_ratio, wait_ratio$"
    with pytest.raises(ValueError, match=message):
        from_json(EnvConfig, record, "config")
    for size in ("03", "3.0", " 3"):  # may be a second 3
        twice = {"3": record["sizes"]["3"], size: record["sizes"]["3"]}
        with pytest.raises(ValueError, match=rf"config\.sizes\.{size}.*: '{size}' is not legal"):
            from_json(EnvConfig, {"sizes": twice}, "config")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b, level, rng: replace(b, holes=frozenset()), "made size, holes and agents (3, 0, 2) out of (3, 1, 2)"),
        (lambda b, level, rng: replace(b, goals=b.starts), "its transform puts an agent on its goal"),
        (lambda b, level, rng: replace(b, holes=frozenset(b.starts[:1])), "start of agent 0: cell"),
        (lambda b, level, rng: None, "own_ratio: its transform returned None and not an Instance"),
        (None, "its entry in DIMENSIONS has no transform"),
    ],
)  # fmt: skip
def test_a_transform_that_does_too_much_is_an_error(monkeypatch, change, message):
    monkeypatch.setitem(DIMENSIONS, "own_ratio", Dimension("", transform=change))
    with pytest.raises(ValueError, match=re.escape(message)):
        generate(EnvConfig.uniform([3], 0.1, own_ratio=0.5), 1, seed=0)
    raising = Dimension("", transform=lambda board, level, rng: board.walls)
    monkeypatch.setitem(DIMENSIONS, "own_ratio", raising)
    with pytest.raises(AttributeError, match="walls") as error:
        generate(EnvConfig.uniform([3], 0.1, own_ratio=0.5), 1, seed=0)
    assert error.value.__notes__ == ["raised by the transform of the dimension own_ratio"]


def test_the_order_in_which_dimensions_are_registered_changes_nothing(monkeypatch):
    def mirrored(board, level, rng):
        return transform(board, 1) if rng.random() < level else board

    entries = {"swap_ratio": rotated, "flip_ratio": mirrored}
    results = []
    for names in (("swap_ratio", "flip_ratio"), ("flip_ratio", "swap_ratio")):
        with monkeypatch.context() as patch:
            for name in names:
                patch.setitem(DIMENSIONS, name, Dimension("", transform=entries[name]))
            config = EnvConfig.uniform([4], 0.2, swap_ratio=0.5, flip_ratio=0.5)
            results.append((config.sizes, to_json(config), generate(config, 30, seed=0)))
            assert list(config.sizes[4].ratios)[3:] == list(names)  # prompts keep the order of the table
    assert results[0] == results[1]


def test_a_configuration_from_a_process_that_has_the_dimension(swap_ratio, monkeypatch):
    """Pickled there and read here: it says what it is, and is not taken for another one."""
    config = EnvConfig.uniform([3], 0.1, swap_ratio=0.25)
    pickled, record = pickle.dumps(config), to_json(config)
    monkeypatch.delitem(DIMENSIONS, "swap_ratio")
    copy = pickle.loads(pickled)
    assert "swap_ratio=0.25" in repr(copy)
    assert to_json(copy) == record
    message = "swap_ratio: the configuration has this dimension and DIMENSIONS does not; add it in every process"
    with pytest.raises(ValueError, match=message):
        generate(copy, 1, seed=0)
