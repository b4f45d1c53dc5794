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
    """Returns a line for each statement of a record that its own rounds, or those of `ledger`, do not confirm."""
    parameters, rounds = record["parameters"], record["rounds"]
    pairs: list[tuple[str, Any, Any]] = []
    if ledger is not None:
        ledger_rows = [repro.to_json(replace(round_, checkpoint=Path(), files={})) for round_ in ledger]
        pairs += [("round", row, ledger_row) for row, ledger_row in zip_longest(rounds, ledger_rows)]
    for row in rounds:
        settings = row["parameters"]
        shared = {key: value for key, value in parameters["rl"].items() if key in settings["trainer"]}
        pairs += [(key, parameters[key], settings[key]) for key in ("seed", "samples")]
        pairs += [
            ("rl", shared, {key: settings["trainer"][key] for key in shared}),
            ("instances", parameters["rl"]["instances"], settings["instances"]),
            ("arm", row["arm"], settings["arm"]),
            ("before design RL", row.get("before_design_rl_sha256"), settings.get("before_design_rl_sha256")),
        ]
        if settings["parent_sha256"] is not None:  # known before the round
            pairs += [("parent", row["parent_sha256"], settings["parent_sha256"])]
    for before, row in pairwise(rounds):
        begins = row.get("before_design_rl_sha256") or row["parent_sha256"]
        pairs += [(f"round {row['index']} goes on", begins, before["checkpoint_sha256"])]
    if rounds:
        about = rounds[-1]["parameters"]["about"]
        pairs += [(key, parameters.get(key), about.get(key)) for key in {*parameters} & {*about} | {"engineer"}]
    if rounds and record["arm"] != "round_0":
        pairs += [("rounds", parameters["rounds"], rounds[-1]["index"]), ("arm", record["arm"], rounds[-1]["arm"])]
    return [f"{field}: {stated!r}, but {actual!r}" for field, stated, actual in pairs if stated != actual]
