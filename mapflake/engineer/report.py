"""What an engineer is told of failures: exact counts by size, examples, and the same as text and as JSON.

A report is raw evidence, counted, not interpreted: no advice and no score of difficulty, so that an engineer (a
model or a rule) draws its own conclusions. Not covered: making one (`failures.diagnose`), and rates with intervals
(`mapflake.trainer.evaluate`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mapflake.engineer.wording import describe, points, quote, rate, share, table
from mapflake.env import KINDS


@dataclass(frozen=True)
class SizeReport:
    """Counts over the rollouts on boards of one size.

    Attributes:
        size: Board size in cells.
        rollouts: Completions judged.
        valid: Of them, those that pass all 8 checks.
        optimal: Of the valid ones, those with the solver's makespan.
        wait_rollouts: Completions on boards that need a wait.
        wait_valid: Of them, the valid ones.
        extra_steps: Sum over valid rollouts of makespan minus optimum, in time steps.
        failures: For each of the 8 kinds, in `KINDS` order, the rollouts that show at least one such violation.
    """

    size: int
    rollouts: int
    valid: int
    optimal: int
    wait_rollouts: int
    wait_valid: int
    extra_steps: int
    failures: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.failures) != len(KINDS):
            raise ValueError(f"size {self.size}: {len(self.failures)} failure counts, expected one for each of {KINDS}")
        if not (
            0 <= self.optimal <= self.valid <= self.rollouts
            and 0 <= self.wait_valid <= self.wait_rollouts <= self.rollouts
            and self.wait_valid <= self.valid
            and self.valid - self.wait_valid <= self.rollouts - self.wait_rollouts
            and self.extra_steps >= 0
            and all(0 <= n <= self.rollouts - self.valid for n in self.failures)
        ):
            raise ValueError(f"size {self.size}: the counts contradict each other: {self}")

    @property
    def valid_rate(self) -> float:
        """Share of rollouts that are valid, 0 if there are none."""
        return rate(self.valid, self.rollouts)

    @property
    def optimal_rate(self) -> float:
        """Share of rollouts that are optimal, 0 if there are none."""
        return rate(self.optimal, self.rollouts)

    @property
    def overhead(self) -> float:
        """Mean steps by which valid plans exceed the optimal makespan, 0 if none is valid."""
        return rate(self.extra_steps, self.valid)


@dataclass(frozen=True)
class Cell:
    """Counts over the rollouts on boards of one kind; what curricula over cells go by (`baselines`).

    Attributes:
        size: Board size in cells.
        hole_ratio: Share of the boards' cells that are holes, to the nearest tenth.
        needs_wait: Whether the boards need a wait.
        rollouts: Completions judged.
        valid: Of them, the valid ones.
    """

    size: int
    hole_ratio: float
    needs_wait: bool
    rollouts: int
    valid: int


@dataclass(frozen=True)
class FailureExample:
    """One failed rollout: the board as text, what the policy wrote (raw, bounded in length), what was wrong with it.

    `moves` is the plan that was read from the completion, one string for each agent; empty if none can be read.
    """

    size: int
    board: str
    completion: str
    violations: str
    moves: tuple[str, ...] = ()


@dataclass(frozen=True)
class FailureReport:
    """Counts by size (ascending), typical failures, and what the caller knows of the training behind them.

    Attributes:
        sizes: One entry for each size that was rolled out.
        examples: Typical failures, the commonest first.
        training: Statistics of the training set just used, e.g. from `environment_statistics`; may be empty.
        behaviour: What the policy did in training, e.g. `{"completion tokens": 61.2, "groups without signal": 0.4}`.
        before: The sizes as the round before reported them, on the same boards; empty if there was none.
        cells: The same rollouts by (size, holes, needs a wait); not part of the text.
    """

    sizes: tuple[SizeReport, ...]
    examples: tuple[FailureExample, ...] = ()
    training: Mapping[str, Any] | None = None
    behaviour: Mapping[str, float] | None = None
    before: tuple[SizeReport, ...] = ()
    cells: tuple[Cell, ...] = ()

    @property
    def valid_rate(self) -> float:
        """Share of all rollouts that are valid."""
        return rate(sum(s.valid for s in self.sizes), sum(s.rollouts for s in self.sizes))

    @property
    def optimal_rate(self) -> float:
        """Share of all rollouts that are optimal."""
        return rate(sum(s.optimal for s in self.sizes), sum(s.rollouts for s in self.sizes))

    def at(self, size: int) -> SizeReport | None:
        """Returns the entry of one size, None if it was not rolled out."""
        return next((s for s in self.sizes if s.size == size), None)

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as JSON values; `from_dict` takes it back."""
        return {
            "sizes": _size_rows(self.sizes),
            "examples": [_fields(e) | {"moves": list(e.moves)} for e in self.examples],
            "training": self.training,
            "behaviour": self.behaviour,
            "before": _size_rows(self.before),
            "cells": [_fields(c) for c in self.cells],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FailureReport:
        """Returns the report that `to_dict` wrote."""
        return cls(
            sizes=_sizes(data["sizes"]),
            examples=tuple(FailureExample(**{**e, "moves": tuple(e["moves"])}) for e in data["examples"]),
            training=data["training"],
            behaviour=data["behaviour"],
            before=_sizes(data["before"]),
            cells=tuple(Cell(**c) for c in data["cells"]),
        )

    def to_text(self) -> str:
        """Returns the report for a reader: tables of exact counts, then the examples, model text quoted."""
        parts = [self._rates_table(), self._checks_table()]
        for i, e in enumerate(self.examples, start=1):
            plan = "\n".join(f"agent {agent}: {moves}" for agent, moves in enumerate(e.moves, start=1))
            read = f"\nThe plan in it:\n{quote(plan)}" if plan else ""
            parts.append(
                f"Failure {i} ({e.size}x{e.size}): {e.violations}\nBoard:\n{e.board}\n"
                f"Answer:\n{quote(e.completion)}{read}"
            )
        if self.training:
            parts.append("Training set just used: " + describe(self.training))
        if self.behaviour:
            parts.append("The policy in training: " + describe(self.behaviour))
        return "\n\n".join(parts)

    def _rates_table(self) -> str:
        head = ["size", "rollouts", "valid", "optimal", "valid, wait needed", "valid, no wait needed", "extra steps"]
        change = ["change of valid", "change of optimal"] if self.before else []
        before = {s.size: s for s in self.before}
        rows = []
        for s in self.sizes:
            row = [
                f"{s.size}x{s.size}",
                str(s.rollouts),
                share(s.valid, s.rollouts),
                share(s.optimal, s.rollouts),
                share(s.wait_valid, s.wait_rollouts),
                share(s.valid - s.wait_valid, s.rollouts - s.wait_rollouts),
                f"{s.overhead:.2f}",
            ]
            if past := before.get(s.size):
                row += [points(s.valid_rate, past.valid_rate), points(s.optimal_rate, past.optimal_rate)]
            rows.append(row + ["-"] * (len(head) + len(change) - len(row)))
        return table([*head, *change], rows)

    def _checks_table(self) -> str:
        rows = [
            [f"{s.size}x{s.size}", *(f"{n} ({100 * rate(n, s.rollouts):.1f}%)" for n in s.failures)] for s in self.sizes
        ]
        return table(["fails", *KINDS], rows)


def _size_rows(sizes: Sequence[SizeReport]) -> list[dict[str, Any]]:
    return [_fields(s) | {"failures": dict(zip(KINDS, s.failures, strict=True))} for s in sizes]


def _sizes(rows: Sequence[Mapping[str, Any]]) -> tuple[SizeReport, ...]:
    return tuple(SizeReport(**{**s, "failures": tuple(s["failures"][kind] for kind in KINDS)}) for s in rows)


def _fields(value: Any) -> dict[str, Any]:
    return dict(vars(value))
