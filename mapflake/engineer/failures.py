"""What went wrong, in exact numbers: rollouts on the validation set -> FailureReport.

Not covered: what a report holds and how it reads (`report`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mapflake.engineer.report import Cell, FailureExample, FailureReport, SizeReport
from mapflake.engineer.wording import MAX_QUOTE, rate, storable
from mapflake.env import KINDS, PROMPT_FORMATS, PlanParseError, Task, Verdict, parse_completion
from mapflake.env.config import MAX_AGENTS

if TYPE_CHECKING:
    from mapflake.trainer.evaluate import Rollout


def diagnose(
    rollouts: Iterable[Rollout],
    *,
    examples: int = 3,
    training: Mapping[str, Any] | None = None,
    behaviour: Mapping[str, float] | None = None,
    before: FailureReport | None = None,
) -> FailureReport:
    """Returns the report on `rollouts`; it depends on them alone, not on their order.

    Examples are typical ones: failures are grouped by size and set of violated kinds; the commonest group of every
    size gives one (sizes with the most failures first), then the second commonest, and so on. Within a group it is
    the one with the smallest board key.

    Args:
        rollouts: On the validation set; read once and not held.
        examples: How many failures to show.
        training: Statistics of the training set.
        behaviour: What the policy did in training.
        before: The report on the checkpoint before, on the same boards.

    Raises:
        ValueError: There are no rollouts.
    """
    sizes: dict[int, _Size] = {}
    for r in rollouts:
        sizes.setdefault(r.task.instance.size, _Size()).add(r)
    if not sizes:
        raise ValueError("a failure report needs at least one rollout")
    counts = tuple(sizes[size].report(size) for size in sorted(sizes))
    cells = tuple(cell for size in sorted(sizes) for cell in sizes[size].kinds_of_board(size))
    earlier = before.sizes if before else ()
    return FailureReport(counts, _typical(sizes, examples), training, behaviour, earlier, cells)


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


class _Size:
    """What is counted on the boards of one size."""

    def __init__(self) -> None:
        self.rollouts = self.optimal = self.extra_steps = 0
        self.waits: Counter[bool] = Counter()  # boards that need a wait: valid -> rollouts
        self.kinds: Counter[str] = Counter()
        self.groups: dict[tuple[str, ...], tuple[int, Rollout]] = {}  # failures by kinds: how many, the one shown
        self.cells: dict[tuple[float, bool], Counter[bool]] = {}  # (hole ratio, needs a wait): valid -> rollouts

    def add(self, r: Rollout) -> None:
        """Counts one rollout."""
        board, verdict = r.task.instance, r.verdict
        self.rollouts += 1
        self.kinds.update(verdict.kinds)
        self.waits[verdict.valid] += r.task.needs_wait
        cell = round(len(board.holes) / board.size**2, 1), r.task.needs_wait
        self.cells.setdefault(cell, Counter())[verdict.valid] += 1
        if verdict.valid:
            self.optimal += verdict.optimal
            self.extra_steps += (verdict.makespan or 0) - r.task.solution.makespan
        else:
            count, shown = self.groups.get(verdict.kinds, (0, r))
            self.groups[verdict.kinds] = count + 1, min(shown, r, key=_order)

    @property
    def failed(self) -> int:
        """Rollouts that are not valid."""
        return sum(count for count, _ in self.groups.values())

    def report(self, size: int) -> SizeReport:
        """Returns the counts."""
        return SizeReport(
            size=size,
            rollouts=self.rollouts,
            valid=self.rollouts - self.failed,
            optimal=self.optimal,
            wait_rollouts=self.waits.total(),
            wait_valid=self.waits[True],
            extra_steps=self.extra_steps,
            failures=tuple(self.kinds[kind] for kind in KINDS),
        )

    def kinds_of_board(self, size: int) -> list[Cell]:
        """Returns the counts by kind of board."""
        return [Cell(size, *kind, count.total(), count[True]) for kind, count in sorted(self.cells.items())]


def _order(r: Rollout) -> tuple[str, int, str]:
    return r.task.instance.key, r.sample, r.completion


def _typical(sizes: Mapping[int, _Size], count: int) -> tuple[FailureExample, ...]:
    ranked: list[tuple[int, int, int, Rollout]] = []
    for size, seen in sizes.items():
        commonest = sorted(seen.groups.items(), key=lambda item: (-item[1][0], item[0]))
        ranked += [(rank, -seen.failed, size, shown) for rank, (_, (_, shown)) in enumerate(commonest)]
    ranked.sort(key=lambda row: row[:3])
    return tuple(
        FailureExample(
            size, r.task.instance.to_text(), storable(r.completion[:MAX_QUOTE]), _violations(r.verdict), _moves(r)
        )
        for _, _, size, r in ranked[:count]
    )


def _moves(r: Rollout) -> tuple[str, ...]:
    """Returns the moves of each agent that the verifier judged; none if no plan can be read."""
    for prompt_format in PROMPT_FORMATS:  # a rollout does not know its own; no text is a plan in both
        try:
            plan = parse_completion(r.completion, r.task.instance.num_agents, prompt_format)
        except PlanParseError:
            continue
        return tuple(storable(moves[:MAX_QUOTE]) for moves in plan.moves[:MAX_AGENTS])
    return ()


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
