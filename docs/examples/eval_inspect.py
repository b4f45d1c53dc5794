"""Boards put to a model by inspect-ai. The same from the shell, with any provider that inspect knows:

    inspect eval mapflake/frozenlake --model openai/gpt-5 -T n=50 -T num_agents=3

Here the model is a mock that answers that nobody moves, so that nothing is asked of anybody:

    python docs/examples/eval_inspect.py
"""

import sys
import tempfile

from inspect_ai import eval
from inspect_ai.model import ModelOutput, ModelUsage, get_model

from mapflake.adapters.inspect_task import frozenlake


def nobody_moves(*_):
    """Returns the answer of a lazy model, which solves nothing: its scores are 0."""
    output = ModelOutput.from_content("mock", '{"plan": ["", ""]}')
    output.usage = ModelUsage()  # else inspect fetches a tokenizer to count
    return output


def main(model=None):
    """Returns the metrics of a run."""
    mock = get_model("mockllm/model", custom_outputs=nobody_moves)
    with tempfile.TemporaryDirectory() as folder:
        log = eval(frozenlake(n=5, sizes="3,4"), model=model or mock, log_dir=folder, display="none")[0]
    return {score.name: {name: metric.value for name, metric in score.metrics.items()} for score in log.results.scores}


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
