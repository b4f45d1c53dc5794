"""A run as one HTML file that needs no network: designs, success, ten boards played, transcripts of the designs.

Everything is read from the ledgers and the rollouts that the rounds left; nothing is trained or sampled. The charts are
Vega-Altair's, with its library in the file. Model text is shown as text, never as HTML.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from mapflake import repro
from mapflake.engineer import History, Round
from mapflake.env import execute
from mapflake.env.pictures import PALETTE
from mapflake.extras import needs
from mapflake.plots.boards import cross_at, describe_all
from mapflake.trainer import evaluate
from mapflake.trainer.evaluate import Rollout

with needs("lab"):
    import altair
    import vl_convert

BOARDS = 10
NOT_TOLD = "another student's, or none: see the whole prompt"


def page(arms: Mapping[str, History], *, title: str, about: str = "") -> str:
    """Returns the page of a run; `about` is a sentence below its title.

    `arms` has the rounds of each arm, by its name, from round 0 on, with the files of their rollouts.

    Raises:
        ValueError: There is no arm, or an arm has no rounds.
    """
    if not arms or not all(arms.values()):
        raise ValueError("a page shows at least one arm, and of each at least round 0")
    rollouts = {name: [_first_answers(round_) for round_ in history] for name, history in arms.items()}
    data = {
        "arms": [{"name": name, "rounds": _rounds(history)} for name, history in arms.items()],
        "boards": [_board(key, rollouts) for key in changed_most(rollouts)],
        "charts": {name: chart.to_dict() for name, chart in charts(arms).items()},
        "colours": PALETTE,
    }
    major, minor, *_ = altair.SCHEMA_VERSION.removeprefix("v").split(".")
    parts = {
        "title": escape(title),
        "about": escape(about),
        "data": repro.dumps(data).replace("<", "\\u003c"),  # no text can close the element
        "library": vl_convert.javascript_bundle(vl_version=f"{major}.{minor}"),  # type: ignore[call-arg]
    }
    template = (Path(__file__).parent / "page.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], template)


def charts(arms: Mapping[str, History]) -> dict[str, altair.Chart | altair.LayerChart]:
    """Returns the charts by the page's names for their places; `arm` and `round` are parameters that the page sets."""
    rounds = [(name, round_) for name, history in arms.items() for round_ in history]
    valid = [{"arm": name, "round": r.index, "valid": r.report.valid_rate} for name, r in rounds]
    design = [
        row | {"arm": name, "round": r.index, "side": row["size"], "size": f"{row['size']}x{row['size']}"}
        for name, r in rounds
        for row in _config(r)
    ]
    kinds = [
        {"arm": name, "round": r.index, "size": f"{s.size}x{s.size}", "kind": kind, "valid": good / n, "answers": n}
        for name, r in rounds
        for s in r.report.sizes
        for kind, good, n in (
            ("needs a wait", s.wait_valid, s.wait_rollouts),
            ("needs none", *s.without_wait),
        )
        if n
    ]
    chosen = altair.param("arm", value=next(iter(arms))), altair.param("round", value=0)
    in_order = [f"{n}x{n}" for n in sorted({n for _, r in rounds for n in (*r.config.sizes, *r.report.valid_rates)})]
    percent = altair.Axis(format="%")
    size = altair.Color("size:O", sort=in_order, scale=altair.Scale(scheme="viridis"))
    rounds_axis = altair.X("round:O", axis=altair.Axis(labelAngle=0))
    wide: dict[str, Any] = {"width": "container", "height": 220}
    kind = (
        altair.Chart(altair.Data(values=kinds))
        .transform_filter("datum.arm === arm")
        .encode(
            x=rounds_axis,
            y=altair.Y("valid:Q", title="valid", axis=percent),
            color=size,
            tooltip=["size:O", "kind:N", altair.Tooltip("valid:Q", format=".1%"), "answers:Q"],
        )
    )
    return {
        "valid": altair.Chart(altair.Data(values=valid))
        .mark_line(point=altair.OverlayMarkDef(size=70))
        .encode(
            x=rounds_axis,
            y=altair.Y("valid:Q", title="valid", axis=percent).scale(zero=False),
            color=altair.Color("arm:N", title=None, sort=[*arms]).legend(orient="bottom", columns=2, labelLimit=300),
            tooltip=["arm:N", "round:O", altair.Tooltip("valid:Q", format=".1%")],
        )
        .properties(**wide),
        "design": altair.Chart(altair.Data(values=design))
        .transform_filter("datum.arm === arm")
        .mark_bar()
        .encode(
            x=rounds_axis,
            y=altair.Y("share:Q", title="share of the boards", axis=percent),
            color=size,
            opacity=altair.condition("datum.round === round", altair.value(1), altair.value(0.55)),
            order="side:Q",
            tooltip=["size:O", *(altair.Tooltip(f"{key}:Q", format=".0%") for key in ("share", "holes", "waits"))],
        )
        .add_params(*chosen)
        .properties(**wide),
        "kinds": altair.layer(
            kind.mark_line().encode(
                strokeDash=altair.StrokeDash("kind:N", title="board", sort=["needs none", "needs a wait"])
            ),
            kind.mark_point(filled=True, size=40),
        )
        .add_params(*chosen)
        .properties(**wide),
    }


