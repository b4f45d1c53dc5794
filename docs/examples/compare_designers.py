"""A designer of one's own against ours, by the statistics of the study: paired by seed and board, Holm's correction.

Run it: `python docs/examples/compare_designers.py`. A toy learner stands in for GRPO, so the numbers say nothing about
designers. With `Grpo(RLParams(...))` or a `TrainingBackend` of your own in place of `ToyLearner()`, in `rates` and in
`toy_learner.run`, and with weights as its start, they do.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import own_designer  # adds the arm waits_where_they_fail
import toy_learner

from mapflake.env import EnvConfig, Task, generate
from mapflake.study.statistics import estimate, holm, paired
from mapflake.trainer import evaluate

assert "waits_where_they_fail" in own_designer.RULES

OTHERS, SEEDS = ("fixed", "heuristic", "learnability"), range(5)


def rates(arm: str, boards: Sequence[Task], folder: Path):  # a pandas.DataFrame
    """Returns the valid rate of an arm's last checkpoint, a row for each training seed and a column for each board."""
    by_seed = []
    for seed in SEEDS:
        last = toy_learner.run(arm, folder / f"{seed}", seed=seed)[-1]
        policy = toy_learner.ToyLearner().load(last.checkpoint)
        frame = evaluate.frame(evaluate.rollout(policy, boards, samples=2, seed=seed))
        by_seed.append(frame.groupby("board")["valid"].mean().rename(seed))
    return by_seed[0].to_frame().join(by_seed[1:], how="outer").T


def main(folder: Path) -> None:
    boards = generate(EnvConfig.uniform([3, 4, 5], 0.15, 0.5, 3), 60, seed=0, split="benchmark")
    ours = rates("waits_where_they_fail", boards, folder)
    leads = {other: estimate(paired(ours, rates(other, boards, folder))) for other in OTHERS}
    corrected = holm([lead.p for lead in leads.values()])
    for (other, lead), p in zip(leads.items(), corrected, strict=True):
        print(f"against {other:>12}: {100 * lead.mean:+.1f} points", end="")
        if lead.low is not None and lead.high is not None:  # there are two seeds and two boards that differ
            print(f" ({100 * lead.low:+.1f} to {100 * lead.high:+.1f}) p = {p:.3f}", end="")
        print()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as runs:
        main(Path(runs))
