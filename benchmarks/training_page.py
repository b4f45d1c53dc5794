"""The page of a profile's training, from the records of `benchmarks.training` and of the profile's cells.

What was found, what has not been run, the supervised start, transcripts, time and tokens, RL, and whether it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mapflake import plots, repro, study
from mapflake.engineer import read_reply
from mapflake.nb.folders import REPORTS
from mapflake.study import engineers
from mapflake.study.cells import Study
from mapflake.study.names import BASE, ROUND_0, name
from mapflake.study.records import METRICS
from mapflake.study.report import results_markdown

QUOTED = 600  # characters of a reply on the page


@dataclass(frozen=True)
class Training:
    """The records of a profile's training under one seed: from `measure`, of its cells, from `measure_control`."""

    profile: str
    seed: int
    record: Mapping[str, Any]
    study: Study | None
    control: Mapping[str, Any] | None


def load(cells: Path) -> Training:
    """Returns the records in a profile's folder of cells, of the first seed whose training was measured.

    Without finished cells there is no study.
    """
    seed = min(int(path.stem) for path in (cells / "training").glob("*.json"))
    found, path = repro.read_json(cells / "training" / f"{seed}.json"), cells / "control" / f"{seed}.json"
    control = repro.read_json(path) if path.is_file() else None
    cells_there = (cells / "boards.json").is_file() and any(cells.glob(f"fixed-{seed}.json"))
    return Training(cells.name, seed, found, study.load(cells, seeds=[seed]) if cells_there else None, control)


def curve(record: Mapping[str, Any]) -> pd.DataFrame:
    """Returns a row a GRPO step, for `plots.curves`: steps are counted on from round 0, which the arms share."""
    rows = pd.DataFrame(record["rounds"])
    length = rows.groupby("round")["step"].max()
    rows["step"] += rows["round"].map(length.cumsum().shift(fill_value=0))
    first = rows[rows["round"] == 0]
    arms = rows[rows["round"] > 0]
    both = [pd.concat([first, own]).assign(arm=name(str(arm))) for arm, own in arms.groupby("arm", sort=False)]
    return pd.concat(both, ignore_index=True)


def losses(record: Mapping[str, Any], control: Mapping[str, Any] | None) -> pd.DataFrame:
    """Returns the curve of the warm start beside the control's, for `plots.curves`."""
    found = {"pretrained": record, "random weights": control}
    return pd.concat([pd.DataFrame(one["warm start"]["curve"]).assign(arm=name) for name, one in found.items() if one])


FLOORS = {"valid": 0.3, "valid where the careless plan fails": 0.1, "designs accepted": 0.95}
"""What a start should reach before any RL on it: less, and RL has little to reinforce. Our choice."""


