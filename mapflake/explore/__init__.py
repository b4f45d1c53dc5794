"""Top floor: the method by hand, in a notebook. Widgets around small functions that return HTML.

`records` finds what past runs left (rounds, failures, checkpoints), `views` turns it into HTML, `panels` puts knobs
around a view. Every view works without a browser, and a panel that is executed where there is none leaves its picture
behind, so that "Run All" says something everywhere. Used by notebooks/explore.ipynb only; no result comes from here.
"""

from mapflake.explore.panels import Board, Panel, ask, browse, generator, rounds, stepper
from mapflake.explore.records import Failure, checkpoints, failures, histories

__all__ = [
    "Board",
    "Failure",
    "Panel",
    "ask",
    "browse",
    "checkpoints",
    "failures",
    "generator",
    "histories",
    "rounds",
    "stepper",
]
