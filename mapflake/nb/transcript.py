"""Decoded texts of a run as Markdown: a board with two answers; a report, the reply, and boards drawn from it."""

from __future__ import annotations

from collections.abc import Sequence

from mapflake.extras import needs

with needs("lab"):
    import pandas as pd

from mapflake import env
from mapflake.engineer import Proposal, Round
from mapflake.plots.boards import describe_all
from mapflake.study import Study
from mapflake.study.names import name
from mapflake.trainer.evaluate import Rollout

DRAWN = 3  # boards of a design that are shown


def answers(before: Sequence[Rollout], after: Sequence[Rollout]) -> str:
    """Returns a board with two answers to it: of those that were solved only after RL the first of the largest size."""
    pairs = [(a, b) for a, b in zip(before, after, strict=True) if a.sample == 0]
    gained = [(a, b) for a, b in pairs if b.verdict.valid and not a.verdict.valid]
    old, new = max(gained or pairs, key=lambda pair: pair[0].task.instance.size)
    lines = ["No board was solved only after it; this one was not." if not gained else ""]
    lines.append(_text(f"{old.task.instance.to_text()}\n\n{env.render_prompt(old.task.instance, old.prompt_format)}"))
    for when, answer in (("Before", old), ("After", new)):
        verdict = "; ".join(describe_all(answer.verdict.violations)) or f"valid, {answer.verdict.makespan} steps"
        lines += [f"{when} ({verdict}):", _text(answer.completion)]
    return "\n\n".join(filter(None, lines))


def _text(text: str) -> str:
    """Returns model text as a block of Markdown that nothing in it can close."""
    return "\n".join(f"    {line}" for line in text.splitlines() or [""])


def design(found: Study, seed: int) -> list[str]:
    """Returns the first design of a model: prompt, reply, ratios, and boards drawn from it; [] if there is none."""
    for arm in ("engineer_trained", "engineer"):
        for round_ in found.history(arm, seed) if seed in found.seeds(arm) else ():
            if round_.proposal and round_.proposal.prompt:
                return _transcript(arm, round_, round_.proposal)
    return []


def _transcript(arm: str, round_: Round, proposal: Proposal) -> list[str]:
    lines = [f"The *{name(arm)}* was asked after round {round_.index - 1}:", _text(proposal.prompt), "It replied:"]
    lines.append(_text(proposal.reply))
    if proposal.config is None:
        return [*lines, f"The reply was rejected: {proposal.rejection}. The configuration stayed as it was."]
    ratios = pd.DataFrame([{"size": f"{size}x{size}"} | c.ratios for size, c in sorted(round_.config.sizes.items())])
    shown = {task.instance.size: task for task in reversed(round_.boards())}
    drawn = [_text(task.instance.to_text()) for _, task in sorted(shown.items())][:DRAWN]
    lines += ["The ratios that were trained on:", ratios.to_markdown(index=False, floatfmt=".2f")]
    return [*lines, "The first of its boards of each size:", "\n\n---\n\n".join(drawn)]
