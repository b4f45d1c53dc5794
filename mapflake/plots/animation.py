"""Plans played on their board: an SVG that moves without a script, in a notebook or a browser, and a GIF.

A move takes the first part of its step, then all stand still; a check that fails gets a cross when and where it fails,
and a line below the board. Several plans for one board run side by side, by one clock.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mapflake.env import Instance, Plan, Violation, check, execute, svg
from mapflake.plots import boards
from mapflake.repro import write_text

if TYPE_CHECKING:
    from PIL.Image import Image

STEP = 0.6  # seconds
MOVING = 0.7  # part of a step in which agents move
HOLD = 3  # steps for which the end is shown
FRAMES = 4  # of a GIF, a step
GOOD = "#00664B"

_LINES = 6  # violations that are put in words
_WIDTH = 300  # units that a line of words needs
_GAP = 24


@dataclass(frozen=True)
class Animation:
    """Plans for one board, side by side; at the end of a notebook cell they play.

    Attributes:
        instance: The board.
        plans: What to write above each board, and the plan.
    """

    instance: Instance
    plans: Mapping[str, Plan]

    @cached_property
    def svg(self) -> str:
        """The animation as SVG, which browsers and notebooks play, over and over."""
        panels = [_Panel(self.instance, title, plan) for title, plan in self.plans.items()]
        clock = _Clock(max(panel.horizon for panel in panels) + HOLD)
        side = svg.CELL * self.instance.size
        width, top = max(side, _WIDTH), 26 if any(self.plans) else 0
        height = top + side + 30 + 18 * max(len(panel.outcome) for panel in panels)
        body = [  # an svg inside an svg cuts off what leaves it
            f'<svg x="{i * (width + _GAP)}" width="{width}" height="{height}"><g transform="translate(0 {top})">'
            f"{_panel_svg(panel, clock)}</g></svg>"
            for i, panel in enumerate(panels)
        ]
        return svg.document(len(panels) * (width + _GAP) - _GAP, height, body)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Writes the animation; the file's name says as what: `.svg` or `.gif`.

        Raises:
            ValueError: Another kind of file.
        """
        kind = Path(path).suffix.lower()
        if kind == ".svg":
            write_text(path, self.svg)
        elif kind == ".gif":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(_gif(self))
        else:
            raise ValueError(f"{Path(path).name}: an animation is saved as .svg or .gif")


def animate(instance: Instance, plans: Plan | Mapping[str, Plan]) -> Animation:
    """Returns a plan played on the board, or several side by side; every violation is marked at its step and cell.

    Args:
        instance: The board.
        plans: A plan, right or wrong, or several with the titles to put above them: `{"wrong": ..., "optimal": ...}`.

    Raises:
        ValueError: There is no plan, or one has not one string of moves for each agent: there is nothing to play.
    """
    named = {"": plans} if isinstance(plans, Plan) else dict(plans)
    if not named:
        raise ValueError("plans: nothing to play")
    for title, plan in named.items():
        if len(plan.moves) != instance.num_agents:
            lists = f"{len(plan.moves)} move lists for {instance.num_agents} agents"
            raise ValueError(f"{title}: {lists}: nothing to play".removeprefix(": "))
    return Animation(instance, named)


class _Panel:
    """One plan on its board, and what there is to say about it: (from which time on, text, colour)."""

    def __init__(self, instance: Instance, title: str, plan: Plan) -> None:
        self.instance, self.title = instance, title
        self.trajectory = execute(instance, plan)
        self.horizon = len(self.trajectory) - 1
        verdict = check(instance, plan)
        self.violations = verdict.violations
        lines = boards.in_words(verdict.violations, _LINES)
        self.outcome = [
            (_moment(violation), line, svg.ALARM)
            for violation, line in zip(verdict.violations, lines, strict=False)  # the last line may speak of several
        ] or [(max(0.0, self.horizon - 1 + MOVING), f"valid, {verdict.makespan} steps", GOOD)]

    def at(self, agent: int, time: float) -> tuple[float, float]:
        """Returns (row, col) of an agent at any time, between two cells while it moves."""
        step = min(int(time), self.horizon)
        (row, col), (to_row, to_col) = (self.trajectory[t][agent] for t in (step, min(step + 1, self.horizon)))
        part = min(1.0, (time - step) / MOVING)
        return row + part * (to_row - row), col + part * (to_col - col)

    def step(self, time: float) -> str:
        """Returns which step is being made at that time."""
        return f"step {min(int(time) + 1, self.horizon)} of {self.horizon}"


