"""The record of a run: one line of `rounds.jsonl` for each round, enough to replay every decision from.

A finished round is never run again. Paths are relative to the ledger's folder, so that the folder can move and a
published copy names no machine. Each line ends with a checksum of its bytes. Not covered: locking against a second
process (a stage holds a lock while it runs).
"""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from mapflake import repro
from mapflake.engineer.actions import project
from mapflake.engineer.boards import Fallback, apply_fallback, sample_boards
from mapflake.engineer.reply import Proposal, read_replies
from mapflake.engineer.report import FailureReport
from mapflake.env import EnvConfig, Task
from mapflake.repro import shown

logger = logging.getLogger(__name__)

SCHEMA = 3
CHECKSUM = "sha256"
ARM_KEYS = {"sizes", "designer", "constant", "engineer", "model_sha256", "variant"}
"""The keys of a round's parameters that say who designs (`identity.arm_values`)."""

HASHED = {
    "code_sha256": "the code that decides a round",
    "parent_sha256": "the weights that it starts from",
    "before_design_rl_sha256": "the weights before design RL",
    "validation_sha256": "the validation boards",
    "about.model_sha256": "the weights that design",
    "about.designer.sha256": "the source of the designer",
    "about.told_sha256": "the reports of other students that it is told",
}
"""Parameter that is a hash -> what it is the hash of, for messages."""


class LedgerError(RuntimeError):
    """A ledger that does not fit what is asked of it; the message names file, round and what differs."""


