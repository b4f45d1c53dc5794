"""Animations: what is seen at a time is what the plan does then, in SVG and in GIF."""

from __future__ import annotations

import io
import random
from pathlib import Path
from xml.etree import ElementTree

import PIL.Image
import pytest

from mapflake import plots
from mapflake.env import Instance, Plan, check, execute, solve
from mapflake.plots.animation import HOLD, STEP

BOARD = Instance.from_text("S1 .  .  G2\n.  H  .  .\n.  .  H  .\nS2 .  .  G1")
WRONG = Plan(("RDRRDD", "RRRUUU"))  # into a hole at step 2, through each other at step 5
CROSS = "26m0 -26l-26 26"


def length(svg: str) -> float:
    """Seconds that the animation takes."""
    (found,) = {e.attrib["dur"] for e in ElementTree.fromstring(svg).iter() if "dur" in e.attrib}
    return float(found.removesuffix("s"))


def seen(svg: str, seconds: float) -> tuple[list[str], list[tuple[float, float]], list[tuple[float, float]]]:
    """What a browser shows at that time: visible texts, agents and crosses at (row, col), in order of drawing."""
    texts, agents, crosses = [], [], []

    def value(animation: ElementTree.Element) -> tuple[str, str, float]:
        times = [float(t) * length(svg) for t in animation.attrib["keyTimes"].split(";")]
        values = animation.attrib["values"].split(";")
        assert len(times) == len(values)
        assert times == sorted(times)
        assert times[0] == 0
        k = max(k for k in range(len(times)) if times[k] <= seconds + 1e-9)
        after = min(k + 1, len(times) - 1)
        return values[k], values[after], (seconds - times[k]) / max(times[after] - times[k], 1e-9)

    def walk(element: ElementTree.Element) -> None:
        tag = element.tag.removeprefix("{http://www.w3.org/2000/svg}")
        for child in element:
            if child.tag.endswith("}animate") and value(child)[0] == "0":
                return
            if child.tag.endswith("}animateTransform"):
                before, after, part = value(child)
                assert child.attrib["keyTimes"].endswith(";1")
                x, y = (
                    a + part * (b - a) for a, b in zip(*(map(float, v.split()) for v in (before, after)), strict=True)
                )
                agents.append((y / 56 - 0.5, x / 56 - 0.5))
        if tag == "text":
            texts.append(element.text)
        if tag == "path" and CROSS in element.attrib["d"] and element.attrib["stroke"] != "white":
            x, y = map(float, element.attrib["d"].removeprefix("M").split("l")[0].split())
            crosses.append(((y + 13) / 56 - 0.5, (x + 13) / 56 - 0.5))
        for child in element:
            walk(child)

    walk(ElementTree.fromstring(svg))
    return texts, agents, crosses


def near(picture: PIL.Image.Image, x: int, y: int, color: tuple[int, int, int]) -> bool:
    return max(abs(a - b) for a, b in zip(picture.getpixel((x, y)), color, strict=True)) < 40


def test_agents_are_where_the_plan_has_them() -> None:
    rng = random.Random(0)
    for _ in range(20):
        plan = Plan(tuple("".join(rng.choices("UDLRWx", k=rng.randrange(6))) for _ in range(2)))
        svg = plots.animate(BOARD, plan).svg
        assert length(svg) == pytest.approx(STEP * (plan.horizon + HOLD))
        for time, cells in enumerate(execute(BOARD, plan)):
            _, agents, _ = seen(svg, STEP * time)
            assert agents == pytest.approx([pytest.approx(cell, abs=0.06) for cell in cells])
    _, agents, _ = seen(plots.animate(BOARD, WRONG).svg, STEP * 0.35)
    assert agents == [pytest.approx(cell, abs=0.06) for cell in [(0, 0.5), (3, 0.5)]]  # half a move, half of its 70%


def test_violations_are_marked_when_and_where_they_happen() -> None:
    svg = plots.animate(BOARD, WRONG).svg
    hole, swap = check(BOARD, WRONG).violations
    for time, said, marked in (
        (0.0, [], []),
        (1.6, [], []),
        (1.8, [hole], [(1, 1)]),
        (4.2, [hole], [(1, 1)]),
        (4.4, [hole, swap], [(1, 1), (1.5, 3)]),
        (8.9, [hole, swap], [(1, 1), (1.5, 3)]),
    ):
        texts, _, crosses = seen(svg, STEP * time)
        assert [t for t in texts if t.startswith("step") and "agent" in t] == [plots.describe(v) for v in said]
        assert crosses == marked
        assert f"step {min(int(time) + 1, 6)} of 6" in texts


def test_a_valid_plan_says_so_when_it_is_over() -> None:
    solution = solve(BOARD)
    svg = plots.animate(BOARD, solution.plan).svg
    for time in (0.0, 5.6, 5.8, 8.9):
        texts, _, crosses = seen(svg, STEP * time)
        assert ("valid, 6 steps" in texts) == (time > 5.7)
        assert not crosses
        assert sum("of 6" in t for t in texts) == 1
    texts, _, _ = seen(plots.animate(BOARD, Plan(("", ""))).svg, 0)
    assert [t for t in texts if len(t) > 1] == [
        "step 0: agent 1 does not end on its goal",
        "step 0: agent 2 does not end on its goal",
        "step 0 of 0",
    ]


