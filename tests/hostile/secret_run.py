"""Everything that a run does with a secret in its environment, in little: training, rounds, a server, a notebook.

Started by test_secrets.py, which looks for the secrets in all that is written and printed.
"""

from __future__ import annotations

import logging
import shutil
import sys
import traceback
from pathlib import Path

import nbformat
import openai
from engineer_samples import ScriptedTrainer, history

from mapflake import repro
from mapflake.engineer.designers import EngineerParams
from mapflake.engineer.rounds import RoundSettings, run_arm
from mapflake.env import EnvConfig, generate
from mapflake.nb import notebooks, stages
from mapflake.trainer.openai_client import OpenAIPolicy, ServerError
from mapflake.trainer.params import ModelParams, WarmStartParams
from mapflake.trainer.warmstart import warm_start

ROOT, SERVER = Path(__file__).resolve().parents[2], sys.argv[1]
SHAPE = ModelParams(hidden_size=16, layers=1, heads=2, intermediate_size=16)


def failing_notebook(root: Path) -> None:
    """Runs a stage whose cell is refused by the server; the notebook as far as it got stays behind."""
    (root / "mapflake").symlink_to(ROOT / "mapflake")
    shutil.copy(ROOT / "params.yaml", root)
    ask = (
        f"from mapflake.trainer.openai_client import OpenAIPolicy\nOpenAIPolicy('m', '{SERVER}/401/v1').complete(['a'])"
    )
    cells = [nbformat.v4.new_code_cell(source, id=f"c{i}") for i, source in enumerate(["arms = []\nrun = ''", ask])]
    cells[0].metadata["tags"] = ["parameters"]
    (root / "notebooks").mkdir()
    nbformat.write(nbformat.v4.new_notebook(cells=cells), root / "notebooks/05_analysis.ipynb")
    repro.write_json(root / "build/params/analysis.json", {"arms": []})
    view = notebooks.code_view(notebooks.read(root / "notebooks/05_analysis.ipynb"), "05_analysis")
    repro.write_text(root / "build/code/05_analysis.py", view)
    stages.run(root, "05_analysis", {})


def main() -> None:
    """Runs all of it; what is refused is printed with its traceback, as it would be seen."""
    logging.basicConfig(level=logging.DEBUG)  # all that any library logs
    openai._base_client.INITIAL_RETRY_DELAY = 0.01
    params = WarmStartParams(model=SHAPE, steps=2, batch_size=2, microbatch=2, warmup_steps=0)
    warm_start([("w1", "w2")] * 2, ["w1", "w2"], params, "policy", seed=0)  # with wandb, offline

    tasks = generate(EnvConfig.uniform([3], 0.1), 4, seed=0)
    settings = RoundSettings(Path("arm"), ScriptedTrainer(tasks), tasks, seed=0)
    asked = {"model": "openai:m", "base_url": f"{SERVER}/500/v1", "samples": 1}
    policy = OpenAIPolicy("m", f"{SERVER}/500/v1", retries=1)
    print(repr(policy), policy.complete(["a"]), policy.failures)
    for status in (500, 401):
        asked["base_url"] = f"{SERVER}/{status}/v1"
        try:
            run_arm(f"server_{status}", settings, history(1), rounds=1, sizes=[3], params=EngineerParams(),
                    designers={f"server_{status}": asked})  # fmt: skip
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
