"""Figures and tables of the study: arms against each other over seeds, learning curves, designs, in points and percent.

Every estimate is shown with its 95% interval over seeds and boards (`study.statistics`) and a dot for each seed.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from mapflake.plots import style, tables
from mapflake.study import statistics
from mapflake.study.record import Study

GREY = "#777777"

NAMES = {
    "fixed_draw_2": "fixed, a second draw",
    "fixed_draw_3": "fixed, a third draw",
    "evaluation_matched": "evaluation-matched",
    "accel_lite": "ACCEL-lite",
    **{f"v{i}": f"engineer, V{i}" for i in range(1, 6)},
    "v6_full": "engineer, V6 and RL details",
    "shuffled_failures": "engineer, shuffled tables",
    "schema_only": "engineer, no report",
}
"""What the study's own arms are called in figures and tables; the others as in `plots.tables`."""


def name(arm: str) -> str:
    """Returns what an arm of the study is called in figures and tables."""
    return NAMES.get(arm) or tables.name(arm)


def compare(
    rows: pd.DataFrame, arms: Sequence[str], against: str | Sequence[str], metrics: Sequence[str] = ("valid", "optimal")
) -> dict[str, pd.DataFrame]:
    """Returns for each metric `statistics.comparisons`, and in the column `by_seed` each seed's own difference."""
    found = {}
    for metric in metrics:
        table = statistics.comparisons(rows, arms, against, metric)
        seeds = [statistics.paired(rows, arm, against, metric).mean(axis=1).tolist() for arm in table["arm"]]
        found[metric] = table.assign(by_seed=seeds)
    return found


@style.styled
def forest(compared: Mapping[str, pd.DataFrame], *, against: str) -> Figure:
    """Returns a panel for each table: an arm a row, its difference in points with the 95% interval, a dot a seed.

    Filled where the p-value corrected for the number of arms (Holm) is below 5%.

    Args:
        compared: Title -> a table of `compare`; rows are ordered as in the first.
        against: What the difference is to, as the axis names it.
    """
    arms = list(next(iter(compared.values()))["arm"])
    figure = Figure(figsize=(2.9 * len(compared) + 1.9, 0.36 * len(arms) + 1.3), layout="constrained")
    axes = figure.subplots(1, len(compared), sharey=True, squeeze=False)[0]
    place = {arm: len(arms) - 1 - i for i, arm in enumerate(arms)}
    for ax, (title, table) in zip(axes, compared.items(), strict=True):
        for row in table.itertuples():
            mean, low, high, y = 100 * row.mean, 100 * row.low, 100 * row.high, place[row.arm]
            clear = row.holm < 0.05
            ax.errorbar(
                mean, y, xerr=[[mean - low], [high - mean]], color=style.COLORS[0], capsize=3, lw=1.6, marker="o",
                markersize=7, markerfacecolor=style.COLORS[0] if clear else "white", markeredgewidth=1.5, zorder=3,
            )  # fmt: skip
            dots = 100 * np.array(row.by_seed)
            ax.plot(dots, np.full(len(dots), y - 0.24), "|", color=GREY, markersize=6, markeredgewidth=1.2)
        ax.axvline(0, color="#444444", lw=1)
        ax.set_title(title, loc="left")
        ax.set(yticks=list(place.values()), xlabel=f"points against {against}", ylim=(-0.7, len(arms) - 0.4))
        ax.set_yticklabels([f"{name(row.arm)} ({row.seeds})" for row in next(iter(compared.values())).itertuples()])
        ax.grid(axis="y", visible=False)
    axes[-1].annotate(
        "(n) seeds; | one seed; filled: p < 5% after Holm", (1, -0.02), xycoords="axes fraction", xytext=(0, -34),
        textcoords="offset points", ha="right", va="top", fontsize=7.5, color=GREY,
    )  # fmt: skip
    return figure


