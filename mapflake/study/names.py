"""Names of arms, the same in all figures and tables."""

from mapflake.engineer.designers import BEGINNINGS, DYNAMIC, engineer_arm

BASE, ROUND_0 = BEGINNINGS


def name(arm: str) -> str:
    """Returns the name of an arm in figures and tables."""
    designer = arm.removesuffix(DYNAMIC)
    engineer = engineer_arm(designer)
    label = engineer[1] if engineer else NAMES.get(designer, designer.replace("_", " "))
    return label if designer == arm else f"{label}, dynamic sampling"


NAMES = {
    BASE: "before RL",
    ROUND_0: "round 0",
    "fixed": "fixed configuration",
    **{arm: arm for arm in ("engineer", "engineer_base", "engineer_trained")},
    "heuristic": "half-solved rule",
    "domain_randomisation": "domain randomisation",
    "learnability": "learnability",
    "frontier": "frontier, measured",
    "constant": "constant, of other students",
    "uniform": "uniform",
    "evaluation_matched": "evaluation-matched",
    "fixed_longer": "fixed, trained longer",
    **{f"{arm}{DYNAMIC}": "" for arm in ("fixed", "engineer_trained", "evaluation_matched")},
    "language_model": "language model",
    "language_model_another": "language model, another's report",
}
"""Arm -> its name, in the order of tables; the first ones have a look of their own in figures (`plots.style.looks`)."""
NAMES |= {arm: name(arm) for arm in NAMES}