def _moment(violation: Violation) -> float:
    """Returns when a violation is seen: in the middle of a swap, at the end of any other move."""
    return max(0.0, violation.time - 1 + (MOVING / 2 if violation.kind == "edge" else MOVING))


def _shift(agent: int, num_agents: int) -> float:
    """Returns by what part of a cell discs are off the middle, so that two in one cell are both seen."""
    return svg.side_by_side(agent, num_agents) / 2


# ---------------------------------------------------------------- SVG


class _Clock:
    """Times in steps as attributes of SVG animations, all of one length."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def attributes(self, times: list[float]) -> str:
        keys = ";".join(f"{time / self.steps:.4f}".rstrip("0").rstrip(".") for time in times)
        return f'keyTimes="{keys}" dur="{STEP * self.steps:g}s" repeatCount="indefinite"'

    def during(self, body: str, begin: float, end: float | None = None) -> str:
        """Returns `body`, shown from one time to another, by default to the end."""
        values, times = (["0", "1"], [0.0, begin]) if begin > 0 else (["1"], [0.0])
        if end is not None and end < self.steps:
            values, times = [*values, "0"], [*times, end]
        shown = f'<animate attributeName="opacity" calcMode="discrete" values="{";".join(values)}"'
        return f'<g opacity="{values[0]}">{body}{shown} {self.attributes(times)}/></g>'


def _panel_svg(panel: _Panel, clock: _Clock) -> str:
    instance, side = panel.instance, svg.CELL * panel.instance.size
    parts = [svg.text(side / 2, -8, panel.title, svg.INK, 15)] if panel.title else []
    parts.append(svg.ground(instance.size, instance.holes))
    parts += [svg.goal(agent, cell) for agent, cell in enumerate(instance.goals)]
    parts += [_disc_svg(panel, agent, clock) for agent in range(instance.num_agents)]
    for violation in panel.violations:
        if violation.cell is not None:
            x, y = svg.middle(boards.spot(violation, panel.trajectory, instance.size))
            begin = _moment(violation)
            halo = f'<circle cx="{x:g}" cy="{y:g}" r="27" fill="{svg.ALARM}" fill-opacity="0.3"/>'
            mark = cross(violation, panel.trajectory, instance.size)
            parts += [clock.during(halo, begin, begin + 1), clock.during(mark, begin)]
    for row, (begin, line, color) in enumerate(panel.outcome):
        parts.append(clock.during(svg.text(2, side + 40 + 18 * row, line, color, 12, "start"), begin))
    for time in range(max(panel.horizon, 1)):
        label = svg.text(2, side + 20, panel.step(time), svg.INK, 13, "start")
        parts.append(clock.during(label, time, time + 1 if time < panel.horizon - 1 else None))
    return "".join(parts)


def cross(violation: Violation, trajectory: boards.Trajectory, size: int) -> str:
    """Returns the mark (SVG) of a violation that has a cell, where it happened.

    Args:
        violation: One with a cell.
        trajectory: Cells at time 0, 1, ..., at least up to the violation's time.
        size: Of the board.
    """
    x, y = svg.middle(boards.spot(violation, trajectory, size))
    lines = f'd="M{x - 13:g} {y - 13:g}l26 26m0 -26l-26 26" stroke-linecap="round"'
    return "".join(f'<path {lines} stroke="{c}" stroke-width="{w}"/>' for c, w in (("white", 9), (svg.ALARM, 5)))


def _disc_svg(panel: _Panel, agent: int, clock: _Clock) -> str:
    times = [0.0]
    for time in range(panel.horizon):
        times += [time, time + MOVING]
    times.append(clock.steps)
    shift = _shift(agent, panel.instance.num_agents)
    places = [f"{x:g} {y:g}" for x, y in (svg.middle(panel.at(agent, time), shift) for time in times)]
    return (
        f'<g transform="translate({places[0]})"><circle r="13" fill="{svg.colour(agent)}" stroke="white" '
        f'stroke-width="2.5"/>{svg.text(0, 5, str(agent + 1), "white", 14)}<animateTransform '
        f'attributeName="transform" type="translate" values="{";".join(places)}" {clock.attributes(times)}/></g>'
    )


# ---------------------------------------------------------------- GIF


def _gif(animation: Animation) -> bytes:
    """Returns the animation as GIF: `FRAMES` pictures a step; equal ones in a row become one that is shown longer."""
    import PIL.Image

    pictures = list(_pictures(animation))
    # The palette of the last one: whatever was marked is still there. This method keeps white white.
    palette = pictures[-1].quantize(128, method=PIL.Image.Quantize.MAXCOVERAGE)
    frames = [picture.quantize(palette=palette, dither=PIL.Image.Dither.NONE) for picture in pictures]
    durations = [round(1000 * STEP / FRAMES)] * (len(frames) - 1) + [round(1000 * STEP * HOLD)]
    written = io.BytesIO()
    frames[0].save(written, "gif", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return written.getvalue()


def _pictures(animation: Animation) -> Iterator[Image]:
    """Yields the pictures of a GIF, from time 0 to the last move of all."""
    import PIL.Image

    panels = [_Panel(animation.instance, title, plan) for title, plan in animation.plans.items()]
    side = min(0.55 * animation.instance.size, 6)
    lines = max(len(panel.outcome) for panel in panels)
    with matplotlib.rc_context({"font.family": ["DejaVu Sans"]}):  # comes with matplotlib
        figure = Figure(figsize=(max(side, 2.6) * len(panels), side + 0.65 + 0.17 * lines), dpi=100)
        canvas = FigureCanvasAgg(figure)
        axes = figure.subplots(1, len(panels), squeeze=False)[0]
        figure.subplots_adjust(
            0.01, (0.35 + 0.17 * lines) / figure.get_figheight(), 0.99, 1 - 0.28 / figure.get_figheight()
        )
        scenes = [_Scene(panel, ax) for panel, ax in zip(panels, axes, strict=True)]
        horizon = max(panel.horizon for panel in panels)
        for frame in range(FRAMES * horizon + 1):
            for scene in scenes:
                scene.show(frame / FRAMES)
            canvas.draw()
            yield PIL.Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")


class _Scene:
    """A panel on matplotlib's axes, of which only what changes is drawn again."""

    def __init__(self, panel: _Panel, ax: Axes) -> None:
        self.panel = panel
        instance = panel.instance
        boards.ground(ax, instance)
        boards.ends(ax, instance, starts=False)
        ax.set_title(panel.title, fontsize=10)
        self.discs = [boards.disc(ax, agent) for agent in range(instance.num_agents)]
        self.marks = [
            (_moment(violation), artist)
            for violation in panel.violations
            for artist in boards.cross(ax, instance, violation, panel.trajectory)
        ]
        below: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points", "fontsize": 8, "va": "top"}
        self.step = ax.annotate("", (0, 0), (0, -4), color=svg.INK, **below)
        for row, (begin, line, color) in enumerate(panel.outcome):
            self.marks.append((begin, ax.annotate(line, (0, 0), (0, -16 - 12 * row), color=color, **below)))

    def show(self, time: float) -> None:
        """Sets everything to where it is at that time."""
        for agent, (disc, number) in enumerate(self.discs):
            row, col = self.panel.at(agent, time)
            shift = 0.5 + _shift(agent, len(self.discs))
            disc.set_center((col + shift, row + shift))
            number.set_position((col + shift, row + shift))
        for begin, artist in self.marks:
            artist.set_visible(time >= begin)
        self.step.set_text(self.panel.step(time))
