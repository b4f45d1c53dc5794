"""The scripts in docs/examples run, print what docs/bring_your_own.md says, and are quoted there as they are.

The code of docs/runs.md runs from top to bottom, on a run made here and on the committed records. Of the verifiers
example, here is what it makes of its traces; tests/adapters/test_taskset.py runs it whole, with verifiers.

`python tests/examples/test_examples.py` writes what they print into the page anew; look at the difference.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from mapflake import repro
from mapflake.engineer import (
    VARIANTS,
    EngineerParams,
    Round,
    RoundSettings,
    Start,
    build_prompt,
    format_config,
    llm_engineer,
    run_arm,
    run_round,
)
from mapflake.engineer.designers import RULES
from mapflake.env import EnvConfig, generate, judge_completion
from mapflake.env.config import DIMENSIONS
from mapflake.trainer.evaluate import Rollout, rollout

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "bring_your_own.md"
SCRIPTS = ("own_designer", "own_reward", "own_variant", "own_policy", "own_loop", "own_maps", "own_dimension")
PRINTS = r"(<!-- {} prints -->\n```text\n)(.*?)(```\n)"
QUOTE = r"<!-- ([\w/]+\.(?:py|slurm|sh)) -->\n```\w+\n(.*?)```\n"
LOCAL = ("before GRPO", "after GRPO", "round ")  # trained on this machine, or recorded by the last published run


@pytest.fixture(autouse=True)
def own() -> Iterator[None]:
    """Takes back what a script adds to our tables."""
    tables = (VARIANTS, RULES, DIMENSIONS)
    before = [dict(table) for table in tables]
    yield
    for table, was in zip(tables, before, strict=True):
        table.clear()
        table.update(was)


def printed(name: str) -> str:
    """Returns what a script prints, without spaces at the ends of lines."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        runpy.run_path(str(DOCS / "examples" / f"{name}.py"), run_name="__main__")
    return "".join(line.rstrip() + "\n" for line in out.getvalue().splitlines())


