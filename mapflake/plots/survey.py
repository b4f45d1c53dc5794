"""What a configuration generates, and what can be had at all: as data frames and as figures.

`drawn` and `acceptance` describe one configuration: the boards that came out, and what it took. `feasibility` asks the
same of 144 kinds of boards, all of the design space and a step beyond the training in agents. Probabilities are of
boards as they fall, before the generator keeps those of one split (8 in 10 for training). Shares come from counts of
random boards: of 200 they have a standard error of at most 3.5 points; those that need a wait are counted among the
solved boards, which may be few, and boards over budget, which are left out there, may well be the ones that do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from mapflake.env import Census, EnvConfig, Task, cells_needed, census, distances, num_holes
from mapflake.plots import style

SIZES = tuple(range(3, 11))
AGENTS = (2, 3, 5)
HOLE_RATIOS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
"""The 144 cells: the paper's sizes and hole ratios; 2 agents as in training, 3 and the most, 5, as in its tests."""

# ---------------------------------------------------------------- one configuration


def drawn(tasks: Iterable[Task]) -> pd.DataFrame:
    """Returns one row a task: agents, size, distance, makespan, excess, conflict and needs_wait.

    `distance` is the longest of the agents' shortest paths, a lower bound of the makespan. `excess` is what the optimal
    sum of costs has above the sum of shortest paths; it is 0 unless agents are in each other's way (`conflict`).
    """
    rows = []
    for task in tasks:
        ends = zip(task.instance.starts, task.instance.goals, strict=True)
        shortest = [distances(task.instance, goal)[start] for start, goal in ends]
        excess = task.best_sum_of_costs - sum(shortest)
        row: dict[str, Any] = {"agents": task.instance.num_agents, "size": task.instance.size}
        row |= {"distance": max(shortest), "makespan": task.solution.makespan, "excess": excess}
        rows.append(row | {"conflict": float(excess > 0), "needs_wait": float(task.needs_wait)})
    return pd.DataFrame(rows)


def acceptance(config: EnvConfig, *, boards: int, seed: int) -> pd.DataFrame:
    """Returns one row a size: what random boards of it are like, and how many are drawn for one that is kept.

    Args:
        config: Its hole and wait ratios are asked about.
        boards: Random boards of each size.
        seed: Any non-negative integer.

    Returns:
        Columns size, hole_ratio, wait_ratio (NaN: as it falls), boards, connected, solved and needs_wait (shares, the
        last one of the solved boards), and attempts: the expected number of boards drawn for one of the wanted mix,
        infinite where none of a wanted kind was found.
    """
    rows = []
    for size, part in config.sizes.items():
        found = census(size, config.num_agents, part.hole_ratio, boards=boards, seed=seed)
        wanted = [(1.0, found.solved)]
        if part.wait_ratio is not None:
            wanted = [(part.wait_ratio, found.waits), (1 - part.wait_ratio, found.solved - found.waits)]
        attempts = sum(share * boards / count if count else np.inf for share, count in wanted if share)
        ratios = {"hole_ratio": part.hole_ratio, "wait_ratio": np.nan if part.wait_ratio is None else part.wait_ratio}
        rows.append({"size": size, **ratios, **_shares(found), "attempts": attempts})
    return pd.DataFrame(rows)


