"""Conclusions in words, made of comparisons; no number of one is typed anywhere.

Differences are in points (percent of all answers). A sentence says that a difference is seen where the 95% interval
leaves out zero; of several compared together, where p is below 5% after Holm's correction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mapflake.study import paper
from mapflake.study.cells import Study
from mapflake.study.comparisons import ASKED, Difference, asked, compare
from mapflake.study.designs import changes
from mapflake.study.names import BASE, name
from mapflake.study.statistics import Estimate

VERBS = {"valid": "solves", "optimal": "solves optimally", "soc_optimal": "solves with the least sum of costs"}

RIVALS = ("fixed", "engineer", "trained_shuffled", "trained_schema_only", "learnability", "uniform")
"""The arms that the trained engineer is compared with in words."""


def sentences(study: Study, comparison: Mapping[str, Any] = ASKED) -> dict[str, str]:
    """Returns all conclusions in words, by topic; what was not run is left out.

    Topics: asked, paper, validation, training, arms, matched, model, trained, contexts, designs, agents.
    """
    arm, others, metric, boards = (comparison[key] for key in ("arm", "against", "metric", "boards"))
    rows, first = asked(study, comparison), others[0]
    not_run = "*{}* against *{}*: not run.".format
    rivals = [one for one in RIVALS if arm != "trained_engineer" or one not in others]
    of_agents = (_which(study, "fixed", agents=n) for n in sorted({*study.boards["agents"]}))
    found = {
        "asked": " ".join(said(rows[other]) if other in rows else not_run(name(arm), name(other)) for other in others),
        "paper": " ".join(paper.beside_gain(study, row) for row in compare(study, [arm], first, metric)),
        "validation": sentence(study, arm, first, metric, "validation"),
        "training": sentence(study, "fixed", BASE, "valid", boards),
        "arms": _which(study, "fixed", boards),
        "matched": _which(study, "evaluation_matched", boards),
        "model": sentence(study, "base_engineer", "engineer", "valid", boards),
        "trained": " ".join(sentence(study, "trained_engineer", one, metric, boards) for one in rivals),
        "contexts": " ".join(
            sentence(study, one, "engineer", "valid", boards) for one in ("shuffled_failures", "schema_only")
        ),
        "designs": _designs(study),
        "agents": " ".join(of_agents),
    }
    return {topic: " ".join(text.split()) for topic, text in found.items() if text.strip()}


def sentence(
    study: Study, arm: str, against: str, metric: str = "valid", boards: str = "benchmark", **kept: int
) -> str:
    """Returns one comparison in words; "" if it was not run. Arguments as `comparisons.compare`."""
    return "".join(map(said, compare(study, [arm], against, metric, boards, **kept)))


def said(row: Difference) -> str:
    """Returns a difference in words, with its interval and whether it is seen."""
    found, other = row.found, " and ".join(map(name, row.against))
    by = f"{100 * abs(found.mean):.2f} points {'more' if found.mean >= 0 else 'less'}"
    text = f"*{name(row.arm)}* {VERBS[row.metric]} {by} of {_where(row)} than *{other}*"
    if found.seeds == 1:
        return f"With one training seed, {text}; one seed gives no interval, so this says nothing about other seeds."
    holm = f" (p = {row.holm:.2g} after Holm's correction for {row.together} questions)" if row.together > 1 else ""
    seen = f"{'a' if row.seen else 'no'} difference is seen{holm}"
    return f"Over {found.seeds} training seeds, {text}{interval(found, '+.2f', '95% interval ')}: {seen}."


def points(found: Estimate, star: bool = False) -> str:
    """Returns a difference as text: points, and the 95% interval if there is one; `star` marks it as seen."""
    return f"{100 * found.mean:+.1f}{interval(found, '+.1f')}" + ("*" if star else "")


def interval(found: Estimate, form: str, words: str = "") -> str:
    """Returns the 95% interval in percent, in brackets, each end in the format `form`; "" if there is none."""
    if found.low is None or found.high is None:
        return ""
    return f" ({words}{100 * found.low:{form}} to {100 * found.high:{form}})"


def _where(row: Difference) -> str:
    """Returns in words which boards a difference is of."""
    number = row.found.boards
    where = {
        "validation": "the validation boards",
        "held_out": f"{number} held-out boards",
        "benchmark": f"the benchmark's {number} boards",
    }[row.boards]
    return where + "".join(f" with {n} {key}" for key, n in row.kept.items())


def _which(study: Study, against: str, boards: str = "benchmark", **kept: int) -> str:
    """Returns which arms are seen to differ from one, after Holm's correction; "" if there is none to compare."""
    rows = compare(study, study.arms, against, "valid", boards, **kept)
    if not rows:
        return ""
    where = _where(rows[0])
    if all(row.found.seeds == 1 for row in rows):
        return f"On {where} one seed gives no interval: none of {len(rows)} arms can be told from *{name(against)}*."
    seen = [f"*{name(row.arm)}* {points(row.found)}" for row in rows if row.seen]
    text = f"On {where}, of {len(rows)} arms against *{name(against)}*, corrected for their number"
    return f"{text}, a difference is seen for {'; '.join(seen) or 'none'}."


def _designs(study: Study) -> str:
    """Returns how the engineer's designs look, and how far other designers' are from them."""
    rows = changes(study)
    if rows.empty or "engineer" not in set(rows["arm"]):
        return ""
    own, parts = rows[rows["arm"] == "engineer"], []
    side = "below" if own["below_frontier"].mean() >= 0 else "above"
    parts.append(f"the engineer asks for boards {abs(own['below_frontier'].mean()):.1f} sizes {side} its frontier")
    if own["kept"].notna().any():
        parts.append(f"leaves {own['kept'].mean():.0%} of the settings that worked as they were")
    others = rows[rows["arm"] != "engineer"].dropna(subset="unlike")
    for model, who in ((True, "other contexts and models"), (False, "rules and fixed configurations")):
        by_arm = others[others["model"] == model].groupby("arm")["unlike"].mean()
        if len(by_arm):
            parts.append(f"{who} ask for {by_arm.min():.0%} to {by_arm.max():.0%} other boards than it does")
    return f"On average {'; '.join(parts)}."
