"""Conclusions in words, made of comparisons; no number of one is typed anywhere.

Differences are in points (percent of all answers), with 95% intervals over seeds and boards. An arm solves more than
another where p is below 5%, after Holm's correction where several are compared together; else the two are not told
apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mapflake.engineer.designers import RULES
from mapflake.study import paper
from mapflake.study.cells import Study
from mapflake.study.comparisons import ASKED, Difference, against_each, asked, boards_of, compare
from mapflake.study.designs import changes
from mapflake.study.names import BASE, DRAWS, name
from mapflake.study.statistics import Estimate

VERBS = {"valid": "solves", "optimal": "solves optimally", "soc_optimal": "solves with the least sum of costs"}


def sentences(study: Study, comparison: Mapping[str, Any] = ASKED) -> dict[str, str]:
    """Returns all conclusions in words, by topic; what was not run is left out.

    Topics: asked, paper, validation, training, arms, matched, trained, reading, every_round, contexts, designs, agents.
    """
    arm, others, metric = (comparison[key] for key in ("arm", "against", "metric"))
    boards = boards_of(comparison)
    answers, first = asked(study, comparison), others[0]
    missing = [name(one) for one in others if (one,) not in [row.against for row in answers]]
    own = against_each(study, "engineer", ("base_engineer", "shuffled_failures", "schema_only"), metric, **boards)
    rules = [one for one in study.arms if one in RULES and one not in DRAWS]
    less = [one for one in study.arms if one.startswith("trained_")]  # the same engineer, told less or something else
    beside_it = [*rules, "trained_engineer", "co_shuffled"]
    over_base = [compare(study, [one], BASE, metric, **boards) for one in (arm, first)]
    found = {
        "asked": f"{said(answers)} {f'Not run: *{name(arm)}* against {_listed(missing)}.' if missing else ''}".strip(),
        "paper": "".join(paper.beside_gain(study, row) for row in compare(study, [arm], first, metric)),
        "validation": said(compare(study, [arm], first, metric, "validation")),
        "training": " ".join(filter(None, map(said, over_base))),
        "arms": _which(study, "fixed", **boards),
        "matched": _which(study, "evaluation_matched", **boards),
        "trained": said(against_each(study, "trained_engineer", rules, metric, **boards)),
        "reading": said(against_each(study, "trained_engineer", less, metric, **boards)),
        "every_round": said(against_each(study, "co_trained", beside_it, metric, **boards)),
        "contexts": said(own),
        "designs": _designs(study),
        "agents": " ".join(filter(None, (_which(study, "fixed", agents=n) for n in sorted({*study.boards["agents"]})))),
    }
    return {topic: text for topic, text in found.items() if text}


def passage(found: Mapping[str, str], *topics: str) -> str:
    """Returns the sentences on some topics as paragraphs; "not run" if there is none."""
    return "\n\n".join(found[topic] for topic in topics if topic in found) or "not run"


def said(rows: Sequence[Difference]) -> str:
    """Returns the differences of one arm to others in words, those that are seen first; "" of none."""
    if not rows:
        return ""
    first, seeds = rows[0], sorted({row.found.seeds for row in rows})
    arm, where = f"*{name(first.arm)}*", place(first)
    if seeds == [1]:
        apart = ", ".join(f"{points(row.found)} points against {_others(row)}" for row in rows)
        return f"With one training seed, on {where}, {arm} is {apart}; that says nothing about other seeds."
    groups = {
        f"{VERBS[first.metric]} more than": [row for row in rows if row.seen and row.found.mean > 0],
        f"{VERBS[first.metric]} less than": [row for row in rows if row.seen and row.found.mean <= 0],
        "is not told from": [row for row in rows if not row.seen],
    }
    parts = [f"{verb} {_listed([_against(row) for row in some])}" for verb, some in groups.items() if some]
    number = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
    holm = f" Here p is corrected for {len(rows)} comparisons (Holm)." if len(rows) > 1 else ""
    return f"Over {number} training seeds, on {where}, {arm} {'; it '.join(parts)}.{holm}"


def points(found: Estimate, star: bool = False) -> str:
    """Returns a difference as text: points, and the 95% interval if there is one; `star` marks it as seen."""
    return percent(found, "+.1f") + ("*" if star else "")


def percent(found: Estimate, form: str = ".1f") -> str:
    """Returns a mean in percent, each number in the format `form`, with its 95% interval in brackets if it has one."""
    ends = _ends(found, form)
    return f"{100 * found.mean:{form}}" + (f" ({ends})" if ends else "")


def _ends(found: Estimate, form: str) -> str:
    return "" if found.low is None or found.high is None else f"{100 * found.low:{form}} to {100 * found.high:{form}}"


def _against(row: Difference) -> str:
    sure = "" if row.holm is None else f", 95%: {_ends(row.found, '+.1f')}; p = {row.holm:.2g}"
    return f"{_others(row)} ({100 * row.found.mean:+.1f} points{sure})"


def _others(row: Difference) -> str:
    return " and ".join(f"*{name(other)}*" for other in row.against)


def _listed(texts: Sequence[str]) -> str:
    """Returns texts joined by commas and a last "and"."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def place(row: Difference) -> str:
    """Returns in words which boards a difference is of."""
    number = row.found.boards
    where = {
        "validation": "the validation boards",
        "held_out": f"{number} held-out boards",
        "benchmark": f"the benchmark's {number} boards",
    }[row.boards]
    sizes = [f"{n}x{n}" for n in np.atleast_1d(row.kept.get("size", ()))]
    agents = [f" with {n} agents" for n in np.atleast_1d(row.kept.get("agents", ()))]
    return where + (f" of {_listed(sizes)}" if sizes else "") + "".join(agents)


def _which(study: Study, against: str, boards: str = "benchmark", **kept: Any) -> str:
    """Returns which arms are seen to differ from one, after Holm's correction; "" if there is none to compare."""
    rows = compare(study, study.arms, against, "valid", boards, **kept)
    if not rows:
        return ""
    where = place(rows[0])
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
