"""Boards, animations and figures; imported by notebooks, and for its pictures by an adapter."""

from mapflake.plots.boards import animate, describe, gallery, snapshot
from mapflake.plots.figures import configurations, curves, failures, feasibility_map, rates
from mapflake.plots.style import show

__all__ = [
    "animate",
    "configurations",
    "curves",
    "describe",
    "failures",
    "feasibility_map",
    "gallery",
    "rates",
    "show",
    "snapshot",
]
