"""The truth about a plan: eight checks, each of which can fail alone, and the two costs. Knows no solver.

Each violation is reported once, at the step that causes it. Execution goes on literally after a violation, so that one
slip is one violation: an agent that leaves the board and comes back gives one `bounds` and nothing else. Not covered:
whether a valid plan is optimal (`judge` in task.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from mapflake.env.instance import MOVES, Cell, Instance, Plan, checked_plan, execute

KINDS = ("parse", "agents", "move", "bounds", "hole", "vertex", "edge", "goal")
"""The eight checks in order: parses; one move list for each agent; only legal moves; in bounds; no hole; no two
agents in one cell; no two agents swapping cells; every agent ends on its goal."""


@dataclass(frozen=True)
class Violation:
    """One violation of the rules by a plan.

    Attributes:
        kind: One of `KINDS`; `parse` and `agents` have none of the rest.
        time: Number of the joint move at fault, from 1 (positions after it are `execute(...)[time]`); `goal` has the
            last, 0 in an empty plan.
        agents: The agents concerned, ascending, from 0.
        cell: The cell entered (`edge`: by the first of the two agents), or where the agent stands (`move`, `goal`).
    """

    kind: str
    time: int = 0
    agents: tuple[int, ...] = ()
    cell: Cell | None = None


@dataclass(frozen=True)
class Verdict:
    """The truth about one answer; a reward is a function of it.

    Attributes:
        violations: All violations, by time, then in the order of `KINDS`.
        makespan: Joint moves until all agents are on their goals for good; None unless valid.
        sum_of_costs: Sum over agents of the time of their last arrival; None unless valid.
        optimal: Valid with the least possible makespan. Always False from `check`, which knows no optimum.
        soc_optimal: Valid with the least possible sum of costs. Likewise.
    """

    violations: tuple[Violation, ...]
    makespan: int | None = None
    sum_of_costs: int | None = None
    optimal: bool = False
    soc_optimal: bool = False

    @property
    def valid(self) -> bool:
        """True if all eight checks pass."""
        return not self.violations

    @property
    def kinds(self) -> tuple[str, ...]:
        """The checks that failed, each once, in the order of `KINDS`."""
        failed = {violation.kind for violation in self.violations}
        return tuple(kind for kind in KINDS if kind in failed)


def check(instance: Instance, plan: Plan) -> Verdict:
    """Returns the verdict on `plan`: every violation, and the costs if there is none; ValueError if it is no `Plan`."""
    if len(checked_plan(plan).moves) != instance.num_agents:
        return Verdict((Violation("agents"),))
    violations = []
    trajectory = execute(instance, plan)
    for agent, moves in enumerate(plan.moves):
        for time, move in enumerate(moves, start=1):
            if move not in MOVES:
                violations.append(Violation("move", time, (agent,), trajectory[time][agent]))
    for time, (before, after) in enumerate(pairwise(trajectory), start=1):
        violations += _step(instance, time, before, after)
    for agent, (cell, goal) in enumerate(zip(trajectory[-1], instance.goals, strict=True)):
        if cell != goal:
            violations.append(Violation("goal", plan.horizon, (agent,), cell))
    if violations:
        return Verdict(tuple(sorted(violations, key=lambda v: (v.time, KINDS.index(v.kind), v.agents))))
    costs = [len(moves.rstrip("W")) for moves in plan.moves]
    return Verdict((), makespan=max(costs), sum_of_costs=sum(costs))


def _step(instance: Instance, time: int, before: tuple[Cell, ...], after: tuple[Cell, ...]) -> list[Violation]:
    violations = []
    for agent, cell in enumerate(after):
        if cell != before[agent] and not instance.is_free(cell):
            violations.append(Violation("hole" if cell in instance.holes else "bounds", time, (agent,), cell))
    if len(set(after)) < len(after):
        for cell, agents in sorted(_by_cell(after).items()):
            if len(agents) > 1 and any(before[agent] != cell for agent in agents):
                violations.append(Violation("vertex", time, tuple(agents), cell))
    agents_at = _by_cell(before)
    for agent, cell in enumerate(after):
        for other in agents_at.get(cell, ()):
            if agent < other and before[agent] == after[other] != cell:
                violations.append(Violation("edge", time, (agent, other), cell))
    return violations


def _by_cell(cells: tuple[Cell, ...]) -> dict[Cell, list[int]]:
    agents_at: dict[Cell, list[int]] = {}
    for agent, cell in enumerate(cells):
        agents_at.setdefault(cell, []).append(agent)
    return agents_at
