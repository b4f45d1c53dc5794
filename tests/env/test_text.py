import json
import re
from pathlib import Path

import pytest
from boards import boards
from hypothesis import given
from hypothesis import strategies as st

from mapflake.env import (
    VOCABULARY,
    Instance,
    Plan,
    PlanParseError,
    Task,
    check,
    execute,
    format_plan,
    judge,
    judge_plan,
    parse_completion,
    render_prompt,
)

BOARD = Instance.from_text("""
.  .  .  .
S1 .  H  .
.  .  H  S2
H  G1 .  G2
""")
PLAN = Plan(("DRD", "WD"))
TASK = Task.of(BOARD)
COMPACT_PROMPT = "size4 holes b2 c2 d0 agent1 b0 to d1 agent2 c3 to d3 plan"
COMPACT = "<UDR> D c0 <UD> W c3 ; <UR> R c1 <UD> D d3 ; <UDL> D d1 <UL> W d3 ;"


def test_the_compact_prompt_format_is_the_one_that_was_measured():
    assert render_prompt(BOARD, "compact") == COMPACT_PROMPT
    assert format_plan(BOARD, PLAN, "compact") == COMPACT
    assert parse_completion(COMPACT, 2, "compact") == Plan(("DRD", "WDW"))


def test_the_chat_prompt_format_says_all_that_is_needed():
    prompt = render_prompt(BOARD, "chat")
    assert BOARD.to_text() in prompt
    for line in (
        "2 agents are on a frozen lake, a grid of 4x4 cells.",
        "Agent 1 goes from row 1, column 0 to row 3, column 1.",
        "Agent 2 goes from row 2, column 3 to row 3, column 3.",
        "W (wait)",
        "swap",
        '{"plan": ["<moves of agent 1>", "<moves of agent 2>"]}',
    ):
        assert line in prompt
    assert format_plan(BOARD, PLAN, "chat") == '```json\n{"plan": ["DRD", "WD"]}\n```'
    assert render_prompt(BOARD) == prompt  # the default prompt_format


@given(boards(sizes=(3, 10), agents=(1, 5)), st.data())
def test_all_text_comes_back_and_compact_text_is_in_the_vocabulary(board, data):
    moves = []
    for row, col in board.starts:  # any walk that stays on the board, conflicts and holes included
        walk = ""
        for move in data.draw(st.text("UDLRW", max_size=8)):
            to = (row + (move == "D") - (move == "U"), col + (move == "R") - (move == "L"))
            if min(to) >= 0 and max(to) < board.size:
                (row, col), walk = to, walk + move
        moves.append(walk)
    plan = Plan(tuple(moves))
    text = format_plan(board, plan, "compact")
    assert {*render_prompt(board, "compact").split(), *text.split()} <= {*VOCABULARY}
    back = parse_completion(text, board.num_agents, "compact")
    assert back.moves == tuple(walk.ljust(plan.horizon, "W") for walk in moves)
    assert execute(board, back) == execute(board, plan)
    for form in ("chat", "brief"):
        assert parse_completion(format_plan(board, plan, form), board.num_agents, form) == plan


PAGE = Path(__file__).parents[2] / "docs" / "environment.md"
ROWS = [
    [cell.strip() for cell in line.strip("|\n ").split(" | ")]
    for line in PAGE.read_text().partition("| an answer that is")[2].partition("\n\n")[0].splitlines()[2:]
]


@pytest.mark.parametrize(("what", "example", "result"), ROWS, ids=[row[0] for row in ROWS])
@pytest.mark.parametrize("prompt_format", ["chat", "brief"])
def test_the_table_of_the_docs_says_what_is_read(what, example, result, prompt_format):
    """Each example is read as its row says: `U`, `D` for a plan, else the message."""
    text = example.removeprefix("`` ").removesuffix(" ``").strip("`")
    if result.startswith("not read: "):
        with pytest.raises(PlanParseError, match=re.escape(result.removeprefix("not read: "))):
            parse_completion(text, 2, prompt_format)
    else:
        moves = parse_completion(text, 2, prompt_format).moves
        assert result == ", ".join(f"`{move}`" for move in moves)


@given(st.lists(st.text("UDLRW", max_size=6), max_size=4), st.data())
def test_a_plan_is_read_however_it_is_spelt(moves, data):
    """Words, letters, cases, separators, quotes, commas, keys and prose around it: the same plan, or no plan at all."""
    words = dict(zip("UDLRW", ("up", "down", "left", "right", "wait"), strict=True))
    entries = []
    for string in moves:
        form = data.draw(st.sampled_from(("letters", "spaced", "words", "steps")))
        parts = [words[move] if form == "words" else move for move in string]
        parts = [data.draw(st.sampled_from((move, move.lower(), move.upper()))) for move in parts]
        entries.append(parts if form == "steps" else ("" if form == "letters" else data.draw(SPACES)).join(parts))
    text = json.dumps({"reasoning": "{x", "plan": entries, "steps": 3})
    if data.draw(st.booleans()):
        text = text.replace('"', "'")
    if data.draw(st.booleans()):
        text = text.replace("]", ",]").replace("[,]", "[]")
    around = data.draw(st.sampled_from(("%s", "So %s, without <think>.", "<think>{</think>%s", "```json\n%s\n```")))
    for once_or_twice in (text, text + text):
        assert parse_completion(around % once_or_twice, len(moves)).moves == tuple(moves)
    with pytest.raises(PlanParseError, match="two different plans"):
        parse_completion(around % (text + format_plan(BOARD, Plan(("U" * 9, "D")))), len(moves))


