"""Floor 4: boards, animations and figures; imported by notebooks only."""

from mapflake.plots.boards import Animation, animate, describe, draw, gallery
from mapflake.plots.designs import beside_rules
from mapflake.plots.figures import configurations, curves, differences, failures, panels, rates, show

__all__ = [
    "Animation",
    "animate",
    "beside_rules",
    "configurations",
    "curves",
    "describe",
    "differences",
    "draw",
    "failures",
    "gallery",
    "panels",
    "rates",
    "show",
]
