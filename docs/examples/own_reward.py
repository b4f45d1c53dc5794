"""Another reward of designs: the share of a design's boards that are neither too easy nor too hard for the policy.

Run it: `python docs/examples/own_reward.py`. A reward is a function of a situation and a design. A situation is the
report and the history that the design is made for, and the policy's success by kind of boards. A rejected reply gets 0.
"""

from toy_learner import ToyPolicy

from mapflake.engineer import Round, diagnose, format_config, project
from mapflake.engineer.design_rl import Designs
from mapflake.engineer.situations import Situation, TableParams, expected_gain, kind_shares, measure
from mapflake.env import EnvConfig, generate
from mapflake.trainer.evaluate import rollout

SIZES = (3, 4, 5)


def half_solved(situation: Situation, config: EnvConfig) -> float:
    """Returns the share of a design's boards of which the policy solves between 20% and 80%, by kind of board."""
    success = situation.success
    return sum(share for kind, share in kind_shares(config).items() if 0.2 <= success.value(kind) <= 0.8)


def main() -> None:
    practised = {"3x3": 40, "4x4": 14, "5x5": 2}  # it has practised small boards more than large ones
    policy = ToyPolicy({f"{size}{waits}": n for size, n in practised.items() for waits in ("", ", waits")})
    first = EnvConfig.uniform(SIZES, 0.1, 0.5)
    report = diagnose(rollout(policy, generate(first, 60, seed=0, split="validation"), seed=0))
    success, learnability = measure(policy, SIZES, TableParams(), seed=0)
    situation = Situation(report, (Round("shared", 0, first, report),), success, learnability)
    for name, reward in {"expected gain": expected_gain, "half solved": half_solved}.items():
        # `grpo.train_round(checkpoint, designs, params, out, seed=0)` trains an engineer by it.
        designs = Designs([situation], SIZES, reward=reward)
        score = next(iter(designs.rewards("chat")))
        scores = []
        for size in SIZES:  # a design of this size alone, in which half of the boards need a wait
            ratios = {s: {"data_ratio": float(s == size), "hole_ratio": 0.15, "wait_ratio": 0.5} for s in SIZES}
            (value,) = score([format_config(project(ratios, SIZES))], [0])
            scores.append(f"{size}x{size} {value:.2f}")
        print(f"{name:>13}: {', '.join(scores)}")


if __name__ == "__main__":
    main()