@style.styled
def overview(sample: pd.DataFrame, accepted: pd.DataFrame) -> Figure:
    """Returns what a configuration generates, by board size: makespans, conflicts, waits, and draws for a board.

    Args:
        sample: From `drawn`.
        accepted: From `acceptance`.
    """
    sizes = sorted(sample["size"].unique())
    names, places = [style.tick("size", size) for size in sizes], np.arange(len(sizes))
    groups = [sample[sample["size"] == size] for size in sizes]
    figure = Figure(figsize=(10.4, 3.3), layout="constrained")
    makespan, conflict, wait, draws = figure.subplots(1, 4)

    makespan.boxplot(
        [group["makespan"] for group in groups], positions=places, widths=0.55, patch_artist=True,
        boxprops={"facecolor": style.FILL, "edgecolor": style.COLORS[0]},
        medianprops={"color": style.COLORS[0], "linewidth": 2}, flierprops={"markersize": 2.5},
    )  # fmt: skip
    means = [group["distance"].mean() for group in groups]
    makespan.plot(places, means, label="mean longest\nshortest path", **(style.look(1, 6) | {"ls": ""}))
    makespan.set(ylim=(0, None))
    makespan.yaxis.set_major_locator(MaxNLocator(integer=True))
    makespan.legend(loc="upper left", fontsize=7.5, frameon=False, handletextpad=0.2)

    below = np.zeros(len(sizes))
    shades = [matplotlib.colormaps["Blues"](v) for v in (0.35, 0.65, 0.95)]
    for excess, shade, hatch in zip(("1", "2", "3 or more"), shades, ("", "///", "..."), strict=True):
        at_least = int(excess[0])
        hits = [(g["excess"] >= at_least) if at_least == 3 else (g["excess"] == at_least) for g in groups]
        shares = np.array([hit.mean() for hit in hits])
        conflict.bar(
            places, shares, 0.6, bottom=below, color=shade, hatch=hatch, edgecolor="white", lw=0.4, label=excess
        )
        below += shares
    style.percent(conflict, style.top(1.15 * float(below.max())))
    conflict.legend(title="moves above\nshortest paths", title_fontsize=7.5, fontsize=7.5, frameon=False)

    natural = accepted.set_index("size").loc[sizes, "needs_wait"]
    shares = np.array([group["needs_wait"].mean() for group in groups])
    for i, (values, label) in enumerate(((natural, "as they fall"), (shares, "in the sample"))):
        look = {"color": style.COLORS[i], "hatch": ("///", "")[i], "edgecolor": "white", "lw": 0.4, "label": label}
        wait.bar(places + 0.36 * (i - 0.5), values, 0.34, **look)
    style.percent(wait, style.top(1.3 * max(float(np.nanmax(natural.fillna(0))), float(shares.max()), 0.05)))
    wait.legend(fontsize=7.5, frameon=False, loc="upper left")

    attempts = accepted.set_index("size").loc[sizes, "attempts"].to_numpy()
    finite = np.where(np.isfinite(attempts), attempts, np.nan)
    draws.bar(places, finite, 0.6, color=style.FILL, edgecolor=style.COLORS[0])
    for place, value in zip(places, attempts, strict=True):
        text = f"{value:.1f}" if value < 9.95 else f"{value:.0f}" if np.isfinite(value) else "none\nfound"
        draws.text(place, value if np.isfinite(value) else 0, text, ha="center", va="bottom", fontsize=8)
    draws.set(ylim=(0, 1.15 * max(1.0, np.nanmax([*finite, 1.0]))))

    titles = ("optimal makespan", "boards with conflicts", "boards that need a wait", "draws for one board")
    for ax, title in zip((makespan, conflict, wait, draws), titles, strict=True):
        ax.set_title(title, loc="left")
        ax.set(xticks=places, xlim=(-0.6, len(sizes) - 0.4))
        ax.set_xticklabels(names, fontsize=8.5 if len(sizes) < 6 else 7)
        ax.grid(axis="x", visible=False)
    return figure


# ---------------------------------------------------------------- all cells


def feasibility(
    *, boards: int, seed: int, clock: Callable[[], float] | None = None, progress: Callable[[int], object] | None = None
) -> pd.DataFrame:
    """Returns one row for each of the 144 cells of `AGENTS`, `SIZES` and `HOLE_RATIOS`: what can be had there.

    Args:
        boards: Random boards of each cell.
        seed: Any non-negative integer.
        clock: Returns seconds, e.g. `time.perf_counter`; adds the column `instances_a_second`: boards drawn and solved
            in a second, on one core. Leave it out where the table has to be the same every time.
        progress: Called with 1 after each cell.

    Returns:
        Columns agents, size, hole_ratio, holes, then boards, connected, solved, over_budget and needs_wait as in
        `acceptance`. A cell with fewer free cells than its agents need, see `cells_needed`, has 0 boards and NaN.
    """
    rows: list[dict[str, Any]] = []
    for agents in AGENTS:
        for size in SIZES:
            for ratio in HOLE_RATIOS:
                holes = num_holes(size, ratio)
                row: dict[str, Any] = {"agents": agents, "size": size, "hole_ratio": ratio, "holes": holes, "boards": 0}
                if size * size - holes >= cells_needed(agents):
                    began = clock() if clock else 0.0
                    found = census(size, agents, ratio, boards=boards, seed=seed)
                    row |= _shares(found)
                    if clock:
                        row["instances_a_second"] = found.solved / max(clock() - began, 1e-9)
                rows.append(row)
                if progress is not None:
                    progress(1)
    return pd.DataFrame(rows)


