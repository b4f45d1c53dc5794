"""What designers changed, in the paper's terms (boards near the frontier, settings kept), and what they cost."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Set

import numpy as np
import pandas as pd

from mapflake.engineer import History
from mapflake.engineer.designers import DYNAMIC
from mapflake.env import EnvConfig
from mapflake.env.config import total_variation
from mapflake.study.cells import Study
from mapflake.study.names import BASE, ROUND_0

FRONTIER = 0.5  # a size counts as solved from this valid rate on; our choice
ALIKE = 0.051  # ratios that differ by less count as unchanged: one step of the compact prompt format; our choice
COLUMNS = ["arm", "seed", "round", "below_frontier", "hole_ratio", "wait_ratio", "moved", "kept", "rejected"]


def changes(study: Study) -> pd.DataFrame:
    """Returns one row for each design.

    Besides arm, seed and round, the columns are:

    - `below_frontier`: the largest size that was solved at least half of the time before the design (the smallest if
      none was) minus the mean size of the designed boards, in sizes.
    - `hole_ratio`, `wait_ratio`: means over the designed boards; a wait ratio of None is left out.
    - `moved`: total variation between the data ratios of the design and those before it, 0 to 1.
    - `kept`: of the sizes that were solved at least half of the time and are still used, the share whose hole and wait
      ratios both changed by at most 0.05; NaN if there is no such size.
    - `rejected`: whether no reply was legal, so that the configuration stayed as it was.
    """
    rows = []
    for arm, seed in study.records:
        for before, after in itertools.pairwise(study.history(arm, seed)):
            if arm not in study.arms or after.proposal is None:
                continue
            rows.append(
                {"arm": arm, "seed": seed, "round": after.index}
                | _change(before.config, after.config, {s.size: s.valid_rate for s in before.report.sizes})
                | {"rejected": float(after.proposal.config is None)}
            )
    return pd.DataFrame(rows, columns=COLUMNS)


def spent(study: Study) -> pd.DataFrame:
    """Returns the extra cost of arms, on top of the rounds that all arms train: one row for each arm that has any.

    Numbers are means over training seeds. `rollouts` are answers to boards, for training and for measuring, `replies`
    are designs written in design RL, and `demonstrations` are solved boards shown there. `extra` is the sum of the
    first two, relative to the samples of the rounds that all arms train. What dynamic sampling draws again is estimated
    from its tokens: those beyond the tokens of the same arm without it in the same round (if it was not run, of round
    0), at its number of tokens an answer. Base models, and the replies that a designer samples once per round, are not
    counted.
    """
    rows = []
    for arm in study.arms:
        for seed in study.seeds(arm):
            parameters, history = study.records[arm, seed].parameters, study.history(arm, seed)
            budget = min(record.parameters["rounds"] for (_, s), record in study.records.items() if s == seed)
            rl, measured = parameters["rl"], parameters["samples"] * len(study.sets["validation"])
            trained = rl["instances"] * rl["epochs"] * rl["generations"]
            per_round = trained + measured
            last = max((r.index for r in history), default=0)
            cost = Counter({"rollouts": per_round * max(0, last - budget)}) + _beside(history)
            for round_ in history:
                if round_.training.get("redraws"):
                    plain_arm = arm.removesuffix(DYNAMIC)
                    plain_rounds = study.history(plain_arm if seed in study.seeds(plain_arm) else ROUND_0, seed)
                    *_, plain_round = (r for r in plain_rounds if r.index <= round_.index)
                    ratio = round_.training["sampled_tokens"] / plain_round.training["sampled_tokens"]
                    cost["rollouts"] += round(trained * (ratio - 1))
            extra = (cost["rollouts"] + cost["replies"]) / (per_round * (1 + budget))
            rows.append((arm, cost["rollouts"], cost["replies"], cost["demonstrations"], extra))
    table = pd.DataFrame(rows, columns=["arm", "rollouts", "replies", "demonstrations", "extra"])
    means = table.groupby("arm", sort=False).mean()
    return means[means.any(axis=1)]


def _beside(history: History) -> Counter[str]:
    """Returns the rollouts, replies and demonstrations that an arm used in addition to its rounds, as recorded."""
    cost: Counter[str] = Counter()
    for round_ in history:
        cost.update(round_.training.get("spent before", {}))
        cost.update(round_.proposal.extra_cost if round_.proposal else {})
    return cost


def tokens(study: Study) -> pd.Series:
    """Returns the millions of tokens that an arm samples for the training of a student, means over training seeds.

    The tokens of a round are on record, with those of the groups that dynamic sampling draws again. Other extra answers
    and replies (`spent`) count as many tokens as an answer of the arm's round 0 has on average. A seed whose student
    was not measured before RL, from where gains are counted, is left out, and so is an arm without a round.
    """
    millions: dict[str, float] = {}
    base_seeds = study.seeds(BASE)
    for arm in (ROUND_0, *study.arms):
        totals = []
        for history in (study.history(arm, seed) for seed in study.seeds(arm) if seed in base_seeds):
            if history:
                first, extra = history[0].training, _beside(history)
                answers = first["instances"] * first["epochs"] * first["generations"]
                extra_tokens = (extra["rollouts"] + extra["replies"]) * first["sampled_tokens"] / answers
                totals.append(sum(r.training["sampled_tokens"] for r in history) + extra_tokens)
        if totals:
            millions[arm] = float(np.mean(totals)) / 1e6
    return pd.Series(millions, name="million tokens", dtype=float)


def overlap(study: Study, arm: str) -> pd.DataFrame:
    """Returns how much of a design's data the next design of an arm keeps: a row a training seed, means over designs.

    A size has helped if its valid rate on the validation boards rose in the round. Of the data that the design gave to
    the sizes that helped, `helped` is the share that the next design gives to the same sizes, size by size; `others` is
    the same for the other sizes of the report. A seed without both is left out.
    """
    rows = {}
    for seed in study.seeds(arm):
        pairs = []
        for before, after in itertools.pairwise(study.history(arm, seed)):
            rates = {row.size: row.valid_rate for row in before.report.before}
            rose = {row.size for row in before.report.sizes if row.valid_rate > rates.get(row.size, row.valid_rate)}
            rest = rates.keys() - rose
            pairs.append([_kept(before.config.data_ratios, after.config.data_ratios, sizes) for sizes in (rose, rest)])
        rows[seed] = pd.DataFrame(pairs, columns=["helped", "others"]).mean()
    return pd.DataFrame(rows, index=["helped", "others"]).T.rename_axis("seed").dropna()


def _kept(before: Mapping[int, float], after: Mapping[int, float], sizes: Set[int]) -> float:
    """Returns the share of the data of some sizes that a design keeps; NaN if there was none."""
    total = sum(before.get(size, 0.0) for size in sizes)
    return sum(min(before.get(size, 0.0), after.get(size, 0.0)) for size in sizes) / total if total else np.nan


def by_round(study: Study, arm: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns an arm's valid rates on the validation boards and its data ratios: a row per size, a column per round.

    Both are means over training seeds. The ratios are those that the round trained on, the rates those after it; NaN
    for sizes without validation boards.
    """
    rounds = [round_ for seed in study.seeds(arm) for round_ in study.history(arm, seed)]
    rates = pd.DataFrame({"round": round_.index, **round_.report.valid_rates} for round_ in rounds)
    shares = pd.DataFrame({"round": round_.index, **round_.config.data_ratios} for round_ in rounds).fillna(0.0)
    success, ratios = (
        table.groupby("round").mean().T.rename_axis("size").rename(columns="round {}".format)
        for table in (rates, shares)
    )
    sizes = success.index.union(ratios.index)
    return success.reindex(sizes), ratios.reindex(sizes, fill_value=0.0)


