"""The page of a run, made of a real run in small: a tiny random language model with a byte-level tokenizer."""

import re

import pytest
import small_repo
from starts import byte_level_model
from transformers import LlamaForCausalLM

from mapflake import plots, repro, study
from mapflake.engineer import EngineerParams, Grpo, RoundSettings, Start, reading, run_arm, run_round
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.env import EnvConfig, generate, save_tasks
from mapflake.nb import floors, page, params
from mapflake.nb.__main__ import main
from mapflake.study import engineers, names
from mapflake.study.comparisons import Difference
from mapflake.study.statistics import Estimate
from mapflake.trainer import checkpoint, evaluate
from mapflake.trainer.params import RLParams
from mapflake.trainer.pretrained import starting_point

SIZES = (3,)
CONFIG = EnvConfig.uniform(SIZES, 0.1)
RL = RLParams(
    instances=4, epochs=1, prompts=2, generations=2, microbatch=4, learning_rate=1e-4, max_new_tokens=12, warmup_steps=0
)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A repository with the run's start and round 0, and a function that adds what its other stages make."""
    root = small_repo.repository(tmp_path_factory.mktemp("llm") / "repo", "params.yaml")
    params.choose(root, "llm")
    folder, cells = root / "runs/llm", root / "reports/cells/llm"
    sets = {name: generate(CONFIG, 4, seed=1, split="validation") for name in ("validation", "held_out", "wr025")}
    boards = folder / "env_design"
    for name, tasks in sets.items():
        save_tasks(boards / f"{'' if name == 'validation' else 'benchmark_'}{name}.jsonl", tasks)
    repro.write_json(boards / "settings.json", {"sizes": SIZES, "subsets": ["held_out", "wr025"]})
    study.write_boards(cells / "boards.json", SIZES, sets)
    for part in byte_level_model(LlamaForCausalLM, 32):
        part.save_pretrained(root / "theirs")
    start = starting_point(str(root / "theirs"), folder / "warm_start/checkpoint", prompt_format="brief")
    trainer, noise = Grpo(RL), {"samples": 2, "seed": 0}
    before = evaluate.rollout(trainer.load(start), sets["validation"], **noise)
    evaluate.save_rollouts(folder / "baseline_rl/0/before.jsonl", before)

    def settings(stage):
        return RoundSettings(folder / stage, trainer, sets["validation"], **noise)

    def record(arm, history, cells=cells, seed=0):
        measured = study.benchmark(trainer.load(history[-1].checkpoint if history else start), boards, **noise)
        rollouts = evaluate.load_rollouts(history[-1].files["rollouts"]) if history else before
        shared = {"seed": seed, "rounds": 1, "samples": 2, "rl": RL.model_dump(mode="json")}
        fields = {"benchmark": measured, "validation": [rollouts], "history": history, "parameters": shared}
        study.write_record(cells / f"{arm}-{seed}.json", arm=arm, seed=seed, boards_folder=boards, **fields)

    first = run_round(settings("baseline_rl/0"), (), start=Start(start, CONFIG))
    record("base", ())
    record("base", (), seed=7)  # published, of a seed that the run does not have
    record("round_0", (first,))
    times = {"stage": "baseline_rl/0", "seconds": 90, "cpu_seconds": 60, "peak_gib": 1.5}
    repro.append_jsonl(folder / "times/baseline_rl_0.jsonl", times)
    (folder / "times/bank_0.jsonl").write_text('{"stage": "ba')  # torn: killed as it wrote its first line

    def rest():
        engineer = EngineerParams(samples=1, max_new_tokens=200, constrained=True)
        fixed = run_arm("fixed", settings("baseline_rl/0"), (first,), rounds=1, sizes=SIZES)
        record("fixed", fixed[1:])
        longer = run_arm("fixed_longer", settings("ablations/fixed_longer-0"), (first,), rounds=2, sizes=SIZES)
        record("fixed_longer", longer[1:])  # its round 1 is that of fixed, as after `rounds` was raised
        for arm, stage in (("engineer", "engineer_loop/0"), ("engineer_trained", "ablations/engineer_trained-0")):
            history = run_arm("engineer", settings(stage), (first,), rounds=1, sizes=SIZES, params=engineer)
            record(arm, history[1:])
        across = cells.with_name("study")
        study.write_boards(across / "boards.json", SIZES, sets)
        for seed in (0, 2):
            record("round_0", (first,), across, seed)
            for arm in ("fixed", "language_model", "language_model_another"):
                record(arm, history[1:], across, seed)
        situations = [made_up(i, SIZES, seed=0) for i in range(2)]
        read = reading.reading(trainer.load(start), situations, SIZES, max_new_tokens=12, seed=0)
        design_rl = {
            "reading": {f"made up, unseen / {when} design RL": read for when in ("before", "after")},
            "after boards": {"made up, unseen": read},
            "yardsticks": {"made up, unseen": reading.yardsticks(situations, SIZES, seed=0)},
            "solving": {"mean": -0.03, "low": -0.05, "high": -0.01},
            "response": [{"moved": row, "told": rate, "asked": 0.5} for row in ("3", "waits") for rate in (0.0, 1.0)],
        }
        repro.write_json(cells / "design_rl/0.json", design_rl)

    return root, first, before, rest