def _shares(found: Census) -> dict[str, float]:
    return {
        "boards": found.boards,
        "connected": round(found.connected / found.boards, 4),
        "solved": round(found.solved / found.boards, 4),
        "over_budget": round(found.over_budget / found.boards, 4),
        "needs_wait": round(found.waits / found.solved, 4) if found.solved else np.nan,
    }


PANELS = {
    "connected": "boards connected",
    "needs_wait": "boards that need a wait",
    "instances_a_second": "boards a second",
}

FEW = 20  # boards with a plan, below which a share of them says little


@style.styled
def feasibility_map(table: pd.DataFrame) -> Figure:
    """Returns a heat map of the table from `feasibility`: a row of panels a quantity, a column a number of agents.

    Connected is the share of random boards on which every agent can reach its goal; those that need a wait are counted
    among those with a plan, in brackets where these are fewer than 20. Crossed out: too few free cells for the agents.
    A dot: none of the boards had a plan.
    """
    shown = [name for name in PANELS if name in table]
    everyone = sorted(table["agents"].unique())
    figure = Figure(figsize=(3.3 * len(everyone) + 0.5, 2.75 * len(shown) + 0.3), layout="constrained")
    axes = figure.subplots(len(shown), len(everyone), squeeze=False, sharex=True, sharey=True)
    for name, line in zip(shown, axes, strict=True):
        top = 1.0 if name == "connected" else max(float(table[name].max()), 0.01)
        for agents, ax in zip(everyone, line, strict=True):
            _heat(ax, table[table["agents"] == agents], name, top)
            ax.set_title(f"{agents} agents: {PANELS[name]}", loc="left")
        line[0].set_ylabel("board size")
    for ax in axes[-1]:
        ax.set_xlabel("hole ratio")
    lost = (table["over_budget"] * table["boards"]).sum() / table["boards"].sum()
    note = (
        f"n = {table['boards'].max()} random boards a cell, {_percent(lost)} of all over budget; "
        f"crossed out: impossible; a dot: none had a plan; in brackets: of fewer than {FEW} with a plan"
    )
    figure.supxlabel(note, fontsize=8, x=0.99, ha="right")
    return figure


def _heat(ax: Axes, cells: pd.DataFrame, name: str, top: float) -> None:
    """Draws one quantity over hole ratio and size, each cell with its number."""
    cells = cells.assign(plans=cells["solved"] * cells["boards"])
    values, plans, drawn = (
        cells.pivot(index="size", columns="hole_ratio", values=v) for v in (name, "plans", "boards")
    )
    numbers = values.to_numpy(dtype=float)
    norm = PowerNorm(0.4 if name == "instances_a_second" else 1.0, vmin=0, vmax=1.15 * top)
    ax.imshow(numbers, cmap="Blues", norm=norm, aspect="auto")
    for (row, col), value in np.ndenumerate(numbers):
        if not drawn.iat[row, col]:
            ax.add_patch(Rectangle((col - 0.5, row - 0.5), 1, 1, fc="#EEEEEE", ec="#999999", hatch="xxx", lw=0))
        elif np.isnan(value):
            ax.text(col, row, "\u00b7", ha="center", va="center", fontsize=12)
        else:
            dark = float(norm(value)) > 0.55
            text = _percent(value)
            if name == "needs_wait" and plans.iat[row, col] < FEW - 0.5:
                text = f"({text})"
            elif name == "instances_a_second":
                text = f"{value / 1000:.0f}k" if value >= 10_000 else f"{value:,.0f}"
            ax.text(col, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "#222222")
    ax.xaxis.set_major_locator(FixedLocator(range(values.shape[1])))
    ax.yaxis.set_major_locator(FixedLocator(range(values.shape[0])))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([f"{ratio:g}" for ratio in values.columns])
    ax.set_yticklabels([style.tick("size", size) for size in values.index])
    ax.grid(visible=False)


def _percent(share: float) -> str:
    """Returns a share in percent, with a decimal where it would else be 0."""
    return f"{100 * share:.1f}%" if 0 < share < 0.01 else f"{100 * share:.0f}%"
