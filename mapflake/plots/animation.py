"""Plans played on their board, as a GIF: several side by side, by one clock.

A move takes the first part of its step, then all stand still; a violation gets a cross when and where it happens, and a
line below the board.
"""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from mapflake.env import Instance, Plan, check
from mapflake.env.svg import ALARM
from mapflake.plots import boards

if TYPE_CHECKING:
    from IPython.display import HTML
    from PIL.Image import Image

STEP = 0.6  # seconds
HOLD = 3  # steps for which the end is shown
FRAMES = 4  # of a GIF, a step
LINES = 6  # violations that are put in words
GOOD = "#00664B"


def animate(instance: Instance, plans: Plan | Mapping[str, Plan], path: str | Path | None = None) -> HTML:
    """Returns plans played on a board, for the end of a notebook cell; every violation is marked at its step and cell.

    Args:
        instance: The board.
        plans: A plan, valid or not, or several with their titles: `{"wrong": ..., "optimal": ...}`.
        path: File to write the animation to as well, a GIF: the same bytes for the same plans.

    Raises:
        ValueError: There is no plan, or one has not one string of moves for each agent, or the file is not a `.gif`.
    """
    from IPython.display import HTML

    named = {"": plans} if isinstance(plans, Plan) else dict(plans)
    if not named:
        raise ValueError("plans: nothing to play")
    for title, plan in named.items():
        if len(plan.moves) != instance.num_agents:
            lists = f"{len(plan.moves)} move lists for {instance.num_agents} agents"
            raise ValueError(f"{title}: {lists}: nothing to play".removeprefix(": "))
    if path is not None and Path(path).suffix.lower() != ".gif":
        raise ValueError(f"{Path(path).name}: an animation is saved as .gif")
    drawn = _gif(list(_frames(instance, named)))
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(drawn)
    return HTML(f'<img src="data:image/gif;base64,{base64.b64encode(drawn).decode()}"/>')


def _gif(pictures: list[Image]) -> bytes:
    """Returns the pictures as a GIF that repeats; PIL shows one that is followed by its equal for longer."""
    import PIL.Image

    # The palette of the last one: whatever was marked is still there. This method keeps white white.
    palette = pictures[-1].quantize(128, method=PIL.Image.Quantize.MAXCOVERAGE)
    frames = [picture.quantize(palette=palette, dither=PIL.Image.Dither.NONE) for picture in pictures]
    durations = [round(1000 * STEP / FRAMES)] * (len(frames) - 1) + [round(1000 * STEP * HOLD)]
    written = io.BytesIO()
    frames[0].save(written, "gif", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return written.getvalue()


def _frames(instance: Instance, plans: Mapping[str, Plan]) -> Iterator[Image]:
    """Yields the pictures of a GIF, from time 0 to the last move of all."""
    import PIL.Image

    side = min(0.55 * instance.size, 6)
    lines = max(min(LINES, len(check(instance, plan).violations)) for plan in plans.values())
    below, above = 0.1 + 0.17 * max(1, lines), 0.48  # inches
    height = side + below + above
    with matplotlib.rc_context({"font.family": ["DejaVu Sans"]}):  # comes with matplotlib
        figure = Figure(figsize=(max(side, 2.6) * len(plans), height), dpi=100)
        canvas = FigureCanvasAgg(figure)
        axes = figure.subplots(1, len(plans), squeeze=False)[0]
        figure.subplots_adjust(0.01, below / height, 0.99, 1 - above / height)
        for frame in range(FRAMES * max(plan.horizon for plan in plans.values()) + 1):
            for ax, (title, plan) in zip(axes, plans.items(), strict=True):
                ax.clear()
                draw_frame(ax, instance, plan, frame / FRAMES, title)
            canvas.draw()
            yield PIL.Image.frombuffer("RGBA", canvas.get_width_height(), canvas.buffer_rgba()).convert("RGB")


def draw_frame(ax: Axes, instance: Instance, plan: Plan, time: float, title: str = "") -> None:
    """Draws a moment of a plan as `draw_moment` does, title and step above it, violations or success so far below."""
    boards.draw_moment(ax, instance, plan, time)
    ax.set_title(f"{title}\nstep {min(math.ceil(time), plan.horizon)} of {plan.horizon}".strip(), fontsize=9)
    verdict = check(instance, plan)
    if verdict.valid and time >= plan.horizon:
        ax.set_xlabel(f"valid, {verdict.makespan} steps", color=GOOD, fontsize=8)
    else:
        found = [violation for violation in verdict.violations if boards.seen_from(violation) <= time]
        ax.set_xlabel("\n".join(boards.describe_all(found, LINES)), color=ALARM, fontsize=8)
