"""Another designer: it asks for waits where boards that need one fail more often than those that do not.

Run it: `python docs/examples/own_designer.py`.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from mapflake import repro
from mapflake.engineer import Designer, FailureReport, History, Proposal, Round, ruled
from mapflake.engineer.designers import RULES

RECORDED = Path(__file__).parents[2] / "reports/cells/study"


def waits_where_they_fail(sizes: Sequence[int]) -> Designer:
    """Returns a designer: more data for sizes that fail, more waits where boards that need one fail more often."""

    def design(report: FailureReport, history: History) -> Proposal:
        ratios = {}
        for row in (s for s in report.sizes if s.size in sizes):
            easy, easy_valid = row.rollouts - row.wait_rollouts, row.valid - row.wait_valid
            gap = easy_valid / max(easy, 1) - row.wait_valid / max(row.wait_rollouts, 1)
            ratios[row.size] = {"data_ratio": 1.1 - row.valid_rate, "hole_ratio": 0.15, "wait_ratio": 0.1 + gap}
        return ruled(ratios, history, "waits where they fail", sizes)

    return design


RULES["waits_where_they_fail"] = lambda inputs: waits_where_they_fail(inputs.sizes)


def on_record() -> None:
    """Prints what the rule asks for after round 0 of a published run, and what its trained engineer asked for."""
    seed = min(int(path.stem.rpartition("-")[2]) for path in RECORDED.glob("engineer_trained-*.json"))
    rows = repro.read_json(RECORDED / f"engineer_trained-{seed}.json")["rounds"]
    rounds = tuple(repro.from_json(Round, row, "record") for row in rows)
    sizes = tuple(s.size for s in rounds[0].report.sizes)
    ours = waits_where_they_fail(sizes)(rounds[0].report, rounds[:1])
    for name, proposal in (("trained engineer", rounds[1].proposal), ("ours", ours)):
        if proposal and proposal.config:
            waits = ", ".join(f"{size}x{size} {part.wait_ratio:.2f}" for size, part in proposal.config.sizes.items())
            print(f"round 1, wait ratios, {name:>16}: {waits}")


def in_the_loop(folder: Path) -> None:
    """Prints the valid rates of three arms over two rounds, with a toy in place of GRPO."""
    import toy_learner

    for arm in ("fixed", "heuristic", "waits_where_they_fail"):
        rates = [f"{r.report.valid_rate:.3f}" for r in toy_learner.run(arm, folder)]
        print(f"{arm:>21}: valid {', '.join(rates)}")


if __name__ == "__main__":
    on_record()
    with tempfile.TemporaryDirectory() as folder:
        in_the_loop(Path(folder))
