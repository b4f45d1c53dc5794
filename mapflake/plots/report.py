"""The end of the pipeline: metrics, the results table in Markdown, and the paper's own numbers to set beside it.

Imported by notebook 05 only, so that rewording a table retrains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mapflake.plots.tables import METRICS, name
from mapflake.trainer import evaluate

PAPER = {
    "warm_start": ("Qwen3-4B, no training", {3: (14.83, 14.00), 4: (3.43, 3.05), 5: (1.44, 1.22)}),
    "fixed": ("GRPO, fixed random configuration", {3: (40.42, 26.08), 4: (26.67, 16.10), 5: (15.11, 9.11)}),
    "base_engineer": ("GRPO, engineer: untrained base", {3: (45.21, 30.00), 4: (27.62, 19.62), 5: (16.00, 10.89)}),
    "engineer": ("GRPO, engineer: RL checkpoint", {3: (51.67, 31.67), 4: (33.14, 21.33), 5: (18.67, 11.00)}),
}
"""Our arm -> what the paper calls its own (arXiv 2606.17682) and, by agents, its valid and optimal rates in percent."""


def beside_paper(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns the paper's table with ours beside it: valid / optimal in percent by agents, a row an arm of both."""
    ours = 100 * _by_agents(frame)
    everyone = sorted({*frame["agents"].unique(), *PAPER["fixed"][1]})
    rows = {}
    for arm, (label, theirs) in PAPER.items():
        row = {f"paper, {n} agents": "{:.1f} / {:.1f}".format(*theirs[n]) for n in everyone if n in theirs}
        for n in everyone:
            if (arm, n) in ours.index:
                row[f"ours, {n} agents"] = "{:.1f} / {:.1f}".format(*ours.loc[(arm, n)])
        rows[label] = row
    return pd.DataFrame.from_dict(rows, orient="index").fillna("")


def gains_beside_paper(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns by how many points of the valid rate an engineer beats the fixed configuration: the paper's and ours."""
    ours = 100 * _by_agents(frame)["valid"]
    fixed, rows = PAPER["fixed"][1], {}
    for arm in ("base_engineer", "engineer"):
        label, theirs = PAPER[arm]
        row = {f"paper, {n} agents": f"{theirs[n][0] - fixed[n][0]:+.1f}" for n in theirs}
        for n in sorted(frame["agents"].unique()):
            if (arm, n) in ours.index:
                row[f"ours, {n} agents"] = f"{ours[arm, n] - ours['fixed', n]:+.1f}"
        rows[label] = row
    return pd.DataFrame.from_dict(rows, orient="index").fillna("")


def _by_agents(frame: pd.DataFrame) -> pd.DataFrame:
    """Returns mean valid and optimal shares, over boards, by (arm, agents)."""
    boards = frame.groupby(["arm", "agents", "board"])[["valid", "optimal"]].mean()
    return boards.groupby(["arm", "agents"]).mean()


def metrics(frame: pd.DataFrame, differences: pd.DataFrame, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the content of metrics.json: for each arm its benchmark rates with intervals, overall and by group.

    Args:
        frame: From `tables.benchmark`.
        differences: From `tables.differences`.
        extra: Further entries, e.g. what notebook 02 measured.
    """
    arms: dict[str, Any] = {}
    for arm in dict.fromkeys(frame["arm"]):
        own = frame[frame["arm"] == arm]
        arms[arm] = {"all": _estimates(own)}
        for key in ("agents", "size", "subset"):
            arms[arm][f"by_{key}"] = {str(v): _estimates(own[own[key] == v]) for v in sorted(own[key].unique())}
        rows = differences[differences["arm"] == arm]
        arms[arm]["against_fixed"] = {r.metric: _interval(r.difference, r.low, r.high) for r in rows.itertuples()}
    return {"benchmark": arms, **extra}


def table(frame: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """Returns the results table: a row an arm, percentages with 95% intervals as text."""
    rows = []
    by_agents = 100 * _by_agents(frame)
    for arm in dict.fromkeys(frame["arm"]):
        own = frame[frame["arm"] == arm]
        row = {"policy": name(arm)}
        for metric in ("valid", "optimal"):
            mean, low, high = (evaluate.rates(own)[f"{metric}{end}"][0] for end in ("", "_low", "_high"))
            row[f"{metric} %"] = f"{100 * mean:.1f} ({100 * low:.1f} to {100 * high:.1f})"
        for n, part in by_agents.loc[arm].iterrows():
            row[f"{n} agents, valid / optimal %"] = f"{part['valid']:.1f} / {part['optimal']:.1f}"
        found = differences[(differences["arm"] == arm) & (differences["metric"] == "valid")]
        row["valid against fixed, points"] = _points(found.iloc[0]) if len(found) else "0"
        rows.append(row)
    return pd.DataFrame(rows).set_index("policy")


def markdown(shown: pd.DataFrame, notes: Sequence[str]) -> str:
    """Returns a table as Markdown, aligned for reading as text, with notes below."""
    cells = [[shown.index.name or "", *shown.columns], *([str(i), *map(str, row)] for i, row in shown.iterrows())]
    widths = [max(len(line[k]) for line in cells) for k in range(len(cells[0]))]
    lines = [
        "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join([*lines, "", *notes]) + "\n"


def _estimates(own: pd.DataFrame) -> dict[str, Any]:
    row = evaluate.rates(own, metrics=METRICS).iloc[0]
    found = {m: _interval(row[m], row[f"{m}_low"], row[f"{m}_high"]) for m in METRICS}
    return {"boards": int(row["boards"]), **found}


def _interval(mean: float, low: float, high: float) -> dict[str, float]:
    return {"mean": round(float(mean), 4), "low": round(float(low), 4), "high": round(float(high), 4)}


def _points(row: pd.Series) -> str:
    mean, low, high = (100 * row[key] for key in ("difference", "low", "high"))
    return f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"
