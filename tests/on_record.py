"""What a record must agree with: the rounds in it, and the ledgers that they came from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from mapflake import repro
from mapflake.engineer import Round


def disagreements(record: dict[str, Any], ledger: Iterable[Round] | None = None) -> list[str]:
    """Returns what a record says of its arm that its own rounds, or its ledger's, do not; a line each.

    Args:
        record: As JSON values.
        ledger: The arm's rounds as its ledgers have them; not compared unless given.
    """
    said, rounds = record["parameters"], record["rounds"]
    pairs: list[tuple[str, Any, Any]] = []
    if ledger is not None:
        kept = [repro.to_json(replace(one, checkpoint=Path(), files={})) for one in ledger]
        pairs += [("rounds", [row["index"] for row in rounds], [row["index"] for row in kept])]
        for row, other in zip(rounds, kept, strict=False):
            pairs += [(f"round {row['index']}: {key}", row.get(key), other.get(key)) for key in {*row, *other}]
    for row in rounds:
        asked = row["parameters"]
        shared = {key: value for key, value in said["rl"].items() if key in asked["trainer"]}
        pairs += [
            ("seed", said["seed"], asked["seed"]),
            ("samples", said["samples"], asked["samples"]),
            ("rl", shared, {key: asked["trainer"][key] for key in shared}),
            ("instances", said["rl"]["instances"], asked["instances"]),
            ("arm", row["arm"], asked["arm"]),
            ("before design RL", row.get("before_design_rl_sha256"), asked.get("before_design_rl_sha256")),
        ]
        if asked["parent_sha256"] is not None:  # known before the round
            pairs += [("parent", row["parent_sha256"], asked["parent_sha256"])]
    for before, row in pairwise(rounds):
        begins = row.get("before_design_rl_sha256") or row["parent_sha256"]
        pairs += [(f"round {row['index']} goes on", begins, before["checkpoint_sha256"])]
    if rounds:
        about = rounds[-1]["parameters"]["about"]
        pairs += [(key, said[key], about.get(key)) for key in said if key in about or key == "engineer"]
        pairs += [("engineer", said.get("engineer"), about.get("engineer"))]
    if rounds and record["arm"] != "round_0":
        pairs += [("rounds", said["rounds"], rounds[-1]["index"]), ("arm", record["arm"], rounds[-1]["arm"])]
    return [f"{what}: {one!r}, but {other!r}" for what, one, other in pairs if one != other]
