"""The search by the reward of RL on designs: what it guesses, what it earns, and that it reads the report."""

import math
import re
from functools import partial

import numpy as np
import pytest
from engineer_samples import REPORTS, SIZES, history
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from small_repo import ROOT

from mapflake.engineer import EngineerParams, designer_for
from mapflake.engineer.compact.demonstrations import made_up
from mapflake.engineer.designers import RuleInputs, params_of
from mapflake.engineer.designers.search import DEVIATIONS, MEANS, candidates, guessed, reward_search
from mapflake.engineer.reading import elsewhere, worth
from mapflake.engineer.report import FailureReport, SizeReport
from mapflake.engineer.situations import expected_gain
from mapflake.env import KINDS

MADE_UP = [made_up(i, SIZES, seed=17) for i in range(24)]


def report(counts):
    """A report of (valid, rollouts) on boards without a wait and with one, by size."""
    rows = []
    for size, ((valid_calm, calm), (valid_wait, waits)) in counts.items():
        valid, rollouts = valid_calm + valid_wait, calm + waits
        failures = tuple(rollouts - valid if kind == "goal" else 0 for kind in KINDS)
        rows.append(SizeReport(size, rollouts, valid, valid, waits, valid_wait, 0, failures))
    return FailureReport(tuple(rows))


def test_from_reports_alone_it_earns_what_there_is_to_be_earned():
    designs = [reward_search(SIZES)(s.report, s.history).config for s in MADE_UP]
    best = [max(candidates(SIZES), key=partial(expected_gain, s)) for s in MADE_UP]
    assert 0.95 * worth(best, MADE_UP) < worth(designs, MADE_UP) <= worth(best, MADE_UP)
    reading = worth(designs, MADE_UP) - elsewhere(designs, MADE_UP)
    assert reading > 0.9 * (worth(best, MADE_UP) - elsewhere(best, MADE_UP)) > 0.03
    neighbours = [*MADE_UP[1:], MADE_UP[0]]  # the control: another's report
    swapped = [reward_search(SIZES)(s.report, s.history).config for s in neighbours]
    assert worth(swapped, MADE_UP) < 0.8 * worth(designs, MADE_UP)


counts = st.integers(0, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
kinds = st.tuples(counts, counts)


@settings(max_examples=25)
@given(st.sampled_from([SIZES, (3, 10)]).flatmap(lambda sizes: st.fixed_dictionaries(dict.fromkeys(sizes, kinds))))
@example({3: ((0, 2), (3, 3)), 10: ((4, 4), (0, 5))})  # full Newton steps oscillate here
def test_its_guess_is_the_most_probable_one(drawn):
    """The oracle: a general minimiser, of the same posterior written out."""

    def unlikely(params):
        total = float((((params - MEANS) / DEVIATIONS) ** 2).sum() / 2)
        for size, outcomes in drawn.items():
            for wait, (valid, rollouts) in enumerate(outcomes):
                odds = params[0] - params[1] * (size - 3) - params[2] * wait
                total += valid * np.logaddexp(0, -odds) + (rollouts - valid) * np.logaddexp(0, odds)
        return total

    skill, per_size, per_wait = minimize(
        unlikely, MEANS, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}
    ).x
    chances = guessed(report(drawn), (*drawn, 9))
    for (size, hole, wait), chance in chances.items():
        odds = skill - per_size * (size - 3) - per_wait * wait - 4 * (hole - 0.15)
        assert chance == pytest.approx(1 / (1 + math.exp(-odds)), abs=2e-3)


def test_the_study_has_as_many_candidates_as_its_pages_say():
    assert len(candidates(range(3, 11))) == 540
    pages = ("README.md", "docs/method.md", "docs/glossary.md", "docs/claims.md", "reports/controls.md")
    assert all(re.search(r"\b540 (designs|candidates)", (ROOT / page).read_text(encoding="utf-8")) for page in pages)


def test_reports_without_success_or_failure_have_a_design_too():
    sizes = {}
    for name, valid in (("none", 0), ("all", 200)):
        failure_report = report(dict.fromkeys(SIZES, ((valid, 200), (valid, 200))))
        config = reward_search(SIZES)(failure_report, history(1)).config
        sizes[name] = sum(size * part.data_ratio for size, part in config.sizes.items())
    assert sizes["none"] == min(SIZES)
    assert sizes["all"] > sizes["none"] + 1
    calm_report = report(dict.fromkeys(SIZES, ((100, 200), (0, 0))))  # no board needs a wait
    assert reward_search(SIZES)(calm_report, history(1)).config is not None


def test_sizes_that_are_validated_count_where_they_are_no_legal_ones():
    failure_report = report({3: ((60, 60), (60, 60)), 6: ((30, 60), (20, 60)), 7: ((5, 60), (0, 60))})
    config = reward_search([3, 4, 5])(failure_report, history(1)).config
    assert [*config.sizes] == [5]  # the nearest to what can be learned; nothing is to be learned on 3x3


def test_what_only_a_model_has_is_refused():
    for arm, params, designers, extra in (
        ("engineer_none", EngineerParams(model="search"), None, "variant"),
        ("mine", EngineerParams(), {"mine": {"model": "search", "samples": 9}}, "samples"),
    ):
        with pytest.raises(ValueError, match=f"{arm}: {extra}: the search asks no model"):
            params_of(arm, params, designers)


def test_it_is_an_engineer_without_a_model():
    params = params_of("engineer_search", EngineerParams())
    inputs = RuleInputs(SIZES, 0, lambda past: pytest.fail("no policy is asked"))
    designer = designer_for("engineer_search", inputs, params, load=lambda path: pytest.fail("no weights are loaded"))
    proposal = designer(REPORTS[0], history(1))
    assert proposal.reply.startswith("worth 0.")
    assert proposal.reply.endswith(f"the best of {len(candidates(SIZES))} designs")
    assert not proposal.replies
    assert not proposal.extra_cost
