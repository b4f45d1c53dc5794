"""Which modules an engineer's prompt has (`Variant`), and the whole prompt, within a budget of tokens.

The paper's variants V1 to V6 are named combinations in `VARIANTS`; params.yaml takes a name, or a combination of one's
own: `variant: {guideline: true, history: all}`.

"Without the default" is read literally: round 0 is not shown, so after round 0 the history is empty and the engineer
does not see the random configuration that it would anchor on (nor, in F, the statistics of the boards drawn from it;
that its results change from round 0 to 1 is shown). Not covered: what the modules say (`modules`), controls with
falsified reports (`designers`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Literal

from mapflake.engineer import modules
from mapflake.engineer.ledger import History
from mapflake.engineer.report import FailureReport
from mapflake.engineer.space import PROMPT_FORMATS
from mapflake.env.config import DIMENSIONS
from mapflake.repro import Params


class Variant(Params):
    """Which modules a prompt has.

    Attributes:
        failures: F.
        guideline: G.
        history: H: "none", "all" rounds, or the "designed" ones (without the round-0 default).
        summary: S.
        training: T: "none", "bookkeeping" or "full".
    """

    failures: bool = True
    guideline: bool = False
    history: Literal["none", "all", "designed"] = "none"
    summary: bool = False
    training: Literal["none", "bookkeeping", "full"] = "none"


VARIANTS = {
    "V1": Variant(),
    "V2": Variant(guideline=True),
    "V3": Variant(guideline=True, history="all"),
    "V4": Variant(guideline=True, history="designed"),
    "V5": Variant(guideline=True, history="designed", summary=True),
    "V6": Variant(guideline=True, history="designed", training="bookkeeping"),
    "V6-full": Variant(guideline=True, history="designed", training="full"),
    "schema": Variant(failures=False),
}
"""The paper's variants; V6-full is V6 with full RL details instead of bookkeeping. `schema` is a control, ours: the
task and the form of the answer alone."""

DEFAULT_VARIANT = "V6"
"""The paper's best."""


def build_prompt(
    report: FailureReport,
    history: History,
    sizes: Iterable[int],
    *,
    variant: str | Variant = DEFAULT_VARIANT,
    prompt_format: str = "json",
    num_agents: int = 2,
    budget: int | None = None,
    count: Callable[[str], int] = lambda text: len(text.split()),
) -> str:
    """Returns the prompt that asks for the next configuration.

    Args:
        report: Failures of the current checkpoint.
        history: Rounds so far, the one just finished last.
        sizes: Board sizes that may be asked for.
        variant: A name in `VARIANTS`, or a combination of one's own.
        prompt_format: "json" or "compact".
        num_agents: Agents on a training board.
        budget: Most tokens that the prompt may have; None: as many as it takes. It is met by leaving out examples of
            failures, the least typical first, then rounds of the history, the oldest first; no text is ever cut, and
            what was left out is said (compact has no words for that: its first round has a later number).
        count: Tokens of a text; words, unless told otherwise.

    Raises:
        ValueError: Variant or prompt_format is unknown, or the budget is too small for what cannot be left out.
    """
    if isinstance(variant, str):
        if variant not in VARIANTS:
            raise ValueError(f"variant {variant!r} is unknown; legal: {', '.join(VARIANTS)}")
        variant = VARIANTS[variant]
    if prompt_format not in PROMPT_FORMATS:
        raise ValueError(f"prompt_format {prompt_format!r} is unknown; legal: {', '.join(PROMPT_FORMATS)}")
    sizes = sorted(sizes)
    fewer = [(n, 0) for n in range(len(report.examples) + 1)]
    fewer += [(len(report.examples), n) for n in range(1, len(history))]  # the last round stays
    for examples, rounds in fewer:
        prompt = _write(report, history, sizes, variant, prompt_format, num_agents, examples, rounds)
        if budget is None or count(prompt) <= budget:
            return prompt
    raise ValueError(
        f"the prompt has {count(prompt)} tokens without examples and earlier rounds, the budget is {budget}; "
        "raise prompt_tokens, or choose a variant with fewer modules"
    )


def _write(
    report: FailureReport,
    history: History,
    sizes: list[int],
    variant: Variant,
    prompt_format: str,
    num_agents: int,
    no_examples: int,
    no_rounds: int,
) -> str:
    """Returns the prompt without the last `no_examples` examples and the first `no_rounds` rounds."""
    default_hidden = variant.history != "all" and not (history and history[-1].index > 0)
    told = []
    if variant.failures:
        shown = replace(report, training=None) if default_hidden else report
        told.append(modules.failure_breakdown(shown, prompt_format, no_examples))
    if variant.guideline:
        told.append(modules.guideline(prompt_format))
    if variant.history != "none":
        told.append(
            modules.past_rounds(history, prompt_format, with_default=variant.history == "all", left_out=no_rounds)
        )
    if variant.summary:
        told.append(modules.own_summary(history, prompt_format))
    if variant.training != "none":
        told.append(modules.training_details(history, prompt_format, full=variant.training == "full"))
    if prompt_format == "compact":
        return " ".join(["engineer", *told, "design"])
    told += modules.not_drawn(history)
    choices = "\n".join(f"- {name}: {dimension.meaning}" for name, dimension in DIMENSIONS.items())
    task = _TASK.format(agents=num_agents, choices=choices)
    return "\n\n".join([task, *told, _answer(sizes, variant.summary)]) + "\n"


def _answer(sizes: list[int], summary: bool) -> str:
    ratios = ", ".join(f'"{name}": <number>' for name in DIMENSIONS)
    example = ", ".join(f'"{size}": {{{ratios}}}' for size in sizes)
    first = (
        "Before the object, write a summary of your design and its reasons in at most five sentences; you will see it "
        "when you design the round after."
        if summary
        else "Think first if you like."
    )
    return _ANSWER.format(first=first, sizes=", ".join(map(str, sizes)), example=example)


_TASK = """\
You are the environment engineer of a reinforcement-learning run. A policy, a language model, learns to solve boards \
of MAPF-FrozenLake. You design the distribution that the boards of its next training round are drawn from.

# The task of the policy

Agents move on a square grid with holes, all at once, each by U, D, L, R or W (wait) at every step, from their \
starts to their goals. They must stay on the grid, out of holes, out of each other's cells, and two may not swap \
cells. The policy sees one board and writes the whole plan of every agent in one answer. A plan is valid if it \
passes all 8 checks, and optimal if it is also as short as possible. Training boards have {agents} agents. Reward, \
evaluation and training method are fixed.

# What you choose, for each board size

{choices}"""

_ANSWER = """\
# Your answer

{first} Then write exactly one JSON object, and no braces anywhere else. The sizes are {sizes}; each at most once, \
and one that you leave out gets no boards.
{{"sizes": {{{example}}}}}"""
