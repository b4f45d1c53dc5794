"""What GRPO on boards gained in the run `llm`, on many more boards than its validation set has.

`python -m benchmarks.gain SEED` answers fresh boards with two checkpoints of a training seed, the student before RL and
the last round of the arm `fixed_longer`, and writes reports/llm/gain-SEED.json; the page of the run reads it
(`mapflake.nb.page`). The boards are drawn as the validation boards of 4x4 and 5x5 are, in their split, and none of
them is one of those. Both checkpoints get the same sampling noise.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mapflake import repro, study
from mapflake.engineer import Grpo, Ledger
from mapflake.env import EnvConfig, generate, load_tasks
from mapflake.nb import params
from mapflake.nb.folders import student
from mapflake.trainer import evaluate

BOARDS, SAMPLES, DRAW = 900, 2, 1  # boards drawn, of which those that are there twice count once; answers; their seed
SIZES = (4, 5)  # the split has no fresh 3x3 boards that need a wait


def main(seed: int, root: Path = Path()) -> None:
    """Measures one training seed."""
    sections, run = params.effective(params.load(root), "llm"), "runs/llm"
    validation, (waits,) = sections.env_design.validation, sections.env_design.validation.wait_ratios
    config = EnvConfig.uniform(SIZES, sections.env_design.benchmark.hole_ratio, waits, validation.agents)
    instances = [task.instance for task in load_tasks(root / run / "env_design/validation.jsonl")]
    drawn = generate(config, BOARDS, seed=DRAW, split="validation", exclude=instances)
    boards = [*{task.instance.key: task for task in drawn}.values()]
    last = Ledger(root / run / f"ablations/fixed_longer-{seed}/rounds.jsonl").rounds[-1]
    trainer = Grpo(sections.baseline_rl.rl)
    record: dict[str, Any] = {"boards": len(boards), "samples": SAMPLES, "rounds": last.index + 1}
    record |= {"seed": seed, "draw": DRAW, "sizes": SIZES, "made": repro.to_json(study.records.made())}
    for when, checkpoint in {"before": student(run, f"student/{seed}"), "after": last.checkpoint}.items():
        policy = trainer.load(checkpoint)
        rollouts = evaluate.rollout(policy, boards, samples=SAMPLES, seed=repro.seed_for(seed, "gain"), progress=when)
        record[when] = repro.to_json(study.records.outcomes(rollouts, boards))
    repro.write_json(root / f"reports/llm/gain-{seed}.json", record)


if __name__ == "__main__":
    main(int(sys.argv[1]))
