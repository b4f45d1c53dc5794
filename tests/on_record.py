"""What a record must agree with: the rounds in it, and the ledgers that they came from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

from mapflake import repro
from mapflake.engineer import Round


def disagreements(record: dict[str, Any], ledger: Iterable[Round] | None = None) -> list[str]:
    """Returns what a record says of its arm that its own rounds, or its ledger's if given, do not; a line each."""
    said, rounds = record["parameters"], record["rounds"]
    pairs: list[tuple[str, Any, Any]] = []
    if ledger is not None:
        kept = [repro.to_json(replace(one, checkpoint=Path(), files={})) for one in ledger]
        pairs += [("round", row, other) for row, other in zip_longest(rounds, kept)]
    for row in rounds:
        asked = row["parameters"]
        shared = {key: value for key, value in said["rl"].items() if key in asked["trainer"]}
        pairs += [(key, said[key], asked[key]) for key in ("seed", "samples")]
        pairs += [
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
        pairs += [(key, said.get(key), about.get(key)) for key in {*said} & {*about} | {"engineer"}]
    if rounds and record["arm"] != "round_0":
        pairs += [("rounds", said["rounds"], rounds[-1]["index"]), ("arm", record["arm"], rounds[-1]["arm"])]
    return [f"{what}: {one!r}, but {other!r}" for what, one, other in pairs if one != other]
