"""Boards, animations and figures; imported by notebooks, and for its pictures by an adapter."""

from mapflake.plots.animation import animate
from mapflake.plots.boards import describe, draw, gallery, snapshot
from mapflake.plots.figures import beside_rules, configurations, curves, differences, failures, panels, rates
from mapflake.plots.style import show
from mapflake.plots.survey import feasibility_map, overview

__all__ = [
    "animate",
    "beside_rules",
    "configurations",
    "curves",
    "describe",
    "differences",
    "draw",
    "failures",
    "feasibility_map",
    "gallery",
    "overview",
    "panels",
    "rates",
    "show",
    "snapshot",
]
