"""Designs that cannot be drawn are met as near as possible, one size at a time."""

import pytest

from mapflake.engineer import drawing
from mapflake.env import EnvConfig, GenerationError, SizeConfig, generate

CONFIG = EnvConfig({3: SizeConfig(0.5, 0.2, 1.0), 4: SizeConfig(0.5, 0.45, 0.5)})


def refuse(monkeypatch, hopeless):
    """Lets the generator fail where `hopeless(size, part)` says so; it is asked in vain 200,000 times otherwise."""
    asked = []

    def scarce(config, n, **options):
        asked.append(config)
        for size, part in config.sizes.items():
            if hopeless(size, part):
                raise GenerationError("no solvable board found in 200000 attempts", size)
        return generate(config, n, **options)

    monkeypatch.setattr(drawing, "generate", scarce)
    return asked


def test_what_can_be_drawn_is_drawn_as_it_was_asked():
    tasks, relaxed = drawing.draw(CONFIG, 8, seed=4)
    assert relaxed == {}
    assert tasks == generate(CONFIG, 8, seed=4, split="train")


def test_waits_give_way_first_then_holes_and_other_sizes_stay(monkeypatch):
    refuse(monkeypatch, lambda size, part: size == 4 and (part.wait_ratio is not None or part.hole_ratio > 0.3))
    tasks, relaxed = drawing.draw(CONFIG, 8, seed=4)
    met = EnvConfig({3: CONFIG.sizes[3], 4: SizeConfig(0.5, 0.25, None)})
    assert relaxed == {
        4: {"asked": {"hole_ratio": 0.45, "wait_ratio": 0.5}, "got": {"hole_ratio": 0.25, "wait_ratio": None}}
    }
    assert drawing.relax(CONFIG, relaxed) == met
    assert tasks == generate(met, 8, seed=4, split="train")


def test_several_sizes_are_relaxed(monkeypatch):
    refuse(monkeypatch, lambda size, part: part.wait_ratio is not None)
    _, relaxed = drawing.draw(CONFIG, 8, seed=4)
    assert sorted(relaxed) == [3, 4]


def test_what_cannot_be_relaxed_any_further_is_an_error(monkeypatch):
    asked = refuse(monkeypatch, lambda size, part: size == 3)
    with pytest.raises(GenerationError, match="no solvable board") as error:
        drawing.draw(CONFIG, 8, seed=4)
    assert error.value.size == 3
    assert [c.sizes[3].hole_ratio for c in asked] == [0.2, 0.2, 0.1, 0.0]


def test_the_generator_names_the_size_that_it_gives_up_on(monkeypatch):
    """What `draw` goes by, with the real generator: boards of 10x10 that need a wait are one in 260."""
    monkeypatch.setattr("mapflake.env.generator.MAX_ATTEMPTS", 3)
    wanted = EnvConfig({10: SizeConfig(1.0, 0.0, 1.0)})
    tasks, relaxed = drawing.draw(wanted, 4, seed=4)
    assert relaxed[10]["got"] == {"hole_ratio": 0.0, "wait_ratio": None}
    assert len(tasks) == 4
