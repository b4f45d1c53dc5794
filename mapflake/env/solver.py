"""Optimal plans, exactly: `solve` for the makespan or the sum of costs, and `needs_wait`.

Never looks at a clock and draws no random numbers: the same instance gives the same plan on every machine. Boards up to
10x10 with up to 10 agents take the compiled kernel (kernel.py): an increasing-cost-tree search (Sharon et al. 2013,
*The increasing cost tree search for optimal multi-agent pathfinding*) with pair tables, and A* over joint states for
small crowded boards. Other boards, and machines without a C compiler, take the solver in plain.py: the same costs and
labels, more slowly, by other plans of these costs, and with its own count of nodes.

Among plans of optimal makespan one with the least sum of costs is returned, and the other way round (the kernel takes
any of them where that search grows out of proportion). The paper takes its ground truth from Conflict-Based Search; any
exact solver has the same costs. Not covered: bounded-suboptimal search.
"""

from __future__ import annotations

from dataclasses import dataclass

from mapflake.env import kernel, plain
from mapflake.env.instance import Instance, Plan
from mapflake.env.plain import APART, BUDGET, MAKESPAN, NEEDS_WAIT, PAIR, SOLVED, SUM_OF_COSTS, Answer
from mapflake.repro import whole

OBJECTIVES = {"makespan": MAKESPAN, "sum_of_costs": SUM_OF_COSTS}

NODE_BUDGET = 1_000_000
"""Default limit of search nodes. Compiled, a million took 0.1 to 0.6 s on average over crowded boards, at worst 2.6 s
(a shared core of an AMD EPYC)."""


class BudgetExceeded(Exception):
    """The node budget is spent: the instance is neither solved nor shown to be unsolvable."""


class Unsolvable(Exception):
    """The instance has no plan; this is proven."""


@dataclass(frozen=True)
class Solution:
    """A plan that is optimal for the objective asked, with both of its costs.

    Attributes:
        plan: One string of moves for each agent, without trailing waits.
        makespan: Joint moves until all agents are on their goals for good.
        sum_of_costs: Sum over agents of the time of their last arrival.
    """

    plan: Plan
    makespan: int
    sum_of_costs: int


def solve(instance: Instance, objective: str = "makespan", node_budget: int = NODE_BUDGET) -> Solution:
    """Returns an optimal plan, for the objective "makespan" or "sum_of_costs"; only `node_budget` bounds the time.

    Raises:
        Unsolvable: There is no plan.
        BudgetExceeded: The budget is spent and nothing is known.
        ValueError: Unknown objective, or the budget is not an integer from 0.
    """
    if objective not in OBJECTIVES:
        raise ValueError(f"objective: {objective!r} is none of {', '.join(OBJECTIVES)}")
    return solution_of(ask(instance, OBJECTIVES[objective], node_budget))


def needs_wait(instance: Instance, node_budget: int = NODE_BUDGET) -> bool:
    """Returns True if no plan of optimal sum of costs is without a wait before an agent's last arrival.

    By parity: an agent that never waits takes as many moves as its distance, or 2, 4, ... more. So an optimum equal
    to the sum of distances needs no wait, one that is odd above it does, and only an even one above it takes a
    search. Raises Unsolvable and BudgetExceeded as `solve` does.
    """
    return ask(instance, NEEDS_WAIT, node_budget).needs_wait


def search(instance: Instance, what: int, budget: int) -> Answer:
    """Returns the answer of the kernel or of the plain solver, whatever its status."""
    solver = kernel.search if kernel.takes(instance.size, instance.num_agents) else plain.search
    return solver(instance, what, budget)


def ask(instance: Instance, what: int, budget: int = NODE_BUDGET) -> Answer:
    """Returns the answer to a question of plain.py; with the errors of `solve`."""
    budget = whole(budget, "node_budget", 0)
    answer = search(instance, what, budget)
    if answer.status == SOLVED:
        return answer
    if answer.status == BUDGET:
        raise BudgetExceeded(f"no answer within {budget} nodes")
    if answer.status == APART:
        agent = answer.agents[0]
        raise Unsolvable(
            f"no plan: holes part agent {agent} at {instance.starts[agent]} from its goal {instance.goals[agent]}"
        )
    if answer.status == PAIR:
        raise Unsolvable("no plan: agents {} and {} can never both be on their goals".format(*answer.agents))
    raise Unsolvable("no plan brings all agents to their goals")


def solution_of(answer: Answer) -> Solution:
    """Returns the solution in a search's answer."""
    costs = [len(moves) for moves in answer.moves]
    return Solution(Plan(answer.moves), max(costs), sum(costs))
