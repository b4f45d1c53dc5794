"""Rounds: the order of things, what is recorded, resuming, branching, replay."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from engineer_samples import SIZES, ScriptedTrainer
from hypothesis import given
from hypothesis import strategies as st

from mapflake import repro
from mapflake.__main__ import main
from mapflake.engineer import (
    VARIANTS,
    EngineerParams,
    Ledger,
    LedgerError,
    Proposal,
    RoundSettings,
    Start,
    Variant,
    boards,
    build_prompt,
    project,
    replay,
    ruled,
    run_arm,
    run_round,
)
from mapflake.engineer.backend import behaviour_of
from mapflake.engineer.designers import RULES
from mapflake.engineer.ledger import CHECKSUM, _checksum
from mapflake.env import DIMENSIONS, REWARD, Dimension, EnvConfig, GenerationError, SizeConfig, generate
from mapflake.trainer import evaluate
from mapflake.trainer.evaluate import load_rollouts

GOOD = "size3 p50 p10 p50 size4 p50 p00 any end"
WANTED = EnvConfig({3: SizeConfig(0.5, 0.1, 0.5), 4: SizeConfig(0.5, 0.0, None)})
FIRST = EnvConfig.uniform(SIZES, 0.2, 0.25)
VALIDATION = generate(EnvConfig.uniform(SIZES, 0.15), 8, seed=1, split="validation")
ONE_SAMPLE = EngineerParams(samples=1)


def settings(folder, replies=(GOOD,), **changes):
    trainer = ScriptedTrainer(VALIDATION, list(replies))
    return RoundSettings(**{"folder": folder, "trainer": trainer, "validation": VALIDATION, "seed": 3} | changes)


def first_round(folder):
    return (run_round(settings(folder), (), start=Start("warm", FIRST)),)


def go_on(name, s, history, **options):
    """The history with one more round of an arm, designed from a single reply, unless `options` say otherwise."""
    return run_arm(name, s, history, **{"rounds": 1, "sizes": SIZES, "params": ONE_SAMPLE} | options)


def arm(folder, history, name="engineer", replies=(GOOD,), rounds=1, **changes):
    return go_on(name, settings(folder, replies, **changes), history, rounds=rounds)


def rewrite(path, row):
    """Writes a ledger of one row with the checksum that it should have."""
    row = {key: value for key, value in row.items() if key != CHECKSUM}
    path.write_text(repro.dumps(row | {CHECKSUM: _checksum(row)}) + "\n")


@pytest.fixture
def first(tmp_path):
    return first_round(tmp_path / "a")


def test_validation_boards_of_the_train_split_are_told_of(tmp_path, caplog):
    first_round(tmp_path / "apart")
    assert not caplog.records
    tasks = generate(EnvConfig.uniform(SIZES, 0.15), 3, seed=1, split="train")
    shared = settings(tmp_path / "shared", validation=[*tasks, *VALIDATION], trainer=ScriptedTrainer(tasks, [GOOD]))
    history = (run_round(shared, (), start=Start("warm", FIRST)),)
    assert caplog.messages == [
        "validation: 3 of 11 boards are of the train split, so a round may train on them; "
        'generate(..., split="validation") draws others'
    ]
    run_arm("fixed", shared, history, rounds=1, sizes=SIZES)
    assert len(caplog.messages) == 1  # once a run


def test_round_0_trains_the_start_on_the_given_configuration(tmp_path, capsys):
    s = settings(tmp_path, samples=2)
    round_0 = run_round(s, (), start=Start("warm", FIRST))
    assert (round_0.index, round_0.arm, round_0.config, round_0.proposal, round_0.parent_sha256) == (
        0,
        "shared",
        FIRST,
        None,
        "warm",
    )
    assert round_0.checkpoint == tmp_path / "round-0" / "checkpoint"
    assert round_0.checkpoint_sha256 == repro.file_sha256(round_0.checkpoint / "weights.json")
    # The scripted policy knows every second board: half of the rollouts are optimal, the others do not parse.
    assert (
        round_0.metrics | {"valid": 0.5, "optimal": 0.5, "boards": 8, "rollouts": 16, "samples": 2} == round_0.metrics
    )
    assert (round_0.report.valid_rate, sum(s.failures[0] for s in round_0.report.sizes)) == (0.5, 8)
    assert round_0.training == {"instances": 6, "steps": 4, "sampled_tokens": 0, "algorithm": "script", "epochs": 1}
    assert round_0.report.behaviour == {"entropy": 1.0, "groups without signal": 0.5}
    assert sum(v["instances"] for v in round_0.report.training.values()) == 6
    rollouts, failures = load_rollouts(round_0.files["rollouts"]), load_rollouts(round_0.files["failures"])
    assert (len(rollouts), len(failures)) == (16, 8)
    assert [r for r in rollouts if not r.verdict.valid] == failures
    assert Ledger(tmp_path / "rounds.jsonl").rounds == (round_0,)
    assert main(["rounds", str(tmp_path / "rounds.jsonl")]) == 0
    assert "Round 0 is over: 50.0% of the answers" in capsys.readouterr().out
    (tmp_path / "empty.jsonl").touch()
    assert main(["rounds", str(tmp_path / "empty.jsonl")]) == 1
    assert "empty.jsonl: has no rounds; takes a ledger, or the record" in capsys.readouterr().err


def test_an_arm_is_designed_by_the_current_checkpoint_after_its_failures(tmp_path, first):
    s = settings(tmp_path / "b")
    history = go_on("engineer", s, first, rounds=2)
    assert [(r.index, r.arm) for r in history] == [(0, "shared"), (1, "engineer"), (2, "engineer")]
    assert history[1].config == history[2].config == WANTED
    assert replay(tmp_path / "b/rounds.jsonl") == [WANTED] * 2  # a rejected reply and a rule: in other tests
    assert history[1].report.before == first[0].report.sizes
    prompts = [build_prompt(history[i].report, history[: i + 1], SIZES, prompt_format="compact") for i in (0, 1)]
    assert [r.proposal.prompt for r in history[1:]] == prompts
    folder = (tmp_path / "b").as_posix()
    assert s.trainer.loaded == [  # asked for a design, then measured
        f"{tmp_path.as_posix()}/a/round-0/checkpoint", f"{folder}/round-1/checkpoint",
        f"{folder}/round-1/checkpoint", f"{folder}/round-2/checkpoint",
    ]  # fmt: skip
    assert history[2].parent_sha256 == history[1].checkpoint_sha256
    assert [t["start"] for t in s.trainer.trained] == [r.checkpoint_sha256 for r in history[:2]]
    expected = generate(WANTED, 6, seed=repro.seed_for(3, "train", 1), split="train")
    assert s.trainer.trained[0]["tasks"] == [t.instance.key for t in expected]
    assert history[1].boards() == expected


def test_an_arm_whose_training_differs_takes_a_trainer_that_does_it(tmp_path, first, monkeypatch):
    for name in ("fixed_dynamic", "uniform_dynamic"):
        with pytest.raises(ValueError, match=f"'{name}' is a training with dynamic sampling: redraws of the trainer"):
            arm(tmp_path / name, first, name)
    plain = arm(tmp_path / "uniform", first, "uniform")
    monkeypatch.setattr(ScriptedTrainer, "describe", lambda self: {"redraws": 4, "epochs": 1})
    dynamic = arm(tmp_path / "uniform_dynamic", first, "uniform_dynamic")
    assert dynamic[-1].training["redraws"] == 4
    assert dynamic[-1].config == plain[-1].config != first[0].config


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"stale": "no"}, "stale: 'no' is neither 'error' nor 'replace'"),
        ({"seed": None}, "seed: must be an integer, not None"),
        ({"seed": -1}, "seed: must be at least 0, not -1"),
        ({"samples": 0}, "samples: must be at least 1, not 0"),
        ({"validation": iter(())}, r"validation: takes one or more boards with solutions \(Task\), not \(\)"),
        ({"validation": ["a board"]}, "validation: takes one or more boards"),
        ({"validation": None}, r"validation: takes one or more boards .*, not \(None,\)"),
        ({"arm": 5}, "arm: must be a name, not 5"),
        ({"about": None}, "about: takes values by name, not None"),
        ({"about": {"where": Path("x")}}, "about: 'where' is not what JSON can hold: Object of type"),
        ({"about": {"rate": math.nan}}, "about: 'rate' is not what JSON can hold: Out of range"),
    ],
)
def test_settings_that_no_round_could_have_are_refused(tmp_path, wrong, said):
    with pytest.raises(ValueError, match=said):
        settings(tmp_path, **wrong)


def test_behaviour_is_of_the_last_steps_that_have_it():
    steps = [{"entropy": float(i)} | ({"completions/mean_length": 10.0 * i} if i % 4 == 0 else {}) for i in range(8)]
    assert behaviour_of(steps) == {"entropy": 6.5, "completion tokens": 40.0}  # TRL's columns of sampling, reused
    with pytest.raises(TypeError, match=r"^trainer: its train returned entropy 'high': takes a number$"):
        behaviour_of([{"entropy": "high"}])


def test_boards_of_a_round_that_does_not_say_how_many_are_an_error(first):
    assert len(first[0].boards()) == first[0].training["instances"]
    with pytest.raises(ValueError, match=r"^round 0: its training has no `instances`"):
        replace(first[0], training={}).boards()


def test_numbers_of_numpy_and_a_generator_of_boards_are_taken(tmp_path, first, monkeypatch):
    row = {"entropy": np.float32(0.5), "completions/mean_length": np.nan, "sampled_tokens": None}
    monkeypatch.setattr(ScriptedTrainer, "train", tracked(ScriptedTrainer.train, [row]))
    s = settings(tmp_path / "b", seed=np.int64(3), validation=(task for task in VALIDATION))

    def asks(report, history):
        return ruled({np.int64(3): dict.fromkeys(first[0].config.sizes[3].ratios, np.float32(0.5))}, history, "")

    round_1 = run_round(s, first, asks)
    assert (round_1.report.behaviour, round_1.training["sampled_tokens"]) == ({"entropy": 0.5}, 0)
    assert Ledger(tmp_path / "b/rounds.jsonl").rounds == (round_1,)
    assert replay(tmp_path / "b/rounds.jsonl") == [round_1.config]
    assert ruled(WANTED, first, "").config == WANTED
    for size, ratio in ((3, "0.5"), ("3", 0.5), (3.7, 0.5)):  # nothing is converted to a number
        with pytest.raises(ValueError, match="size"):
            ruled({size: dict.fromkeys(first[0].config.sizes[3].ratios, ratio)}, first, "")


def test_a_start_is_a_configuration_and_what_its_weights_cost_in_whole_numbers(tmp_path):
    costly = Start("warm", FIRST, {"replies": np.int64(3)})
    assert run_round(settings(tmp_path), (), start=costly).training["spent before"] == {"replies": 3}
    assert Ledger(tmp_path / "rounds.jsonl").rounds[0].training["spent before"] == {"replies": 3}
    with pytest.raises(ValueError, match=r"^cost: replies: must be an integer, not 0.5"):
        Start("warm", FIRST, {"replies": 0.5})
    with pytest.raises(TypeError, match=r"^config: must be an EnvConfig, not None"):
        Start("warm", None)


def test_a_round_that_could_not_be_read_back_leaves_the_ledger_as_it_was(tmp_path, first):
    path = tmp_path / "a/rounds.jsonl"
    before = path.read_bytes()
    for wrong in ({"metrics": {"note": "\ud800"}}, {"versions": {"python": "\udcff"}}):
        with pytest.raises(ValueError, match=r"rounds\.jsonl: round 1 cannot be recorded: round"):
            Ledger(path).append(replace(first[0], index=1, **wrong))
        assert path.read_bytes() == before
    Ledger(path).append(replace(first[0], index=1))  # the control


def test_boards_are_drawn_again_as_they_were_trained_on(tmp_path, first, monkeypatch):
    """A backend may describe `instances` of its own, such as those of a step."""
    trained = []
    train, describe = ScriptedTrainer.train, ScriptedTrainer.describe
    monkeypatch.setattr(ScriptedTrainer, "describe", lambda self: {**describe(self), "instances": 1})
    monkeypatch.setattr(
        ScriptedTrainer,
        "train",
        lambda self, start, tasks, *args, **options: (
            trained.extend(tasks),
            train(self, start, tasks, *args, **options),
        )[1],
    )
    round_1 = arm(tmp_path / "b", first)[1]
    assert round_1.training["instances"] == len(trained) > 1
    assert round_1.boards() == trained


def tracked(train, curve):
    """Returns a backend's training that returns this curve."""
    return lambda *args, **options: (train(*args, **options), curve)[1]


