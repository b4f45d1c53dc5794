"""The paper's results (arXiv 2606.17682) next to ours. The policies differ, so we compare gains and not rates."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mapflake.study.cells import Study
from mapflake.study.comparisons import compare, points
from mapflake.study.designs import overlap
from mapflake.study.statistics import Estimate, t_estimate

PAPER = {
    "base": ("before RL", {3: (14.83, 14.00), 4: (3.43, 3.05), 5: (1.44, 1.22)}),
    "fixed": ("GRPO, fixed random configuration", {3: (40.42, 26.08), 4: (26.67, 16.10), 5: (15.11, 9.11)}),
    "engineer_base": ("GRPO, base model as engineer", {3: (45.21, 30.00), 4: (27.62, 19.62), 5: (16.00, 10.89)}),
    "engineer": ("GRPO, paper's engineer", {3: (51.67, 31.67), 4: (33.14, 21.33), 5: (18.67, 11.00)}),
}
"""Our arm -> the paper's name for it and, by number of agents, its valid and optimal rates in percent."""

DESIGNED = ("engineer_base", "engineer")


def with_paper(study: Study) -> pd.DataFrame:
    """Returns the paper's rates and ours as text: valid / optimal in percent by number of agents.

    In brackets: the gain in valid over the fixed configuration in points, ours of the training seeds of both arms.
    """
    cells: dict[str, dict[str, str]] = {}
    rate, gain = "{:.1f} / {:.1f}", " ({:+.1f})"
    fixed = PAPER["fixed"][1]
    for n in fixed:
        cells[f"paper, {n} agents"] = {
            label: rate.format(*rates[n]) + (gain.format(rates[n][0] - fixed[n][0]) if arm in DESIGNED else "")
            for arm, (label, rates) in PAPER.items()
        }
    for n in sorted({*study.boards["agents"]}):
        gains = {row.arm: gain.format(100 * row.estimate.mean) for row in compare(study, [*PAPER], "fixed", agents=n)}
        cells[f"ours, {n} agents"] = {
            label: rate.format(*(100 * study.rates(arm, m, agents=n).to_numpy().mean() for m in ("valid", "optimal")))
            + (gains.get(arm, "") if arm in DESIGNED else "")
            for arm, (label, _) in PAPER.items()
            if study.seeds(arm)
        }
    return pd.DataFrame(cells, index=[label for label, _ in PAPER.values()]).fillna("")


MODULES = {"V1": 20.0, "V2": 8.6, "V3": 6.4, "V4": 3.8, "V5": 12.6}
"""Context -> by how many points V6 is ahead of it on the paper's subset wr025."""

ENGINEERS = ("engineer", "engineer_trained")
"""The paper's engineer, which is the current RL checkpoint, and ours, which is trained to design."""


def claims(study: Study) -> pd.DataFrame:
    """Returns the paper's claims as a table of text: what it says, and what came out here for each of `ENGINEERS`.

    A claim is a difference that should be above zero, in points, with its 95% interval over seeds and boards, not
    corrected for several claims: "yes" if the interval is above zero, "no" if below, else "not shown". A cell is empty
    where the arms were not run.
    """
    gains = " / ".join(f"{PAPER['engineer'][1][n][0] - PAPER['fixed'][1][n][0]:+.1f}" for n in PAPER["fixed"][1])
    base = PAPER["engineer"][1][3][0] - PAPER["engineer_base"][1][3][0]
    places: dict[str, dict[str, Any]] = {
        f"subset {subset}": {"boards": subset} for subset in study.sets if subset != "validation"
    }
    places |= {f"boards of {n} agents": {"agents": n} for n in sorted({*study.boards["agents"]})}
    fewest = {"agents": study.boards["agents"].min()}
    rows: list[tuple[str, str, list[Estimate | None]]] = []

    def ahead(claim: str, quote: str, against: list[str], **selection: Any) -> None:
        compared = [
            compare(study, [arm], baseline, **selection) for arm, baseline in zip(ENGINEERS, against, strict=True)
        ]
        rows.append((claim, quote, [result[0].estimate if result else None for result in compared]))

    for place, boards in places.items():
        text = f"{gains} with 3 / 4 / 5 agents, all subsets" if boards == fewest else ""
        ahead(f"the engineer is ahead of the fixed configuration: {place}", text, ["fixed"] * 2, **boards)
    text = f"{base:+.1f} with 3 agents"
    ahead("a trained checkpoint designs better than the untrained model: all boards", text, ["engineer_base"] * 2)
    contexts = {
        str((record.parameters.get("engineer") or {}).get("variant", "V6"))
        for (arm, _), record in study.records.items()
        if arm in ENGINEERS
    }
    for context, lead in MODULES.items() if contexts <= {"V6"} else ():
        controls = [f"{arm}_{context.lower()}" for arm in ENGINEERS]
        ahead(f"context V6 is ahead of {context}: all boards", f"{lead:+.1f} on wr025", controls)
    for control, report in (("another", "another student's report"), ("none", "no report")):
        controls = [f"{arm}_{control}" for arm in ENGINEERS]
        ahead(f"designs rest on the failures that were read: ahead of {report}, all boards", "in words", controls)
    overlaps = [overlap(study, arm) for arm in ENGINEERS]
    differences = [
        t_estimate((shares["helped"] - shares["others"]).to_numpy()) if len(shares) else None for shares in overlaps
    ]
    title = "designs keep what helped: share of data kept for sizes whose success rose, minus that for others"
    rows.append((title, "in words", differences))
    table = [(claim, quote, *map(_verdict, estimates)) for claim, quote, estimates in rows if any(estimates)]
    columns = ["claim", "the paper", "paper's engineer", "trained engineer"]
    return pd.DataFrame(table, columns=columns).set_index("claim")


def _verdict(estimate: Estimate | None) -> str:
    """Returns whether a difference is above zero, with the difference in points and the number of seeds."""
    if estimate is None:
        return ""
    verdict = ("yes" if estimate.mean > 0 else "no") if estimate.excludes_zero else "not shown"
    return f"{verdict}: {points(estimate)}, {estimate.seeds} seeds"
