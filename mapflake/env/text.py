"""Boards and plans as text for language models, in three prompt formats, and the way back.

`compact` is for small from-scratch policies: whitespace-separated words of the closed `VOCABULARY`. A prompt is a
list, `size4 holes b1 c2 d3 agent1 b0 to d1 agent2 c3 to b0 plan` (letter = row, digit = column, holes sorted).
A completion has, for each time step and agent, `<legal-moves> move newcell`, then `;`. The token of legal moves
(`<UDR>`: not off the board, not into a hole; other agents do not count) and the new cell are a scratchpad: the
parser wants them in their places and does not believe them.

`chat` is for LLMs: instructions, the board as drawn by `Instance.to_text`, and an answer in JSON,
`{"plan": ["RRD", "UWL"]}`. docs/environment.md has a table of what is read.

`brief` is chat in a fifth of the tokens, for small pretrained models that a warm start has shown it: cells are named as
in compact, and the answer has the same scratchpad, a line for each time step, before the JSON. It is read as chat is.

Wrong letters and a wrong number of move lists are no parse errors: the verifier reports them (`?`, which is never
legal, stands for a step of more than one letter). Both parsers are linear in the text and raise nothing but
PlanParseError. The wording of the paper's prompts is not public; all of this is our choice. Not covered: chat
templates, tokenizers.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from itertools import chain, combinations, count, pairwise

from mapflake.env.instance import DELTAS, MOVES, Cell, Instance, Plan, execute
from mapflake.repro import shown

PROMPT_FORMATS = ("chat", "brief", "compact")
"""How boards are asked and plans answered: in words and JSON, the same in few words, or in a closed vocabulary."""

SIZES, AGENTS = range(3, 11), range(1, 6)
"""Sizes and agents that the compact vocabulary has words for; `brief` has names for no others either."""

_ROWS = "abcdefghij"
_CELLS = tuple(f"{row}{col}" for row in _ROWS for col in range(len(_ROWS)))
_LEGAL = tuple(f"<{''.join(moves)}>" for length in range(5) for moves in combinations("UDLR", length))
_CELL_WORDS, _LEGAL_WORDS = frozenset(_CELLS), frozenset(_LEGAL)

VOCABULARY: tuple[str, ...] = (
    *(f"size{size}" for size in SIZES),
    "holes",
    *(f"agent{agent}" for agent in AGENTS),
    "to",
    "plan",
    ";",
    *MOVES,
    *_LEGAL,
    *_CELLS,
)
"""All words of the compact prompt format, without padding and end of text."""

MAX_COMPACT = 100_000  # characters of a compact completion
MAX_ANSWER = 20_000  # characters of the list of moves in a chat; both are far beyond any plan worth checking
MAX_PLANS = 100  # in a chat's answer, equal or not


class PlanParseError(ValueError):
    """A completion in which no plan can be found."""


def render_prompt(instance: Instance, prompt_format: str = "chat") -> str:
    """Returns the question for `instance`.

    Raises:
        ValueError: Unknown prompt_format, or a board that it has no names for.
    """
    if check_prompt_format(prompt_format) == "chat":
        return _render_chat(instance)
    if instance.size not in SIZES or instance.num_agents not in AGENTS:
        raise ValueError(
            f"the prompt formats compact and brief have words for sizes {SIZES[0]}-{SIZES[-1]} and up to {AGENTS[-1]} "
            f"agents, not for size {instance.size} with {instance.num_agents} agents"
        )
    return _render_compact(instance) if prompt_format == "compact" else _render_brief(instance)


def format_plan(instance: Instance, plan: Plan, prompt_format: str = "chat") -> str:
    """Returns `plan` as the model should have answered; `parse_completion` reads it back.

    Raises:
        ValueError: Unknown prompt_format, not one move list for each agent, a letter that is no move, or (except in
            chat) a plan that leaves the board.
    """
    if not isinstance(plan, Plan):
        raise ValueError(f"plan: {shown(plan)} is not a Plan")
    if len(plan.moves) != instance.num_agents:
        raise ValueError(f"{len(plan.moves)} move lists for {instance.num_agents} agents")
    for agent, moves in enumerate(plan.moves):
        for move in moves:
            if move not in MOVES:
                raise ValueError(f"agent {agent}: {move!r} is none of the moves {' '.join(MOVES)}")
    answer = json.dumps({"plan": list(plan.moves)})
    if check_prompt_format(prompt_format) == "chat":
        return f"```json\n{answer}\n```"
    steps = _steps(instance, plan)
    if prompt_format == "compact":
        return " ".join(" ".join([f"<{legal}> {move} {cell}" for legal, move, cell in step] + [";"]) for step in steps)
    lines = [", ".join(f"{legal or '-'} {move} {cell}" for legal, move, cell in step) for step in steps]
    return "\n".join([*lines, answer])


def parse_completion(text: str, num_agents: int, prompt_format: str = "chat") -> Plan:
    """Returns the plan that a model wrote: as many move lists as it wrote, whatever their letters.

    Only an empty compact text, which is a plan without moves, needs `num_agents`.

    Raises:
        PlanParseError: There is no plan in the text; the message says why.
        ValueError: Unknown prompt_format.
    """
    return _parse_compact(text, num_agents) if check_prompt_format(prompt_format) == "compact" else _parse_chat(text)


def check_prompt_format(prompt_format: str) -> str:
    """Returns the prompt format; ValueError if there is no such one."""
    if prompt_format not in PROMPT_FORMATS:
        raise ValueError(f"prompt_format: {prompt_format!r} is none of {', '.join(PROMPT_FORMATS)}")
    return prompt_format


def cell_word(cell: Cell) -> str:
    """Returns the compact name of a cell: letter = row, digit = column, e.g. `b0` for (1, 0)."""
    return f"{_ROWS[cell[0]]}{cell[1]}"


def _agents(instance: Instance) -> Iterator[tuple[int, Cell, Cell]]:
    """Returns number, start and goal of each agent."""
    return zip(count(1), instance.starts, instance.goals, strict=False)


def _render_compact(instance: Instance) -> str:
    words = [f"size{instance.size}", "holes", *map(cell_word, sorted(instance.holes))]
    for agent, start, goal in _agents(instance):
        words += [f"agent{agent}", cell_word(start), "to", cell_word(goal)]
    return " ".join([*words, "plan"])


def _steps(instance: Instance, plan: Plan) -> list[list[tuple[str, str, str]]]:
    """Returns for each time step and agent its legal moves (letters), its move, and the name of the cell reached."""
    steps = []
    for time, (before, after) in enumerate(pairwise(execute(instance, plan))):
        if outside := [cell for cell in after if not {*cell} <= {*range(instance.size)}]:
            raise ValueError(f"the plan leaves the board at {outside[0]}: there is no name for such a cell")
        moves = [moves[time] if time < len(moves) else "W" for moves in plan.moves]
        legal = [_legal_moves(instance, cell) for cell in before]
        steps.append(list(zip(legal, moves, map(cell_word, after), strict=True)))
    return steps


def _legal_moves(instance: Instance, cell: Cell) -> str:
    row, col = cell
    return "".join(m for m in "UDLR" if instance.is_free((row + DELTAS[m][0], col + DELTAS[m][1])))


def _parse_compact(text: str, num_agents: int) -> Plan:
    if len(text) > MAX_COMPACT:
        raise PlanParseError(f"{len(text)} characters are more than the {MAX_COMPACT} of any plan")
    words = text.split()
    if not words:
        return Plan(("",) * num_agents)
    if words[-1] != ";":
        raise PlanParseError("the last step is not closed by ;")
    width = words.index(";")
    if width == 0 or width % 3:
        raise PlanParseError(f"step 1 has {width} words before ; and not three for each agent")
    step = width + 1
    steps, rest = divmod(len(words), step)
    if rest or words.count(";") != steps or words[width::step] != [";"] * steps:
        raise PlanParseError("the steps are not all of one length")
    columns = [words[column::step] for column in range(width)]
    if not (_LEGAL_WORDS.issuperset(chain(*columns[::3])) and _CELL_WORDS.issuperset(chain(*columns[2::3]))):
        raise PlanParseError("a step is not `<legal-moves> move cell` for each agent")
    return Plan(tuple("".join([move if len(move) == 1 else "?" for move in moves]) for moves in columns[1::3]))


_CHAT = """\
{agents} on a frozen lake, a grid of {size}x{size} cells. Row 0 is at the top, column 0 at the left.