@dataclass(frozen=True)
class Round:
    """One engineer iteration: a configuration, the checkpoint trained on it, and what that checkpoint gets wrong.

    Attributes:
        arm: The name of the run's designer, as in `RoundSettings`; "shared" is a round that arms have in common.
        index: 0 for the random first configuration, then 1, 2, ...
        config: The distribution that the training instances were drawn from.
        report: Failures of `checkpoint` on the validation set.
        checkpoint: Folder of the weights after the round, whose hash is `checkpoint_sha256`.
        seed: Root of the run's random streams.
        proposal: The design behind `config`; None in round 0. A rejected one left the configuration as it was.
        fallback: The ratios of the design that could not be drawn, by size, and those that `config` has instead.
        parent_sha256: Hash (or name on the hub) of the weights that were trained on the round's boards; empty where an
            older record did not have it.
        before_design_rl_sha256: Hash of the weights from which design RL made those, if there was any.
        training: Instances, steps, algorithm and hyperparameters.
        metrics: Valid and optimal rates on the validation set, with the numbers behind them.
        parameters: Everything that decided the round's result; a resumed run must ask for the same.
        files: Other files of the round by name, e.g. {"rollouts": ..., "failures": ...}.
        versions: Versions of the packages that computed it.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    arm: str
    index: Annotated[int, Field(ge=0)]
    config: EnvConfig
    report: FailureReport
    checkpoint: Path = Path()
    checkpoint_sha256: str = ""
    seed: int = 0
    proposal: Proposal | None = None
    fallback: Fallback = field(default_factory=dict)
    parent_sha256: str = ""
    before_design_rl_sha256: str | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """Board sizes of the configuration or the report, ascending."""
        return sorted({*self.config.sizes, *(s.size for s in self.report.sizes)})

    @property
    def was_rejected(self) -> bool:
        """Whether there was a proposal, and it was rejected."""
        return self.proposal is not None and self.proposal.config is None

    def boards(self) -> list[Task]:
        """Returns the boards of the round's training set, drawn again.

        Raises:
            ValueError: The record does not say how many there were, as one of a loop of your own may not.
        """
        if "instances" not in self.training:
            raise ValueError(f"round {self.index}: its training has no `instances`, the number of its boards")
        seed = repro.seed_for(self.seed, "train", self.index)
        return sample_boards(self.config, self.training["instances"], seed=seed)[0]


History = tuple[Round, ...]
"""The rounds so far, oldest first; the last is the one just finished."""

Designer = Callable[[FailureReport, History], Proposal]
"""Takes the failures of the current checkpoint and the rounds so far; gives the design of the next round."""


def designed(designer: Designer, history: History) -> Proposal:
    """Returns what a designer makes of the last round, as it is read back from a record.

    Raises:
        TypeError: It is no `Proposal`.
        ValueError: It has a value that cannot be recorded (names the key), or another number of agents.
    """
    proposal = designer(history[-1].report, history)
    if not isinstance(proposal, Proposal):
        raise TypeError(
            f"a designer returns a Proposal (`ruled` makes one of ratios), not {shown(proposal)}: "
            f"{getattr(designer, '__qualname__', type(designer).__qualname__)}"
        )
    if proposal.config and proposal.config.num_agents != (agents := history[-1].config.num_agents):
        raise ValueError(f"proposal: asks for {proposal.config.num_agents} agents, and the rounds have {agents}")
    try:
        with warnings.catch_warnings(action="ignore"):  # of a value of a wrong type, which is named below
            written = repro.to_json(proposal)
    except ValueError as error:
        raise ValueError(f"proposal: cannot be recorded: {error}") from None
    return repro.from_json(Proposal, written, "proposal")


def next_index(history: History) -> int:
    """Returns the index of the round after `history`."""
    return history[-1].index + 1 if history else 0


class Ledger:
    """The rounds recorded in one file; `rounds.jsonl` in the folder of the run."""

    def __init__(self, path: str | Path) -> None:
        """Reads the rounds; a file that does not exist is an empty ledger, and a torn last line is left out.

        Raises:
            LedgerError: A line is not as it was written, holds no round, or repeats a round (names file and line), or a
                round between others is missing.
        """
        self.path = Path(path)
        self._rounds = self._read()

    @property
    def rounds(self) -> History:
        """All recorded rounds, by index."""
        return tuple(self._rounds[index] for index in sorted(self._rounds))

    def recorded(self, index: int, parameters: Mapping[str, Any], stale: Literal["error", "replace"]) -> Round | None:
        """Returns round `index` if it is finished, None if it is still to be run; `stale` is as in `RoundSettings`.

        Raises:
            LedgerError: It was run with other parameters, and `stale` is "error"; says which.
        """
        entry = self._rounds.get(index)
        changes = differences(entry.parameters, parameters) if entry else []
        if not changes:
            return entry
        message = f"{self.path}: round {index} was run with other parameters ({'; '.join(changes)})"
        if stale == "error":
            raise LedgerError(f"{message}; move the folder away to run it anew")
        logger.warning("%s; it and all after it are run anew", message)
        self._rounds = {i: r for i, r in self._rounds.items() if i < index}
        repro.write_jsonl(self.path, map(self._row, self.rounds))
        return None

    def append(self, finished: Round) -> None:
        """Records a finished round, synced to disk before this returns; LedgerError if it is recorded already."""
        self._rounds = self._read()  # another process may have written since
        if finished.index in self._rounds:
            raise LedgerError(f"{self.path}: round {finished.index} is recorded already")
        row = self._row(finished)
        try:  # what cannot be read back would make all rounds of the file unreadable
            repro.from_json(Round, {key: row[key] for key in row if key not in ("schema", CHECKSUM)}, "round")
        except ValueError as error:
            raise ValueError(f"{self.path}: round {finished.index} cannot be recorded: {error}") from None
        repro.append_jsonl(self.path, row)
        self._rounds[finished.index] = finished

    def _row(self, entry: Round) -> dict[str, Any]:
        """Returns a round as JSON values, its paths relative to the ledger's folder, the checksum last."""
        files = {name: self._relative(path) for name, path in entry.files.items()}
        entry = replace(entry, checkpoint=self._relative(entry.checkpoint), files=files)
        row = {"schema": SCHEMA, **repro.to_json(entry)}
        return row | {CHECKSUM: _checksum(row)}

    def _read(self) -> dict[int, Round]:
        rounds: dict[int, Round] = {}
        try:
            rows = repro.read_jsonl(self.path) if self.path.exists() else []
            lines = self.path.read_bytes().split(b"\n") if rows else []
        except ValueError as error:
            raise LedgerError(str(error)) from None
        for number, row in enumerate(rows, start=1):
            place = f"{self.path}, line {number}"
            if repro.dumps(row).encode() != lines[number - 1] or row.pop(CHECKSUM, None) != _checksum(row):
                raise LedgerError(f"{place}: is not as it was written (its checksum differs): damaged, or edited")
            if row.pop("schema", None) != SCHEMA:
                raise LedgerError(f"{place}: the schema of this round is not {SCHEMA}, the one that this version reads")
            try:
                entry = repro.from_json(Round, row, "round")
            except ValueError as error:
                raise LedgerError(f"{place}: {error}") from error
            if entry.index in rounds:
                raise LedgerError(f"{place}: round {entry.index} is recorded already")
            files = {name: self._inside(path, place) for name, path in entry.files.items()}
            rounds[entry.index] = replace(entry, checkpoint=self._inside(entry.checkpoint, place), files=files)
        if missing := sorted({*range(min(rounds, default=0), max(rounds, default=0))} - {*rounds}):
            raise LedgerError(
                f"{self.path}: round {missing[0]} is missing, and later ones are there: a line was removed"
            )
        return rounds

    def _inside(self, path: Path, place: str) -> Path:
        if path.is_absolute() or ".." in path.parts:
            raise LedgerError(f"{place}: {shown(str(path))} leads out of the ledger's folder")
        return self.path.parent / path

    def _relative(self, path: Path) -> Path:
        folder = self.path.parent.resolve()
        if not path.resolve().is_relative_to(folder):
            raise LedgerError(f"{path} is not under the ledger's folder {self.path.parent}")
        return path.resolve().relative_to(folder)