def test_the_reward_for_verl_scores_the_rows_that_the_script_writes(tmp_path: Path) -> None:
    script = runpy.run_path(str(DOCS / "examples/verl_reward.py"))
    script["main"](str(tmp_path / "verl"), boards=3)
    sets = [pd.read_parquet(tmp_path / f"verl/{split}.parquet") for split in ("train", "validation")]
    for row in pd.concat(sets).to_dict("records"):
        truth = row["reward_model"]["ground_truth"]
        plan = json.loads(truth)["solution"]["plan"]["moves"]
        for answer, score in ((plan, 1.0), ([moves[:-1] for moves in plan], 0.0)):
            completion = json.dumps({"plan": answer})
            assert script["compute_score"](row["data_source"], completion, truth, row["extra_info"]) == score
        assert row["extra_info"]["size"] in (3, 4, 5)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_what_the_page_says(name: str) -> None:
    shown = re.search(PRINTS.format(name), PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown is not None
    ours = printed(name)
    fixed = [[line for line in text.splitlines() if not line.startswith(LOCAL)] for text in (ours, shown[2])]
    assert fixed[0] == fixed[1], "if this is meant: python tests/examples/test_examples.py"
    if name == "own_maps":
        before, after = map(float, re.findall(r"valid (0\.\d+|1\.00)", ours))
        assert after > before + 0.1
    if name == "own_designer":  # a line for the recorded engineer and one for ours
        assert len(re.findall(r"^round 1, wait ratios, (?:trained engineer| +ours): 3x3 [01]\.\d\d", ours, re.M)) == 2


def test_a_designer_is_compared_with_ours_by_the_statistics_of_the_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By two seeds instead of five."""
    monkeypatch.delitem(sys.modules, "own_designer", raising=False)  # its import is what adds the arm
    main = runpy.run_path(str(DOCS / "examples/compare_designers.py"))["main"]
    main.__globals__["SEEDS"] = range(2)
    main(tmp_path)
    line = r"^against +(\w+): [+-][\d.]+ points \(.* to .*\) p = [01]\.\d+$"
    assert re.findall(line, capsys.readouterr().out, re.M) == ["fixed", "heuristic", "learnability"]


@pytest.mark.parametrize("page", ["bring_your_own.md", "scale.md"])
def test_a_page_quotes_the_scripts_as_they_are(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    quoted = re.findall(QUOTE, text, re.DOTALL)
    assert len(quoted) == len(re.findall(r"<!-- [\w/]+\.\w+ -->", text)) > 0
    for name, code in quoted:
        assert code in (DOCS / "examples" / name).read_text(encoding="utf-8"), f"{name}: {code[:60]}"


def test_a_trained_engineer_takes_what_the_page_says(tmp_path: Path) -> None:
    import toy_learner

    class Designing(toy_learner.ToyPolicy):
        """A toy that also answers an engineer's prompt."""

        def _one(self, prompt: str, luck: float) -> str:
            is_design = prompt.startswith("You are the environment engineer")
            return format_config(design, "json") if is_design else super()._one(prompt, luck)

    class Learner(toy_learner.ToyLearner):
        def load(self, checkpoint: str | Path) -> Designing:
            return Designing(self._read(checkpoint))

    sizes = (3, 4)
    first, design = EnvConfig.uniform(sizes, 0.1), EnvConfig.uniform(sizes, 0.2, 0.5)
    validation = generate(EnvConfig.uniform(sizes, 0.1, 0.5), 20, seed=0, split="validation")
    settings = RoundSettings(tmp_path, Learner(), validation, seed=0)
    names = {"Start": Start, "run_arm": run_arm, "run_round": run_round}
    scope = {"first": first, "settings": settings, "sizes": sizes, **names}
    blocks = re.findall(
        r"<!-- a trained engineer -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    exec("".join(blocks), scope)
    assert len(blocks) == 2
    assert scope["prompts"]["prompt"][0][0]["content"].startswith("You are the environment engineer")
    answers = [[{"role": "assistant", "content": text}] for text in (format_config(design, "json"), "no design")]
    (reward,) = [reward for reward, weight in scope["rewards"].items() if weight]
    values = reward(completions=answers, situation=scope["prompts"]["situation"][:2])
    assert values[0] > values[1] == 0
    rounds = scope["history"]
    assert [r.arm for r in rounds] == ["shared", "engineer_trained", "engineer_trained"]
    assert rounds[1].config == design
    assert rounds[0].before_design_rl_sha256


def test_the_loop_reads_answers_that_were_sampled_elsewhere() -> None:
    loop = runpy.run_path(str(DOCS / "examples/own_loop.py"))
    rollouts = rollout(loop["policy"], loop["validation"], seed=0)
    (line,) = re.findall(r"`(Rollout\(task, .+?\))`\. ", PAGE.read_text(encoding="utf-8"))
    scope = {"Rollout": Rollout, "judge_completion": judge_completion}
    assert [eval(line, {**scope, "task": r.task, "text": r.completion}) for r in rollouts] == rollouts
    (line,) = re.findall(r"`(llm_engineer\(.+?, seed=0\))`", PAGE.read_text(encoding="utf-8"))
    design = eval(line, {**loop, "llm_engineer": llm_engineer, "EngineerParams": EngineerParams})
    loop["policy"].complete = lambda prompts, **_: [[format_config(loop["config"], "json")]]
    assert design(loop["report"], loop["history"]).config is not None
    prompt = build_prompt(loop["report"], loop["history"], loop["SIZES"], variant=VARIANTS["V6-full"])
    for told in ("change", "Training set just used", "60"):
        assert told in prompt, told
    assert loop["history"][-1].boards() == loop["boards"]
    saved = [repro.to_json(r) for r in loop["history"]]
    assert tuple(repro.from_json(Round, row, "round") for row in saved) == loop["history"]


def test_the_blocks_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import toy_learner  # not above: run as a script, this file finds the examples later

    toy_learner.run("heuristic", tmp_path / "toy")
    shutil.copytree(tmp_path / "toy/heuristic", tmp_path / "runs/default/engineer_loop/0")
    repro.append_jsonl(tmp_path / "runs/default/times/warm_start.jsonl", {"stage": "x", "seconds": 2, "cpu_seconds": 1})
    (tmp_path / "reports").symlink_to(DOCS.parent / "reports")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "runs.md").read_text(encoding="utf-8"), re.DOTALL)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec("".join(block for block in blocks if "load_policy" not in block), {})  # that one: tests/trainer
    output = out.getvalue()
    assert re.search(
        r"^1 heuristic valid 0\.\d+ .*/round-1/checkpoint\n  3x3: \d+% of the boards, holes 0\.", output, re.M
    )
    assert re.search(r"^against engineer_trained: \+\d\.\d \(.*\) points, 4 seeds, p = \d\.\d+$", output, re.M)
    assert "x: 2 s, 1 CPU seconds" in output


def traces(path: Path, *scores: float | None) -> Path:
    """Writes traces as vf-eval does; None is an episode whose request failed."""
    rewards = [{} if score is None else {"reward": {"score": score, "weight": 1.0}} for score in scores]
    path.write_text("".join(json.dumps({"traces": [{"rewards": reward}]}) + "\n" for reward in rewards))
    return path


def test_failed_requests_are_told_and_not_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mean = runpy.run_path(str(DOCS / "examples/eval_verifiers.py"))["mean"]
    assert mean(traces(tmp_path / "all", 1.0, 0.0, 0.5)) == 0.5
    assert capsys.readouterr().err == ""
    assert mean(traces(tmp_path / "some", 1.0, None, 0.5)) == 0.75
    assert capsys.readouterr().err == f"1 of 3 requests failed, see {tmp_path / 'some'}\n"
    with pytest.raises(SystemExit, match="no episode has a reward"):
        mean(traces(tmp_path / "none", None))


def write() -> None:
    """Writes what the scripts print into the page."""
    sys.path.insert(0, str(DOCS / "examples"))
    text = PAGE.read_text(encoding="utf-8")
    for name in SCRIPTS:  # the dimension last: it changes what others would print
        ours = printed(name)
        text = re.sub(PRINTS.format(name), lambda match, ours=ours: match[1] + ours + match[3], text, flags=re.DOTALL)
    repro.write_text(PAGE, text)


if __name__ == "__main__":
    write()