SPACES = st.sampled_from((" ", ", ", ",", "\n"))
NO_LIST = '"plan" is not a list with a string, or a list of strings, for each agent'
NO_STEP = "a step is not `<legal-moves> move cell` for each agent"
MORE = [  # what neither the table nor the property above has
    ("chat", '{"my_plan": ["L"], "plan": ["R"]}', ("R",)),
    ("chat", r'{"plan": ["\u0055 \n d", "L\x"]}', ("UD", r"L\X")),
    ("chat", '{"plan": ["U"' + ', "U"' * 5_000 + "]}", NO_LIST),
    ("chat", '{"plan": ["U"]}' * 101, "more than 100 plans"),
    ("chat", """'xplan": """ * 101 + '{"plan": ["U"]}', ("U",)),
    ("chat", '{"plan": ["U"]}' * 100 + ' plan": ' + '{"plan": ["U"]}' * 100, "more than 100 plans"),
    ("brief", "UD U a0, LR L b1\n" * 5_000, 'no answer: no "plan" with a list of moves'),
    ("compact", "", ("", "")),
    ("compact", "<UDLR> plan a0 <> Ux a0 ;", ("?", "?")),
    ("compact", "<U> U a0", "the last step is not closed by ;"),
    ("compact", "<U> U ;", "step 1 has 2 words before ; and not three for each agent"),
    ("compact", "<U> U a0 ; <U> U a0 <U> U a0 ;", "the steps are not all of one length"),
    ("compact", "<U> U a0 ; <UU> U a0 ;", NO_STEP),
    ("compact", "<U> U a0 <U> U k0 ;", NO_STEP),
]


@pytest.mark.parametrize(("prompt_format", "text", "result"), MORE, ids=range(len(MORE)))
def test_more_answers(prompt_format, text, result):
    if isinstance(result, tuple):
        assert parse_completion(text, 2, prompt_format).moves == result
    else:
        with pytest.raises(PlanParseError, match=re.escape(result)):
            parse_completion(text, 2, prompt_format)


def test_the_scratchpad_is_not_believed():
    lies = COMPACT.replace("<UDR>", "<>").replace("c0", "j9").replace("d1", "a0")
    assert parse_completion(lies, 2, "compact") == parse_completion(COMPACT, 2, "compact")
    assert judge(TASK, lies, "compact").valid


HOSTILE = {  # short strange texts are fuzzed: tests/fuzz
    "nested": '{"plan": ' + "[" * 100_000,
    "huge integer": '{"plan": [' + "9" * 15_000 + "]}",
    "surrogates": '{"plan": ["\ud800\udfff", "\\ud800"]}' + "\udc80",
    "long answer": '{"plan": ["' + "U" * 1_000_000 + '"]}',
    "blanks": "{" + " " * 1_000_000 + '"plan"' + " " * 1_000_000 + "x",
    "two million": 'x{"plan": ["U", "D"]' * 100_000,
    "words": "<U> U a0 ; " * 1_000_000,
}


@pytest.mark.parametrize("prompt_format", ["chat", "compact"])  # brief is read as chat is
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_judged_and_never_raises(name, prompt_format):
    verdict = judge(TASK, HOSTILE[name], prompt_format)
    assert not verdict.valid
    assert set(verdict.kinds) <= {"parse", "agents", "move", "bounds", "hole", "goal"}


def test_wrong_calls_are_value_errors():
    for call in (lambda: render_prompt(BOARD, "json"), lambda: judge(TASK, "", "json")):
        with pytest.raises(ValueError, match="prompt_format: 'json' is none of chat, brief, compact"):
            call()
    with pytest.raises(ValueError, match="completion: bytes is not a string"):
        judge(TASK, b"U", "chat")  # type: ignore[arg-type]
    for call in (
        lambda wrong: judge_plan(TASK, wrong),
        lambda wrong: format_plan(BOARD, wrong),
        lambda wrong: check(BOARD, wrong),
        lambda wrong: execute(BOARD, wrong),
    ):
        for wrong in ({"plan": ["L", "L"]}, ["L", "L"]):
            with pytest.raises(ValueError, match=r"plan: .*'L'.* is not a Plan"):
                call(wrong)
    with pytest.raises(ValueError, match="1 move lists for 2 agents"):
        format_plan(BOARD, Plan(("L",)))
    with pytest.raises(ValueError, match="agent 1: 'x' is none of the moves U D L R W"):
        format_plan(BOARD, Plan(("D", "x")))


def test_brief_says_the_scratchpad_of_compact_before_the_answer():
    *steps, answer = format_plan(BOARD, PLAN, "brief").split("\n")
    assert json.loads(answer) == {"plan": [*PLAN.moves]}
    triples = [f"<{part.replace('-', '')}".replace(" ", "> ", 1) for step in steps for part in step.split(", ")]
    words = COMPACT.replace(";", "").split()
    assert triples == [" ".join(words[i : i + 3]) for i in range(0, len(words), 3)]
    assert len(render_prompt(BOARD, "brief")) < len(render_prompt(BOARD, "chat")) / 10
    last = f"{'abcdefghij'[BOARD.size - 1]}{BOARD.size - 1}"
    assert render_prompt(BOARD, "brief").startswith(f"Grid a0 to {last}. Holes: ")


def test_what_the_compact_prompt_format_cannot_say():
    words = "the prompt formats compact and brief have words for sizes 3-10 and up to 5 agents"
    for size, agents in ((2, 1), (11, 1), (4, 6)):
        cells = tuple((k // size, k % size) for k in range(agents))
        with pytest.raises(ValueError, match=f"{words}, not for size {size} with {agents} agents"):
            render_prompt(Instance(size, frozenset(), cells, cells), "compact")
    with pytest.raises(ValueError, match=re.escape("the plan leaves the board at (1, -1)")):
        format_plan(BOARD, Plan(("L", "")), "compact")
