"""Another reward of designs: the share of a design's boards on which the policy is neither sure nor lost.

Run it: `python docs/examples/own_reward.py`. A reward is a table of values by kind of board, measured on a policy. The
reward of a design is the mean of the table over the boards that the design asks for.
"""

from toy_learner import ToyPolicy

from mapflake.engineer import Round, diagnose, format_config, project
from mapflake.engineer.design_rl import Designs
from mapflake.engineer.situations import KindTable, Situation, TableParams, boards_of_kinds, measure, table
from mapflake.env import EnvConfig, generate
from mapflake.trainer.evaluate import Completer, rollout

SIZES = (3, 4, 5)


def frontier_table(policy: Completer, seed: int) -> KindTable:
    """Returns 1 for the kinds of boards of which the policy solves a fifth to four fifths, else 0."""
    solved = {}
    for kind, tasks in boards_of_kinds(SIZES, 12, num_agents=2, seed=seed).items():
        verdicts = [one.verdict for one in rollout(policy, tasks, samples=4, seed=seed)] if tasks else []
        solved[kind] = sum(verdict.valid for verdict in verdicts) / max(len(verdicts), 1)
    return table({kind: float(0.2 <= share <= 0.8) for kind, share in solved.items()})


def main() -> None:
    policy = ToyPolicy({"3x3, waits": 40, "4x4, waits": 14, "5x5, waits": 2})  # knows most, half and few of these
    first = EnvConfig.uniform(SIZES, 0.1)
    report = diagnose(rollout(policy, generate(first, 60, seed=0, split="validation"), seed=0))
    tables = measure(policy, SIZES, TableParams(), seed=0) | {"frontier": frontier_table(policy, seed=0)}
    situation = Situation(report, (Round("shared", 0, first, report),), tables)
    for reward in tables:
        # `grpo.train_round(checkpoint, designs, params, out, seed=0)` trains an engineer by it.
        designs = Designs([situation], reward, SIZES)
        score = next(iter(designs.rewards("chat")))
        for size in SIZES:
            asked = {one: {"data_ratio": float(one == size), "hole_ratio": 0.15, "wait_ratio": 1.0} for one in SIZES}
            (value,) = score([format_config(project(asked, SIZES))], [0])
            print(f"{reward:>12} of boards of {size}x{size} that need a wait: {value:.2f}")


if __name__ == "__main__":
    main()
