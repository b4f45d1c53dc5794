"""Knobs around the views, with ipywidgets: a `Panel` is one view and its controls; a function for each view makes one.

State lies in the controls alone, so that setting `panel.controls["..."].value` in Python does what a hand does. Not
covered: what is shown (`views`).
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from mapflake.engineer import History
from mapflake.engineer.designers import Completer, load_checkpoint
from mapflake.env import KINDS, Instance, Plan
from mapflake.env.config import MAX_AGENTS, MAX_HOLE_RATIO
from mapflake.explore import views
from mapflake.explore.records import Failure

logger = logging.getLogger(__name__)

BRUSHES = (".", "H", *(f"{end}{agent}" for agent in (1, 2, 3) for end in "SG"))
"""What a click can paint: ice, a hole, start and goal of three agents; more by writing into the text."""


WRAP = {"flex_flow": "row wrap"}


class Panel(widgets.VBox):
    """Controls and a view of their values, made anew whenever one changes.

    Where no browser is, a notebook keeps the view as it was when the cell ran.

    Attributes:
        controls: By name; to set a value is to turn the knob.
        shown: The view, as HTML.
    """

    def __init__(
        self,
        view: Callable[..., str],
        controls: Mapping[str, widgets.Widget],
        layout: Sequence[widgets.Widget] = (),
        button: widgets.Button | None = None,
    ) -> None:
        """Makes the panel; what the first view raises is raised.

        Args:
            view: Takes the controls' values by name and returns HTML.
            controls: By name.
            layout: How the controls are arranged; side by side by default.
            button: If given, the view is made anew when it is clicked, and only then.
        """
        self.view, self.controls, self.shown = view, dict(controls), widgets.HTML()
        for control in self.controls.values() if button is None else ():
            control.observe(self.update, "value")
        if button is not None:
            button.on_click(self.update)
        row = widgets.HBox(list(self.controls.values()), layout=WRAP)
        super().__init__([*(layout or [row]), self.shown])
        self.shown.value = self.look()

    def look(self) -> str:
        """Returns the view for the controls as they are now."""
        return self.view(**{name: control.value for name, control in self.controls.items()})

    def update(self, change: object = None) -> None:
        """Shows the view, or what is wrong: here nobody else would see an error, the caller is a browser."""
        try:
            self.shown.value = self.look()
        except Exception as error:
            logger.debug("the view failed", exc_info=True)
            self.shown.value = views.wrong(error)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        return {**(super()._repr_mimebundle_(**kwargs) or {}), "text/html": self.shown.value}


def generator(sizes: Sequence[int] = (3, 4, 5, 6)) -> Panel:
    """Returns the knobs of the generator: for each size data, holes and waits, as an engineer sets them."""
    controls: dict[str, widgets.Widget] = {
        "agents": widgets.BoundedIntText(2, min=1, max=MAX_AGENTS, description="agents"),
        "seed": widgets.BoundedIntText(0, min=0, max=10**6, description="seed"),
    }
    rows = [widgets.HBox([*controls.values()])]
    for size in sizes:
        knobs = {
            f"data_{size}": _knob(1 / len(sizes), 1.0, f"{size}x{size} data"),
            f"holes_{size}": _knob(0.2, MAX_HOLE_RATIO, "holes"),
            f"waits_{size}": _knob(0.25, 1.0, "waits"),
            f"quota_{size}": widgets.Checkbox(True, description="quota", indent=False, layout={"width": "80px"}),
        }
        controls |= knobs
        rows.append(widgets.HBox([*knobs.values()], layout=WRAP))

    def view(agents: int, seed: int, **values: float) -> str:
        requested: dict[int, dict[str, float | None]] = {
            size: {
                "data_ratio": values[f"data_{size}"],
                "hole_ratio": values[f"holes_{size}"],
                "wait_ratio": values[f"waits_{size}"] if values[f"quota_{size}"] else None,  # None: as it falls
            }
            for size in sizes
        }
        return views.generated(requested, agents, seed)

    return Panel(view, controls, rows)


def stepper(instance: Instance, plan: Plan) -> Panel:
    """Returns a plan, right or wrong, to be stepped through by hand or played."""
    time = widgets.IntSlider(0, 0, plan.horizon, description="step")
    play = widgets.Play(min=0, max=plan.horizon, interval=700)
    widgets.jslink((play, "value"), (time, "value"))
    return Panel(lambda time: views.step(instance, plan, time), {"time": time}, [widgets.HBox([play, time])])


def browse(found: Sequence[Failure]) -> Panel:
    """Returns the gallery of failures, to be filtered by board size and by the check that fails."""
    sizes = sorted({one.instance.size for one in found})
    failed = {kind for one in found for kind in one.kinds}
    size = widgets.Dropdown(options=[("all", None), *((f"{s}x{s}", s) for s in sizes)], description="size")
    kind = widgets.Dropdown(options=[("any", None), *((k, k) for k in KINDS if k in failed)], description="check")
    page = widgets.BoundedIntText(1, min=1, max=views.pages(found), description="page")

    def back(change: object) -> None:
        page.value, page.max = 1, views.pages(views.select(found, size.value, kind.value))

    for control in (size, kind):
        control.observe(back, "value")
    return Panel(lambda **chosen: views.gallery(found, **chosen), {"size": size, "kind": kind, "page": page})


def rounds(histories: Mapping[str, History]) -> Panel:
    """Returns what designers were told and answered, a round at a time, the change of configuration beside it."""
    pairs = {
        f"{arm}, round {after.index}": (before, after)
        for arm, history in histories.items()
        for before, after in pairwise(history)
    }
    chosen = widgets.Dropdown(options=pairs, description="round", layout={"width": "420px"})
    return Panel(lambda chosen: views.exchange(*chosen), {"chosen": chosen})


class Board(widgets.HBox):
    """A board that one draws: by clicks with a brush, or by writing; the text is the board.

    Attributes:
        text: The text area; its value is what `Instance.from_text` reads.
    """

    def __init__(self, text: str) -> None:
        """Makes the board."""
        self.text = widgets.Textarea(
            _aligned(text), continuous_update=False, layout={"width": "190px", "height": "150px"}
        )
        self.size = widgets.BoundedIntText(len(_cells(text)), min=3, max=10, description="size")
        self.brush = widgets.ToggleButtons(options=BRUSHES, style={"button_width": "46px"})
        self.grid = widgets.GridBox()
        self.seen = widgets.HTML()
        self.text.observe(self._show, "value")
        self.size.observe(lambda change: self._write(_resized(_cells(self.text.value), change["new"])), "value")
        tools = widgets.VBox([self.size, self.brush, self.grid])
        super().__init__([tools, self.text, self.seen], layout=WRAP)
        self._show()

    def paint(self, row: int, col: int) -> None:
        """Puts the brush on a cell: a hole or ice, or a start or goal, which leaves the cell where it was."""
        self._write(painted(self.text.value, row, col, self.brush.value))

    def _write(self, text: str) -> None:
        self.text.value = text

    def _show(self, change: object = None) -> None:
        cells = _cells(self.text.value)
        buttons = []
        for row, marks in enumerate(cells):
            for col, mark in enumerate(marks):
                button = widgets.Button(description=mark.replace(".", " "), layout={"width": "44px", "height": "34px"})
                button.style.button_color = "#1F3347" if mark == "H" else "#EAF3F9"
                button.style.text_color = "white" if mark == "H" else "black"
                button.on_click(lambda _, row=row, col=col: self.paint(row, col))
                buttons.append(button)
        self.grid.children = buttons
        self.grid.layout = {"grid_template_columns": f"repeat({max(map(len, cells), default=1)}, 48px)"}
        try:
            self.seen.value = views.board(self.text.value)
        except Exception as error:  # while one draws, most boards are wrong
            self.seen.value = views.wrong(error)


def ask(board: str, checkpoints: Sequence[str | Path]) -> Panel:
    """Returns a board to draw and a policy to solve it: a checkpoint's folder or name, loaded when it is first asked.

    Args:
        board: To begin with, as `Instance.from_text` reads it.
        checkpoints: To choose from; another can be written.
    """
    names = [os.path.relpath(path) if Path(path).is_dir() else str(path) for path in checkpoints]
    drawn = Board(board)
    controls = {
        "board": drawn.text,
        "checkpoint": widgets.Combobox(value=names[0], options=names, ensure_option=False, layout={"width": "520px"}),
        "temperature": _knob(0.0, 2.0, "temperature"),
        "seed": widgets.BoundedIntText(0, min=0, max=10**6, description="seed"),
    }
    solve = widgets.Button(description="solve", button_style="primary")

    def view(board: str, checkpoint: str, temperature: float, seed: int) -> str:
        return views.answered(_policy(checkpoint), board, temperature=temperature, seed=seed)

    row = widgets.HBox([controls["temperature"], controls["seed"], solve], layout=WRAP)
    return Panel(view, controls, [drawn, controls["checkpoint"], row], solve)


ENDS = re.compile(r"[SG][1-9]")


def painted(text: str, row: int, col: int, mark: str) -> str:
    """Returns the board's text with the mark on a cell; a start or goal is taken from where it was.

    Args:
        text: The board.
        row: Of the cell, from 0.
        col: Of the cell, from 0.
        mark: One of `BRUSHES`.
    """
    cells = _cells(text)
    if mark not in (".", "H"):
        cells = [[cell.replace(mark, "") or "." for cell in marks] for marks in cells]
        others = [part for part in ENDS.findall(cells[row][col]) if part[0] != mark[0]]  # its own kind gives way
        mark = "".join(sorted([mark, *others], reverse=True))  # S before G
    cells[row][col] = mark
    return _aligned("\n".join(" ".join(marks) for marks in cells))


def _cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


def _resized(cells: list[list[str]], size: int) -> str:
    """Returns the board cut off, or with more ice, on the right and below."""
    rows = [[*marks, *["."] * size][:size] for marks in [*cells, *[["."] for _ in range(size)]][:size]]
    return _aligned("\n".join(" ".join(marks) for marks in rows))


def _aligned(text: str) -> str:
    cells = _cells(text)
    width = max((len(mark) for marks in cells for mark in marks), default=1)
    return "\n".join(" ".join(mark.ljust(width) for mark in marks).rstrip() for marks in cells)


def _knob(value: float, top: float, name: str) -> widgets.FloatSlider:
    return widgets.FloatSlider(
        value, min=0, max=top, step=0.05, description=name, continuous_update=False, readout_format=".2f",
        style={"description_width": "85px"},
    )  # fmt: skip


@lru_cache(maxsize=2)
def _policy(checkpoint: str) -> Completer:
    return load_checkpoint(checkpoint)
