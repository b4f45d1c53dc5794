"""No text makes a parser raise what it must not: texts near the grammar, and texts of anything."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mapflake.engineer import read_reply
from mapflake.env import Instance, PlanParseError, check, parse_completion
from mapflake.env.maps import read_map, read_scenario
from mapflake.nb import params as parameters
from mapflake.nb.schema import Sections
from mapflake.repro import ParamError

BOARD = Instance.from_text("S1 . G2\n. H .\nS2 . G1")
MAP = "type octile\nheight 2\nwidth 2\nmap\n..\n.@\n"
SMALLEST = "run: {}\nwandb: disabled\nruns: {default: {}}\nprofiles: {default: {}}\n" + "".join(
    f"{name}: {{}}\n" for name in Sections.model_fields
)


def reply(text: str, prompt_format: str) -> None:
    """A configuration, or a rejection with its reason, never both or neither."""
    proposal = read_reply(text, (3, 4), prompt_format)
    assert (proposal.config is None) == (0 < len(proposal.rejection or "") < 300)


def completion(text: str, prompt_format: str) -> None:
    """Reads a completion: a plan, which is then checked, or the one error that says why not."""
    try:
        check(BOARD, parse_completion(text, 2, prompt_format))
    except PlanParseError as error:
        message(error)


def board(text: str) -> None:
    """Reads a board; one that can be read is written and read again as the same."""
    try:
        instance = Instance.from_text(text)
    except ValueError as error:
        message(error)
    else:
        assert Instance.from_text(instance.to_text()) == instance


def maps(text: str) -> None:
    """Reads a map, and a scenario for a small one."""
    for read in (read_map, lambda source: read_scenario(read_map(MAP), source, 1)):
        try:
            read(text + "\n")  # a line break: it is text, not a path
        except ValueError as error:
            message(error)


def params(text: str) -> None:
    """Reads and validates params.yaml."""
    path = FOLDER / "params.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        parameters.effective(parameters.load(FOLDER), "default")
    except ParamError as error:
        message(error, 5000)


def message(error: Exception, longest: int = 400) -> None:
    """Fails if an error has nothing to say, or far too much."""
    assert 0 < len(str(error)) <= longest


FOLDER = Path(tempfile.mkdtemp(prefix="fuzz"))
ONE_SIZE = '{"sizes": {"3": {"data_ratio": 1, "hole_ratio": 0.1, "wait_ratio": null}}}'
SEEDS = [  # the parser, and texts near to what it reads
    (lambda text: reply(text, "json"), [ONE_SIZE, "<think>x</think>{}"]),
    (lambda text: reply(text, "compact"), ["size3 p50 p10 any size4 p50 p00 p100 end"]),
    (lambda text: completion(text, "chat"), ['```json\n{"plan": ["RRD", ["U", "W"]]}\n```', "<think>x</think>"]),
    (lambda text: completion(text, "compact"), ["<UDR> R a1 <> W b0 ; <UDR> R a1 <> W b0 ;"]),
    (board, [BOARD.to_text(), "S1G1"]),
    (maps, [MAP, "version 1\n0\tm\t2\t2\t0\t0\t1\t0\t1.0"]),
    (params, [SMALLEST, "a: &a [1, 1.0e-5, ~, {b: *a}]", "? [x]\n: !!int 3", "<<: {x: 0xff, y: 1:30}", "!!int ''"]),
]
ODD = ["\x00", "\x1b", "\u2028", "\ud800", "9" * 5000, "[" * 200, "-", ".nan", "1e999", "&a", "*a", "!!python/x", "\t"]


@pytest.mark.parametrize(("parse", "seeds"), SEEDS, ids=["json", "reply", "chat", "compact", "board", "maps", "params"])
@given(data=st.data())
def test_no_text_raises(parse, seeds, data):
    text = data.draw(st.sampled_from(seeds) | st.text())
    for _ in range(data.draw(st.integers(0, 5))):
        at, cut = data.draw(st.integers(0, len(text))), data.draw(st.integers(0, 8))
        text = text[:at] + data.draw(st.sampled_from([*ODD, *seeds]) | st.text(max_size=5)) + text[at + cut :]
    parse(text)
