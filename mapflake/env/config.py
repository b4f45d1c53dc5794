"""The generator's configuration: for each board size a data ratio, a hole ratio and a wait ratio.

This is the paper's design space (sizes 3x3 to 10x10, hole ratios up to 0.5); that impossible boards are errors here,
and the rounding of the number of holes, are our choice. `DIMENSIONS` is the one table of the ratios of a size: one more
entry is a new dimension for the generator and for its engineer. Not covered: replies of a model
(`mapflake.engineer.read_reply`) and the projection onto legal configurations (`mapflake.engineer.project`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, ConfigDict, PlainSerializer, model_serializer, model_validator

from mapflake.env.instance import Instance
from mapflake.env.shares import rounded_share
from mapflake.repro import plain, shown

MIN_SIZE, MAX_SIZE, MAX_AGENTS = 3, 10, 9
MAX_HOLE_RATIO = 0.5


@dataclass(frozen=True)
class Dimension:
    """One of the ratios that a configuration has for each board size.

    Attributes:
        meaning: Explanation for an engineer, one sentence after the name.
        top: The largest legal value, 1 or 0.5; the smallest is 0.
        nullable: Whether None is legal too: unconstrained. Not for a custom dimension, whose transform takes a number.
        transform: The effect of a custom dimension: takes a random board, the ratio (above 0; at 0 boards are left
            alone) and random numbers, and returns a board of the same size with as many holes and agents. None for the
            paper's three, which `generate` itself meets.
    """

    meaning: str
    top: float = 1.0
    nullable: bool = False
    transform: Callable[[Instance, float, np.random.Generator], Instance] | None = None

    def __post_init__(self) -> None:
        if self.top not in (0.5, 1.0):
            raise ValueError(f"top: {self.top!r} is neither 0.5 nor 1")
        if self.nullable and self.transform is not None:
            raise ValueError("nullable: a dimension with a transform takes a number, never None")


DIMENSIONS: dict[str, Dimension] = {
    "data_ratio": Dimension("share of the round's boards that have this size. The ratios of all sizes sum to 1."),
    "hole_ratio": Dimension("share of a board's cells that are holes, from 0 to 0.5.", top=MAX_HOLE_RATIO),
    "wait_ratio": Dimension(
        "share of this size's boards on which some agent has to wait for another, from 0 to 1; null leaves it as "
        "chance gives it.",
        nullable=True,
    ),
}
"""The ratios of a board size, by name: the paper's three, which are fields of `SizeConfig`. Custom ones are added
before configurations are read or made (docs/bring_your_own.md)."""

PAPER = tuple(DIMENSIONS)


def custom_dimensions() -> dict[str, Dimension]:
    """Returns the entries of `DIMENSIONS` that are not the paper's."""
    return {name: dimension for name, dimension in DIMENSIONS.items() if name not in PAPER}


@dataclass(frozen=True, repr=False)
class SizeConfig:
    """The distribution of boards of one size; as JSON, an object of all its ratios.

    Attributes:
        data_ratio: Share of the tasks, in [0, 1]; over all sizes these sum to 1.
        hole_ratio: Share of the cells that are holes, in [0, 0.5].
        wait_ratio: Share of this size's tasks that need a wait (`needs_wait`), in [0, 1]; None: unconstrained.
        custom: Name and ratio of each custom dimension that is not 0, by name, the order in which they act on a board.
    """

    data_ratio: float
    hole_ratio: float
    wait_ratio: float | None = None
    custom: tuple[tuple[str, float], ...] = ()

    __pydantic_config__ = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        for name in dict(self.custom):
            if name not in custom_dimensions():
                raise ValueError(f"{shown(name)}: unknown key; legal keys: {', '.join(DIMENSIONS)}")
        for name in PAPER:
            object.__setattr__(self, name, _checked(name, getattr(self, name)))
        values = [(name, _checked(name, value)) for name, value in sorted(dict(self.custom).items())]
        object.__setattr__(self, "custom", tuple((name, value) for name, value in values if value))

    def __repr__(self) -> str:
        return f"SizeConfig({', '.join(f'{name}={value!r}' for name, value in self._written().items())})"

    @classmethod
    def from_ratios(cls, ratios: Mapping[str, Any]) -> SizeConfig:
        """Returns the distribution with these ratios, by name; the wait ratio and custom ones may be left out."""
        return cls(**_fields(ratios))

    @property
    def ratios(self) -> dict[str, float | None]:
        """The value of each dimension in `DIMENSIONS`, in its order, then of those that only this configuration has."""
        values = {**{name: getattr(self, name) for name in PAPER}, **dict(self.custom)}
        return {**dict.fromkeys(DIMENSIONS, 0.0), **values}

    @model_validator(mode="before")
    @classmethod
    def _read(cls, ratios: Any) -> Any:
        return _fields(ratios) if isinstance(ratios, Mapping) else ratios

    @model_serializer
    def _written(self) -> dict[str, float | None]:
        return {name: value for name, value in self.ratios.items() if name in PAPER or value}


