"""The engineer's prompt in its two short forms, for models that a warm start has shown them.

`prompt_lines`, for a small pretrained model, takes a fifth of the tokens of a prompt in full: plain lines, rates in
percent. `prompt_words`, for a policy from scratch, has one word of the closed vocabulary (`words`) for each fact, rates
rounded to 1/20. The task and the meaning of the ratios are left to the demonstrations. Not covered: examples of
failures, and prose of the model's own (the summary of a design is its ratios).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mapflake.engineer.ledger import History, Round
from mapflake.engineer.report import FailureReport, SizeReport, describe, rate
from mapflake.engineer.variants import Variant
from mapflake.engineer.words import config_words, percent
from mapflake.env import KINDS, EnvConfig
from mapflake.env.config import DIMENSIONS


def prompt_lines(
    report: FailureReport, history: History, sizes: Sequence[int], variant: Variant, num_agents: int, left_out: int
) -> str:
    """Returns the prompt with the sections of `variant`, the first `left_out` rounds of the history left out."""
    lines = [f"Design boards with {num_agents} agents for the next training round."]
    if variant.failures:
        lines += ["Percent of answers on validation boards:", *map(_size_line, report.sizes)]
    if variant.guideline:
        lines.append("Boards that are solved sometimes teach most.")
    if variant.history != "none":
        rounds = [r for r in history[left_out:] if variant.tells(r.index)]
        lines += [line for r in rounds for line in _round_lines(r)] or ["No design so far."]
    if variant.summary and history and (previous := history[-1].proposal):
        lines += ["Last design:", *(_design(previous.config) if previous.config else ["rejected"])]
    if variant.training != "none" and history:
        lines.append(f"Round {history[-1].index} has ended.")
        if variant.training == "full":
            lines.append(f"Training: {describe(history[-1].training) or 'unknown'}.")
    if history and variant.tells(history[-1].index):
        for size, change in history[-1].fallback.items():
            lines.append(f"Too rare: {size}x{size} {_ratios(change['asked'])}. Drawn: {_ratios(change['got'])}.")
    form = ", ".join(f'"{name}": _' for name in DIMENSIONS)
    answer = f'{{"sizes": {{"{sizes[0]}": {{{form}}}, ...}}}}'
    return "\n".join([*lines, f"Sizes: {', '.join(map(str, sizes))}. Answer: {answer}"])


def _size_line(s: SizeReport) -> str:
    """Returns e.g. `3x3: valid 41, with wait 12, without 52, optimal 33, fails goal 30, hole 20`."""
    parts = [("valid", s.valid, s.rollouts), ("with wait", s.wait_valid, s.wait_rollouts)]
    parts += [("without", *s.without_wait), ("optimal", s.optimal, s.rollouts)]
    rates = [f"{name} {_percent(part, whole)}" for name, part, whole in parts if whole]
    failed = sorted(zip(s.failures, KINDS, strict=True), key=lambda pair: -pair[0])
    kinds = ", ".join(f"{kind} {_percent(n, s.rollouts)}" for n, kind in failed if n)
    return f"{s.size}x{s.size}: {', '.join(rates)}" + (f", fails {kinds}" if kinds else "")


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


def prompt_words(report: FailureReport, history: History, variant: Variant, left_out: int) -> str:
    """Returns the prompt with the sections of `variant`, the first `left_out` rounds of the history left out."""
    words = ["engineer"]
    if variant.failures:
        words += ["report", *(word for s in report.sizes for word in _size_words(s))]
    if variant.guideline:
        words.append("guide")
    if variant.history != "none":
        rounds = [r for r in history[left_out:] if variant.tells(r.index)]
        words += ["history", *([word for r in rounds for word in _round_words(r)] or ["none"])]
    if variant.summary:
        words.append("summary")
        previous = history[-1].proposal if history else None
        if previous is None:
            words.append("none")
        else:
            words += config_words(previous.config) if previous.config else ["rejected"]
    if variant.training != "none":
        words.append(_round_word(history[-1]) if history else "none")
    if variant.training == "full":
        words.append("details")
    return " ".join([*words, "design"])


def _size_words(s: SizeReport) -> list[str]:
    """Returns 13 words: size, valid, optimal, valid with and without a wait, each of the 8 checks."""
    no_wait_valid, no_wait = s.without_wait
    return [
        f"size{s.size}",
        percent(s.valid_rate),
        percent(s.optimal_rate),
        percent(s.wait_valid / s.wait_rollouts) if s.wait_rollouts else "none",
        percent(no_wait_valid / no_wait) if no_wait else "none",
        *(percent(rate(n, s.rollouts)) for n in s.failures),
    ]


def _round_words(r: Round) -> list[str]:
    """Returns for each size its configuration and the valid rate after the round."""
    words = [_round_word(r), *(["rejected"] if r.was_rejected else [])]
    design, width = config_words(r.config), 1 + len(DIMENSIONS)
    ratios = {design[i]: design[i + 1 : i + width] for i in range(0, len(design), width)}
    for size in r.sizes:
        after = r.report.at(size)
        words += [f"size{size}", *ratios.get(f"size{size}", ["none"] * len(DIMENSIONS))]
        words.append(percent(after.valid_rate) if after else "none")
    return words


def _round_word(r: Round) -> str:
    return f"round{min(r.index, 9)}"
