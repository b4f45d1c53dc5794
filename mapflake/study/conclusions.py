"""The conclusions of a study as sentences. Every number and every verdict in them comes from `comparisons`.

Differences are in points (percentage points of the rate), with 95% intervals over training seeds and boards. A sentence
says that one rate is higher or lower than another only if p < 5%, after Holm's correction where several differences are
compared together.
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

PLANS = {"valid": "valid plans", "optimal": "optimal plans", "soc_optimal": "plans with the least sum of costs"}


def sentences(study: Study, comparison: Mapping[str, Any] = ASKED) -> dict[str, str]:
    """Returns all conclusions as text, by topic. A topic whose arms were not run is left out.

    Topics: asked, paper, validation, training, arms, matched, trained, reading, every_round, contexts, designs, agents.
    """
    arm, others, metric = (comparison[key] for key in ("arm", "against", "metric"))
    boards = boards_of(comparison)
    answers, first = asked(study, comparison), others[0]
    missing = [name(other) for other in others if (other,) not in [row.against for row in answers]]
    contexts = against_each(
        study, "engineer", ("engineer_base", "engineer_none"), metric, **boards
    )
    rules = [candidate for candidate in study.arms if candidate in RULES and candidate not in DRAWS]
    controls = [candidate for candidate in study.arms if candidate.startswith("engineer_trained_")]
    every_round = [*rules, "engineer_trained"]
    over_base = [compare(study, [trained], BASE, metric, **boards) for trained in (arm, first)]
    texts = {
        "asked": f"{said(answers)} {f'Not run: *{name(arm)}* against {_listed(missing)}.' if missing else ''}".strip(),
        "paper": "".join(paper.paper_gain(study, row) for row in compare(study, [arm], first, metric)),
        "validation": said(compare(study, [arm], first, metric, "validation")),
        "training": " ".join(filter(None, map(said, over_base))),
        "arms": _which(study, "fixed", **boards),
        "matched": _which(study, "evaluation_matched", **boards),
        "trained": said(against_each(study, "engineer_trained", rules, metric, **boards)),
        "reading": said(against_each(study, "engineer_trained", controls, metric, **boards)),
        "every_round": said(against_each(study, "engineer_cotrained", every_round, metric, **boards)),
        "contexts": said(contexts),
        "designs": _designs(study),
        "agents": " ".join(filter(None, (_which(study, "fixed", agents=n) for n in sorted({*study.boards["agents"]})))),
    }
    return {topic: text for topic, text in texts.items() if text}


def passage(texts: Mapping[str, str], *topics: str) -> str:
    """Returns the sentences on some topics as paragraphs, or "not run" if there are none."""
    return "\n\n".join(texts[topic] for topic in topics if topic in texts) or "not run"


def said(rows: Sequence[Difference]) -> str:
    """Returns the differences between one arm and others as text, significant ones first; "" for no rows."""
    if not rows:
        return ""
    first, seeds = rows[0], sorted({row.estimate.seeds for row in rows})
    arm, where = f"*{name(first.arm)}*", place(first)
    if seeds == [1]:
        differences = ", ".join(f"{points(row.estimate)} points from {_others(row)}" for row in rows)
        return f"With one training seed, on {where}, {arm} differs by {differences}. One seed gives no interval."
    rate = f"rate of {PLANS[first.metric]}"
    groups = {
        f"has a higher {rate} than": [row for row in rows if row.significant and row.estimate.mean > 0],
        f"has a lower {rate} than": [row for row in rows if row.significant and row.estimate.mean <= 0],
        "does not differ significantly from": [row for row in rows if not row.significant],
    }
    parts = [f"{verb} {_listed([_against(row) for row in group])}" for verb, group in groups.items() if group]
    number = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
    holm = f" The p-values are corrected for {len(rows)} comparisons (Holm)." if len(rows) > 1 else ""
    return f"Over {number} training seeds, on {where}, {arm} {'. It '.join(parts)}.{holm}"


def points(estimate: Estimate, star: bool = False) -> str:
    """Returns a difference in points, with its 95% interval in brackets if it has one, and a star if asked for."""
    return percent(estimate, "+.1f") + ("*" if star else "")


def percent(estimate: Estimate, form: str = ".1f") -> str:
    """Returns a mean in percent, with its 95% interval in brackets if it has one; `form` formats each number."""
    ends = _ends(estimate, form)
    return f"{100 * estimate.mean:{form}}" + (f" ({ends})" if ends else "")


def _ends(estimate: Estimate, form: str) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{100 * estimate.low:{form}} to {100 * estimate.high:{form}}"


def _against(row: Difference) -> str:
    interval = "" if row.holm is None else f", 95%: {_ends(row.estimate, '+.1f')}; p = {row.holm:.2g}"
    return f"{_others(row)} ({100 * row.estimate.mean:+.1f} points{interval})"


def _others(row: Difference) -> str:
    return " and ".join(f"*{name(other)}*" for other in row.against)


def _listed(texts: Sequence[str]) -> str:
    """Returns texts joined by commas and a last "and"."""
    return " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def place(row: Difference) -> str:
    """Returns the boards of a difference in words."""
    number = row.estimate.boards
    where = {
        "validation": "the validation boards",
        "held_out": f"{number} held-out boards",
        "benchmark": f"the benchmark's {number} boards",
    }[row.boards]
    sizes = [f"{n}x{n}" for n in np.atleast_1d(row.kept.get("size", ()))]
    agents = [f" with {n} agents" for n in np.atleast_1d(row.kept.get("agents", ()))]
    return where + (f" of {_listed(sizes)}" if sizes else "") + "".join(agents)


def _which(study: Study, against: str, boards: str = "benchmark", **kept: Any) -> str:
    """Returns which arms differ significantly from one arm, after Holm's correction; "" if there is none to compare."""
    rows = compare(study, study.arms, against, "valid", boards, **kept)
    if not rows:
        return ""
    where = place(rows[0])
    if all(row.estimate.seeds == 1 for row in rows):
        return f"On {where}, no arm has more than one seed, so there is no interval against *{name(against)}*."
    differ = [f"*{name(row.arm)}* {points(row.estimate)}" for row in rows if row.significant]
    verdict = f"These differ significantly: {'; '.join(differ)}." if differ else "None differs significantly."
    number = f"{len(rows)} arms are" if len(rows) > 1 else "one arm is"
    return f"On {where}, {number} compared with *{name(against)}* (p corrected for their number). {verdict}"


def _designs(study: Study) -> str:
    """Returns in words how the engineer's designs look, and how far those of other designers are from them."""
    rows = changes(study)
    if rows.empty or "engineer" not in set(rows["arm"]):
        return ""
    engineer = rows[rows["arm"] == "engineer"]
    offset = engineer["below_frontier"].mean()
    parts = [
        f"On average, the engineer's boards are {abs(offset):.1f} sizes {'below' if offset >= 0 else 'above'} its"
        " frontier, the largest size that it solves at least half of the time."
    ]
    if engineer["kept"].notna().any():
        parts.append(f"It leaves {engineer['kept'].mean():.0%} of the settings that worked as they were.")
    others = rows[rows["arm"] != "engineer"].dropna(subset="unlike")
    for model, who in ((True, "other contexts and models"), (False, "rules and fixed configurations")):
        by_arm = others[others["model"] == model].groupby("arm")["unlike"].mean()
        if len(by_arm):
            parts.append(
                f"The size distributions of {who} differ from the engineer's by {by_arm.min():.0%} to"
                f" {by_arm.max():.0%} (total variation)."
            )
    return " ".join(parts)