def test_a_wrong_plan_beside_the_optimal_one() -> None:
    both = plots.animate(BOARD, {"wrong <&>": WRONG, "optimal": solve(BOARD).plan}).svg
    assert length(both) == pytest.approx(STEP * (6 + HOLD))
    texts, agents, crosses = seen(both, STEP * 6)
    assert len(agents) == 4
    assert len(crosses) == 2
    assert {"wrong <&>", "optimal", "valid, 6 steps"} <= set(texts)
    root = ElementTree.fromstring(both)
    boxes = [(float(e.attrib["x"]), float(e.attrib["width"])) for e in root if e.tag.endswith("}svg")]
    assert len(boxes) == 2
    assert boxes[0][0] + boxes[0][1] < boxes[1][0]  # who leaves one board does not walk onto the other
    assert boxes[1][0] + boxes[1][1] == float(root.attrib["viewBox"].split()[2])
    short = plots.animate(BOARD, {"": WRONG, "stays": Plan(("", "R"))}).svg  # the shorter one waits for the longer
    texts, agents, _ = seen(short, STEP * 5)
    assert "step 1 of 1" in texts
    assert agents[3] == pytest.approx((3, 1), abs=0.06)


def test_many_violations_are_counted() -> None:
    board = Instance.from_text("S1 G1\n. .")
    texts, _, crosses = seen(plots.animate(board, Plan(("UDUDUDUDUDUDUD",))).svg, STEP * 15)
    assert len(crosses) == len(check(board, Plan(("UDUDUDUDUDUDUD",))).violations) == 8
    assert sum("leaves the board" in t for t in texts) == 5
    assert "and 3 more" in texts


def test_an_animation_needs_no_script_and_is_the_same_every_time() -> None:
    one = plots.animate(BOARD, WRONG)
    assert one._repr_svg_() == one.svg == plots.animate(BOARD, WRONG).svg
    root = ElementTree.fromstring(one.svg)
    kinds = {e.tag.removeprefix("{http://www.w3.org/2000/svg}") for e in root.iter()}
    assert kinds == {"svg", "g", "rect", "path", "ellipse", "circle", "text", "animate", "animateTransform"}
    assert not [
        name for e in root.iter() for name in e.attrib if name.startswith("on") or "href" in name or name == "id"
    ]


def test_what_cannot_be_played_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"^1 move lists for 2 agents: nothing to play$"):
        plots.animate(BOARD, Plan(("R",)))
    with pytest.raises(ValueError, match=r"^b: 0 move lists for 2 agents: nothing to play$"):
        plots.animate(BOARD, {"a": WRONG, "b": Plan(())})
    with pytest.raises(ValueError, match=r"^plans: nothing to play$"):
        plots.animate(BOARD, {})


def test_a_gif_has_four_pictures_for_each_step(tmp_path: Path) -> None:
    animation = plots.animate(BOARD, {"wrong": WRONG, "optimal": solve(BOARD).plan})
    animation.save(tmp_path / "new" / "both.gif")
    with PIL.Image.open(tmp_path / "new" / "both.gif") as gif:
        assert gif.n_frames == 4 * 6  # somebody moves at every step; the last picture is held
        durations, reds = [], []
        for frame in range(gif.n_frames):
            gif.seek(frame)
            durations.append(gif.info["duration"])
            reds.append(sum(r > 140 and g < 40 and b < 60 for r, g, b in gif.convert("RGB").get_flattened_data()))
        assert gif.info["loop"] == 0
    assert sum(durations) == pytest.approx(1000 * STEP * (6 + HOLD))
    assert not any(reds[:7])  # the hole is reached at 1.7, the swap is halfway at 4.35
    assert 0 < min(reds[7:18]) <= max(reds[7:18]) < min(reds[18:])
    again = io.BytesIO((tmp_path / "new" / "both.gif").read_bytes())
    animation.save(tmp_path / "again.gif")
    assert (tmp_path / "again.gif").read_bytes() == again.getvalue()


def test_the_numbers_of_agents_are_seen_in_a_gif(tmp_path: Path) -> None:
    """White inside of the discs: their numbers."""
    board = Instance.from_text("S1 . .\n. . .\nG1 . .")
    plots.animate(board, Plan(("DD",))).save(tmp_path / "one.gif")
    with PIL.Image.open(tmp_path / "one.gif") as gif:
        picture = gif.convert("RGB")
    blue = [
        (x, y) for x in range(picture.width) for y in range(picture.height // 2) if near(picture, x, y, (0, 114, 178))
    ]
    left, right = min(x for x, _ in blue), max(x for x, _ in blue)
    top, bottom = min(y for _, y in blue), max(y for _, y in blue)
    middle = (left + right) // 2, (top + bottom) // 2
    around = [(middle[0] + x, middle[1] + y) for x in range(-3, 4) for y in range(-4, 5)]
    assert any(near(picture, x, y, (255, 255, 255)) for x, y in around)


def test_an_animation_is_saved_as_what_the_name_says(tmp_path: Path) -> None:
    animation = plots.animate(BOARD, Plan(("", "")))
    animation.save(tmp_path / "still.SVG")
    assert (tmp_path / "still.SVG").read_text(encoding="utf-8") == animation.svg
    animation.save(tmp_path / "still.gif")
    with PIL.Image.open(tmp_path / "still.gif") as gif:
        assert gif.n_frames == 1
    with pytest.raises(ValueError, match=r"^film\.mp4: an animation is saved as \.svg or \.gif$"):
        animation.save(tmp_path / "film.mp4")
