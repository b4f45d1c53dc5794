"""The end of the pipeline: metrics, the results table in Markdown, and the paper's own numbers to set beside it.

Imported by notebook 05 only, so that rewording a table retrains nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mapflake.plots.tables import METRICS, name
from mapflake.trainer import evaluate

PAPER = pd.DataFrame(
    [
        ("Qwen3-4B, no training", 14.83, 14.00, 3.43, 3.05, 1.44, 1.22),
        ("GRPO, fixed random configuration", 40.42, 26.08, 26.67, 16.10, 15.11, 9.11),
        ("GRPO, engineer: untrained base", 45.21, 30.00, 27.62, 19.62, 16.00, 10.89),
        ("GRPO, engineer: RL checkpoint", 51.67, 31.67, 33.14, 21.33, 18.67, 11.00),
    ],
    columns=["policy", *(f"{n} agents {m}" for n in (3, 4, 5) for m in ("valid", "optimal"))],
).set_index("policy")
"""Valid and optimal rates in percent as the paper reports them (arXiv 2606.17682): one run each, no intervals."""


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
    agents = sorted(frame["agents"].unique())
    for arm in dict.fromkeys(frame["arm"]):
        own = frame[frame["arm"] == arm]
        row = {"policy": name(arm)}
        for metric in ("valid", "optimal"):
            mean, low, high = (evaluate.rates(own)[f"{metric}{end}"][0] for end in ("", "_low", "_high"))
            row[f"{metric} %"] = f"{100 * mean:.1f} ({100 * low:.1f} to {100 * high:.1f})"
        for n in agents:
            part = own[own["agents"] == n].groupby("board")[["valid", "optimal"]].mean().mean()
            row[f"{n} agents, valid / optimal %"] = f"{100 * part['valid']:.1f} / {100 * part['optimal']:.1f}"
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