def replay(path: str | Path, before: History = ()) -> list[EnvConfig]:
    """Returns the configuration of every round in the ledger `path`, derived anew from the recorded replies.

    A model's reply is read again, a rule's request projected again. `before` has the rounds that the ledger's first one
    continues, if it does not begin with round 0.

    Raises:
        FileNotFoundError: There is no such file.
        LedgerError: A derivation differs from what is recorded; names the round and the difference.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such file")
    rounds = Ledger(path).rounds
    configs = {entry.index: entry.config for entry in before}
    for entry in rounds:
        configs[entry.index] = entry.config
        if entry.proposal is None:
            continue
        p, recorded = entry.proposal, (entry.proposal.config, entry.proposal.rejection)
        if p.prompt_format is not None:  # of a model
            reread = read_replies(p.replies or (p.reply,), p.sizes, p.prompt_format, num_agents=p.num_agents)
            derived = reread.config, reread.rejection
        else:
            derived = (project(p.requested, p.sizes, p.num_agents), None) if p.requested else recorded
        if derived != recorded:
            raise LedgerError(f"{path}: round {entry.index}: the reply now reads as {derived}, recorded is {recorded}")
        design = entry.proposal.config or configs.get(entry.index - 1)
        if design is None:
            raise LedgerError(f"{path}: round {entry.index} kept the configuration of a round that is not given")
        expected = apply_fallback(design, entry.fallback)
        if expected != entry.config:
            raise LedgerError(f"{path}: round {entry.index} ran {entry.config}, its proposal leads to {expected}")
    return [configs[entry.index] for entry in rounds]


def _checksum(row: Mapping[str, Any]) -> str:
    return hashlib.sha256(repro.dumps(row).encode()).hexdigest()


def differences(recorded: Any, current: Any, key_path: str = "") -> list[str]:
    """Returns what differs between parameters on record and those asked for: a text for each key, with its path."""
    if isinstance(recorded, Mapping) and isinstance(current, Mapping):
        lines = []
        for key in {**recorded, **current}:
            lines += differences(recorded.get(key), current.get(key), f"{key_path}.{key}" if key_path else key)
        return lines
    name = f"{HASHED[key_path]}, {key_path}" if key_path in HASHED else key_path
    return [] if recorded == current else [f"{name}: recorded {shown(recorded)}, asked {shown(current)}"]
