"""Boards, animations and figures; imported by notebooks."""

from mapflake.plots.boards import animate, describe, gallery
from mapflake.plots.figures import configurations, curves, failures, feasibility_map, frontier, rates, response
from mapflake.plots.style import show

__all__ = [
    "animate",
    "configurations",
    "curves",
    "describe",
    "failures",
    "feasibility_map",
    "frontier",
    "gallery",
    "rates",
    "response",
    "show",
]
