"""Views for notebooks/explore.ipynb: boards by knobs, failures, what engineers were told, a board of one's own.

Each view is a function from plain values to HTML, which `ipywidgets.interact` calls when a knob turns. Text of models
and people is escaped. No result comes from here.
"""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

from mapflake.extras import needs

with needs("lab"):
    from IPython.display import HTML
    from matplotlib.figure import Figure

from mapflake import plots
from mapflake.engineer import Round, project
from mapflake.engineer.boards import Fallback, apply_fallback, sample_boards
from mapflake.env import Instance, Plan, Task, check, judge_completion, render_prompt
from mapflake.env.pictures import ALARM
from mapflake.plots import tables
from mapflake.plots.boards import GOOD, draw_frame

SHOWN = 16  # failures
KNOBS = {"data": "data_ratio", "holes": "hole_ratio", "waits": "wait_ratio"}


class Failure(NamedTuple):
    """A completion that is not a valid plan."""

    source: str  # arm and round, e.g. `trained engineer, round 1`
    instance: Instance
    plan: Plan | None  # None if the completion has none
    kinds: tuple[str, ...]  # the checks that it fails, in the order of `KINDS`


def failures(rounds: Iterable[Round]) -> list[Failure]:
    """Returns the typical failures that the rounds' reports tell of, each once."""
    entries: list[Failure] = []
    for round_ in rounds:
        source = (
            f"round {round_.index}" if round_.arm == "shared" else f"{tables.name(round_.arm)}, round {round_.index}"
        )
        source += f", seed {round_.seed}"
        for example in round_.report.examples:
            board, plan = Instance.from_text(example.board), Plan(example.moves) if example.moves else None
            kinds = check(board, plan).kinds if plan else (example.violations.split()[0],)
            entries.append(Failure(source, board, plan, kinds))
    return list(dict.fromkeys(entries))  # arms share round 0


def generated(agents: int, seed: int, n: int = 300, **ratios: float | None) -> HTML:
    """Returns the first eight of `n` boards of a configuration, projected and sampled as an engineer's, and statistics.

    `ratios` are `data_4`, `holes_4` and `waits_4` for size 4, and so on; data are weights, None for waits is no quota.

    Raises:
        ValueError: No size has a data ratio above 0.
        GenerationError: Not even boards without holes are found.
    """
    requested: dict[int, dict[str, float | None]] = {}
    for knob, value in ratios.items():
        name, _, size = knob.partition("_")
        requested.setdefault(int(size), {})[KNOBS[name]] = value
    projection = project(requested, requested, agents)
    wanted = {
        size: {name: ratio for name, ratio in part.items() if name != "data_ratio"} for size, part in requested.items()
    }
    legal = {size: {name: projection.sizes[size].ratios[name] for name in part} for size, part in wanted.items()}
    clipped = {size: {"asked": part, "got": legal[size]} for size, part in wanted.items() if legal[size] != part}
    tasks, fallback = sample_boards(projection, n, seed=seed)
    titles = [f"{t.solution.makespan} steps" + ", must wait" * t.needs_wait for t in tasks[:8]]
    boards = plots.gallery([t.instance for t in tasks[:8]], [t.solution.plan for t in tasks[:8]], titles)
    random = tables.acceptance(apply_fallback(projection, fallback), boards=200, seed=seed)
    statistics = "".join(table.round(2).to_html(border=0) for table in (tables.summary(tasks), random))
    return HTML(_missed({**clipped, **fallback}) + _image(boards) + statistics)


def step(instance: Instance, plan: Plan, time: int) -> HTML:
    """Returns the board after `time` joint moves of a plan, with the violations until then."""
    if len(plan.moves) != instance.num_agents:
        return HTML(_line(f"{len(plan.moves)} lists of moves for {instance.num_agents} agents: nothing moves", ALARM))
    figure = Figure(figsize=(4, 4.6), layout="constrained")
    draw_frame(figure.add_subplot(), instance, plan, time)
    return HTML(_image(figure))