def test_a_backend_that_breaks_its_contract_is_named(tmp_path, first, monkeypatch):
    def broken(name, member, error, message):
        with monkeypatch.context() as patch:
            patch.setattr(ScriptedTrainer, name, member)
            with pytest.raises(error, match=message):
                arm(tmp_path / "b", first)

    for curve, text in ((None, "None"), ([0.5, 0.25], r"\[0.5, 0.25\]"), (iter([{}]), "<list_iterator")):
        train = tracked(ScriptedTrainer.train, curve)
        broken("train", train, TypeError, f"^trainer: its train returned {text}.*; it returns the curve, a row")
    broken("describe", lambda self: None, TypeError, "^trainer: its describe returned None; it returns its parameters")
    rate = {"rate": np.float32(0.1)}
    broken("describe", lambda self: rate, ValueError, "^trainer: what its describe returned: Object of type float32")
    broken("instances", 0.5, ValueError, "^trainer: instances: must be an integer, not 0.5")
    for train in (lambda *args, seed: [], lambda self, start, tasks, out, seed: (out.mkdir(parents=True), [])[1]):
        shutil.rmtree(tmp_path / "b", ignore_errors=True)
        broken("train", train, FileNotFoundError, "trainer: its train wrote no checkpoint: .*b/round-1/checkpoint is")
    assert not (tmp_path / "b/rounds.jsonl").exists()
    assert len(arm(tmp_path / "b", first)) == 2  # the control
    with monkeypatch.context() as patch:
        patch.setattr(ScriptedTrainer, "sha256", lambda self, checkpoint: 5)
        with pytest.raises(TypeError, match=r"^trainer: its sha256 returned 5; it returns a hash as text"):
            first_round(tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_designers_and_records_that_are_none_are_named(tmp_path, first):
    for changes, key in (({"engineer": 1}, "engineer"), ({"designer": ""}, "designer"), ({"sizes": [3]}, "sizes")):
        for run in (lambda s: run_round(s, first, lambda report, history: None), lambda s: go_on("fixed", s, first)):
            with pytest.raises(ValueError, match=f"about: {key} is said by the round itself"):
                run(settings(tmp_path, about=changes))
    with pytest.raises(TypeError, match=r"designer: a function of report and history, not 'uniform' \(run_arm takes"):
        run_round(settings(tmp_path), first, "uniform")
    with pytest.raises(TypeError, match=r"arm: must be a name, not <function .* \(run_round takes functions\)"):
        go_on(lambda report, history: None, settings(tmp_path / "b"), first)
    with pytest.raises(FileNotFoundError, match="no such file"):
        replay("typo/rounds.jsonl")


def test_what_does_not_belong_to_a_round_is_refused(tmp_path, first):
    s, start = settings(tmp_path / "b"), Start("warm", FIRST)
    with pytest.raises(ValueError, match="start: round 0 alone has one"):
        run_round(s, first, lambda report, history: None, start=start)
    with pytest.raises(ValueError, match="designer: round 0 has none"):
        run_round(s, (), lambda report, history: None, start=start)
    for changes, message in (({"samples": 2}, "samples 1, not 2"), ({"seed": 4}, "seed 3, not 4")):
        with pytest.raises(ValueError, match=f"history: its last round was measured with {message}"):
            go_on("fixed", settings(tmp_path / "b", **changes), first)
    with pytest.raises(ValueError, match="history: its last round was measured with validation_sha256"):
        go_on("fixed", settings(tmp_path / "b", validation=VALIDATION[1:]), first)
    with pytest.raises(ValueError, match="rounds: must be at least 0, not -1"):
        go_on("fixed", s, first, rounds=-1)
    assert not (tmp_path / "b/rounds.jsonl").exists()


def mirrored(board, level, rng):
    return board


def test_what_is_ones_own_is_in_a_rounds_parameters_and_nothing_else(tmp_path, first, monkeypatch):
    assert not {"reward", "dimensions", "variant"} & {*first[0].parameters}
    assert first[0].parameters["trainer_code"]["name"].endswith("ScriptedTrainer")
    monkeypatch.setitem(VARIANTS, "mine", Variant(guideline=True))
    params = EngineerParams(samples=1, variant="mine")
    assert go_on("engineer", settings(tmp_path / "b"), first, params=params)[1].parameters["about"]["variant"][
        "guideline"
    ]
    for table, key, value, message in (
        (VARIANTS, "mine", Variant(history="all"), r"about.variant.guideline: recorded True, asked False"),
        (REWARD, "valid", 1.0, "reward: recorded None, asked {.*'valid': 1.0"),
        (DIMENSIONS, "mirror", Dimension("a ratio.", transform=mirrored), "dimensions: recorded None, asked {'mirror'"),
    ):
        with monkeypatch.context() as patch:
            patch.setitem(table, key, value)
            with pytest.raises(LedgerError, match=message):
                go_on("engineer", settings(tmp_path / "b"), first, params=params)
    monkeypatch.setitem(VARIANTS, "mine", {"guideline": True})
    with pytest.raises(ValueError, match=r"VARIANTS\['mine'\]: must be a Variant, not {"):
        EngineerParams(variant="mine")
    for rule in (lambda report, history: None, lambda inputs: None):
        monkeypatch.setitem(RULES, "mine", rule)
        with pytest.raises(TypeError, match=r"RULES\['mine'\]: must"):
            arm(tmp_path / "c", first, "mine")


def test_a_rejected_reply_keeps_the_configuration_and_the_loop_goes_on(tmp_path, first):
    history = arm(tmp_path / "b", first, replies=["no, \x00"], rounds=2)
    assert [r.config for r in history] == [FIRST] * 3
    for r in Ledger(tmp_path / "b" / "rounds.jsonl").rounds:
        assert (r.proposal.config, r.proposal.reply) == (None, "no, \x00")
        assert r.proposal.rejection == "control character or lone surrogate U+0000"
    assert "rejected" in history[2].proposal.prompt
    assert replay(tmp_path / "b/rounds.jsonl", before=first) == [FIRST] * 2
    with pytest.raises(LedgerError, match="kept the configuration of a round that is not given"):
        replay(tmp_path / "b/rounds.jsonl")


def test_arms_share_round_0_and_all_seeds(tmp_path, first):
    trainers = {}
    for name in ("fixed", "engineer", "domain_randomisation"):
        s = settings(tmp_path / name)
        run_arm(name, s, first, rounds=2, sizes=SIZES)
        trainers[name] = s.trainer
    assert len({tuple(t["seed"] for t in trainer.trained) for trainer in trainers.values()}) == 1
    noise = {call["seed"] for t in trainers.values() for call in t.policy.calls if len(call["prompts"]) == 8}
    assert len(noise) == 1
    assert len({t["seed"] for t in trainers["fixed"].trained}) == 2  # but each round has a seed of its own


def test_finished_rounds_are_never_run_again(tmp_path, first):
    arm(tmp_path / "b", first)
    before = (tmp_path / "b" / "rounds.jsonl").read_text()
    s = settings(str(tmp_path / "b"))  # a folder may be text
    history = go_on("engineer", s, first)
    assert s.trainer.trained == s.trainer.loaded == []
    assert (tmp_path / "b" / "rounds.jsonl").read_text() == before
    longer = go_on("engineer", s, first, rounds=2)
    assert longer[:2] == history
    assert len(s.trainer.trained) == 1
    assert (tmp_path / "b" / "rounds.jsonl").read_text().startswith(before)


def test_a_killed_round_goes_on_with_its_design(tmp_path, first, monkeypatch):
    """A designer that never asks for the same twice, as a model behind a server may."""
    holes = []

    def designer(report, history):
        holes.append(0.1 * (len(holes) + 1))
        return ruled({3: {"data_ratio": 1, "hole_ratio": holes[-1], "wait_ratio": 0.5}}, history, "so", SIZES)

    designer.version = "1"  # otherwise the values in `holes` would be a part of what identifies it

    def kill(s):
        with monkeypatch.context() as patch:
            patch.delattr(evaluate, "rollout")  # after the training
            with pytest.raises(AttributeError, match="rollout"):
                run_round(s, first, designer)

    kill(s := settings(tmp_path / "own"))
    round_1 = run_round(s, first, designer)
    assert holes == [0.1]
    assert round_1.config.sizes[3].hole_ratio == 0.1
    leftovers = [tmp_path / "own/round-1" / name for name in ("proposal.json", ".failures.jsonl.1a2b3c4d.tmp")]
    assert not leftovers[0].exists()
    for path in leftovers:  # of a process that was killed just after it had recorded the round
        path.write_text("")
    assert run_round(s, first, designer) == round_1
    assert not [path for path in leftovers if path.exists()]
    kill(settings(tmp_path / "two"))
    run_round(settings(tmp_path / "two", arm="mine"), first, designer)  # the control: another round
    assert len(holes) == 3


def test_stale_rounds_are_replaced_where_that_is_asked(tmp_path, first, caplog):
    history = arm(tmp_path / "b", first, rounds=3)
    s = settings(tmp_path / "b", ["size3 p100 p00 p00 end"], stale="replace")
    assert go_on("engineer", s, first, rounds=3) == history  # nothing is stale
    assert s.trainer.trained == []
    new_history = go_on("engineer", s, first, params=EngineerParams(samples=1, variant="V2"))
    assert Ledger(tmp_path / "b" / "rounds.jsonl").rounds == new_history[1:]  # rounds 2 and 3 went with round 1
    assert new_history[1].config == EnvConfig({3: SizeConfig(1.0, 0.0, 0.0)})
    assert "round 1 was run with other parameters (about.engineer.variant" in caplog.text


def test_other_parameters_or_code_are_an_error_that_says_which(tmp_path, first, monkeypatch):
    arm(tmp_path / "b", first)
    for changes, message in (
        ({"seed": 4}, r"rounds.jsonl: round 1 was run with other parameters \(seed: recorded 3, asked 4\)"),
        ({"validation": VALIDATION[:-1]}, r"\(the validation boards, validation_sha256: recorded"),
        ({"about": {"maps": "mine"}}, r"about.maps: recorded None, asked 'mine'"),
    ):
        with pytest.raises(LedgerError, match=message):
            arm(tmp_path / "b", first, **changes)
    with pytest.raises(LedgerError, match=r"config.sizes.3.hole_ratio: recorded 0.2, asked 0.3"):
        run_round(settings(tmp_path / "a"), (), start=Start("warm", EnvConfig.uniform(SIZES, 0.3, 0.25)))
    monkeypatch.setattr("mapflake.provenance.code_sha256", lambda *modules: "other code")
    with pytest.raises(LedgerError, match=r"\(the code that decides a round, code_sha256: recorded .*, asked 'other"):
        first_round(tmp_path / "a")


def test_a_changed_or_missing_checkpoint_is_an_error_and_no_round_starts_from_it(tmp_path, first):
    (first[0].checkpoint / "weights.json").write_text("{}")
    for changed in (lambda: first_round(tmp_path / "a"), lambda: arm(tmp_path / "b", first)):
        with pytest.raises(LedgerError, match=r"a/round-0/checkpoint: its weights have the hash 44136f.*, recorded is"):
            changed()
    assert not (tmp_path / "b/round-1").exists()
    (first[0].checkpoint / "weights.json").unlink()
    with pytest.raises(LedgerError, match="round-0/checkpoint: its weights have the hash"):
        first_round(tmp_path / "a")
    first[0].checkpoint.rmdir()
    with pytest.raises(LedgerError, match="a/round-0/checkpoint: the weights of round 0 are not there"):
        first_round(tmp_path / "a")


def test_records_name_no_machine_and_can_move(tmp_path, first):
    arm(tmp_path / "b", first)
    for file in tmp_path.rglob("*.json*"):
        assert str(tmp_path) not in file.read_text()
    (tmp_path / "b").rename(tmp_path / "c")
    [moved] = Ledger(tmp_path / "c" / "rounds.jsonl").rounds
    assert moved.checkpoint == tmp_path / "c" / "round-1" / "checkpoint"
    assert moved.checkpoint.is_dir()
    assert moved.files["failures"].is_file()
    assert moved.versions["mapflake"]


def test_a_round_is_recorded_once_and_under_the_folder_of_its_ledger(tmp_path):
    [round_0] = first_round(tmp_path)
    ledger = Ledger(tmp_path / "new" / "rounds.jsonl")
    with pytest.raises(LedgerError, match="is not under the ledger's folder"):
        ledger.append(round_0)
    fresh = replace(round_0, checkpoint=tmp_path / "new" / "x", files={})
    Ledger(ledger.path).append(fresh)
    with pytest.raises(LedgerError, match="round 0 is recorded already"):
        ledger.append(fresh)  # written by another since it was read
    assert len(ledger.path.read_text().splitlines()) == 1


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    """The bytes of a ledger of three rounds, and its path."""
    folder = tmp_path_factory.mktemp("ledger")
    arm(folder / "b", first_round(folder / "a"), replies=["no, \u00e9"], rounds=3)
    path = folder / "b/rounds.jsonl"
    return path.read_bytes(), path


def read_with(path, content):
    """What a ledger says of itself with this content: its rounds, or why it is refused."""
    path.write_bytes(content)
    try:
        return Ledger(path).rounds
    except LedgerError as error:
        return str(error)


@given(data=st.data())
def test_any_flipped_bit_of_a_ledger_is_refused_with_its_line(ledger, data):
    content, path = ledger
    position = data.draw(st.integers(0, len(content) - 1))
    flipped = bytearray(content)
    flipped[position] ^= 1 << data.draw(st.integers(0, 7))
    result = read_with(path, bytes(flipped))
    if position == len(content) - 1:  # the last newline: as a line that was being written when the process was killed
        assert result == read_with(path, content)[:-1]
    else:
        assert isinstance(result, str)
        assert f"rounds.jsonl, line {1 + content[:position].count(10)}" in result


def test_an_equal_value_in_other_letters_is_a_change_too(ledger):
    content, path = ledger
    for old, new in ((b"\\u00e9", b"\\u00E9"), (b": ", b":")):
        assert old in content
        assert "rounds.jsonl, line 1" in read_with(path, content.replace(old, new, 1))


def test_a_line_with_its_checksum_is_refused_if_it_is_no_round(tmp_path, first):
    path = tmp_path / "a/rounds.jsonl"
    row = json.loads(path.read_text())
    rewrite(path, row)
    assert Ledger(path).rounds == first
    path.write_text(repro.dumps({key: value for key, value in row.items() if key != CHECKSUM}) + "\n")
    with pytest.raises(LedgerError, match="line 1: is not as it was written"):
        Ledger(path)
    for change, message in (
        ({"schema": 2}, "the schema of this round is not 3, the one that this version reads"),
        ({"index": -1}, "round.index: -1 is not legal"),
        ({"checkpoint": "../../etc"}, "'../../etc' leads out of the ledger's folder"),
    ):
        rewrite(path, row | change)
        with pytest.raises(LedgerError, match=f"rounds.jsonl, line 1: {message}"):
            Ledger(path)


def test_replay_fails_on_any_difference(tmp_path, first):
    arm(tmp_path / "b", first)
    path = tmp_path / "b/rounds.jsonl"
    row = json.loads(path.read_text())
    for changes, message in (
        ({"proposal": row["proposal"] | {"replies": [GOOD.replace("p10", "p15")]}}, "now reads as"),
        ({"fallback": {"3": {"asked": {}, "got": {"wait_ratio": None}}}}, "ran .* its proposal leads to"),
    ):
        rewrite(path, row | changes)
        with pytest.raises(LedgerError, match=f"round 1.* {message}"):
            replay(path, before=first)


def test_boards_that_cannot_be_drawn_fall_back_recorded_and_told(tmp_path, first, monkeypatch):
    def rare(config, n, **options):
        if (config.sizes[4].wait_ratio or 0) > 0.5:
            raise GenerationError("no solvable board that needs a wait found in 200000 attempts: size 4, 2 agents", 4)
        return generate(config, n, **options)

    monkeypatch.setattr(boards, "generate", rare)
    reply = "size3 p50 p10 p50 size4 p50 p00 p75 end"
    history = arm(tmp_path / "b", first, replies=[reply], rounds=1)
    assert history[1].fallback[4]["got"] == {"hole_ratio": 0.0, "wait_ratio": None}
    assert history[1].proposal.config.sizes[4].wait_ratio == 0.75
    assert "- 4x4: asked hole_ratio 0, wait_ratio 0.75; trained on" in build_prompt(history[1].report, history, SIZES)
    path = tmp_path / "b" / "rounds.jsonl"
    assert replay(path, before=first) == [history[1].config] == [WANTED]


# ---------------------------------------------------------------- designers from outside the package


def asking(holes):
    """The rule of an arm that always asks for these holes."""
    design = {3: {"data_ratio": 1.0, "hole_ratio": holes, "wait_ratio": None}}
    return lambda inputs: lambda report, history: ruled(design, history, "mine")


def test_a_designer_that_was_redefined_gets_no_stale_rounds(tmp_path, first, monkeypatch):
    def run(holes, **changes):
        monkeypatch.setitem(RULES, "mine", asking(holes))
        s = settings(tmp_path / "b", **changes)
        return go_on("mine", s, first)[1].config.sizes[3].hole_ratio, len(s.trainer.trained)

    assert run(0.1) == (0.1, 1)
    assert run(0.1) == (0.1, 0)  # recorded
    with pytest.raises(LedgerError, match=r"round 1 was run with other parameters \(the source of the designer, about"):
        run(0.4)
    assert run(0.4, stale="replace") == (0.4, 1)
    assert run(0.4) == (0.4, 0)
    monkeypatch.setitem(RULES, "mine", asking(iter([0.1])))  # it changes as it is used: nothing is known of it
    with pytest.raises(ValueError, match=r"asking.*cannot tell whether it has changed.*an attribute `version`"):
        arm(tmp_path / "c", first, "mine")
    assert not (tmp_path / "c").exists()


def test_a_trained_engineer_begins_with_design_rl(tmp_path, first):  # one that does: test_what_records_say
    with pytest.raises(ValueError, match="'engineer_trained' begins with RL on designs: its round 0 takes Start"):
        arm(tmp_path / "b", first, "engineer_trained")


def test_no_designer_changes_the_number_of_agents(tmp_path, first, monkeypatch):
    three_agents = EnvConfig.uniform(SIZES, 0.1, None, 3)
    assert project(three_agents, SIZES) == three_agents
    for name, config in (("mine", three_agents), ("control", project(three_agents, SIZES, 2))):
        monkeypatch.setitem(RULES, name, lambda i, config=config: lambda report, history: Proposal("x", config, None))
    with pytest.raises(ValueError, match="proposal: asks for 3 agents, and the rounds have 2"):
        arm(tmp_path / "b", first, "mine")
    assert arm(tmp_path / "c", first, "control")[-1].config.num_agents == 2


def test_a_ledger_without_one_of_its_lines_is_refused(ledger):
    content, path = ledger
    first_line, *others = content.splitlines(keepends=True)
    assert [r.index for r in read_with(path, b"".join(others))] == [2, 3]  # the control: as if it branched later
    message = "round 2 is missing, and later ones are there: a line was removed"
    assert message in read_with(path, first_line + others[1])


def test_an_arm_told_anothers_report_is_shown_it_and_records_it(tmp_path, first):
    own_report = first[-1].report
    other_report = replace(
        own_report, sizes=tuple(replace(row, valid=0, optimal=0, wait_valid=0) for row in own_report.sizes)
    )
    with pytest.raises(ValueError, match="arm 'engineer_another' is told reports of other students: told is not given"):
        arm(tmp_path / "a", first, "engineer_another")
    other_history = go_on("engineer_another", settings(tmp_path / "b"), first, told=[other_report])
    own_history = go_on("engineer_another", settings(tmp_path / "c"), first, told=[own_report])
    assert other_history[-1].proposal.prompt != own_history[-1].proposal.prompt
    assert own_history[-1].proposal.prompt == arm(tmp_path / "d", first)[-1].proposal.prompt
    assert go_on("engineer_another", settings(tmp_path / "b"), first, told=[other_report]) == other_history
    longer = go_on("engineer_another", settings(tmp_path / "b"), first, told=[other_report, own_report], rounds=2)
    assert longer[:2] == other_history  # reports added later do not concern a recorded round
    with pytest.raises(LedgerError, match=r"the reports of other students that it is told, about\.told_sha256"):
        go_on("engineer_another", settings(tmp_path / "b"), first, told=[own_report])
