"""The sections that an engineer's prompt can have, and the paper's combinations of them.

A combination of sections is what the paper calls a context. In params.yaml it is a name in `VARIANTS`, or another
combination: `variant: {guideline: true, history: all}`.
"""

from __future__ import annotations

from typing import Literal

from mapflake.repro import Params, shown


class Variant(Params):
    """The sections that a prompt has.

    Attributes:
        failures: F.
        guideline: G.
        history: H: "none", "all" rounds, or the "designed" ones (without the round-0 default).
        summary: S.
        training: T: "none", "bookkeeping" or "full".
    """

    failures: bool = True
    guideline: bool = False
    history: Literal["none", "all", "designed"] = "none"
    summary: bool = False
    training: Literal["none", "bookkeeping", "full"] = "none"

    def tells(self, index: int) -> bool:
        """Returns whether a prompt may give away what round `index` was trained on: of round 0 only if H is "all"."""
        return index > 0 or self.history == "all"


VARIANTS = {
    "V1": Variant(),
    "V2": Variant(guideline=True),
    "V3": Variant(guideline=True, history="all"),
    "V4": Variant(guideline=True, history="designed"),
    "V5": Variant(guideline=True, history="designed", summary=True),
    "V6": Variant(guideline=True, history="designed", training="bookkeeping"),
    "V6-full": Variant(guideline=True, history="designed", training="full"),
    "schema": Variant(failures=False),
}
"""The paper's contexts; V6-full is V6 with full RL details instead of bookkeeping. `schema` is a control, ours: the
task and the form of the answer alone."""

BUILT_IN = dict(VARIANTS)

DEFAULT_VARIANT = "V6"
"""The paper's best."""


def known_variant(name: str) -> str:
    """Returns the name of a variant; ValueError if it is none."""
    if name not in VARIANTS:
        raise ValueError(f"variant {shown(name)} is unknown; legal: {', '.join(VARIANTS)}")
    if not isinstance(VARIANTS[name], Variant):
        raise ValueError(f"VARIANTS[{name!r}]: must be a Variant, not {shown(VARIANTS[name])}")
    return name