def rows_of(text):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]


def test_the_page_says_what_was_run_and_names_what_was_not(run, monkeypatch):
    root, first, before, rest = run
    monkeypatch.chdir(root)
    assert main(["page"]) == 0
    text = (root / "reports/llm.md").read_text(encoding="utf-8")
    missing = re.findall(r"\*Not run yet: (.*?)\.\*", text)
    assert len(missing) == 6  # that of design RL twice: among the sentences, and in place of its table
    valid = 100 * sum(r.verdict.valid for r in before) / len(before)
    after = 100 * first.report.valid_rate
    rows = rows_of(text)
    table = {row[0]: row for row in rows}
    solved = {row[0]: row for row in rows if len(row) == 6}  # parsed, valid, where the naive plan fails, waits, 3x3
    assert float(solved["before RL"][2]) == pytest.approx(valid, abs=0.05)
    assert float(solved["round 0"][2]) == pytest.approx(after, abs=0.05)
    assert "Of the targets that were set beforehand, these were missed: valid before RL 0.0% (target 30%)" in text
    tokens = sum(row["sampled_tokens"] for row in repro.read_jsonl(first.checkpoint / "curve.jsonl"))
    assert table["baseline_rl/0"] == ["baseline_rl/0", "1.5", "1.0", "1.5", "0", f"{tokens:.0f}"]
    for line in before[0].completion.splitlines():  # a decoded answer stands in the page, as text
        assert f"    {line}" in text
    assert (root / "reports/llm/grpo.png").read_bytes()[:4] == b"\x89PNG"

    assert "executed notebook" not in text
    repro.write_text(root / "runs/llm/engineer_loop/0/notebook.ipynb", "{}")
    rest()
    drawn, curves = [], plots.curves
    monkeypatch.setattr(plots, "curves", lambda frame, **options: drawn.append(frame) or curves(frame, **options))
    text = page.write(root).read_text(encoding="utf-8")
    assert [*drawn[-1].groupby("round").size()] == 3 * [len(repro.read_jsonl(first.checkpoint / "curve.jsonl"))]
    missing = re.findall(r"\*Not run yet: (.*?)\.\*", text)
    assert missing == ["the same architecture with random weights"]
    across = {row[0]: row for row in rows_of(text)}["language model, another's report"]
    assert across[1:] == ["+0.0"] * 4  # one policy in all arms
    assert "100% of 4 designs are legal, decoded under the grammar of legal replies. Told its student's own" in text
    assert "the engineer's student ends +0.0 points" in text
    start = "runs/llm/warm_start/checkpoint"
    model = {"engineer": {"model": start}, "model_sha256": checkpoint.weights_sha256(root / start)}
    assert page._earlier(root, model) == ""
    earlier = " It has the weights of an earlier run (sha256 0a0a0a0a), not of this one."
    assert page._earlier(root, model | {"model_sha256": 32 * "0a"}) == earlier
    assert (root / "reports/llm/response.png").read_bytes()[:4] == b"\x89PNG"
    assert "RL on designs changes valid by -3.0 points (target -2)" in text
    history = study.load(root / "reports/cells/llm").history("engineer_trained", 0)
    proposal = history[-1].proposal
    assert all(f"    {line}" in text for line in [*proposal.prompt.splitlines(), *proposal.reply.splitlines()])
    assert all(names.name(arm) in text for arm in ("fixed", "fixed_longer", "engineer", "engineer_trained"))
    changes = r"by .*? points after (\d) rounds \(\d training seeds?\)"
    pattern = rf"On the validation boards, the fixed configuration changes its valid rate {changes} and {changes}\."
    assert re.search(pattern, text).groups() == ("2", "3")
    assert page.write(root).read_text(encoding="utf-8") == text
    (link,) = re.findall(r"executed notebook\]\((.*?)\)", text)
    assert (root / "reports" / link).read_text() == "{}"


