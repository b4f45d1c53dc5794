"""The failure report: rollouts on the validation set, counted by board size, with examples, as data and as text.

A report is counted, not interpreted: it has no advice and no score of difficulty, so that an engineer (a model or a
rule) draws its own conclusions. Not covered: rates with intervals (`mapflake.trainer.evaluate`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from mapflake.env import KINDS, Task, Verdict
from mapflake.env.config import MAX_AGENTS

if TYPE_CHECKING:
    from mapflake.trainer.evaluate import Rollout

MAX_QUOTE = 600  # characters of a model's text that a report or a prompt keeps; the whole text is in the rollouts file
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class SizeReport:
    """Counts over the rollouts on boards of one size.

    Valid ones pass all 8 checks, optimal ones have the solver's makespan; `wait_rollouts` and `wait_valid` are those on
    boards that need a wait. `extra_steps` is the sum over valid rollouts of makespan minus optimum, in time steps;
    `failures` counts for each of the 8 `KINDS` the rollouts that show at least one such violation.
    """

    size: int
    rollouts: int
    valid: int
    optimal: int
    wait_rollouts: int
    wait_valid: int
    extra_steps: int
    failures: Annotated[tuple[int, ...], Field(min_length=len(KINDS), max_length=len(KINDS))]

    @property
    def valid_rate(self) -> float:
        """Share of rollouts that are valid, 0 if there are none."""
        return rate(self.valid, self.rollouts)

    @property
    def optimal_rate(self) -> float:
        """Share of rollouts that are optimal, 0 if there are none."""
        return rate(self.optimal, self.rollouts)

    @property
    def without_wait(self) -> tuple[int, int]:
        """The numbers of valid rollouts and of all rollouts on boards that need no wait."""
        return self.valid - self.wait_valid, self.rollouts - self.wait_rollouts


@dataclass(frozen=True)
class BoardBin:
    """Counts over the rollouts on boards of one kind; `hole_ratio` is the share of cells, to four digits."""

    size: int
    hole_ratio: float
    needs_wait: bool
    rollouts: int
    valid: int


@dataclass(frozen=True)
class FailureExample:
    """One failed rollout: the board as text, the completion (raw, bounded in length), and its violations.

    `moves` is the plan that was read from the completion, one string for each agent; empty if none can be read.
    `left_out` is the number of characters that the completion had beyond its bound.
    """

    size: int
    board: str
    completion: str
    violations: str
    moves: tuple[str, ...] = ()
    left_out: int = 0


@dataclass(frozen=True)
class FailureReport:
    """Counts by size, typical failures, and the caller's statistics of the training behind them.

    Attributes:
        sizes: One entry for each size that was rolled out, ascending.
        examples: Typical failures, the commonest first.
        training: Statistics of the training set just used (`environment_statistics`).
        behaviour: The policy's statistics in training, e.g. `{"completion tokens": 61.2, "entropy": 0.4}`.
        before: The sizes as the round before reported them, on the same boards.
        bins: The same rollouts by (size, holes, needs a wait); not part of the text.
    """

    sizes: tuple[SizeReport, ...]
    examples: tuple[FailureExample, ...] = ()
    training: Mapping[str, Any] | None = None
    behaviour: Mapping[str, float] | None = None
    before: tuple[SizeReport, ...] = ()
    bins: tuple[BoardBin, ...] = ()

    @property
    def valid_rate(self) -> float:
        """Share of all rollouts that are valid."""
        return rate(sum(s.valid for s in self.sizes), sum(s.rollouts for s in self.sizes))

    @property
    def optimal_rate(self) -> float:
        """Share of all rollouts that are optimal."""
        return rate(sum(s.optimal for s in self.sizes), sum(s.rollouts for s in self.sizes))

    @property
    def valid_rates(self) -> dict[int, float]:
        """The share of rollouts that are valid, by size."""
        return {s.size: s.valid_rate for s in self.sizes}

    def at(self, size: int) -> SizeReport | None:
        """Returns the entry of one size, None if it was not rolled out."""
        return next((s for s in self.sizes if s.size == size), None)

    def to_text(self) -> str:
        """Returns the report for a reader: tables of exact counts, then the examples, model text quoted."""
        checks = [
            [f"{s.size}x{s.size}", *(f"{n} ({100 * rate(n, s.rollouts):.1f}%)" for n in s.failures)] for s in self.sizes
        ]
        parts = [self._rates_table(), table(["fails", *KINDS], checks)]
        for i, e in enumerate(self.examples, start=1):
            plan = "\n".join(f"agent {agent}: {moves}" for agent, moves in enumerate(e.moves, start=1))
            plan_text = f"\nThe plan in it:\n{quote(plan)}" if plan else ""
            parts.append(
                f"Failure {i} ({e.size}x{e.size}): {e.violations}\nBoard:\n{e.board}\n"
                f"Answer:\n{quote(e.completion, e.left_out)}{plan_text}"
            )
        if self.training:
            parts.append("Training set just used: " + describe(self.training))
        if self.behaviour:
            parts.append("The policy in training: " + describe(self.behaviour))
        return "\n\n".join(parts)

    def _rates_table(self) -> str:
        head = ["size", "rollouts", "valid", "optimal", "valid, wait needed", "valid, no wait needed", "extra steps"]
        head += ["change of valid", "change of optimal"] if self.before else []
        before = {s.size: s for s in self.before}
        rows = []
        for s in self.sizes:
            row = [
                f"{s.size}x{s.size}",
                str(s.rollouts),
                share(s.valid, s.rollouts),
                share(s.optimal, s.rollouts),
                share(s.wait_valid, s.wait_rollouts),
                share(*s.without_wait),
                f"{rate(s.extra_steps, s.valid):.2f}",
            ]
            if past := before.get(s.size):
                row.append(f"{100 * (s.valid_rate - past.valid_rate):+.1f}")  # percentage points
                row.append(f"{100 * (s.optimal_rate - past.optimal_rate):+.1f}")
            rows.append(row + ["-"] * (len(head) - len(row)))
        return table(head, rows)


def diagnose(
    rollouts: Iterable[Rollout],
    *,
    examples: int = 3,
    training: Mapping[str, Any] | None = None,
    behaviour: Mapping[str, float] | None = None,
    before: FailureReport | None = None,
) -> FailureReport:
    """Returns the report on `rollouts`, whatever their order; `before` is the last checkpoint's, on the same boards.

    Examples are typical ones: failures are grouped by size and set of violated kinds; the commonest group of every
    size gives one (sizes with the most failures first), then the second commonest, and so on.

    Raises:
        ValueError: There are no rollouts, or `examples` is below 0.
    """
    if examples < 0:
        raise ValueError(f"examples: must be at least 0, not {examples}")
    by_size: dict[int, list[Rollout]] = {}
    for r in rollouts:
        by_size.setdefault(r.task.instance.size, []).append(r)
    if not by_size:
        raise ValueError("a failure report needs at least one rollout")
    sizes = tuple(_size_report(size, size_rollouts) for size, size_rollouts in sorted(by_size.items()))
    bins: dict[tuple[int, float, bool], list[bool]] = {}  # kind of boards: which rollouts are valid
    for size, size_rollouts in by_size.items():
        for r in size_rollouts:
            kind = size, round(len(r.task.instance.holes) / size**2, 4), r.task.needs_wait
            bins.setdefault(kind, []).append(r.verdict.valid)
    return FailureReport(
        sizes,
        examples=_typical(by_size, examples),
        training=training,
        behaviour=behaviour,
        before=before.sizes if before else (),
        bins=tuple(BoardBin(*kind, len(valid), sum(valid)) for kind, valid in sorted(bins.items())),
    )


def environment_statistics(tasks: Sequence[Task]) -> dict[str, Any]:
    """Returns counts of a set of tasks by size: instances, share that needs a wait, mean share of holes."""
    statistics = {}
    for size in sorted({t.instance.size for t in tasks}):
        chosen = [t for t in tasks if t.instance.size == size]
        statistics[f"{size}x{size}"] = {
            "instances": len(chosen),
            "wait_needed": round(sum(t.needs_wait for t in chosen) / len(chosen), 4),
            "holes": round(sum(len(t.instance.holes) for t in chosen) / len(chosen) / size**2, 4),
        }
    return statistics


def _size_report(size: int, rollouts: Sequence[Rollout]) -> SizeReport:
    valid = [r for r in rollouts if r.verdict.valid]
    kinds = Counter(kind for r in rollouts for kind in r.verdict.kinds)
    return SizeReport(
        size=size,
        rollouts=len(rollouts),
        valid=len(valid),
        optimal=sum(r.verdict.optimal for r in valid),
        wait_rollouts=sum(r.task.needs_wait for r in rollouts),
        wait_valid=sum(r.task.needs_wait for r in valid),
        extra_steps=sum((r.verdict.makespan or 0) - r.task.solution.makespan for r in valid),
        failures=tuple(kinds[kind] for kind in KINDS),
    )


def _typical(rollouts: Mapping[int, Sequence[Rollout]], count: int) -> tuple[FailureExample, ...]:
    ranked: list[tuple[int, int, int, Rollout]] = []
    for size, size_rollouts in rollouts.items():
        failed = [r for r in size_rollouts if not r.verdict.valid]
        groups: dict[tuple[str, ...], list[Rollout]] = {}
        for r in failed:
            groups.setdefault(r.verdict.kinds, []).append(r)
        commonest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        ranked += [
            (rank, -len(failed), size, min(group, key=lambda r: (r.task.instance.key, r.sample, r.completion)))
            for rank, (_, group) in enumerate(commonest)
        ]
    ranked.sort(key=lambda row: row[:3])
    return tuple(
        FailureExample(
            size,
            board=r.task.instance.to_text(),
            completion=storable(r.completion[:MAX_QUOTE]),
            left_out=max(0, len(r.completion) - MAX_QUOTE),
            violations=violation_text(r.verdict),
            moves=tuple(storable(moves[:MAX_QUOTE]) for moves in r.plan.moves[:MAX_AGENTS]) if r.plan else (),
        )
        for _, _, size, r in ranked[:count]
    )


def violation_text(verdict: Verdict) -> str:
    """Returns the first four violations in words, agents from 1: `edge at step 2, agents 1 and 2, cell (1, 2); ...`."""
    texts = []
    for v in verdict.violations[:4]:
        agents = f"agent{'s' if len(v.agents) > 1 else ''} {' and '.join(str(a + 1) for a in v.agents)}"
        place = [f" at step {v.time}, {agents}"] if v.agents else []
        place += [f"cell {v.cell}"] if v.cell is not None else []
        texts.append(v.kind + ", ".join(place))
    remainder = len(verdict.violations) - 4
    return "; ".join(texts) + (f"; and {remainder} more" if remainder > 0 else "")


def quote(text: str, left_out: int = 0) -> str:
    """Returns model text so that it cannot act inside a prompt: every line behind `| `, at most `MAX_QUOTE` characters.

    A space splits control tokens (`<|im_end|>`, `</think>`), marks in brackets (`[INST]`) and fences; control
    characters and lone surrogates become U+FFFD. `left_out` characters were cut off before.
    """
    quoted = storable(text[:MAX_QUOTE]).replace("\t", " ").replace("\r\n", "\n")
    quoted = _CONTROL.sub("\ufffd", quoted)
    quoted = re.sub(r"<(?=\S)", "< ", quoted)
    quoted = re.sub(r"\[(?=/?[A-Z_]{2,}\])", "[ ", quoted)
    quoted = re.sub(r"`{3,}|~{3,}", lambda run: " ".join(run[0]), quoted)
    left_out += max(0, len(text) - MAX_QUOTE)
    note = f"\n[{left_out} more characters]" if left_out else ""
    return "\n".join(f"| {line}" for line in quoted.split("\n")) + note


def storable(text: str) -> str:
    """Returns `text` with U+FFFD in place of lone surrogates, which no UTF-8 file can hold."""
    return re.sub(r"[\ud800-\udfff]", "\ufffd", text)


def describe(values: Mapping[str, Any]) -> str:
    """Returns nested values on one line, in the order given: `key value, key (key value, ...)`."""
    parts = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            value = f"({describe(value)})"
        elif isinstance(value, float):
            value = f"{value:.4g}"
        parts.append(f"{key} {value}")
    return ", ".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table in Markdown, columns padded to equal width."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    lines.insert(1, ["-" * width for width in widths])
    return "\n".join("| " + " | ".join(x.ljust(w) for x, w in zip(line, widths, strict=True)) + " |" for line in lines)


def rate(part: int, whole: int) -> float:
    """Returns part / whole, 0 where there is nothing to divide by."""
    return part / whole if whole else 0.0


def share(part: int, whole: int) -> str:
    """Returns a count with its rate, e.g. `30 of 120 (25.0%)`."""
    return f"{part} of {whole} ({100 * part / whole:.1f}%)" if whole else "none"