@style.styled
def learning(study: Study, arms: Sequence[str], *, metric: str = "valid", beside: str = "fixed") -> Figure:
    """Returns learning curves on the validation boards: a panel an arm: mean over seeds, 95% band, `beside` in grey.

    The band is Student's t over seeds, of a few seeds wider than the axis. The base model, round 0, then the arm's
    rounds.
    """
    columns = min(4, len(arms))
    lines = -(-len(arms) // columns)
    figure = Figure(figsize=(2.3 * columns + 0.5, 1.9 * lines + 0.6), layout="constrained")
    axes = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False)
    rates = study.validation.groupby(["arm", "seed", "round"])[metric].mean()
    means = [_curves(rates, arm).mean() for arm in arms]
    axes[0, 0].set_ylim(min(map(min, means)) - 0.04, max(map(max, means)) + 0.04)
    for ax, arm in zip(axes.flat, arms, strict=False):
        own, other = _curves(rates, arm), _curves(rates, beside)
        other = other.loc[other.index.intersection(own.index)]  # of seeds that both have
        for curves, color, line, label in ((other, GREY, "--", name(beside)), (own, style.COLORS[0], "-", "the arm")):
            mean = curves.mean(axis=0)
            ax.plot(mean.index, mean, color=color, ls=line, lw=1.8, marker="o", markersize=3.5, label=label)
            if len(curves) > 1:
                half = statistics.half_width(curves.to_numpy())
                ax.fill_between(mean.index, mean - half, mean + half, color=color, alpha=0.18, lw=0)
        ax.set_title(f"{name(arm)} ({len(own)})", loc="left", fontsize=8.5)
        ax.set_xticks(mean.index)
        ax.set_xticklabels(["base", *(str(i) for i in mean.index[1:])], fontsize=8)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    for ax in list(axes.flat)[len(arms) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        ax.set_ylabel(metric)
    for ax in list(axes.flat)[: len(arms)][-columns:]:
        ax.set_xlabel("round")
        ax.tick_params(labelbottom=True)
    style.legend(figure, axes[0, 0])
    return figure


def _curves(rates: pd.Series, arm: str) -> pd.DataFrame:
    """Returns an arm's rates, `[seeds, rounds]`, from the base model on."""
    own = rates[arm].unstack("round")
    first = [rates[beginning].unstack("round").reindex(own.index) for beginning in ("warm_start", "round_0")]
    return pd.concat([*first, own], axis=1)


@style.styled
def designs(changes: pd.DataFrame, order: Sequence[str], columns: Mapping[str, str]) -> Figure:
    """Returns what designers changed: a panel for each column (column -> title), a row an arm, a dot a design.

    A bar marks the mean; open dots are designs of round 1, filled ones of later rounds.

    Args:
        changes: From `study.designs.changes`.
        order: Arms, from top to bottom.
        columns: What to show.
    """
    arms = [arm for arm in order if arm in set(changes["arm"])]
    figure = Figure(figsize=(2.3 * len(columns) + 1.7, 0.36 * len(arms) + 1.2), layout="constrained")
    axes = figure.subplots(1, len(columns), sharey=True, squeeze=False)[0]
    place = {arm: len(arms) - 1 - i for i, arm in enumerate(arms)}
    for ax, (column, title) in zip(axes, columns.items(), strict=True):
        for arm, y in place.items():
            own = changes[changes["arm"] == arm]
            first = own["round"] == own["round"].min()
            up = np.linspace(-0.2, 0.2, len(own)) if len(own) > 1 else np.zeros(1)
            for chosen, face in ((first, "white"), (~first, style.COLORS[0])):
                ax.plot(
                    own.loc[chosen, column], y + up[chosen.to_numpy()], "o", color=style.COLORS[0], markersize=4,
                    markerfacecolor=face,
                )  # fmt: skip
            ax.plot([own[column].mean()] * 2, [y - 0.32, y + 0.32], color="#222222", lw=1.8)
        ax.set_title(title, loc="left", fontsize=9)
        ax.set(yticks=list(place.values()), ylim=(-0.6, len(arms) - 0.4))
        ax.set_yticklabels([name(arm) for arm in place])
    return figure


def table(study: Study, arms: Sequence[str]) -> pd.DataFrame:
    """Returns the study's results table as text: a row an arm; percent and points with 95% intervals over seeds.

    Args:
        study: Finished cells, those of `fixed` among them.
        arms: The rows, what all arms begin with among them if asked for.
    """
    rows, checked = study.benchmark, study.final_validation
    asked = {"valid, to fixed": (rows, "fixed"), "valid, to evaluation-matched": (rows, "evaluation_matched")}
    asked["on validation, to fixed"] = checked, "fixed"
    compared = {
        title: statistics.comparisons(of, arms, other, "valid").set_index("arm") for title, (of, other) in asked.items()
    }
    found = []
    for arm in arms:
        row: dict[str, object] = {"arm": name(arm), "seeds": rows.loc[rows["arm"] == arm, "seed"].nunique()}
        for metric in ("valid", "optimal"):
            e = statistics.estimate(statistics.matrix(rows, arm, metric).to_numpy())
            row[f"{metric} %"] = f"{100 * e['mean']:.1f} ({100 * e['low']:.1f} to {100 * e['high']:.1f})"
        row["IQM %"] = f"{100 * statistics.interquartile_mean(rows, arm, 'valid'):.1f}"
        for title, differences in compared.items():
            row[title] = _points(differences.loc[arm]) if arm in differences.index else ""
        chance = statistics.probability_of_improvement(rows, arm, "fixed", "valid")
        row["better than fixed"] = "" if arm == "fixed" else f"{100 * chance:.0f}%"
        found.append(row)
    return pd.DataFrame(found).set_index("arm")


def numbers(compared: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Returns what `forest` draws of the same tables, as text: a row an arm, points with their 95% intervals."""
    rows = {title: table.set_index("arm") for title, table in compared.items()}
    found = {f"{title}, points": table.apply(_points, axis=1, result_type="reduce") for title, table in rows.items()}
    seeds = functools.reduce(pd.Series.combine_first, (table["seeds"] for table in rows.values()))
    order = list(dict.fromkeys(arm for table in rows.values() for arm in table.index))
    return pd.DataFrame({"seeds": seeds.astype(int), **found}).reindex(order).fillna("").rename(index=name)


def _points(row: pd.Series) -> str:
    """Returns one comparison as text; a star marks p < 5% after Holm."""
    star = "*" if row["holm"] < 0.05 else ""
    return f"{100 * row['mean']:+.1f} ({100 * row['low']:+.1f} to {100 * row['high']:+.1f}){star}"


def sentence(study: Study, arm: str, against: str | Sequence[str], metric: str) -> str:
    """Returns one comparison on the benchmark in words, with what the 95% interval says; of several, to their mean."""
    found = statistics.estimate(statistics.paired(study.benchmark, arm, against, metric).to_numpy())
    mean, low, high = (100 * found[key] for key in ("mean", "low", "high"))
    seen = "a difference is seen" if low > 0 or high < 0 else "no difference is seen"
    other = name(against) if isinstance(against, str) else f"the mean of {', '.join(map(name, against))}"
    said = f"{name(arm)} against {other}, {metric}: {mean:+.1f} points ({low:+.1f} to {high:+.1f})"
    seeds = "1 seed" if found["seeds"] == 1 else f"{found['seeds']} seeds"
    return f"{said}, {seeds}: {seen}"


def power(study: Study, arm: str, against: str, metric: str) -> pd.DataFrame:
    """Returns what could be seen, a row for 3, 5, 10 and 20 seeds, in points, from the validation boards alone.

    Column `deviation`: standard deviation over seeds of the arm's difference to `against` after the last round.
    """
    by_seed = 100 * statistics.paired(study.final_validation, arm, against, metric).mean(axis=1)
    deviation = float(by_seed.std(ddof=1))
    rows = [{"seeds": n, "detectable, points": statistics.detectable(deviation, n)} for n in (3, 5, 10, 20)]
    return pd.DataFrame(rows).assign(deviation=deviation, measured_on=len(by_seed)).set_index("seeds")


def metrics(study: Study, arms: Sequence[str], asked: tuple[str, str, str]) -> dict[str, Any]:
    """Returns what metrics.json has of the study: what was asked first, then each arm's rates and difference to fixed.

    Args:
        study: Finished cells.
        arms: What to include.
        asked: Arm, against, metric.
    """
    rows = study.benchmark
    compared = {m: statistics.comparisons(rows, arms, "fixed", m).set_index("arm") for m in ("valid", "optimal")}
    found: dict[str, Any] = {}
    for arm in arms:
        rates = {m: _rounded(statistics.estimate(statistics.matrix(rows, arm, m).to_numpy())) for m in compared}
        against = {m: _rounded(table.loc[arm].to_dict()) for m, table in compared.items() if arm in table.index}
        found[arm] = {**rates, "against_fixed": against}
    first = statistics.estimate(statistics.paired(rows, *asked).to_numpy())
    return {"asked": dict(zip(("arm", "against", "metric"), asked, strict=True)) | _rounded(first), "arms": found}


def _rounded(found: Mapping[str, float]) -> dict[str, float | None]:
    return {key: None if np.isnan(value) else round(float(value), 4) for key, value in found.items()}