def _change(before: EnvConfig, after: EnvConfig, valid: Mapping[int, float]) -> dict[str, float]:
    solved = [size for size, rate in valid.items() if rate >= FRONTIER]
    parts, share = after.sizes, after.data_ratios
    waits = {size: part.wait_ratio for size, part in parts.items() if part.wait_ratio is not None and share[size]}
    used = [size for size in solved if share.get(size) and size in before.sizes]
    unchanged = [_alike(before.sizes[size].ratios, parts[size].ratios) for size in used]
    return {
        "below_frontier": max(solved, default=min(valid)) - sum(size * ratio for size, ratio in share.items()),
        "hole_ratio": sum(parts[size].hole_ratio * ratio for size, ratio in share.items()),
        "wait_ratio": float(np.average([*waits.values()], weights=[share[s] for s in waits])) if waits else np.nan,
        "moved": total_variation(share, before.data_ratios),
        "kept": float(np.mean(unchanged)) if unchanged else np.nan,
    }


def _alike(before: Mapping[str, float | None], after: Mapping[str, float | None]) -> bool:
    """Returns whether all ratios except the data ratio are nearly equal; None equals only None."""
    pairs = [(before[key], after[key]) for key in before if key != "data_ratio"]
    return all(x == y or (x is not None and y is not None and abs(x - y) < ALIKE) for x, y in pairs)
