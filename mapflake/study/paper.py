"""The paper's results (arXiv 2606.17682) next to ours. The policies differ, so we compare gains and not rates."""

from __future__ import annotations

import pandas as pd

from mapflake.study.cells import Study
from mapflake.study.names import BASE

METRICS = ("valid", "optimal")

PAPER = {
    "base": ("Qwen3-4B, no training", {3: (14.83, 14.00), 4: (3.43, 3.05), 5: (1.44, 1.22)}),
    "fixed": ("GRPO, fixed random configuration", {3: (40.42, 26.08), 4: (26.67, 16.10), 5: (15.11, 9.11)}),
    "engineer_base": ("GRPO, engineer: untrained base", {3: (45.21, 30.00), 4: (27.62, 19.62), 5: (16.00, 10.89)}),
    "engineer": ("GRPO, engineer: RL checkpoint", {3: (51.67, 31.67), 4: (33.14, 21.33), 5: (18.67, 11.00)}),
}
"""Our arm -> the paper's name for it and, by number of agents, its valid and optimal rates in percent."""


def with_paper(study: Study) -> pd.DataFrame:
    """Returns the paper's rates and ours as text: valid / optimal in percent by number of agents.

    The gain of the valid rate over the fixed configuration is in brackets.
    """
    columns: dict[str, dict[str, tuple[float, ...]]] = {}
    for n in PAPER["fixed"][1]:
        columns[f"paper, {n} agents"] = {arm: PAPER[arm][1][n] for arm in PAPER}
    for n in sorted({*study.boards["agents"]}):
        columns[f"ours, {n} agents"] = {
            arm: tuple(100 * study.rates(arm, m, agents=n).to_numpy().mean() for m in METRICS)
            for arm in PAPER
            if study.seeds(arm)
        }
    cells: dict[str, dict[str, str]] = {}
    for title, rates in columns.items():
        cells[title] = {PAPER[arm][0]: "{:.1f} / {:.1f}".format(*both) for arm, both in rates.items()}
        for arm in rates.keys() - {BASE, "fixed"} if "fixed" in rates else ():
            cells[title][PAPER[arm][0]] += f" ({rates[arm][0] - rates['fixed'][0]:+.1f})"
    return pd.DataFrame(cells, index=[label for label, _ in PAPER.values()]).fillna("")
