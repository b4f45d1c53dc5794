"""The generator's configuration: for each board size a data ratio, a hole ratio and a wait ratio.

This is the paper's design space (sizes 3x3 to 10x10, hole ratios up to 0.5); that impossible boards are errors here,
and the rounding of the number of holes, are our choice. `DIMENSIONS` is the one table of what there is to choose for a
size: whatever reads, writes, projects, tells or draws it goes through the table, so that one more entry is a new
dimension for the generator and for its engineer alike. Not covered: reading what a model wrote
(`mapflake.engineer.read_reply`) and moving an illegal configuration into the legal space (`project`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from mapflake.env.instance import Instance

from mapflake.repro import shown

MIN_SIZE, MAX_SIZE, MAX_AGENTS = 3, 10, 9
MAX_HOLE_RATIO = 0.5


@dataclass(frozen=True)
class Dimension:
    """One of the ratios that a configuration has for each board size.

    Attributes:
        meaning: What an engineer is told of it, in one sentence after its name.
        top: The largest legal value, 1 or 0.5; the smallest is 0.
        nullable: Whether it may also be None: as chance gives it.
        shape: How a dimension of one's own acts: takes a random board, the ratio (above 0: at 0 boards are as they are
            without the dimension) and random numbers, and gives a board of the same size with as many holes and
            agents. None for the paper's three, which `generate` itself meets.
    """

    meaning: str
    top: float = 1.0
    nullable: bool = False
    shape: Callable[[Instance, float, np.random.Generator], Instance] | None = None

    def __post_init__(self) -> None:
        if self.top not in (0.5, 1.0):
            raise ValueError(f"top: {self.top!r} is neither 0.5 nor 1")


DIMENSIONS: dict[str, Dimension] = {
    "data_ratio": Dimension(
        "share of the round's boards that have this size. The ratios of all sizes sum to 1.",
    ),
    "hole_ratio": Dimension(
        "share of a board's cells that are holes, from 0 to 0.5.",
        top=MAX_HOLE_RATIO,
    ),
    "wait_ratio": Dimension(
        "share of this size's boards on which some agent has to wait for another, from 0 to 1; null leaves it as "
        "chance gives it.",
        nullable=True,
    ),
}
"""What there is to choose for a board size, by name: the paper's three, which are fields of `SizeConfig`; an entry of
one's own is added before configurations are read or made (docs/bring_your_own.md)."""

PAPER = tuple(DIMENSIONS)
REQUIRED = PAPER[:2]  # a wait ratio may be left out


def own_dimensions() -> dict[str, Dimension]:
    """Returns what of `DIMENSIONS` is not the paper's."""
    return {name: dimension for name, dimension in DIMENSIONS.items() if name not in PAPER}


custom_dimensions = own_dimensions


@dataclass(frozen=True, repr=False)
class SizeConfig:
    """What boards of one size are like.

    Attributes:
        data_ratio: Share of the tasks, in [0, 1]; over all sizes these sum to 1.
        hole_ratio: Share of the cells that are holes, in [0, 0.5].
        wait_ratio: Share of this size's tasks that need a wait (`needs_wait`), in [0, 1]; None: as it falls.
        further: Of the dimensions of one's own (`DIMENSIONS`) those that are not 0, in the table's order, as pairs of
            name and ratio.
    """

    data_ratio: float
    hole_ratio: float
    wait_ratio: float | None = None
    further: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        further = dict(self.further)
        if strangers := [name for name in further if name not in own_dimensions()]:
            legal = ", ".join(own_dimensions()) or "none, `DIMENSIONS` has no entry of one's own"
            raise ValueError(f"further: unknown key {strangers[0]!r}; legal keys: {legal}")
        for name in PAPER:
            object.__setattr__(self, name, _checked(name, getattr(self, name)))
        values = {name: _checked(name, further[name]) for name in own_dimensions() if name in further}
        object.__setattr__(self, "further", tuple((name, value) for name, value in values.items() if value))

    def __repr__(self) -> str:
        return f"SizeConfig({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"

    @classmethod
    def of(cls, ratios: Mapping[str, Any]) -> SizeConfig:
        """Returns what these ratios, by name, say; a wait ratio and dimensions of one's own may be left out."""
        paper = {name: value for name, value in ratios.items() if name in PAPER}
        return cls(**paper, further=tuple(pair for pair in ratios.items() if pair[0] not in PAPER))

    from_ratios = of

    @property
    def ratios(self) -> dict[str, float | None]:
        """The value of every dimension, in the table's order."""
        values = {**{name: getattr(self, name) for name in PAPER}, **dict(self.further)}
        return {name: values.get(name, 0.0) for name in DIMENSIONS}

    def to_dict(self) -> dict[str, float | None]:
        """Returns the ratios as JSON values, without those of one's own dimensions that are 0; `of` reads them back."""
        return {name: value for name, value in self.ratios.items() if name in PAPER or value}


def _checked(name: str, value: Any) -> float | None:
    dimension = DIMENSIONS[name]
    if value is None and dimension.nullable:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: {shown(value)} is not a number in [0, {dimension.top:g}]")
    if not 0 <= value <= dimension.top:  # also nan
        raise ValueError(f"{name}: {shown(value)} is not in [0, {dimension.top:g}]")
    return float(value)