def markdown(training: Training, small: engineers.Records, *, pictures: str) -> str:
    """Returns the page of a profile's training: results first, then time, curves, designs and what they depend on.

    Args:
        training: The profile's records.
        small: Records of design RL of another policy to compare with: the small one of the default profile.
        pictures: Folder of the figures loss.png and grpo.png, as the page's links name it.
    """
    record, study, seed = training.record, training.study, training.seed
    start, steps = record["warm start"], pd.DataFrame(record["rounds"])
    words = "our closed vocabulary in place of its own: a pretrained body, which reads no English and writes no JSON"
    asked = words if record["model"]["prompt_format"] == "compact" else "its own tokens and chat template"
    parts = [
        f"# Results, profile {training.profile}" if study is None else results_markdown(study, training.profile),
        f"The model is `{record['model']['base']}` with {asked}." if record["model"]["base"] else "",
        _found(training),
        "## The supervised start",
        _start_table(training).to_markdown(disable_numparse=True),
        f"![loss]({pictures}/loss.png)",
        _loss_words(training),
        "## Time and tokens",
        _times(record["times"]).to_markdown(disable_numparse=True),
        f"Supervised: {start['pairs']:,} demonstrations, {start['tokens']:,} tokens, each read once.",
        "## What it writes on boards, greedily" if "replies" in record else "",
        _replies_said(training),
        "## What it writes as engineer" if record.get("designed") else "",
        _designed_said(record.get("designed")),
    ]
    if study is not None:
        parts += [
            f"GRPO: {int(steps.groupby(['arm', 'round'])['tokens'].max().sum()):,} tokens of prompts and completions "
            f"in {len(steps)} steps of all rounds. A stage that was interrupted counts its parts, but not if killed.",
            "## Valid plans on the validation boards, temperature 1, percent",
            _by_size(study, seed).to_markdown(disable_numparse=True),
            _gains(study, seed),
            f"![GRPO]({pictures}/grpo.png)",
            "## What the engineer wrote in the loop",
            _written(study, seed),
        ]
    parts += [
        "## Whether it reads",
        _reading_table(record, small).to_markdown(disable_numparse=True),
        "Of each engineer: the share of replies that are accepted; what its designs are worth in the made-up situation "
        "that it was asked in (`own`), and in the others (`another's`); `moved` is the share of the data that goes "
        "elsewhere if the rows of the report belong to other sizes, with the same noise (total variation). The rule "
        "does as the report says, without noise. The small policy was asked about the sizes of its own profile; what "
        "its designs are worth is measured by another reward, in [results.md](results.md).",
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def rates(start: Mapping[str, Any], decoding: str) -> dict[str, float]:
    """Returns the shares of a supervised start's answers that parse, are valid, and are so where careless plans fail.

    `careless` is the share of boards that the careless plan solves, which ignores holes and the other agent.
    """
    given = start[decoding]
    valid = (np.frombuffer(given["valid"].encode(), np.uint8) - ord("0")) / given["samples"]
    easy = np.frombuffer(start["careless"].encode(), np.uint8) == ord("1")
    return {
        "parsed": start["parsed"][decoding],
        "valid": float(valid.mean()),
        "valid where the careless plan fails": float(valid[~easy].mean()) if not easy.all() else float("nan"),
        "careless": float(easy.mean()),
    }


def _found(training: Training) -> str:
    """Returns the findings in a few sentences, floors that were missed and what was not run among them."""
    record = training.record
    if "careless" not in record["warm start"]:
        return ""
    found = rates(record["warm start"], "sampled")
    found["designs accepted"] = record["reading"]["before RL"]["accepted"]
    said = [
        f"Before any RL, after {record['warm start']['pairs']:,} demonstrations, the model solves {found['valid']:.1%} "
        "of the validation boards at temperature 1. The careless plan, which ignores holes and the other agent, solves "
        f"{found['careless']:.1%}. Of the boards on which that plan fails the model solves "
        f"{found['valid where the careless plan fails']:.1%}.",
        f"Of its designs in JSON, without a grammar, {found['designs accepted']:.1%} are accepted.",
    ]
    missed = [f"{name} {found[name]:.1%} of {floor:.0%}" for name, floor in FLOORS.items() if found[name] < floor]
    said.append(f"Floors that were not reached: {'; '.join(missed)}." if missed else "All floors of a start are met.")
    if training.study is None:
        said.append(
            "Not run: GRPO on boards, GRPO over designs and the loop of the four engineers; "
            f"`make repro RUN={training.profile}` runs them after the supervised start."
        )
    return " ".join(said)


def _start_table(training: Training) -> pd.DataFrame:
    """Returns a row for each snapshot of the supervised start, the last being what RL begins with."""
    start = training.record["warm start"]
    rows = [*start.get("snapshots", [])]
    if "careless" in start:
        rows.append({"demonstrations": start["pairs"], "tokens": start["tokens"], **rates(start, "sampled")})
    shown = pd.DataFrame(rows)
    for column in shown.columns:
        whole = column in ("demonstrations", "tokens")
        shown[column] = shown[column].map(
            lambda value, whole=whole: "" if pd.isna(value) else f"{value:,.0f}" if whole else f"{value:.1%}"
        )
    return shown.set_index("demonstrations") if rows else shown


def _designed_said(designed: Mapping[str, Any] | None) -> str:
    if not designed:
        return ""
    lines = ["~~~text", designed["prompt"], "~~~", "", "~~~text", designed["reply"][:QUOTED], "~~~", ""]
    lines.append(f"Rejected: {designed['rejection']}." if designed["rejection"] else "Three boards drawn from it:")
    for board in designed["boards"]:
        lines += ["", "~~~text", board, "~~~"]
    return "\n".join(lines)


def _solved(given: Mapping[str, Any]) -> str:
    """Returns the share of answers that are valid, with their number."""
    digits = np.frombuffer(given["valid"].encode(), np.uint8) - ord("0")
    answers = len(digits) * given["samples"]
    return f"{digits.sum() / answers:.1%} of {answers}"


def _times(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    found = pd.DataFrame(rows).groupby("stage", sort=False)[["cpu_seconds", "seconds"]].sum() / 60
    found.loc["all"] = found.sum()
    return found.map("{:.0f}".format).rename(columns={"cpu_seconds": "CPU minutes", "seconds": "minutes"})


def _loss_words(training: Training) -> str:
    start, control = training.record["warm start"], training.control
    said = f"Its loss, a token of the completion, ends at {start['curve'][-1]['loss']:.2f}"
    solved = f"After it {_solved(start['greedy'])} validation boards are solved greedily"
    if not control:
        return f"{said}.\n\n{solved}."
    twin, own = control["warm start"], {row["step"]: row["loss"] for row in start["curve"]}
    steps = [row for row in twin["curve"] if row["step"] in own]
    some = steps[:: max(1, len(steps) // 4)] + steps[-1:]
    pairs = {row["step"]: f"{own[row['step']]:.2f} against {row['loss']:.2f} at step {row['step']}" for row in some}
    said = f"{said}. Against random weights of the same shape, all else equal: {', '.join(pairs.values())}.\n\n{solved}"
    if "greedy" not in twin:
        return f"{said}. The twin was stopped at step {twin['curve'][-1]['step']}, and what it solves was not counted."
    return (
        f"{said}, with random weights {_solved(twin['greedy'])}; at temperature 1 these solve "
        f"{_solved(twin['sampled'])} answers, and {twin['parsed']['sampled']:.1%} of their plans parse."
    )


def _replies_said(training: Training) -> str:
    """Returns recorded replies: of each board the prompt, then what each model wrote."""
    found = dict(training.record.get("replies", {}))
    if training.control and "replies" in training.control:
        found["random weights"] = training.control["replies"]["before RL"]
    lines = []
    for i, one in enumerate(next(iter(found.values()), [])):
        lines += ["~~~text", one["prompt"], "~~~", ""]
        for stage, replies in found.items():
            breaks = ", ".join(dict.fromkeys(replies[i]["breaks"])) or "nothing"
            lines += [f"{stage}, breaks {breaks}:", "", "~~~text", replies[i]["reply"][:QUOTED], "~~~", ""]
    return "\n".join(lines)


def _by_size(study: Study, seed: int) -> pd.DataFrame:
    sizes = study.sets["validation"].drop_duplicates("board").set_index("board")["size"]
    rows = {}
    for arm in (BASE, ROUND_0, "fixed", "engineer"):
        for i, index in enumerate(study.measured_rounds(arm)):
            rates = study.rates(arm, "valid", "validation", index=i).loc[seed]
            of = rates.groupby(sizes.loc[rates.index].to_numpy()).mean()
            title = name(arm) if index < 1 else f"{name(arm)}, round {index}"
            rows[title] = {"all": rates.mean()} | {f"{size}x{size}": rate for size, rate in of.items()}
    return (100 * pd.DataFrame(rows).T).map("{:.1f}".format)


def _gains(study: Study, seed: int) -> str:
    """Returns the differences over boards in words; they are about these policies, not about other runs."""
    said = []
    for arm, other in (("fixed", BASE), ("engineer", BASE), ("engineer", "fixed")):
        for metric in METRICS[:2]:
            own, theirs = (study.rates(one, metric, "validation").loc[seed] for one in (arm, other))
            apart = 100 * (own - theirs)
            mean, low, high = engineers.interval(apart.tolist())
            said.append(f"- *{name(arm)}* against *{name(other)}*, {metric}: {mean:+.1f} ({low:+.1f} to {high:+.1f})")
    return "Differences in points after the last round, with 95% intervals over boards:\n\n" + "\n".join(said)


def _written(study: Study, seed: int) -> str:
    lines = []
    for one in study.history("engineer", seed)[1:]:
        assert one.proposal is not None
        lines += [f"Round {one.index}:", "", "~~~text", *(text[:QUOTED] for text in one.proposal.replies), "~~~", ""]
    accepted, drawn = _accepted(study, seed)
    return "\n".join([*lines, f"{accepted} of {drawn} replies are accepted; the first of a round that is counts."])


def _accepted(study: Study, seed: int) -> tuple[int, int]:
    """Returns how many of the engineer's replies are designs, and how many there are."""
    legal = []
    for one in study.history("engineer", seed)[1:]:
        assert one.proposal is not None
        form = one.proposal.prompt_format or "json"
        legal += [read_reply(text, one.proposal.sizes, form).config is not None for text in one.proposal.replies]
    return sum(legal), len(legal)


def _reading_table(record: Mapping[str, Any], small: engineers.Records) -> pd.DataFrame:
    rows = {f"this model, {stage}": dict(measured) for stage, measured in record["reading"].items()}
    found = engineers.readings(small)
    if not found.empty:
        unseen = found[found["situations"] == "made up, unseen"]
        for stage, group in unseen.groupby("engineer", sort=False):
            rows[f"the small policy, {stage}"] = group[["accepted", "moved"]].mean().to_dict()  # its reward is another
    rows["half-solved rule"] = {"moved": record["moved by a rule"]}
    columns = ["accepted", "own", "another's", "moved"]
    return pd.DataFrame(rows).T[columns].map(lambda value: "" if pd.isna(value) else f"{value:.3f}")


def page(base: Path, profile: str) -> None:
    """Writes reports/<profile>.md and its figures from the committed records of the profile's training."""
    found, out = load(base / REPORTS / "cells" / profile), base / REPORTS / profile
    of = losses(found.record, found.control)
    plots.show(plots.curves(of, metrics=["loss"], xlabel="step of the supervised start"), out / "loss.png")
    if found.record["rounds"]:
        steps = curve(found.record)
        starts = steps.groupby("round")["step"].min().tolist()[1:]
        metrics = ["valid", "optimal", "entropy", "kl"]
        plots.show(plots.curves(steps, metrics=metrics, smooth=3, boundaries=starts), out / "grpo.png")
    text = markdown(found, engineers.load(base / REPORTS / "cells/default"), pictures=profile)
    repro.write_text(base / REPORTS / f"{profile}.md", text)
