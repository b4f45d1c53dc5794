"""Another context: a combination of the paper's sections under a name of its own, and a section that is new.

Run it: `python docs/examples/own_variant.py`.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mapflake.engineer import VARIANTS, EngineerParams, FailureReport, History, Variant, build_prompt, llm_engineer
from mapflake.engineer.designers import RULES
from mapflake.engineer.report import table

VARIANTS["lean"] = Variant(history="all", training="bookkeeping")


def with_goals(report: FailureReport, history: History, sizes: Iterable[int], **options: Any) -> str:
    """Returns the prompt of `build_prompt` with a section of our own before "Your answer"."""
    sections, heading, answer = build_prompt(report, history, sizes, **options).rpartition("# Your answer")
    worst = min(report.sizes, key=lambda s: s.optimal_rate)
    goal = f"{worst.size}x{worst.size} has the lowest optimal rate, {worst.optimal_rate:.0%}: raise it."
    return f"{sections}# What we want\n\n{goal}\n\n{heading}{answer}"


RULES["engineer_with_goals"] = lambda i: llm_engineer(
    i.current, i.sizes, EngineerParams(), seed=i.seed, write=with_goals
)


class AsBefore:
    """Stands in for a model: answers any prompt with one design."""

    prompt_format = "chat"

    def complete(self, prompts: list[str], *, n: int = 1, **_: Any) -> list[list[str]]:
        ratios = '{"data_ratio": 1, "hole_ratio": 0.2, "wait_ratio": null}'
        return [[f'As told. {{"sizes": {{"5": {ratios}, "6": {ratios}}}}}'] * n for _ in prompts]


def main() -> None:
    import toy_learner

    sizes = (5, 6)
    with tempfile.TemporaryDirectory() as folder:
        history = toy_learner.run("fixed", Path(folder), sizes, rounds=1)
    report = history[-1].report
    rows = []
    for name in ("V1", "V6", "lean"):
        prompt = build_prompt(report, history, sizes, variant=name)
        headings = [line[2:].split(" ")[0] for line in prompt.split("\n") if line.startswith("# ")]
        rows.append([name, str(len(prompt.split())), ", ".join(headings[2:-1])])
    print(table(["context", "words", "between task and answer"], rows), end="\n\n")

    params = EngineerParams(variant="lean", samples=1)
    proposal = llm_engineer(lambda history: AsBefore(), sizes, params, seed=0, write=with_goals)(report, history)
    print(*proposal.prompt[proposal.prompt.index("# What we want") :].split("\n")[:3], sep="\n", end="\n\n")
    print(proposal.config.sizes)


if __name__ == "__main__":
    main()
