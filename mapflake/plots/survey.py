"""What a configuration takes to generate, and which kinds of boards can be generated at all.

`acceptance` says how many random boards a configuration takes.
`feasibility_table` describes 144 kinds of boards: the whole design space, for 2, 3 and 5 agents. Shares refer to random
boards, before the generator keeps the boards of one split (8 in 10 for training). A share of 200 boards has a standard
error of at most 3.5 points. Boards over the solver's budget count as not solved, although they may well need a wait.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mapflake.env import BoardStatistics, EnvConfig, board_statistics, cells_needed, num_holes
from mapflake.plots import style

SIZES = tuple(range(3, 11))
AGENTS = (2, 3, 5)
HOLE_RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""The 144 kinds: the paper's sizes and hole ratios; 2 agents as in training, 3 and the most, 5, as in its tests."""

FEW = 20  # boards with a plan, below which a share of them says little


def acceptance(config: EnvConfig, *, boards: int, seed: int) -> pd.DataFrame:
    """Returns one row a size: shares of random boards, and how many boards the generator samples for one that it keeps.

    Args:
        config: Its hole and wait ratios are examined.
        boards: Random boards of each size.
        seed: Any non-negative integer.

    Returns:
        Columns size, hole_ratio, wait_ratio (NaN: unconstrained), boards, connected, solved and needs_wait (shares, the
        last one of the solved boards), and attempts: the expected number of boards sampled for one of the wanted mix,
        infinite where none of a wanted kind was found.
    """
    rows = []
    for size, part in config.sizes.items():
        found = board_statistics(size, config.num_agents, part.hole_ratio, boards=boards, seed=seed)
        wanted = [(1.0, found.solved)]
        if part.wait_ratio is not None:
            wanted = [(part.wait_ratio, found.waits), (1 - part.wait_ratio, found.solved - found.waits)]
        attempts = sum(share * boards / count if count else np.inf for share, count in wanted if share)
        ratios = {"hole_ratio": part.hole_ratio, "wait_ratio": np.nan if part.wait_ratio is None else part.wait_ratio}
        rows.append({"size": size, **ratios, **_shares(found), "attempts": attempts})
    return pd.DataFrame(rows)


def feasibility_table(*, boards: int, seed: int) -> pd.DataFrame:
    """Returns one row for each of the 144 kinds of boards in `AGENTS`, `SIZES` and `HOLE_RATIOS`.

    Args:
        boards: Random boards of each kind.
        seed: Any non-negative integer.

    Returns:
        Columns agents, size, hole_ratio, holes, then boards, connected, solved, over_budget and needs_wait as in
        `acceptance`. A kind with fewer free cells than its agents need, see `cells_needed`, has 0 boards and NaN.
    """
    rows: list[dict[str, Any]] = []
    for agents, size, ratio in itertools.product(AGENTS, SIZES, HOLE_RATIOS):
        holes = num_holes(size, ratio)
        row: dict[str, Any] = {"agents": agents, "size": size, "hole_ratio": ratio, "holes": holes, "boards": 0}
        if size * size - holes >= cells_needed(agents):
            row |= _shares(board_statistics(size, agents, ratio, boards=boards, seed=seed))
        rows.append(row)
    return pd.DataFrame(rows)


def _shares(found: BoardStatistics) -> dict[str, float]:
    return {
        "boards": found.boards,
        "connected": round(found.connected / found.boards, 4),
        "solved": round(found.solved / found.boards, 4),
        "over_budget": round(found.over_budget / found.boards, 4),
        "needs_wait": round(found.waits / found.solved, 4) if found.solved else np.nan,
    }


@style.styled
def feasibility_map(table: pd.DataFrame) -> Figure:
    """Returns heat maps of the table from `feasibility_table`: a row of panels a quantity, a column a number of agents.

    Connected is the share of random boards on which every agent can reach its goal. Boards that need a wait are counted
    among those with a plan; the share is in brackets where fewer than 20 have one. Crossed out: too few free cells for
    the agents. A dot: no board had a plan.
    """
    titles = {"connected": "boards connected", "needs_wait": "boards that need a wait"}
    everyone = sorted(table["agents"].unique())
    figure = Figure(figsize=(3.3 * len(everyone) + 0.5, 5.8), layout="constrained")
    axes = figure.subplots(len(titles), len(everyone), squeeze=False, sharex=True, sharey=True)
    for (name, title), line in zip(titles.items(), axes, strict=True):
        top = 1.0 if name == "connected" else max(float(table[name].max()), 0.01)
        for agents, ax in zip(everyone, line, strict=True):
            _heat(ax, table[table["agents"] == agents], name, top)
            ax.set_title(f"{agents} agents: {title}", loc="left")
            ax.set(xlabel="hole ratio" if name == "needs_wait" else "", ylabel="board size" if ax is line[0] else "")
    lost = (table["over_budget"] * table["boards"]).sum() / table["boards"].sum()
    note = (
        f"n = {table['boards'].max()} random boards a cell, {_percent(lost)} of all over budget; "
        f"crossed out: impossible; a dot: none had a plan; in brackets: of fewer than {FEW} with a plan"
    )
    figure.supxlabel(note, fontsize=8, x=0.99, ha="right")
    return figure


def _heat(ax: Axes, kinds: pd.DataFrame, name: str, top: float) -> None:
    """Draws one quantity over hole ratio and size, each cell with its number."""
    few = (kinds["solved"] * kinds["boards"] < FEW - 0.5) & (name == "needs_wait")
    words = kinds[name].map(_percent, na_action="ignore")
    words = words.mask(few, "(" + words + ")").fillna("\u00b7")
    possible = kinds.assign(words=words, share=kinds[name].fillna(0.0).where(kinds["boards"] > 0))
    shares, words = (possible.pivot(index="size", columns="hole_ratio", values=v) for v in ("share", "words"))
    look = {"cmap": "Blues", "vmin": 0, "vmax": 1.15 * top, "cbar": False, "annot_kws": {"fontsize": 8}}
    sns.heatmap(shares, ax=ax, annot=words, fmt="", **look)
    ax.grid(visible=False)
    ax.patch.set(fc="#EEEEEE", ec="#999999", hatch="xxx")  # seen where there is no number
    ax.set_yticklabels([style.tick("size", size) for size in shares.index], rotation=0)


def _percent(share: float) -> str:
    """Returns a share in percent, with a decimal where it would else be 0."""
    return f"{100 * share:.1f}%" if 0 < share < 0.01 else f"{100 * share:.0f}%"
