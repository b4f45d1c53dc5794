"""The engineer in a stock GRPOTrainer: the small policy learns to plan, and a designer chooses its boards each round.

python docs/examples/engineer_trl.py uniform   # an arm; "learnability" if none is named; resumes if it was killed
"""

import sys
from pathlib import Path

from trl import GRPOConfig, GRPOTrainer

from mapflake.adapters.trl import DesignedBoards, EngineerCallback
from mapflake.env import REWARD, VOCABULARY, EnvConfig, format_plan, generate, render_prompt, reward_functions
from mapflake.trainer.checkpoint import ManifestCallback, newest_whole
from mapflake.trainer.params import WarmStartParams
from mapflake.trainer.policy import load_policy
from mapflake.trainer.warmstart import warm_start

BOARDS = EnvConfig.uniform([3, 4], hole_ratio=0.15, num_agents=2)
FORM = "compact"  # in which prompts and plans of the small policy are written
CPU = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "report_to": "none"}


def main(designer="learnability", folder="runs/trl", shown=600, instances=128, rounds=4, passes=2):
    """Trains the policy, prints its valid rates by round, and returns the rounds."""
    tasks = generate(BOARDS, 8 * shown, seed=1)
    pairs = [(render_prompt(t.instance, FORM), format_plan(t.instance, t.solution.plan, FORM)) for t in tasks]
    warm_start(pairs, VOCABULARY, WarmStartParams(steps=shown), f"{folder}/start", seed=0)
    start = load_policy(f"{folder}/start")

    name = designer if isinstance(designer, str) else getattr(designer, "__name__", "designer")
    boards = DesignedBoards(BOARDS, instances, seed=0, passes=passes, prompt_format=FORM)
    args = GRPOConfig(
        f"{folder}/{name}", num_train_epochs=rounds, shuffle_dataset=False, reward_weights=[*REWARD.values()],
        per_device_train_batch_size=2 * instances, num_generations=8, max_completion_length=96, learning_rate=5e-4,
        lr_scheduler_type="constant", save_steps=4, logging_steps=1, **CPU,
    )  # fmt: skip
    trainer = GRPOTrainer(start.model, reward_functions(FORM), args, boards.dataset, processing_class=start.tokenizer)
    validation = generate(BOARDS, 60, seed=0, split="validation")
    engineer = EngineerCallback(trainer, boards, designer, validation=validation)
    for callback in (engineer, ManifestCallback()):
        trainer.add_callback(callback)
    trainer.train(resume_from_checkpoint=newest_whole(Path(args.output_dir)))
    for round_ in engineer.history:
        shares = ", ".join(f"{s}x{s} {part.data_ratio:.2f}" for s, part in round_.config.sizes.items())
        print(f"round {round_.index}: valid {round_.report.valid_rate:.2f} after boards of {shares}")
    return engineer.history


if __name__ == "__main__":
    main(*sys.argv[1:])
