"""The small from-scratch policy as engineer: its language, the pairs that teach it, and an analysis of its designs.

A real language model needs none of this: it reads a prompt in prose and answers in JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mapflake.env import Task, format_plan, naive_plan_fails, render_prompt, transform_task
from mapflake.repro import rng_for


def warm_start_pairs(
    solved: Sequence[Task],
    sizes: Iterable[int],
    n: int,
    *,
    hard_share: float,
    engineer_share: float,
    variants: Sequence[str],
    seed: int,
) -> list[tuple[str, str]]:
    """Returns n (prompt, completion) pairs for the warm start: solved boards first, then the engineer's demonstrations.

    Args:
        solved: Boards with their answers; each is shown turned or mirrored, its agents renamed, at random.
        sizes: Board sizes of the engineer's demonstrations.
        n: Number of pairs.
        hard_share: Chance that a board is one that the naive plan does not solve (`naive_plan_fails`).
        engineer_share: Share of the pairs that are demonstrations of the engineer's language.
        variants: Variants of the engineer's prompt, each as often as the others.
        seed: Root of the random streams.

    Raises:
        ValueError: There are no boards of a kind that is to be shown, or as `demonstrations` raises.
    """
    from mapflake.engineer.compact.demonstrations import demonstrations  # writes prompts, and so needs our words

    rng = rng_for(seed, "demonstrations")
    hard = [task for task in solved if naive_plan_fails(task.instance)]
    easy = [task for task in solved if not naive_plan_fails(task.instance)]
    pools = [hard if rng.random() < hard_share else easy for _ in range(round((1 - engineer_share) * n))]
    if not all(pools):
        kind = "fails" if hard_share and not hard else "solves"
        raise ValueError(f"solved: there is no board that the naive plan {kind}, and hard_share is {hard_share:g}")
    shown = [pool[rng.integers(len(pool))] for pool in pools]
    turned = [
        transform_task(task, int(rng.integers(8)), rng.permutation(task.instance.num_agents).tolist()) for task in shown
    ]
    pairs = [
        (render_prompt(task.instance, "compact"), format_plan(task.instance, task.solution.plan, "compact"))
        for task in turned
    ]
    return pairs + demonstrations(n - len(pairs), sizes, seed=seed, variants=variants)
