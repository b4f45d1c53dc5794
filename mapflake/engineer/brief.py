"""The engineer's prompt in a fifth of the tokens, for a small pretrained model that a warm start has shown it.

It has the sections of its variant (`prompt.VARIANTS`) as plain lines, each number behind its name: rates in percent,
ratios as in the answer, which is JSON as ever. The task and the meaning of the ratios are left to the demonstrations.
Not covered: examples of failures, and prose of the model's own (the summary of a design is its ratios).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mapflake.engineer.ledger import History, Round
from mapflake.engineer.report import FailureReport, SizeReport, describe, rate
from mapflake.env import KINDS, EnvConfig
from mapflake.env.config import DIMENSIONS

if TYPE_CHECKING:
    from mapflake.engineer.prompt import Variant


def prompt_lines(
    report: FailureReport, history: History, sizes: Sequence[int], variant: Variant, num_agents: int, left_out: int = 0
) -> str:
    """Returns the prompt with the sections of `variant`, the first `left_out` rounds of the history left out."""
    lines = [f"Design boards with {num_agents} agents for the next training round."]
    if variant.failures:
        lines += ["Percent of answers on validation boards:", *map(_size_line, report.sizes)]
    if variant.guideline:
        lines.append("Boards that are solved sometimes teach most.")
    if variant.history != "none":
        shown = [r for r in history[left_out:] if variant.history == "all" or r.index > 0]
        lines += [line for one in shown for line in _round_lines(one)] or ["No design so far."]
    if variant.summary and history and (previous := history[-1].proposal):
        lines += ["Last design:", *(_design(previous.config) if previous.config else ["rejected"])]
    if variant.training != "none" and history:
        lines.append(f"Round {history[-1].index} has ended.")
        if variant.training == "full":
            lines.append(f"Training: {describe(history[-1].training) or 'unknown'}.")
    for size, change in (history[-1].fallback if history else {}).items():
        lines.append(f"Too rare: {size}x{size} {_ratios(change['asked'])}. Drawn: {_ratios(change['got'])}.")
    form = ", ".join(f'"{name}": _' for name in DIMENSIONS)
    answer = f'{{"sizes": {{"{sizes[0]}": {{{form}}}, ...}}}}'
    return "\n".join([*lines, f"Sizes: {', '.join(map(str, sizes))}. Answer: {answer}"])


def _size_line(s: SizeReport) -> str:
    """Returns e.g. `3x3: valid 41, with wait 12, without 52, optimal 33, fails goal 30, hole 20`, zeros left out."""
    parts = [("valid", s.valid, s.rollouts), ("with wait", s.wait_valid, s.wait_rollouts)]
    parts += [("without", s.valid - s.wait_valid, s.rollouts - s.wait_rollouts), ("optimal", s.optimal, s.rollouts)]
    said = [f"{name} {_percent(part, whole)}" for name, part, whole in parts if whole]
    failed = sorted(zip(s.failures, KINDS, strict=True), key=lambda pair: -pair[0])
    kinds = ", ".join(f"{kind} {_percent(n, s.rollouts)}" for n, kind in failed if n)
    return f"{s.size}x{s.size}: {', '.join(said)}" + (f", fails {kinds}" if kinds else "")


def _round_lines(r: Round) -> list[str]:
    """Returns the round's design, and what was solved after it; the design before stayed if its reply was rejected."""
    heading = f"Round {r.index}" + (", reply rejected:" if r.was_rejected else ":")
    solved = [f"{s.size}x{s.size} {_percent(s.valid, s.rollouts)}" for s in r.report.sizes]
    return [heading, *_design(r.config), f"then valid: {', '.join(solved)}"]


def _design(config: EnvConfig) -> list[str]:
    return [f"{size}x{size}: {_ratios(c.ratios)}" for size, c in sorted(config.sizes.items())]


def _ratios(values: Mapping[str, float | None]) -> str:
    """Returns e.g. `data 0.3, hole 0.15, wait any`."""
    return ", ".join(
        f"{name.removesuffix('_ratio')} {'any' if value is None else format(value, '.2g')}"
        for name, value in values.items()
    )


def _percent(part: int, whole: int) -> str:
    return f"{100 * rate(part, whole):.0f}"
