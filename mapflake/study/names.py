"""Names of arms, the same in all figures, tables and sentences."""

from mapflake.engineer.designers import BEGINNINGS

APART = ("validation", "held_out")
"""The sets of boards that are not of the paper's benchmark."""

BASE, ROUND_0 = BEGINNINGS

DRAWS = ("fixed", "fixed_draw_2", "fixed_draw_3", "fixed_draw_4")
"""The arms that keep one random configuration."""

NAMES = {
    BASE: "before RL",
    ROUND_0: "round 0",
    "fixed": "fixed configuration",
    "engineer": "engineer: RL checkpoint",
    "base_engineer": "engineer: base model",
    "trained_engineer": "engineer: trained to design",
    "co_trained": "engineer: trained in every round",
    "heuristic": "heuristic expert",
    "domain_randomisation": "domain randomisation",
    "learnability": "learnability",
    "learning_progress": "learning progress",
    "accel_lite": "ACCEL-lite",
    "uniform": "uniform",
    "evaluation_matched": "evaluation-matched",
    "random_search": "random search",
    "oracle": "oracle",
    "fixed_longer": "fixed, trained longer",
    "fixed_dynamic": "fixed, dynamic sampling",
    "fixed_draw_2": "fixed, a second draw",
    "fixed_draw_3": "fixed, a third draw",
    "fixed_draw_4": "fixed, a fourth draw",
    **{f"v{i}": f"engineer, V{i}" for i in range(1, 6)},
    "v6_full": "engineer, V6 and RL details",
    "previous_report": "engineer, the report before",
    "shuffled_failures": "engineer, shuffled tables",
    "schema_only": "engineer, no report",
    "trained_shuffled": "trained engineer, shuffled tables",
    "trained_schema_only": "trained engineer, no report",
    "told_another": "trained engineer, another's report",
    "told_near": "trained engineer, report of the next age",
    "told_mean": "trained engineer, mean report",
    **{f"trained_v{i}": f"trained engineer, V{i}" for i in range(1, 6)},
}
"""Arm -> its name, in the order of tables; the first ones have a look of their own in figures (`plots.style.looks`)."""


def name(arm: str) -> str:
    """Returns the name of an arm in figures and tables."""
    return NAMES.get(arm, arm.replace("_", " "))
