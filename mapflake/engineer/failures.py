"""What went wrong, in exact numbers: rollouts on the validation set -> FailureReport.

Not covered: what a report holds and how it reads (`report`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mapflake.engineer.report import Cell, FailureExample, FailureReport, SizeReport
from mapflake.engineer.wording import MAX_QUOTE, rate, storable
from mapflake.env import DIALECTS, KINDS, PlanParseError, Task, Verdict, parse_completion
from mapflake.env.config import MAX_AGENTS

if TYPE_CHECKING:
    from mapflake.trainer.evaluate import Rollout


def diagnose(
    rollouts: Sequence[Rollout],
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
        rollouts: On the validation set.
        examples: How many failures to show.
        training: Statistics of the training set.
        behaviour: What the policy did in training.
        before: The report on the checkpoint before, on the same boards.

    Raises:
        ValueError: There are no rollouts.
    """
    if not rollouts:
        raise ValueError("a failure report needs at least one rollout")
    by_size: dict[int, list[Rollout]] = {}
    for r in rollouts:
        by_size.setdefault(r.task.instance.size, []).append(r)
    sizes = tuple(_count(size, by_size[size]) for size in sorted(by_size))
    earlier = before.sizes if before else ()
    return FailureReport(sizes, _typical(by_size, examples), training, behaviour, earlier, _cells(rollouts))


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
        FailureExample(
            size, r.task.instance.to_text(), storable(r.completion[:MAX_QUOTE]), _violations(r.verdict), _moves(r)
        )
        for _, _, size, r in ranked[:count]
    )


def _cells(rollouts: Sequence[Rollout]) -> tuple[Cell, ...]:
    counts: Counter[tuple[int, float, bool]] = Counter()
    valid: Counter[tuple[int, float, bool]] = Counter()
    for r in rollouts:
        size = r.task.instance.size
        kind = (size, round(len(r.task.instance.holes) / size**2, 1), r.task.needs_wait)
        counts[kind] += 1
        valid[kind] += r.verdict.valid
    return tuple(Cell(*kind, counts[kind], valid[kind]) for kind in sorted(counts))


def _moves(r: Rollout) -> tuple[str, ...]:
    """Returns the moves of each agent that the verifier judged; none if no plan can be read."""
    for dialect in DIALECTS:  # a rollout does not know its own; no text is a plan in both
        try:
            plan = parse_completion(r.completion, r.task.instance.num_agents, dialect)
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