def test_a_gain_that_was_measured_again_is_read_over_boards_and_over_seeds(tmp_path):
    assert page._measured_again(tmp_path) == ([], "")
    for seed, after in enumerate(("2" * 30 + "0" * 10, "2" * 20 + "1" * 20)):
        answers = {"before": {"valid": "10" * 20}, "after": {"valid": after}}
        repro.write_json(tmp_path / f"gain-{seed}.json", {"boards": 40, "samples": 2, "rounds": 7} | answers)
    (gain,), text = page._measured_again(tmp_path)
    assert gain.estimate.mean == pytest.approx(0.5)
    assert gain.by_seed == (0.5, 0.5)
    assert "on 40 fresh boards" in text
    assert "7 rounds of GRPO on the fixed configuration change valid from 25.0% to 75.0%, by +50.0 (" in text


def gain(mean, low, high):
    return Difference("fixed", ("base",), "validation", {}, Estimate(mean, 2, 9, low, high), (mean, mean))


def designs(legal=0.95, own=0.25, another=0.1, solving=0.0):
    yardsticks = {
        "random": 0.3,
        "half-solved rule": 0.2,
        "best of one size": 0.4,
        "best of one size for another's": 0.28,
    }
    read = {"accepted": legal, "own": own, "another's": another, "reading": own - another}
    return {
        "reading": {f"{engineers.MADE_UP} / {stage}": read for stage in (engineers.BEFORE, engineers.AFTER)},
        "after boards": {},
        "yardsticks": {engineers.MADE_UP: yardsticks},
        "solving": {"mean": solving},
    }


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (([{"valid": 0.2}, {"valid": 0.4}], [gain(0.02, 0.01, 0.03)], [designs()]), ""),
        (([{"valid": 0.0}, {"valid": 0.4}], [], []), "valid before RL 20.0% (target 30%)"),  # a zero counts
        (([], [gain(0.02, -0.01, 0.05)], []), "GRPO on boards gains +2.0"),
        (([], [gain(-0.02, -0.03, -0.01)], []), "GRPO on boards gains -2.0"),
        (([], [gain(0.02, None, None)], []), "GRPO on boards gains +2.0"),
        (([], [], [designs(legal=0.9)]), "legal designs before RL on designs 90.0% (target 95%)"),
        (([], [], [designs(another=0.2)]), "told another's report, designs lose 0.05 (target 0.10; the best design of "
         "one size for each situation loses 0.12)"),
        (([], [], [designs(own=0.15, another=0.02)]), "designs earn 0.15 (target: above 0.20, the best hand rule)"),
        (([], [], [designs(solving=-0.03)]), "RL on designs changes valid by -3.0 points (target -2)"),
    ],
)  # fmt: skip
def test_floors_that_were_missed_are_named(found, missed):
    sentence = floors.missed(*found)
    assert sentence.startswith(
        f"Of the targets that were set beforehand, these were missed: {missed}" if missed else ""
    )
    assert sentence.count(";") == missed.count(";")  # and no other is
    assert bool(sentence) == bool(missed)


def test_without_a_run_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(small_repo.repository(tmp_path / "repo", "params.yaml"))
    for message in (
        "runs/default is missing: `make repro` makes the active run\n",
        "cells/default: no boards.json: note",
    ):
        assert main(["page"]) == 1
        err = capsys.readouterr().err
        assert message in err
        assert err.count("\n") == 1
        (tmp_path / "repo/runs/default/baseline_rl").mkdir(parents=True, exist_ok=True)  # begun, and nothing is done
