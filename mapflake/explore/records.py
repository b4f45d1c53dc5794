"""What runs left behind, for looking at: rounds by arm, failures with their plans, checkpoints.

A run's own folder has all rollouts and weights; the published ledgers (reports/rounds) have the prompts, the replies
and three typical failures a round. Both are read the same way, so that a fresh clone has something to show.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mapflake.engineer import History, Ledger, Round
from mapflake.env import PROMPT_FORMATS, Instance, Plan, PlanParseError, check, parse_completion


@dataclass(frozen=True)
class Failure:
    """A completion that is no valid plan.

    Attributes:
        source: Whose it is, e.g. `engineer, round 1`.
        instance: The board.
        completion: The text, as far as it was recorded.
        plan: What the verifier read in it; None if that is no plan.
    """

    source: str
    instance: Instance
    completion: str
    plan: Plan | None

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The checks that it fails, in the order of `KINDS`."""
        return ("parse",) if self.plan is None else check(self.instance, self.plan).kinds


def histories(ledgers: Iterable[Path]) -> dict[str, History]:
    """Returns the rounds of each arm, the shared round 0 first where it is among the ledgers.

    Args:
        ledgers: Files of rounds, e.g. `sorted(Path("reports/rounds").glob("*.jsonl"))`.

    Raises:
        LedgerError: A file cannot be read; names file and line.
    """
    rounds = [one for path in ledgers for one in Ledger(path).rounds]
    shared = [one for one in rounds if one.index == 0][:1]
    arms = dict.fromkeys(one.arm for one in rounds if one.index > 0)
    return {arm: (*shared, *(one for one in rounds if one.arm == arm and one.index > 0)) for arm in arms}


def failures(rounds: Iterable[Round]) -> list[Failure]:
    """Returns the failures of the rounds, each once: all where the run's own files are there, else the typical ones."""
    found: list[Failure] = []
    for one in rounds:
        source = f"round {one.index}" if one.index == 0 else f"{one.arm}, round {one.index}"
        rollouts = one.files.get("failures")
        if rollouts is not None and rollouts.is_file():
            from mapflake.trainer import evaluate

            for r in evaluate.load_rollouts(rollouts):
                found.append(Failure(source, r.task.instance, r.completion, readable(r.completion, r.task.instance)))
        else:
            for example in one.report.examples:
                plan = Plan(example.moves) if example.moves else None
                found.append(Failure(source, Instance.from_text(example.board), example.completion, plan))
    return list(dict.fromkeys(found))  # arms share round 0


def readable(completion: str, instance: Instance) -> Plan | None:
    """Returns the plan in a completion of either prompt_format (no text is a plan in both), None if there is none."""
    for prompt_format in PROMPT_FORMATS:
        try:
            return parse_completion(completion, instance.num_agents, prompt_format)
        except PlanParseError:
            continue
    return None


def checkpoints(folder: Path) -> list[Path]:
    """Returns the folders of finished checkpoints anywhere below `folder`, the newest first."""
    from mapflake.trainer import checkpoint

    found = [path.parent for path in folder.rglob("model.safetensors") if (path.parent / checkpoint.MANIFEST).is_file()]
    return sorted(found, key=lambda path: (-path.stat().st_mtime, path))
