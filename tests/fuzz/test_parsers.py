"""No text makes a parser raise what it must not: texts near the grammar, and texts of anything."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parsers import PARSERS, SEEDS

ODD = [
    "\x00",
    "\x1b",
    "\u2028",
    "\ud800",
    "9" * 5000,
    "[" * 200,
    "-",
    ".nan",
    "1e999",
    "&a",
    "*a",
    "!!python/none",
    "\t",
]


@pytest.mark.parametrize("name", PARSERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_text_raises(name, data):
    text = data.draw(st.sampled_from(SEEDS[name]) | st.text())
    for _ in range(data.draw(st.integers(0, 5))):
        at, cut = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 8))
        text = text[:at] + data.draw(st.sampled_from([*ODD, *SEEDS[name]]) | st.text(max_size=5)) + text[at + cut :]
    PARSERS[name](text)
