"""Boards put to a model by verifiers' own command, in an environment of its own: it wants openai < 3.

python -m venv .venv-verifiers && . .venv-verifiers/bin/activate
pip install -c requirements/verifiers.txt -e . verifiers
vf-validate mapflake --runtime.type subprocess
python docs/examples/eval_verifiers.py http://127.0.0.1:8000/v1 Qwen/Qwen3-4B
"""

import json
import subprocess
import sys
from pathlib import Path


def main(url, model, out="outputs", n=5, tasks=""):
    """Returns the mean reward of a model behind an OpenAI-compatible server (`mean`); the traces stay in `out`."""
    command = ["vf-eval", "mapflake", "-m", model, "--client.base-url", url, "--client.api-key-var", "OPENAI_API_KEY"]
    command += ["--env.agent.runtime.type", "subprocess", "--no-push", "--no-rich", "-n", str(n)]
    boards = ["--env.taskset.tasks", tasks] if tasks else ["--env.taskset.num-agents", "2"]
    command += [*boards, "-o", out, "--run.name", "lake", "--clean"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return mean(Path(out, "lake", "traces.jsonl"))


def mean(traces):
    """Returns the mean reward of the episodes in a file of traces; those whose request failed are counted on stderr."""
    episodes = [json.loads(line) for line in traces.read_text().splitlines()]
    rewards = [episode["traces"][0]["rewards"] for episode in episodes]
    scores = [reward["reward"]["score"] for reward in rewards if "reward" in reward]
    if len(scores) < len(rewards):
        print(f"{len(rewards) - len(scores)} of {len(rewards)} requests failed, see {traces}", file=sys.stderr)
    if not scores:
        sys.exit(f"{traces}: no episode has a reward")
    return sum(scores) / len(scores)


if __name__ == "__main__":
    print(main(*sys.argv[1:3]))
