"""The record of a run: one line of `rounds.jsonl` for each round, enough to replay every decision from.

A ledger is append-only and resumable: a finished round is never run again and a line is never written twice. Paths in
it are relative to its folder, so that the folder can move and a published copy names no machine. Not covered: locking
against a second process (the entry points take `repro.single_writer`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mapflake import repro
from mapflake.engineer.drawing import Relaxed, relax
from mapflake.engineer.reply import Proposal, read_replies
from mapflake.engineer.report import FailureReport
from mapflake.engineer.space import project
from mapflake.env import EnvConfig

logger = logging.getLogger(__name__)

SCHEMA = 2
HEAD = re.compile(rb'{"schema": %d, "arm": "(?:[^"\\]|\\.)*", "index": (\d+), ' % SCHEMA)
FIELDS = {"arm": str, "index": int, "seed": int, "checkpoint": str, "checkpoint_sha256": str, "parent_sha256": str}
FIELDS |= dict.fromkeys(("training", "metrics", "parameters", "files", "versions"), dict)


class LedgerError(RuntimeError):
    """A ledger that does not fit what is asked of it; the message names file, round and what differs."""


@dataclass(frozen=True)
class Round:
    """One engineer iteration: a configuration, the checkpoint trained on it, and what that checkpoint gets wrong.

    Attributes:
        arm: Which designer's run this is; round 0, which the arms share, is of no arm ("shared").
        index: 0 for the random first configuration, then 1, 2, ...
        config: What the training instances were drawn from.
        report: Failures of `checkpoint` on the validation set.
        checkpoint: Folder of the weights after the round.
        checkpoint_sha256: Hash of the weights.
        seed: Root of the run's random streams.
        proposal: The design behind `config`; None in round 0. A rejected one left the configuration as it was.
        relaxed: What of the design could not be drawn, by size, and what `config` has instead; usually empty.
        parent_sha256: Hash of the weights that the round started from (or the hub name of a base model).
        training: What the training was: instances, steps, algorithm, hyperparameters.
        metrics: Valid and optimal rates on the validation set, with the numbers behind them.
        parameters: All that decided the round's result; a resumed run must ask for the same.
        files: Other files of the round by name, e.g. {"rollouts": ..., "failures": ...}.
        versions: Of the packages that computed it.
    """

    arm: str
    index: int
    config: EnvConfig
    report: FailureReport
    checkpoint: Path = Path()
    checkpoint_sha256: str = ""
    seed: int = 0
    proposal: Proposal | None = None
    relaxed: Relaxed = field(default_factory=dict)
    parent_sha256: str = ""
    training: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self, folder: Path) -> dict[str, Any]:
        """Returns the round as JSON values, its paths relative to `folder`; `from_dict` takes it back."""
        return {
            "schema": SCHEMA,
            **vars(self),
            "config": self.config.to_dict(),
            "report": self.report.to_dict(),
            "checkpoint": _relative(self.checkpoint, folder),
            "proposal": None if self.proposal is None else self.proposal.to_dict(),
            "relaxed": {str(size): dict(change) for size, change in self.relaxed.items()},
            "files": {name: _relative(path, folder) for name, path in self.files.items()},
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any], folder: Path) -> Round:
        """Returns the round that `to_dict` wrote, its paths under `folder`.

        Raises:
            LedgerError: The row has another schema, a field of another type, or a path that leads out of `folder`.
        """
        if row.get("schema") != SCHEMA:
            raise LedgerError(
                f"schema {repro.shown(row.get('schema'))} of a round is unknown; this version reads {SCHEMA}"
            )
        fields = {key: value for key, value in row.items() if key != "schema"}
        for key, kind in FIELDS.items():
            if type(row[key]) is not kind:
                raise LedgerError(f"{key}: {repro.shown(row[key])} is not {kind.__name__}")
        if row["index"] < 0:
            raise LedgerError(f"index: {row['index']} is not a number of a round")
        return cls(
            **{
                **fields,
                "config": EnvConfig.from_dict(row["config"]),
                "report": FailureReport.from_dict(row["report"]),
                "checkpoint": _inside(folder, row["checkpoint"]),
                "proposal": None if row["proposal"] is None else Proposal.from_dict(row["proposal"]),
                "relaxed": {int(size): change for size, change in row["relaxed"].items()},
                "files": {name: _inside(folder, path) for name, path in row["files"].items()},
            }
        )


History = tuple[Round, ...]
"""The rounds so far, oldest first; the last is the one just finished."""

Designer = Callable[[FailureReport, History], Proposal]
"""Takes the failures of the current checkpoint and the rounds so far; gives the design of the next round."""


def next_index(history: History) -> int:
    """Returns the index of the round after `history`."""
    return history[-1].index + 1 if history else 0


class Ledger:
    """The rounds recorded in one file; `rounds.jsonl` in the folder of the run.

    Opening it reads no more of a line than which round it is; a round is read when it is asked for.
    """

    def __init__(self, path: str | Path) -> None:
        """Looks up what is recorded; a file that does not exist is an empty ledger.

        Raises:
            LedgerError: A line is no round of this schema, or a round is recorded twice; names file and line.
        """
        self.path = Path(path)
        self.folder = self.path.parent
        self._lines: dict[int, tuple[int, int]] = {}  # round -> number of its line, byte at which it begins
        self._seen = 0  # bytes of the file
        self._count = 0  # and lines
        self._look()

    @property
    def rounds(self) -> History:
        """All recorded rounds, by index.

        Raises:
            LedgerError: A line cannot be read; names file and line.
        """
        return tuple(self._read(sorted(self._lines)))

    def recorded(self, index: int, parameters: Mapping[str, Any]) -> Round | None:
        """Returns round `index` if it is finished, None if it is still to be run.

        Raises:
            LedgerError: It was run with other parameters; says which. Or its line cannot be read.
        """
        for found in self._read([index] if index in self._lines else []):
            if differences := _differences(found.parameters, parameters):
                raise LedgerError(
                    f"{self.path}: round {index} was run with other parameters ({'; '.join(differences)}); "
                    "move the folder away to run it anew"
                )
            return found
        return None

    def append(self, finished: Round) -> None:
        """Records a finished round: one line, synced to disk before this returns.

        Raises:
            LedgerError: The round is recorded already.
        """
        row = finished.to_dict(self.folder)
        self._look()  # another process may have written since
        if finished.index in self._lines:
            raise LedgerError(f"{self.path}: round {finished.index} is recorded already")
        repro.append_jsonl(self.path, row)
        self._look()

    def _look(self) -> None:
        """Looks up the lines that were written since the last look."""
        if not self.path.exists():
            return
        with open(self.path, "rb") as file:
            file.seek(self._seen)
            for line in file:
                if not line.endswith(b"\n"):
                    logger.warning("%s: the last line is incomplete (an interrupted write) and is left out", self.path)
                    break
                number = self._count + 1
                head = HEAD.match(line)
                # One that was not written by `Round.to_dict` is read whole, which says what is wrong with it.
                index = int(head[1]) if head else self._parse(line, number).index
                if index in self._lines:
                    raise LedgerError(f"{self.path}, line {number}: round {index} is recorded already")
                self._lines[index] = number, self._seen
                self._count, self._seen = number, self._seen + len(line)

    def _read(self, indices: Iterable[int]) -> Iterator[Round]:
        for index in indices:
            number, begin = self._lines[index]
            with open(self.path, "rb") as file:
                file.seek(begin)
                yield self._parse(file.readline(), number)

    def _parse(self, line: bytes, number: int) -> Round:
        where = f"{self.path}, line {number}"
        try:
            row = repro.parse_row(line, where)
        except ValueError as error:
            raise LedgerError(str(error)) from None
        try:
            return Round.from_dict(row, self.folder)
        except KeyError as error:
            raise LedgerError(f"{where}: {error.args[0]}: missing") from None
        except (LedgerError, AttributeError, TypeError, ValueError) as error:
            raise LedgerError(f"{where}: {error}") from error


def past(*ledgers: Ledger | str | Path, upto: int) -> History:
    """Returns the recorded rounds 0 to `upto`: what an arm branches from.

    Args:
        ledgers: Each continues the one before, e.g. that of the shared round 0, then that of an arm.
        upto: Index of the last round to take.

    Raises:
        LedgerError: A round is missing, or did not start from the weights of the one before; names it.
    """
    opened = [ledger if isinstance(ledger, Ledger) else Ledger(ledger) for ledger in ledgers]
    found = {one.index: one for ledger in opened for one in ledger.rounds}  # of the same round, the later ledger's
    history: History = ()
    for index in range(upto + 1):
        if index not in found:
            raise LedgerError(f"round {index} is not recorded in {', '.join(str(ledger.path) for ledger in opened)}")
        if history and found[index].parent_sha256 != history[-1].checkpoint_sha256:
            raise LedgerError(f"round {index} of arm {found[index].arm} does not continue round {index - 1} given here")
        history = (*history, found[index])
    return history


def replay(ledger: Ledger | str | Path, before: History = ()) -> list[EnvConfig]:
    """Returns the configuration of every recorded round, derived anew from the recorded replies.

    A model's reply is read again, a rule's request projected again; a rejected one keeps the configuration before.

    Args:
        ledger: The ledger or its path.
        before: The rounds that the ledger's first one continues, if it does not begin with round 0.

    Raises:
        LedgerError: A derivation differs from what is recorded; names the round and the difference.
    """
    ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
    known = {one.index: one.config for one in before}
    for one in ledger.rounds:
        known[one.index] = one.config
        if one.proposal is None:
            continue
        again = _again(one.proposal)
        if again != (one.proposal.config, one.proposal.rejection):
            raise LedgerError(
                f"{ledger.path}: round {one.index}: the reply now reads as {again}, "
                f"recorded is {(one.proposal.config, one.proposal.rejection)}"
            )
        designed = one.proposal.config or known.get(one.index - 1)
        if designed is None:
            raise LedgerError(f"{ledger.path}: round {one.index} kept the configuration of a round that is not given")
        expected = relax(designed, one.relaxed)
        if expected != one.config:
            raise LedgerError(f"{ledger.path}: round {one.index} ran {one.config}, its proposal leads to {expected}")
    return [known[one.index] for one in ledger.rounds]


def _again(proposal: Proposal) -> tuple[EnvConfig | None, str | None]:
    """Returns configuration and rejection as the proposal's words (a model's) or request (a rule's) give them now."""
    if proposal.prompt_format is None:
        if proposal.requested is None:
            return None, proposal.rejection
        return project(proposal.requested, proposal.sizes, proposal.num_agents), None
    texts = proposal.replies or (proposal.reply,)
    again = read_replies(texts, proposal.sizes, proposal.prompt_format, num_agents=proposal.num_agents)
    return again.config, again.rejection


def _inside(folder: Path, path: str) -> Path:
    """Returns the path that `_relative` wrote, under `folder`.

    Raises:
        LedgerError: It leads elsewhere.
    """
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise LedgerError(f"{repro.shown(path)} leads out of the ledger's folder")
    return folder / path


def _relative(path: Path, folder: Path) -> str:
    """Returns `path` as seen from `folder`.

    Raises:
        LedgerError: It lies elsewhere: the record would name a machine's folders.
    """
    try:
        return path.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        raise LedgerError(f"{path} is not under the ledger's folder {folder}") from None


def _differences(recorded: Any, asked: Any, where: str = "") -> list[str]:
    if isinstance(recorded, Mapping) and isinstance(asked, Mapping):
        keys = [*recorded, *(key for key in asked if key not in recorded)]
        return [
            line
            for key in keys
            for line in _differences(recorded.get(key), asked.get(key), f"{where}.{key}" if where else str(key))
        ]
    return [] if recorded == asked else [f"{where}: recorded {repro.shown(recorded)}, asked {repro.shown(asked)}"]
