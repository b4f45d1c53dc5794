"""Views for notebooks/explore.ipynb: boards by knobs, failures, what engineers were told, a board of one's own.

Each view is a function from plain values to HTML, which `ipywidgets.interact` calls when a knob turns; `generator`
arranges its many knobs itself. `failures` reads the rounds of past runs. Text of models and people is escaped. No
result comes from here.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

import ipywidgets as widgets
from IPython.display import HTML, display
from matplotlib.figure import Figure

from mapflake import plots
from mapflake.engineer import Round, project
from mapflake.engineer.actions import Fallback, apply_fallback, sample_boards
from mapflake.env import EnvConfig, Instance, Plan, Task, check, judge_completion, render_prompt
from mapflake.env.config import MAX_AGENTS, MAX_HOLE_RATIO
from mapflake.env.svg import ALARM
from mapflake.plots import survey, tables
from mapflake.plots.animation import GOOD, draw_frame

if TYPE_CHECKING:
    from mapflake.trainer.policy import Policy

PAGE = 8  # failures


@dataclass(frozen=True)
class Failure:
    """A completion that is not a valid plan.

    Attributes:
        source: Arm and round, e.g. `engineer, round 1`.
        instance: The board.
        plan: The plan in the completion; None if there is none.
        kinds: The checks that it fails, in the order of `KINDS`.
    """

    source: str
    instance: Instance
    plan: Plan | None
    kinds: tuple[str, ...]


def failures(rounds: Iterable[Round]) -> list[Failure]:
    """Returns the failures of the rounds, each once: all if the run's files exist, else the report's typical ones."""
    from mapflake.trainer import evaluate

    found: list[Failure] = []
    for one in rounds:
        source = f"round {one.index}" if one.index == 0 else f"{one.arm}, round {one.index}"
        saved = one.files.get("failures")
        if saved is not None and saved.is_file():
            for rollout in evaluate.iter_rollouts(saved):
                found.append(Failure(source, rollout.task.instance, rollout.plan, rollout.verdict.kinds))
        else:
            for example in one.report.examples:
                board, plan = Instance.from_text(example.board), Plan(example.moves) if example.moves else None
                found.append(Failure(source, board, plan, check(board, plan).kinds if plan else ("parse",)))
    return list(dict.fromkeys(found))  # arms share round 0


def generator(sizes: Sequence[int] = (3, 4, 5, 6)) -> widgets.VBox:
    """Returns knobs for data, holes and waits of each size, as an engineer sets them, and the boards that follow."""
    first: dict[str, widgets.Widget] = {
        "agents": widgets.BoundedIntText(2, min=1, max=MAX_AGENTS, description="agents"),
        "seed": widgets.BoundedIntText(0, min=0, max=10**6, description="seed"),
    }
    rows = [first]
    for size in sizes:
        sliders = {"data": (1 / len(sizes), 1.0), "holes": (0.2, MAX_HOLE_RATIO), "waits": (0.25, 1.0)}
        row: dict[str, widgets.Widget] = {
            f"{name}_{size}": widgets.FloatSlider(
                value, min=0, max=top, step=0.05, description=f"{size}x{size} {name}", continuous_update=False
            )
            for name, (value, top) in sliders.items()
        }
        row[f"quota_{size}"] = widgets.Checkbox(True, description="quota", indent=False)
        rows.append(row)

    def view(agents: int, seed: int, **values: float) -> None:
        requested: dict[int, dict[str, float | None]] = {
            size: {
                "data_ratio": values[f"data_{size}"],
                "hole_ratio": values[f"holes_{size}"],
                "wait_ratio": values[f"waits_{size}"] if values[f"quota_{size}"] else None,
            }
            for size in sizes
        }
        display(generated(requested, agents, seed))

    shown = widgets.interactive_output(view, {name: knob for row in rows for name, knob in row.items()})
    return widgets.VBox([*(widgets.HBox(list(row.values())) for row in rows), shown])


def generated(requested: Mapping[int, Mapping[str, float | None]], agents: int, seed: int, n: int = 300) -> HTML:
    """Returns boards of a configuration and their statistics; it is projected and sampled as an engineer's is.

    Args:
        requested: Data, hole and wait ratio of each size, as `project` takes them; data ratios are weights.
        agents: Agents on every board.
        seed: Seed of the boards.
        n: Number of boards; the first eight are shown.

    Raises:
        ValueError: No size has a data ratio above 0.
        GenerationError: Not even boards without holes are found.
    """
    asked = project(requested, requested, agents)
    tasks, fallback = sample_boards(asked, n, seed=seed)
    met = apply_fallback(asked, fallback)
    config = EnvConfig({size: part for size, part in met.sizes.items() if part.data_ratio}, agents)
    titles = [f"{t.solution.makespan} steps" + ", must wait" * t.needs_wait for t in tasks[:8]]
    boards = plots.gallery([t.instance for t in tasks[:8]], [t.solution.plan for t in tasks[:8]], titles)
    statistics = plots.overview(survey.measure(tasks), survey.acceptance(config, boards=200, seed=seed))
    return HTML(
        _image(boards) + _image(statistics) + tables.summary(tasks).reset_index().to_html(index=False, border=0)
    )


def step(instance: Instance, plan: Plan, time: int) -> HTML:
    """Returns the board after `time` joint moves of a plan, with the violations until then."""
    figure = Figure(figsize=(4, 4.6), layout="constrained")
    draw_frame(figure.add_subplot(), instance, plan, time)
    return HTML(_image(figure))


def gallery(found: Sequence[Failure], size: int | None = None, kind: str | None = None, page: int = 1) -> HTML:
    """Returns a page of failures, each with its path and its violations.

    Args:
        found: Failures to choose from.
        size: Size of the boards; None for all.
        kind: A check (one of `KINDS`) that fails, perhaps with others; None for any.
        page: Page, from 1; a page after the last shows the last.
    """
    chosen = [one for one in found if size in (None, one.instance.size) and (kind is None or kind in one.kinds)]
    if not chosen:
        return HTML("none")
    first = PAGE * (min(page, -(-len(chosen) // PAGE)) - 1)
    page_of = chosen[first : first + PAGE]
    titles = [f"{one.source}\n{', '.join(one.kinds)}" for one in page_of]
    figure = plots.gallery([one.instance for one in page_of], [one.plan for one in page_of], titles)
    return HTML(f"<div>{first + 1} to {first + len(page_of)} of {len(chosen)}</div>{_image(figure)}")


def exchange(rounds: tuple[Round, Round]) -> HTML:
    """Returns a designer's prompt, replies and report, and beside them how the configuration changed.

    Args:
        rounds: The round whose failures were reported, and the round that was trained on the design.
    """
    before, after = rounds
    proposal = after.proposal
    if proposal is None:
        return HTML(f"round {after.index} was sampled at random: nobody was asked")
    replies = proposal.replies or (proposal.reply,)
    words = "\n".join(f"{'>' if reply == proposal.reply else ' '} {reply}" for reply in replies)
    report = f"<details><summary>the report</summary>{_block('', before.report.to_text())}</details>"
    left = _block("told", proposal.prompt) + _block("answered (> counts)", words) + report
    verdict = "accepted" if proposal.config else f"rejected: {proposal.rejection}"
    rates = f"valid {before.report.valid_rate:.0%}, after the round {after.report.valid_rate:.0%}"
    right = _line(verdict, GOOD if proposal.config else ALARM) + changes(before.config, after.config)
    right += _line(rates) + _missed(after.fallback)
    return HTML(f'<div style="display: flex; gap: 14px"><div style="min-width: 0">{left}</div><div>{right}</div></div>')


def changes(before: EnvConfig, after: EnvConfig) -> str:
    """Returns a table (HTML) of two configurations, a row a size, with an arrow where a ratio has changed."""
    keys = {"data_ratio": "data", "hole_ratio": "holes", "wait_ratio": "waits"}
    rows = []
    for size in sorted({*before.sizes, *after.sizes}):
        cells = []
        for key in keys:
            ratios = [getattr(c.sizes[size], key) if size in c.sizes else 0.0 for c in (before, after)]
            old, new = ("any" if ratio is None else f"{ratio:.0%}" for ratio in ratios)
            cells.append(f"<td>{old if old == new else f'{old} → <b>{new}</b>'}</td>")
        rows.append(f"<tr><th>{size}x{size}</th>{''.join(cells)}</tr>")
    return f"<table><tr><th></th><th>{'</th><th>'.join(keys.values())}</th></tr>{''.join(rows)}</table>"


def board(text: str) -> HTML:
    """Returns a board with its best plan; ValueError or Unsolvable says what is wrong with it."""
    task = Task.of(Instance.from_text(text))
    return HTML(task.instance.to_svg(task.solution.plan) + _line(f"{task.solution.makespan} steps"))


def answered(checkpoint: str, text: str, temperature: float = 0.0, seed: int = 0) -> HTML:
    """Returns a policy's answer for a board, drawn beside the optimal plan, with the verdict and its words.

    Args:
        checkpoint: A checkpoint's folder, or a name on the Hugging Face hub.
        text: The board, as `Instance.from_text` reads it.
        temperature: Sampling temperature; 0 is greedy.
        seed: Seed of sampling.

    Raises:
        ValueError: The board cannot be read, or the policy has no words for it.
        Unsolvable: The board has no plan.
    """
    policy, task = load(checkpoint), Task.of(Instance.from_text(text))
    prompt = render_prompt(task.instance, policy.prompt_format)
    ((completion,),) = policy.complete([prompt], temperature=temperature, seed=seed)
    plan, verdict = judge_completion(task, completion or "", policy.prompt_format)
    outcome = "optimal" if verdict.optimal else "valid" if verdict.valid else f"fails: {', '.join(verdict.kinds)}"
    figure = plots.gallery([task.instance] * 2, [plan, task.solution.plan], [f"the answer: {outcome}", "optimal"])
    return HTML(_image(figure) + _block("its words", completion or "(no answer)"))


@lru_cache(maxsize=2)
def load(checkpoint: str) -> Policy:
    """Returns the policy in a checkpoint, loaded once."""
    from mapflake.trainer.policy import load_policy

    return load_policy(checkpoint)


def _image(figure: Figure) -> str:
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=90)
    return f'<div><img src="data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"/></div>'


def _missed(fallback: Fallback) -> str:
    """Returns a line for each size whose boards could not be generated as asked."""
    lines = [f"{size}x{size}: no boards of {change['asked']}, so {change['got']}" for size, change in fallback.items()]
    return "".join(_line(line, ALARM) for line in lines)


def _line(words: str, color: str = "inherit") -> str:
    return f'<div style="color: {color}">{escape(words)}</div>'


def _block(title: str, words: str) -> str:
    look = "white-space: pre-wrap; overflow-wrap: anywhere; font-size: 12px"
    return f'<b>{escape(title)}</b><pre style="{look}">{escape(words)}</pre>' if words else ""