{board}

. is ice, H is a hole, S1 is the start of agent 1, G1 is its goal (S1G2: start of agent 1 and goal of agent 2).
{where}

All agents move at the same time, one move each per step: U (up), D (down), L (left), R (right) or W (wait).
Rules:
- No agent leaves the grid or enters a hole.
- No two agents are in one cell at the same time. An agent on its goal is still in the way; it may leave again.
- No two agents swap cells in one step. An agent may enter a cell that another agent leaves in the same step.
- In the end every agent is on its own goal.
Bring all agents to their goals in as few steps as possible.

Think first if you like. Then answer with one block that has one string of moves for each agent, agent 1 first; \
an agent whose string has ended waits:
```json
{{"plan": [{example}]}}
```
"""


def _render_chat(instance: Instance) -> str:
    routes = [
        f"Agent {agent} goes from row {start[0]}, column {start[1]} to row {goal[0]}, column {goal[1]}."
        for agent, start, goal in _agents(instance)
    ]
    return _CHAT.format(
        agents="1 agent is" if len(routes) == 1 else f"{len(routes)} agents are",
        size=instance.size,
        board=instance.to_text(),
        where="\n".join(routes),
        example=", ".join(f'"<moves of agent {agent}>"' for agent in range(1, len(routes) + 1)),
    )


def _render_brief(instance: Instance) -> str:
    last = cell_word((instance.size - 1, instance.size - 1))
    holes = " ".join(map(cell_word, sorted(instance.holes))) or "none"
    agents = [f"Agent {agent}: {cell_word(start)} to {cell_word(goal)}." for agent, start, goal in _agents(instance)]
    return f"Grid a0 to {last}. Holes: {holes}. {' '.join(agents)} Plan without a collision."


# The quote before `plan` is checked separately: that makes the search three times as fast.
_KEY = re.compile(r"""plan(["'])\s*+:\s*+""")
_STRING = r"""(?:"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')"""
_STEPS = rf"\[\s*+(?:{_STRING}\s*+(?:,\s*+{_STRING}\s*+)*+(?:,\s*+)?+)?+\]"
_ENTRY = rf"(?:{_STRING}|{_STEPS})"
_PLAN = re.compile(rf"\[\s*+(?:{_ENTRY}\s*+(?:,\s*+{_ENTRY}\s*+)*+(?:,\s*+)?+)?+\]")  # possessive: linear in the text
_ENTRIES, _STRINGS = re.compile(_ENTRY), re.compile(_STRING)
_SEPARATORS = re.compile(r"[\s,]+")
_WORDS = {"UP": "U", "DOWN": "D", "LEFT": "L", "RIGHT": "R", "WAIT": "W"}


def _parse_chat(text: str) -> Plan:
    reason = ""
    for part in reversed(_spoken(text)):
        plans, part_reason = _plans(part)
        if len(plans) > 1:
            raise PlanParseError("the answer has two different plans")
        if plans:
            return plans.pop()
        reason = reason or part_reason
    if not reason and "<think>" in text.rpartition("</think>")[2]:
        reason = "the reasoning was never closed"
    raise PlanParseError(reason or 'no answer: no "plan" with a list of moves')


def _spoken(text: str) -> list[str]:
    """Returns the parts of a text that are no reasoning, which a chat template can have opened in the prompt."""
    parts = text.split("</think>")
    spoken = [part.partition("<think>")[0] for part in parts]
    if len(parts) > 1 and spoken[0] == parts[0]:
        spoken[0] = ""
    return spoken


def _plans(text: str) -> tuple[set[Plan], str]:
    """Returns the different plans in a text, and what is wrong with the last key `plan` that has none."""
    plans: set[Plan] = set()
    reason = ""
    keys = [key for key in _KEY.finditer(text) if text[key.start() - 1 : key.start()] == key[1]]
    for number, key in enumerate(keys):
        if number >= MAX_PLANS:
            raise PlanParseError(f"more than {MAX_PLANS} plans")
        match = _PLAN.match(text, key.end(), key.end() + MAX_ANSWER)
        if match is None:
            reason = '"plan" is not a list with a string, or a list of strings, for each agent'
        elif "<" not in match[0]:  # else it is the prompt's `<moves of agent 1>`
            plans.add(Plan(tuple(map(_moves_of, _ENTRIES.findall(match[0], 1)))))
    return plans, reason


def _moves_of(entry: str) -> str:
    """Returns one agent's moves: from a string, or from a list with one string for each step."""
    if entry[0] != "[":
        return _letters(entry)
    steps = [_letters(string) for string in _STRINGS.findall(entry)]
    return "".join([step if len(step) == 1 else "?" for step in steps])


def _letters(string: str) -> str:
    """Returns the moves in a quoted string as letters; what is no move stays as it is, for the verifier to report."""
    text = string[1:-1]
    if "\\" in text:  # JSON can spell any letter and any blank with an escape
        with contextlib.suppress(ValueError):
            text = json.loads(f'"{text}"', strict=False)
    words = _SEPARATORS.split(text.upper())
    return "".join([_WORDS.get(word, word) for word in words])
