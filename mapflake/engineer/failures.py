"""What went wrong, in exact numbers: rollouts on the validation set -> FailureReport.

A report is raw evidence, counted, not interpreted: no advice and no score of difficulty, so that an engineer (a
model or a rule) draws its own conclusions. Not covered: change since the last round (two reports side by side show
it, see `context.history`) and rates with intervals (`mapflake.trainer.evaluate`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mapflake.env import KINDS, Task, Verdict

if TYPE_CHECKING:
    from mapflake.trainer.evaluate import Rollout

MAX_COMPLETION = 600  # characters of a completion that a report keeps; the whole text is in the rollouts file

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")


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
class FailureExample:
    """One failed rollout: the board as text, what the policy wrote (raw, bounded in length), what was wrong with it."""

    size: int
    board: str
    completion: str
    violations: str


@dataclass(frozen=True)
class FailureReport:
    """Counts by size (ascending), typical failures, and what the caller knows of the training behind them.

    Attributes:
        sizes: One entry for each size that was rolled out.
        examples: Typical failures, the commonest first.
        training: Statistics of the training set just used, e.g. from `environment_statistics`; may be empty.
        behaviour: What the policy did in training, e.g. `{"completion_tokens": 61.2, "groups_without_signal": 0.4}`.
    """

    sizes: tuple[SizeReport, ...]
    examples: tuple[FailureExample, ...] = ()
    training: Mapping[str, Any] | None = None
    behaviour: Mapping[str, float] | None = None

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
            "sizes": [_fields(s) | {"failures": dict(zip(KINDS, s.failures, strict=True))} for s in self.sizes],
            "examples": [_fields(e) for e in self.examples],
            "training": self.training,
            "behaviour": self.behaviour,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> FailureReport:
        """Returns the report that `to_dict` wrote."""
        sizes = [SizeReport(**{**s, "failures": tuple(s["failures"][kind] for kind in KINDS)}) for s in data["sizes"]]
        examples = tuple(FailureExample(**e) for e in data["examples"])
        return cls(tuple(sizes), examples, data["training"], data["behaviour"])

    def to_text(self) -> str:
        """Returns the report for a reader: a table of exact counts, then the examples, model text quoted."""
        head = ["size", "rollouts", "valid", "optimal", "valid, wait needed", "valid, no wait needed", "extra steps"]
        rows = [
            [
                f"{s.size}x{s.size}",
                str(s.rollouts),
                share(s.valid, s.rollouts),
                share(s.optimal, s.rollouts),
                share(s.wait_valid, s.wait_rollouts),
                share(s.valid - s.wait_valid, s.rollouts - s.wait_rollouts),
                f"{s.overhead:.2f}",
                *map(str, s.failures),
            ]
            for s in self.sizes
        ]
        parts = [table([*head, *KINDS], rows)]
        for i, e in enumerate(self.examples, start=1):
            parts.append(
                f"Failure {i} ({e.size}x{e.size}): {e.violations}\nBoard:\n{e.board}\nAnswer:\n{quote(e.completion)}"
            )
        if self.training:
            parts.append("Training set just used: " + describe(self.training))
        if self.behaviour:
            parts.append("The policy in training: " + describe(self.behaviour))
        return "\n\n".join(parts)


def diagnose(
    rollouts: Sequence[Rollout],
    *,
    examples: int = 3,
    training: Mapping[str, Any] | None = None,
    behaviour: Mapping[str, float] | None = None,
) -> FailureReport:
    """Returns the report on `rollouts`; it depends on them alone, not on their order.

    Examples are typical ones: failures are grouped by size and set of violated kinds; the commonest group of every
    size gives one (sizes with the most failures first), then the second commonest, and so on. Within a group it is
    the one with the smallest board key.

    Raises:
        ValueError: There are no rollouts.
    """
    if not rollouts:
        raise ValueError("a failure report needs at least one rollout")
    by_size: dict[int, list[Rollout]] = {}
    for r in rollouts:
        by_size.setdefault(r.task.instance.size, []).append(r)
    sizes = tuple(_count(size, by_size[size]) for size in sorted(by_size))
    return FailureReport(sizes, _typical(by_size, examples), training, behaviour)


def environment_statistics(tasks: Sequence[Task]) -> dict[str, Any]:
    """Returns what a set of tasks holds, by size: instances, share that needs a wait, mean share of holes."""
    statistics = {}
    for size in sorted({t.instance.size for t in tasks}):
        chosen = [t for t in tasks if t.instance.size == size]
        statistics[f"{size}x{size}"] = {
            "instances": len(chosen),
            "wait_needed": round(rate(sum(t.needs_wait for t in chosen), len(chosen)), 4),
            "holes": round(sum(len(t.instance.holes) for t in chosen) / len(chosen) / size**2, 4),
        }
    return statistics


def rate(part: int, whole: int) -> float:
    """Returns part / whole, 0 where there is nothing to divide by."""
    return part / whole if whole else 0.0


def quote(text: str, limit: int = MAX_COMPLETION) -> str:
    """Returns model text so that it cannot act inside a prompt: every line behind `| `, at most `limit` characters.

    A space after every `<` splits control tokens (`<|im_end|>`, `</think>`, `<s>`), `[INST]` likewise; runs of three
    or more backticks or tildes open no fence; the bar keeps headings and role names from the start of a line; control
    characters and lone surrogates become U+FFFD. What was cut is said.
    """
    shown = storable(text[:limit]).replace("\t", " ").replace("\r\n", "\n")
    shown = _CONTROL.sub("\ufffd", shown)
    shown = re.sub(r"<(?=\S)", "< ", shown)
    shown = re.sub(r"\[(?=/?INST\])", "[ ", shown)
    shown = re.sub(r"`{3,}|~{3,}", lambda run: " ".join(run[0]), shown)
    more = f"\n[{len(text) - limit} more characters]" if len(text) > limit else ""
    return "\n".join(f"| {line}" for line in shown.split("\n")) + more


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


def share(part: int, whole: int) -> str:
    """Returns a count with its rate, e.g. `30 of 120 (25.0%)`."""
    return f"{part} of {whole} ({100 * part / whole:.1f}%)" if whole else "none"


def _count(size: int, rollouts: Sequence[Rollout]) -> SizeReport:
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


def _typical(by_size: Mapping[int, Sequence[Rollout]], count: int) -> tuple[FailureExample, ...]:
    ranked: list[tuple[int, int, int, Rollout]] = []
    for size, rollouts in by_size.items():
        groups: dict[tuple[str, ...], list[Rollout]] = {}
        for r in rollouts:
            if not r.verdict.valid:
                groups.setdefault(r.verdict.kinds, []).append(r)
        failed = sum(map(len, groups.values()))
        commonest = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        for rank, (_, group) in enumerate(commonest):
            typical = min(group, key=lambda r: (r.task.instance.key, r.sample, r.completion))
            ranked.append((rank, -failed, size, typical))
    ranked.sort(key=lambda row: row[:3])
    return tuple(
        FailureExample(size, r.task.instance.to_text(), storable(r.completion[:MAX_COMPLETION]), _violations(r.verdict))
        for _, _, size, r in ranked[:count]
    )


def _violations(verdict: Verdict, limit: int = 4) -> str:
    """Returns the first violations as text, e.g. `vertex at step 2, agents 1 and 2, cell (1, 2)`."""
    shown = []
    for v in verdict.violations[:limit]:
        agents = f"agent{'s' if len(v.agents) > 1 else ''} {' and '.join(str(a + 1) for a in v.agents)}"
        where = [f" at step {v.time}, {agents}"] if v.agents else []
        where += [f"cell {v.cell}"] if v.cell is not None else []
        shown.append(v.kind + ", ".join(where))
    more = len(verdict.violations) - limit
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def _fields(value: Any) -> dict[str, Any]:
    return dict(vars(value))
