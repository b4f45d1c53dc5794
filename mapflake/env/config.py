"""The generator's configuration: for each board size a data ratio, a hole ratio and a wait ratio.

This is the paper's design space (sizes 3x3 to 10x10, hole ratios up to 0.5); that impossible boards are errors here,
and the rounding of the number of holes, are our choice. Not covered: reading what a model wrote
(`mapflake.engineer.read_reply`) and moving an illegal configuration into the legal space (`project`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mapflake.repro import shown

MIN_SIZE, MAX_SIZE, MAX_AGENTS = 3, 10, 9
MAX_HOLE_RATIO = 0.5


@dataclass(frozen=True)
class SizeConfig:
    """What boards of one size are like.

    Attributes:
        data_ratio: Share of the tasks, in [0, 1]; over all sizes these sum to 1.
        hole_ratio: Share of the cells that are holes, in [0, 0.5].
        wait_ratio: Share of this size's tasks that need a wait (`needs_wait`), in [0, 1]; None: as it falls.
    """

    data_ratio: float
    hole_ratio: float
    wait_ratio: float | None = None

    def __post_init__(self) -> None:
        for name, top in (("data_ratio", 1.0), ("hole_ratio", MAX_HOLE_RATIO), ("wait_ratio", 1.0)):
            value = getattr(self, name)
            if name == "wait_ratio" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"{name}: {shown(value)} is not a number in [0, {top:g}]")
            if not 0 <= value <= top:  # also nan
                raise ValueError(f"{name}: {shown(value)} is not in [0, {top:g}]")
            object.__setattr__(self, name, float(value))


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

    def __repr__(self) -> str:
        return f"EnvConfig(sizes={dict(self.sizes)!r}, num_agents={self.num_agents})"

    @classmethod
    def uniform(
        cls, sizes: Iterable[int], hole_ratio: float, wait_ratio: float | None = None, num_agents: int = 2
    ) -> EnvConfig:
        """Returns the configuration with the same share for each of `sizes` and the same ratios everywhere."""
        chosen = sorted(set(sizes))
        share = 1 / len(chosen) if chosen else 0.0
        return cls({size: SizeConfig(share, hole_ratio, wait_ratio) for size in chosen}, num_agents)

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as JSON values; `from_dict` reads them back."""
        sizes = {
            str(size): {"data_ratio": p.data_ratio, "hole_ratio": p.hole_ratio, "wait_ratio": p.wait_ratio}
            for size, p in self.sizes.items()
        }
        return {"sizes": sizes, "num_agents": self.num_agents}

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
            only_keys(part, f"sizes.{str(key)[:80]}", ("data_ratio", "hole_ratio"), ("wait_ratio",))
            try:
                sizes[size] = SizeConfig(**part)
            except ValueError as error:
                raise ValueError(f"sizes.{str(key)[:80]}.{error}") from None
        return cls(sizes, data.get("num_agents", 2))


def only_keys(data: Any, where: str, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
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