def gallery(found: Sequence[Failure], size: int | None = None, kind: str | None = None) -> HTML:
    """Returns the first failures on boards of a size that fail a check, perhaps with others; None: any."""
    matches = [
        failure
        for failure in found
        if size in (None, failure.instance.size) and (kind is None or kind in failure.kinds)
    ]
    if not matches:
        return HTML("none")
    shown = matches[:SHOWN]
    titles = [f"{textwrap.fill(failure.source, 28)}\n{', '.join(failure.kinds)}" for failure in shown]
    figure = plots.gallery([failure.instance for failure in shown], [failure.plan for failure in shown], titles)
    return HTML(f"<div>{len(shown)} of {len(matches)}</div>{_image(figure)}")


def exchange(rounds: tuple[Round, Round]) -> HTML:
    """Returns a designer's prompt, replies and report, and beside them both rounds' configurations.

    The first round's failures were reported, the second one was trained on the design.
    """
    before, after = rounds
    proposal = after.proposal
    if proposal is None:
        return HTML(f"round {after.index} was sampled at random: nobody was asked")
    replies = proposal.replies or (proposal.reply,)
    words = "\n".join(f"{'>' if reply == proposal.reply else ' '} {reply}" for reply in replies)
    report = f"<details><summary>the report</summary>{_block('', before.report.to_text())}</details>"
    left = _block("told", proposal.prompt) + _block("answered (> counts)", words) + report
    ratios = tables.configurations(rounds, after.arm).pivot(index="size", columns="round", values=[*KNOBS.values()])
    absent = ratios["data_ratio"].isna()  # of sizes that a configuration leaves out
    text = ratios.map("{:.0%}".format).mask(ratios.isna(), "any")
    for name in KNOBS.values():
        text[name] = text[name].mask(absent, "0%" if name == "data_ratio" else "-")
    verdict = "accepted" if proposal.config else f"rejected: {proposal.rejection}"
    rates = f"valid {before.report.valid_rate:.0%}, after the round {after.report.valid_rate:.0%}"
    right = _line(verdict, GOOD if proposal.config else ALARM)
    right += text.to_html(border=0) + _line(rates)
    right += _missed(after.fallback)
    return HTML(f'<div style="display: flex; gap: 14px"><div style="min-width: 0">{left}</div><div>{right}</div></div>')


def board(text: str) -> Task:
    """Returns a board with its best plan; ValueError or Unsolvable says what is wrong with it."""
    return Task.of(Instance.from_text(text))


def answered(checkpoint: str, text: str, temperature: float = 0.0, seed: int = 0) -> HTML:
    """Returns a policy's answer for a board, drawn beside the optimal plan, with the verdict and its words.

    The checkpoint is a folder, or a name on the Hugging Face hub; temperature 0 is greedy.

    Raises:
        ValueError: The board cannot be read, or the policy has no words for it.
        Unsolvable: The board has no plan.
    """
    from mapflake.trainer import policy as policies

    policy, task = policies.load_policy(checkpoint), board(text)
    prompt = render_prompt(task.instance, policy.prompt_format)
    ((completion,),) = policy.complete([prompt], temperature=temperature, seed=seed)
    plan, verdict = judge_completion(task, completion or "", policy.prompt_format)
    outcome = "optimal" if verdict.optimal else "valid" if verdict.valid else f"fails: {', '.join(verdict.kinds)}"
    figure = plots.gallery([task.instance] * 2, [plan, task.solution.plan], [f"the answer: {outcome}", "optimal"])
    return HTML(_image(figure) + _block("its words", completion or "(no answer)"))


def _image(figure: Figure) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    return f'<div><img src="data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"/></div>'


def _missed(fallback: Fallback) -> str:
    """Returns a line for each size whose boards could not be generated as asked."""
    lines = [f"{size}x{size}: no boards of {change['asked']}, so {change['got']}" for size, change in fallback.items()]
    return "".join(_line(line, ALARM) for line in lines)


def _line(words: str, color: str = "inherit") -> str:
    return f'<div style="color: {color}">{escape(words)}</div>'


def _block(title: str, words: str) -> str:
    look = "white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px"
    return f'<b>{escape(title)}</b><pre style="{look}">{escape(words)}</pre>' if words else ""
