"""The golden transcripts: answers of every kind with the verdicts that all paths must give, written by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mapflake.env import Task, render_prompt
from mapflake.repro import from_json, read_jsonl


@dataclass(frozen=True)
class Transcript:
    """One answer and its verdict."""

    name: str  # what it is an example of; unique within its prompt_format
    prompt_format: str
    task: Task
    completion: str
    violations: tuple[str, ...]  # kinds of checks that fail, in the order of `KINDS`
    valid: bool
    optimal: bool
    soc_optimal: bool
    reward: float

    @property
    def prompt(self) -> str:
        return render_prompt(self.task.instance, self.prompt_format)


ROWS = read_jsonl(Path(__file__).with_name("transcripts.jsonl"))
TRANSCRIPTS = [from_json(Transcript, row, "transcript") for row in ROWS]


def answers(transcripts: list[Transcript]) -> Callable[[str], str]:
    """Returns a model that knows these transcripts: asked the same again, it gives the next answer to that prompt."""
    completions: dict[str, list[str]] = defaultdict(list)
    for transcript in transcripts:
        completions[transcript.prompt].append(transcript.completion)
    return lambda prompt: completions[prompt].pop(0)
