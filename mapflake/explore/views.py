"""What there is to see, as HTML: each function is a picture of its arguments and knows no widget.

Whatever a model or a person wrote is escaped. A view raises what the package raises, e.g. for a board that cannot be
read; `wrong` is how a panel shows that.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from mapflake.engineer import Round, project
from mapflake.engineer.drawing import draw, relax
from mapflake.env import (
    EnvConfig,
    Instance,
    Plan,
    Task,
    check,
    execute,
    judge,
    render_prompt,
    svg,
)
from mapflake.explore.records import Failure, readable
from mapflake.plots import animate, boards, survey, tables
from mapflake.plots.animation import GOOD, cross

if TYPE_CHECKING:
    import pandas as pd

    from mapflake.engineer.designers import Completer


def generated(requested: Mapping[int, Mapping[str, float | None]], agents: int, seed: int, n: int = 300) -> str:
    """Returns boards drawn from a configuration and what they are like; it is projected first, as an engineer's is.

    Args:
        requested: For each size data, hole and wait ratio, as `project` takes them; data ratios are weights.
        agents: On every board.
        seed: Of the draw.
        n: Boards drawn; the first eight are shown.

    Raises:
        ValueError: No size has a data ratio above 0.
        GenerationError: Not even boards without holes are found.
    """
    asked = project(requested, requested, agents)
    tasks, relaxed = draw(asked, n, seed=seed)
    lines = [
        _line(f"{size}x{size}: {change['asked']} cannot be drawn; shown are {change['got']}", svg.ALARM)
        for size, change in relaxed.items()
    ]
    met = relax(asked, relaxed)
    config = EnvConfig({size: part for size, part in met.sizes.items() if part.data_ratio}, agents)
    figure = survey.overview(survey.drawn(tasks), survey.acceptance(config, boards=200, seed=seed))
    shown = [_card(t.instance.to_svg(t.solution.plan), f"{t.solution.makespan} steps{_waits(t)}") for t in tasks[:8]]
    return "".join([*lines, _row(shown), picture(figure), _table(tables.summary(tasks).reset_index())])


def moment(instance: Instance, plan: Plan, time: int) -> str:
    """Returns the board after `time` joint moves (SVG): who is where, how they came there, what went wrong so far.

    Raises:
        ValueError: The plan has not one string of moves for each agent.
    """
    trajectory = execute(instance, plan)[: time + 1]
    body, now = [svg.ground(instance.size, instance.holes)], trajectory[-1]
    paths = list(zip(*trajectory, strict=True))
    body += [svg.path(agent, cells, instance.num_agents, instance.goals) for agent, cells in enumerate(paths)]
    body += [svg.goal(agent, cell, covered=cell in now) for agent, cell in enumerate(instance.goals)]
    body += [svg.start(agent, cell, small=cell in instance.goals) for agent, cell in enumerate(now)]
    body += [cross(v, trajectory, instance.size) for v in check(instance, plan).violations if v.time <= time and v.cell]
    return svg.document(instance.size * svg.CELL, instance.size * svg.CELL, body)


def step(instance: Instance, plan: Plan, time: int) -> str:
    """Returns one moment of a plan, with the moves that led there and the checks that have failed by then."""
    moves = [letters[time - 1 : time] or "W" for letters in plan.moves] if time else []
    told = ", ".join(f"agent {agent} {MOVES.get(move, move)}" for agent, move in enumerate(moves, start=1))
    verdict = check(instance, plan)
    lines = [_line(f"step {time} of {plan.horizon}{': ' * bool(told)}{told}")]
    lines += [_line(boards.describe(v), svg.ALARM) for v in verdict.violations if v.time <= time]
    if verdict.valid and time == plan.horizon:
        lines.append(_line(f"valid: makespan {verdict.makespan}, sum of costs {verdict.sum_of_costs}", GOOD))
    return _row([moment(instance, plan, time), f"<div>{''.join(lines)}</div>"])


def gallery(found: Sequence[Failure], size: int | None = None, kind: str | None = None, page: int = 1) -> str:
    """Returns a page of failures, each where it ended, its checks and whose it is below.

    Args:
        found: To choose from.
        size: Only boards of this size; None: of all.
        kind: Only those that fail this check (one of `KINDS`), others may fail besides; None: any.
        page: From 1; one behind the last shows the last.
    """
    chosen = select(found, size, kind)
    if not chosen:
        return _line("none")
    first = PAGE * (min(page, pages(chosen)) - 1)
    cards = [_card(_failed(one), f"{', '.join(one.kinds)}<br>{escape(one.source)}") for one in chosen[first:][:PAGE]]
    return _line(f"{first + 1} to {first + len(cards)} of {len(chosen)}") + _row(cards)


PAGE = 8  # failures


def select(found: Sequence[Failure], size: int | None, kind: str | None) -> list[Failure]:
    """Returns the failures on boards of a size that fail a check; None stands for any."""
    return [one for one in found if size in (None, one.instance.size) and (kind is None or kind in one.kinds)]


def pages(chosen: Sequence[Failure]) -> int:
    """Returns how many pages the gallery has, at least 1."""
    return max(1, -(-len(chosen) // PAGE))


def exchange(before: Round, after: Round) -> str:
    """Returns what the designer of a round was told and answered, and beside it what became of the configuration.

    Args:
        before: The round whose failures were reported.
        after: The round that was trained on the design.
    """
    proposal = after.proposal
    if proposal is None:
        return _line(f"round {after.index} was drawn at random: nobody was asked")
    verdict = f"rejected: {proposal.rejection}" if proposal.config is None else "accepted"
    told = _block("told", proposal.prompt) if proposal.prompt else ""
    replies = "\n".join(
        f"{'>' if reply == proposal.reply else ' '} {reply}" for reply in proposal.replies or (proposal.reply,)
    )
    report = f"<details><summary>the report, for a reader</summary>{_block('', before.report.to_text())}</details>"
    left = told + _block("answered (> counts)", replies) + report
    rates = f"valid {_percent(before.report.valid_rate)}, after the round {_percent(after.report.valid_rate)}"
    right = _line(verdict, GOOD if proposal.config else svg.ALARM) + changes(before.config, after.config) + _line(rates)
    for size, change in after.relaxed.items():
        right += _line(f"{size}x{size}: {change['asked']} could not be drawn, drawn was {change['got']}", svg.ALARM)
    return _row([f'<div style="flex: 1 1 380px; min-width: 0">{left}</div>', f"<div>{right}</div>"])


def changes(before: EnvConfig, after: EnvConfig) -> str:
    """Returns a table of two configurations, a row a size; what the second has changed is bold."""
    keys = {"data_ratio": "data", "hole_ratio": "holes", "wait_ratio": "waits"}
    rows = []
    for size in sorted({*before.sizes, *after.sizes}):
        cells = [f"<th>{size}x{size}</th>"]
        for key in keys:
            old, new = (_percent(getattr(c.sizes[size], key)) if size in c.sizes else "-" for c in (before, after))
            cells.append(f"<td>{old}</td>" if old == new else f"<td>{old} → <b>{new}</b></td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f"<th>{name}</th>" for name in ("", *keys.values()))
    return f"<table><tr>{head}</tr>{''.join(rows)}</table>"


def answered(policy: Completer, text: str, *, temperature: float = 0.0, seed: int = 0) -> str:
    """Returns what a policy makes of a drawn board, played beside the optimal plan, with the verdict and its words.

    Args:
        policy: Who is asked, in its own prompt_format.
        text: The board, as `Instance.from_text` reads it.
        temperature: Of sampling; 0 is greedy.
        seed: Of sampling.

    Raises:
        ValueError: The board cannot be read, or the policy has no words for it.
        Unsolvable: It has no plan.
    """
    task = Task.of(Instance.from_text(text))
    prompt = render_prompt(task.instance, policy.prompt_format)
    ((completion,),) = policy.complete([prompt], temperature=temperature, seed=seed)
    verdict = judge(task, completion or "", policy.prompt_format)
    plan = readable(completion or "", task.instance)
    plans = {"optimal": task.solution.plan}
    if plan is not None and len(plan.moves) == task.instance.num_agents:
        plans = {"answer": plan, **plans}
    outcome = "optimal" if verdict.optimal else "valid" if verdict.valid else f"fails: {', '.join(verdict.kinds)}"
    lines = _line(f"the answer: {outcome}", GOOD if verdict.valid else svg.ALARM)
    return lines + f"<div>{animate(task.instance, plans).svg}</div>" + _block("its words", completion or "(no answer)")


def board(text: str) -> str:
    """Returns a drawn board with its best plan, so that one sees at once whether it can be solved."""
    task = Task.of(Instance.from_text(text))
    return _card(task.instance.to_svg(task.solution.plan), f"{task.solution.makespan} steps{_waits(task)}", 260)


def wrong(error: Exception) -> str:
    """Returns what went wrong, in the words of the error."""
    return _line(f"{type(error).__name__}: {error}", svg.ALARM)


def picture(figure: Figure) -> str:
    """Returns the figure as an image."""
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    data = base64.b64encode(drawn.getvalue()).decode()
    return f'<img style="max-width: 100%" src="data:image/png;base64,{data}"/>'


MOVES = {"U": "up", "D": "down", "L": "left", "R": "right", "W": "waits"}


def _failed(one: Failure) -> str:
    """Returns the picture of a failure: where its plan ends, or the bare board where no plan can be shown."""
    if one.plan is None or len(one.plan.moves) != one.instance.num_agents:
        return one.instance.to_svg()
    return moment(one.instance, one.plan, one.plan.horizon)


def _waits(task: Task) -> str:
    return ", must wait" if task.needs_wait else ""


def _percent(ratio: float | None) -> str:
    return "any" if ratio is None else f"{100 * ratio:.0f}%"


def _line(words: str, colour: str = "inherit") -> str:
    return f'<div style="color: {colour}">{escape(words)}</div>'


def _block(title: str, words: str) -> str:
    style = "white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px; line-height: 1.35; margin: 2px 0 8px"
    return f'<div><b>{escape(title)}</b></div><pre style="{style}">{escape(words)}</pre>'


def _row(parts: Sequence[str]) -> str:
    return f'<div style="display: flex; flex-wrap: wrap; gap: 14px; align-items: flex-start">{"".join(parts)}</div>'


def _card(drawing: str, caption: str, width: int = 170) -> str:
    """Returns a drawing, as wide as that, with a caption below (HTML, escaped by the caller)."""
    fitted = drawing.replace("<svg ", '<svg style="width: 100%; height: auto" ', 1)
    return f'<div style="width: {width}px; font-size: 12px; line-height: 1.3">{fitted}{caption}</div>'


def _table(frame: pd.DataFrame) -> str:
    return str(frame.to_html(index=False, border=0))
