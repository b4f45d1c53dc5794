"""Everything that a run does with a secret in its environment, in little: training, rounds, a server, a notebook.

Started by test_secrets.py, which looks for the secrets in all that is written and printed.
"""

from __future__ import annotations

import logging
import sys
import traceback
from dataclasses import replace
from pathlib import Path

import openai
from engineer_samples import ScriptedTrainer, history
from small_repo import prepared_stage, repository

from mapflake.engineer.designers import EngineerParams
from mapflake.engineer.rounds import RoundSettings, run_arm
from mapflake.env import EnvConfig, generate
from mapflake.nb import stages
from mapflake.trainer.openai_client import OpenAIPolicy, ServerError
from mapflake.trainer.params import ModelParams, WarmStartParams
from mapflake.trainer.warmstart import warm_start

SERVER = sys.argv[1]
SHAPE = ModelParams(hidden_size=16, layers=1, heads=2, intermediate_size=16)


def failing_notebook(root: Path) -> None:
    """Runs a stage whose cell is refused by the server; the notebook as far as it got stays behind."""
    repository(root, "params.yaml")
    ask = (
        f"from mapflake.trainer.openai_client import OpenAIPolicy\nOpenAIPolicy('m', '{SERVER}/401/v1').complete(['a'])"
    )
    stages.run(root, prepared_stage(root, "analysis", {"arms": []}, "arms = []\nrun = ''", ask), {})


def main() -> None:
    """Runs all of it; what is refused is printed with its traceback, as it would be seen."""
    logging.basicConfig(level=logging.DEBUG)  # all that any library logs
    openai._base_client.INITIAL_RETRY_DELAY = 0.01
    params = WarmStartParams(model=SHAPE, steps=2, batch_size=2, microbatch=2, warmup_steps=0)
    warm_start([("w1", "w2")] * 2, ["w1", "w2"], params, "policy", seed=0)  # with wandb, offline

    tasks = generate(EnvConfig.uniform([3], 0.1), 4, seed=0)
    settings = RoundSettings(Path("arm"), ScriptedTrainer(tasks), tasks, seed=0)
    designer = {"model": "openai:m", "base_url": f"{SERVER}/500/v1", "samples": 1}
    policy = OpenAIPolicy("m", f"{SERVER}/500/v1", retries=1)
    print(repr(policy), policy.complete(["a"]), policy.failures)
    before = tuple(replace(r, checkpoint_sha256=settings.trainer.sha256(r.checkpoint)) for r in history(1))
    for status in (500, 401):
        designer["base_url"] = f"{SERVER}/{status}/v1"
        try:
            run_arm(f"server_{status}", settings, before, rounds=1, sizes=[3], params=EngineerParams(),
                    designers={f"server_{status}": designer})  # fmt: skip
        except ServerError:
            traceback.print_exc()
        settings = RoundSettings(Path("arm_401"), settings.trainer, tasks, seed=0)
    try:
        failing_notebook(Path.cwd())
    except stages.StageError:
        traceback.print_exc()
    print("to the end")


if __name__ == "__main__":
    main()