@dataclass(frozen=True)
class EnvConfig:
    """A distribution over instances: the whole of what an environment engineer can choose.

    Attributes:
        sizes: For each board size its `SizeConfig`; read-only, ascending.
        num_agents: Agents on every board.

    Raises:
        ValueError: Names key, value and what is legal.
    """

    sizes: Mapping[int, SizeConfig]
    num_agents: int = 2

    def __post_init__(self) -> None:
        agents = self.num_agents
        if type(agents) is not int or not 1 <= agents <= MAX_AGENTS:
            raise ValueError(f"num_agents: {shown(agents)} is not an integer in 1..{MAX_AGENTS}")
        if not isinstance(self.sizes, Mapping) or not self.sizes:
            raise ValueError(f"sizes: {shown(self.sizes)} does not map board sizes to SizeConfig")
        for size, part in self.sizes.items():
            if type(size) is not int or not MIN_SIZE <= size <= MAX_SIZE:
                raise ValueError(f"sizes: {shown(size)} is not an integer in {MIN_SIZE}..{MAX_SIZE}")
            if not isinstance(part, SizeConfig):
                raise ValueError(f"sizes.{size}: {shown(part)} is not a SizeConfig")
            free = size * size - num_holes(size, part.hole_ratio)
            if part.data_ratio > 0 and free < cells_needed(agents):
                most = (size * size - cells_needed(agents) + 0.5) / (size * size)
                legal = f"below {most:.3f}" if most > 0 else "none"
                raise ValueError(
                    f"sizes.{size}.hole_ratio: {part.hole_ratio:g} leaves {free} free cells for {agents} agents, "
                    f"which need {cells_needed(agents)}; legal for this size: {legal}"
                )
        total = math.fsum(part.data_ratio for part in self.sizes.values())
        if abs(total - 1) > 1e-6:
            raise ValueError(f"data_ratio: the ratios of all sizes sum to {total:g}, not to 1")
        object.__setattr__(self, "sizes", MappingProxyType(dict(sorted(self.sizes.items()))))

    def __hash__(self) -> int:
        return hash((tuple(self.sizes.items()), self.num_agents))

    def __reduce__(self) -> tuple[Any, ...]:  # a mappingproxy cannot be pickled
        return EnvConfig, (dict(self.sizes), self.num_agents)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls.from_dict, serialization=core_schema.plain_serializer_function_ser_schema(cls.to_dict)
        )

    def __repr__(self) -> str:
        return f"EnvConfig(sizes={dict(self.sizes)!r}, num_agents={self.num_agents})"

    @classmethod
    def uniform(
        cls,
        sizes: Iterable[int],
        hole_ratio: float,
        wait_ratio: float | None = None,
        num_agents: int = 2,
        **further: float,
    ) -> EnvConfig:
        """Returns the configuration with the same share for each of `sizes` and the same ratios everywhere."""
        chosen = sorted(set(sizes))
        share = 1 / len(chosen) if chosen else 0.0
        part = SizeConfig(share, hole_ratio, wait_ratio, tuple(further.items()))
        return cls(dict.fromkeys(chosen, part), num_agents)

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as JSON values; `from_dict` reads them back."""
        return {"sizes": {str(size): p.to_dict() for size, p in self.sizes.items()}, "num_agents": self.num_agents}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EnvConfig:
        """Returns the configuration that `to_dict` wrote; `num_agents` may be left out (2).

        Raises:
            ValueError: Names key, value and what is legal.
        """
        only_keys(data, "config", ("sizes",), ("num_agents",))
        if not isinstance(data["sizes"], Mapping):
            raise ValueError(f"sizes: {shown(data['sizes'])} does not map board sizes to ratios")
        sizes: dict[int, SizeConfig] = {}
        for key, part in data["sizes"].items():
            size = int(key) if isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 4 else key
            if size in sizes:
                raise ValueError(f"sizes: {shown(key)} is there twice")
            only_keys(
                part, f"sizes.{str(key)[:80]}", REQUIRED, tuple(name for name in DIMENSIONS if name not in REQUIRED)
            )
            try:
                sizes[size] = SizeConfig.of(part)
            except ValueError as error:
                raise ValueError(f"sizes.{str(key)[:80]}.{error}") from None
        return cls(sizes, data.get("num_agents", 2))


def only_keys(data: Any, where: str, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
    """Raises a ValueError that names the key unless `data` is a mapping with all required keys and no unknown one."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: {shown(data)} is not an object with the keys {', '.join(required + optional)}")
    for key in data:
        if key not in required + optional:
            raise ValueError(f"{where}: unknown key {shown(key)}; legal keys: {', '.join(required + optional)}")
    for key in required:
        if key not in data:
            raise ValueError(f"{where}: missing key {key!r}")


def num_holes(size: int, hole_ratio: float) -> int:
    """Returns the number of holes of a board: `hole_ratio * size^2`, halves upwards."""
    return math.floor(hole_ratio * size * size + 0.5)


def cells_needed(num_agents: int) -> int:
    """Returns the least number of free cells on which every agent can leave its start for another cell.

    One more than agents, or as many: on a full board agents can only rotate along cycles, which takes free cells
    that all lie on cycles of the grid (4, or 6 and more).
    """
    return num_agents if num_agents == 4 or num_agents >= 6 else num_agents + 1