def changed_most(rollouts: Mapping[str, Sequence[Mapping[str, Rollout]]], n: int = BOARDS) -> list[str]:
    """Returns the keys of n boards, by size: those whose answers became valid or invalid most often between rounds.

    Sizes take turns, so that each has its boards. Of boards with equally many changes, the smaller key comes first.
    """
    first = next(iter(rollouts.values()))[0]
    pairs = [pair for rounds in rollouts.values() for pair in itertools.pairwise(rounds)]
    changes = {
        key: sum(before[key].verdict.valid != after[key].verdict.valid for before, after in pairs) for key in first
    }
    ranked: dict[int, list[str]] = {}
    for key in sorted(changes, key=lambda key: (-changes[key], key)):
        ranked.setdefault(first[key].task.instance.size, []).append(key)
    turns = sorted((turn, size) for size, keys in ranked.items() for turn in range(len(keys)))[:n]
    return [ranked[size][turn] for size, turn in sorted((size, turn) for turn, size in turns)]


def _first_answers(round_: Round) -> dict[str, Rollout]:
    """Returns the first answer to each board after a round, by the board's key."""
    return {
        rollout.task.instance.key: rollout for rollout in reversed(evaluate.load_rollouts(round_.files["rollouts"]))
    }


def _config(round_: Round) -> list[dict[str, Any]]:
    return [
        {"size": size, "share": part.data_ratio, "holes": part.hole_ratio, "waits": part.wait_ratio}
        for size, part in round_.config.sizes.items()
    ]


def _rounds(history: History) -> list[dict[str, Any]]:
    rows = []
    for before, round_ in zip((None, *history), history, strict=False):
        proposal = round_.proposal
        about = round_.parameters.get("about", {})
        own_report = "told_sha256" not in about and about.get("engineer", {}).get("variant") != "schema"
        cost = ", ".join(f"{n} {unit}" for unit, n in proposal.extra_cost.items()) if proposal else ""
        rows.append(
            {
                "config": _config(round_),
                "rejected": proposal.rejection if proposal else None,
                "note": f"On the way it took {cost} more." if cost else "",
                "reply": proposal.reply if proposal else "",
                "prompt": proposal.prompt if proposal else "",
                "report": (before.report.to_text() if own_report else NOT_TOLD) if before else "",
            }
        )
    return rows


def _board(key: str, rollouts: Mapping[str, Sequence[Mapping[str, Rollout]]]) -> dict[str, Any]:
    task = next(iter(rollouts.values()))[0][key].task
    board = task.instance
    return {
        "size": board.size,
        "waits": task.needs_wait,
        "holes": sorted(board.holes),
        "starts": board.starts,
        "goals": board.goals,
        "plans": {name: [_plan(answers[key]) for answers in rounds] for name, rounds in rollouts.items()},
    }


def _plan(answer: Rollout) -> dict[str, Any]:
    board, verdict = answer.task.instance, answer.verdict
    cells, crosses = None, []
    if answer.plan is not None and len(answer.plan.moves) == board.num_agents:
        cells = execute(board, answer.plan)
        for violation in verdict.violations:
            if violation.cell is not None:
                row, col = cross_at(violation, cells, board.size)
                crosses.append({"time": violation.time, "row": row, "col": col})
    summary = f"valid, {verdict.makespan} steps (the fewest are {answer.task.solution.makespan})"
    return {
        "cells": cells,
        "crosses": crosses,
        "valid": verdict.valid,
        "said": summary if verdict.valid else "; ".join(describe_all(verdict.violations)),
        "text": answer.completion,
    }
