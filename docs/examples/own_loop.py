"""A designer between the epochs of any trainer: verl, OpenRLHF, a script of your own.

Run it in the base install: `python docs/examples/own_loop.py`. A toy that practises stands for the model.
"""

from collections import Counter

from toy_learner import ToyPolicy, kind

from mapflake.engineer import RULES, Round, RuleInputs, diagnose
from mapflake.engineer.boards import apply_fallback, sample_boards
from mapflake.engineer.report import environment_statistics
from mapflake.env import EnvConfig, generate
from mapflake.repro import seed_for
from mapflake.trainer.evaluate import rollout

SIZES = (3, 4, 5)
validation = generate(EnvConfig.uniform(SIZES, 0.15, 0.5, num_agents=3), 120, seed=0, split="validation")
policy, config, history = ToyPolicy(Counter()), EnvConfig.uniform(SIZES, 0.15, num_agents=3), ()
design = RULES["learnability"](RuleInputs(SIZES, seed=0, current=lambda history: policy))

for epoch in range(3):
    proposal = design(history[-1].report, history) if history else None
    if proposal and proposal.config:  # a rejected reply changes nothing
        config = proposal.config
    seed = seed_for(0, "train", epoch)  # as in `run_round`, so that `Round.boards` draws the boards again
    boards, fallback = sample_boards(config, 60, seed=seed)  # easier boards where those asked for are too rare
    config = apply_fallback(config, fallback)
    policy.practised.update(kind(task.instance.size, task.needs_wait) for task in boards)  # your epoch on the boards
    rollouts, before = rollout(policy, validation, seed=0), history[-1].report if history else None  # your sampling
    report = diagnose(rollouts, training=environment_statistics(boards), before=before)
    more = {"proposal": proposal, "fallback": fallback, "training": {"instances": len(boards)}}
    history += (Round("learnability", epoch, config, report, **more),)
    shares = ", ".join(f"{size}x{size} {part.data_ratio:.2f}" for size, part in config.sizes.items())
    print(f"epoch {epoch}: boards {shares}; then valid {report.valid_rate:.3f}")