def _fields(ratios: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a `SizeConfig` with these ratios."""
    custom = tuple((name, value) for name, value in ratios.items() if name not in PAPER)
    return {name: value for name, value in ratios.items() if name in PAPER} | {"custom": custom}


def _checked(name: str, value: Any) -> float | None:
    dimension, value = DIMENSIONS[name], plain(value)
    if value is None and dimension.nullable:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: {shown(value)} is not a number in [0, {dimension.top:g}]")
    if not 0 <= value <= dimension.top:  # also nan
        raise ValueError(f"{name}: {shown(value)} is not in [0, {dimension.top:g}]")
    return float(value) + 0.0  # -0.0 becomes 0.0: equal configurations have the same text


PLAIN = re.compile("0|[1-9][0-9]{0,3}")


def _numbered(sizes: Any) -> Any:
    """Returns sizes that JSON has as text by number; one in other letters, such as "04", stays and is refused."""
    if not isinstance(sizes, Mapping):
        return sizes
    return {
        int(size) if isinstance(size, str) and PLAIN.fullmatch(size) else size: part for size, part in sizes.items()
    }


@dataclass(frozen=True)
class EnvConfig:
    """A distribution over instances: the whole action space of an environment engineer.

    Attributes:
        sizes: The `SizeConfig` of each board size; read-only, ascending.
        num_agents: Number of agents on every board.

    Raises:
        ValueError: Names key, value and what is legal.
    """

    sizes: Annotated[
        Mapping[int, SizeConfig], BeforeValidator(_numbered), PlainSerializer(dict, return_type=dict[int, SizeConfig])
    ]
    num_agents: int = 2

    __pydantic_config__ = ConfigDict(extra="forbid")

    def __post_init__(self) -> None:
        agents = plain(self.num_agents)
        object.__setattr__(self, "num_agents", agents)
        if type(agents) is not int or not 1 <= agents <= MAX_AGENTS:
            raise ValueError(f"num_agents: {shown(agents)} is not an integer in 1..{MAX_AGENTS}")
        if not isinstance(self.sizes, Mapping) or not self.sizes:
            raise ValueError(f"sizes: {shown(self.sizes)} does not map board sizes to SizeConfig")
        object.__setattr__(self, "sizes", {plain(size): part for size, part in self.sizes.items()})
        for size, part in self.sizes.items():
            if type(size) is not int or not MIN_SIZE <= size <= MAX_SIZE:
                raise ValueError(f"sizes: {shown(size)} is not an integer in {MIN_SIZE}..{MAX_SIZE}")
            if not isinstance(part, SizeConfig):
                raise ValueError(f"sizes.{size}: {shown(part)} is not a SizeConfig")
            free = size * size - num_holes(size, part.hole_ratio)
            if part.data_ratio > 0 and free < cells_needed(agents):
                max_ratio = (size * size - cells_needed(agents) + 0.5) / (size * size)
                legal = f"below {math.floor(1000 * max_ratio) / 1000:.3f}" if max_ratio > 0 else "none"
                raise ValueError(
                    f"sizes.{size}.hole_ratio: {part.hole_ratio:g} leaves {free} free cells for {agents} agents, "
                    f"which need {cells_needed(agents)}; legal for this size: {legal}"
                )
        total = math.fsum(self.data_ratios.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"data_ratio: the ratios of all sizes sum to {total:g}, not to 1")
        object.__setattr__(self, "sizes", MappingProxyType(dict(sorted(self.sizes.items()))))

    def __hash__(self) -> int:
        return hash((tuple(self.sizes.items()), self.num_agents))

    def __reduce__(self) -> tuple[Any, ...]:  # a mappingproxy cannot be pickled
        return EnvConfig, (dict(self.sizes), self.num_agents)

    def __repr__(self) -> str:
        return f"EnvConfig(sizes={dict(self.sizes)!r}, num_agents={self.num_agents})"

    @property
    def data_ratios(self) -> dict[int, float]:
        """The data ratio of each size."""
        return {size: part.data_ratio for size, part in self.sizes.items()}

    @classmethod
    def uniform(
        cls,
        sizes: Iterable[int],
        hole_ratio: float,
        wait_ratio: float | None = None,
        num_agents: int = 2,
        **custom: float,
    ) -> EnvConfig:
        """Returns the configuration with the same share for each of `sizes` and the same ratios everywhere."""
        chosen = [plain(size) for size in sizes] if isinstance(sizes, Iterable) else []
        if not chosen or any(type(size) is not int for size in chosen):
            raise ValueError(
                f"sizes: {shown(sizes)} is not one or more integers in {MIN_SIZE}..{MAX_SIZE}, as in [4, 5]"
            )
        share = 1 / len({*chosen})
        part = SizeConfig(share, hole_ratio, wait_ratio, tuple(custom.items()))
        return cls(dict.fromkeys(chosen, part), num_agents)


def total_variation(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    """Returns half the sum of absolute differences of two distributions over sizes: 0 equal, 1 nothing in common."""
    return sum(abs(one.get(size, 0.0) - other.get(size, 0.0)) for size in {*one, *other}) / 2


def num_holes(size: int, hole_ratio: float) -> int:
    """Returns the number of holes of a board: `hole_ratio * size^2`, halves upwards."""
    return rounded_share(hole_ratio, size * size)


def cells_needed(num_agents: int) -> int:
    """Returns the least number of free cells on which every agent can leave its start for another cell.

    On a full board agents can only rotate along cycles of the grid, of 4 cells, or 6 and more.
    """
    return num_agents if num_agents == 4 or num_agents >= 6 else num_agents + 1
