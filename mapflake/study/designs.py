"""What designers changed, in the paper's terms (budget beside the frontier, what worked kept), and what they spent."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd

from mapflake.env import EnvConfig
from mapflake.env.config import total_variation
from mapflake.study.cells import Study

FRONTIER = 0.5  # valid rate from which on a size counts as one that the policy can do; our choice
ALIKE = 0.051  # ratios that differ by less count as left alone: a step of the compact prompt format; our choice
COLUMNS = ["arm", "seed", "round", "model", "below_frontier", "hole_ratio", "wait_ratio"]
COLUMNS += ["moved", "kept", "unlike", "rejected"]


def changes(study: Study) -> pd.DataFrame:
    """Returns a row for each design, with arm, seed, round and these columns.

    - `model`: whether a model wrote it.
    - `below_frontier`: the frontier (the largest size solved at least half of the time before the design; the smallest
      if none is) minus the mean size of the boards asked for, in sizes; positive: smaller boards than that.
    - `hole_ratio`, `wait_ratio`: means over the boards asked for; a wait ratio of None is left out.
    - `moved`: total variation between its data ratios and those before, 0 to 1.
    - `kept`: share of the sizes solved at least half of the time and still asked for whose hole and wait ratios both
      stay within 0.05; NaN if there is no such size.
    - `unlike`: total variation between its data ratios and those of `engineer` in the same seed and round; NaN if that
      was not run.
    - `rejected`: whether no reply was legal, so that all stayed as it was.
    """
    rows = []
    for arm, seed in study.records:
        theirs = {r.index: r.config for r in study.history("engineer", seed)}
        for before, after in itertools.pairwise(study.history(arm, seed)):
            if arm not in study.arms or after.proposal is None:
                continue
            proposal, other = after.proposal, theirs.get(after.index)
            rows.append(
                {"arm": arm, "seed": seed, "round": after.index, "model": proposal.prompt_format is not None}
                | _change(before.config, after.config, {s.size: s.valid_rate for s in before.report.sizes})
                | {"unlike": np.nan if other is None else total_variation(after.config.data_ratios, other.data_ratios)}
                | {"rejected": float(proposal.config is None)}
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def spent(study: Study) -> pd.DataFrame:
    """Returns what arms spent beside the rounds that all of them train, a row an arm that did: means over its seeds.

    `rollouts` are answers to boards, of training and of measuring; `replies` are designs written in design RL, as
    `demonstrations` are solved boards shown there; `besides` is the first two as a share of the samples of the rounds
    that all arms train. Base models and what designers ask of the policy once a round are not counted.
    """
    rows = []
    for arm in study.arms:
        for seed in study.seeds(arm):
            parameters, history = study.records[arm, seed].parameters, study.history(arm, seed)
            budget = min(one.parameters["rounds"] for (_, of), one in study.records.items() if of == seed)
            rl, measured = parameters["rl"], parameters["samples"] * len(study.sets["validation"])
            a_round = rl["instances"] * rl["epochs"] * rl["generations"] + measured
            last = max((one.index for one in history), default=0)
            cost = Counter({"rounds": max(0, last - budget)})
            for one in history:
                cost.update(one.training.get("spent before", {}))
                cost.update(one.proposal.extra_cost if one.proposal else {})
            cost["rollouts"] += a_round * cost.pop("rounds")
            besides = (cost["rollouts"] + cost["replies"]) / (a_round * (1 + budget))
            kinds = {kind: cost[kind] for kind in ("rollouts", "replies", "demonstrations")}
            rows.append({"arm": arm, **kinds, "besides": besides})
    found = pd.DataFrame(rows, columns=["arm", "rollouts", "replies", "demonstrations", "besides"])
    means = found.groupby("arm", sort=False).mean()
    return means[means.any(axis=1)]


def by_round(study: Study, arm: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns an arm's valid rates on the validation boards and its data ratios: a row a size, a column a round.

    Means over its seeds. A round's ratios are those that it trained on, its rates those that came of it.
    """
    rounds = [one for seed in study.seeds(arm) for one in study.history(arm, seed)]
    solved = [{"round": one.index, **one.report.valid_rates} for one in rounds]
    asked = [
        {"round": one.index, **dict.fromkeys(one.report.valid_rates, 0.0), **one.config.data_ratios} for one in rounds
    ]
    tables = (pd.DataFrame(rows).groupby("round").mean().T.rename_axis("size") for rows in (solved, asked))
    success, ratios = (table.rename(columns="round {}".format) for table in tables)
    return success, ratios


def _change(before: EnvConfig, after: EnvConfig, valid: Mapping[int, float]) -> dict[str, float]:
    able = [size for size, rate in valid.items() if rate >= FRONTIER]
    parts, share = after.sizes, after.data_ratios
    waits = {size: part.wait_ratio for size, part in parts.items() if part.wait_ratio is not None}
    alike = [_alike(before.sizes[s].ratios, parts[s].ratios) for s in able if share.get(s) and s in before.sizes]
    return {
        "below_frontier": max(able, default=min(valid)) - sum(size * ratio for size, ratio in share.items()),
        "hole_ratio": sum(parts[size].hole_ratio * ratio for size, ratio in share.items()),
        "wait_ratio": float(np.average([*waits.values()], weights=[share[s] for s in waits])) if waits else np.nan,
        "moved": total_variation(share, before.data_ratios),
        "kept": float(np.mean(alike)) if alike else np.nan,
    }


def _alike(one: Mapping[str, float | None], other: Mapping[str, float | None]) -> bool:
    """Returns whether all ratios but the data ratio are nearly the same; None is like None alone."""
    pairs = [(one[key], other[key]) for key in one if key != "data_ratio"]
    return all(x == y or (x is not None and y is not None and abs(x - y) < ALIKE) for x, y in pairs)
