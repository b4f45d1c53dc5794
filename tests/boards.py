"""Random boards: a seeded stream and a hypothesis strategy."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from mapflake.env import Instance


def random_board(rng: random.Random, size: int, holes: int, agents: int) -> Instance:
    """A board with that many holes; nothing else is asked of it, it may well be unsolvable."""
    cells = [(row, col) for row in range(size) for col in range(size)]
    rng.shuffle(cells)
    free = cells[holes:]
    return Instance(size, frozenset(cells[:holes]), tuple(rng.sample(free, agents)), tuple(rng.sample(free, agents)))


@st.composite
def boards(draw: st.DrawFn, sizes: tuple[int, int] = (3, 5), agents: tuple[int, int] = (1, 3)) -> Instance:
    """Boards with up to half of their cells holes, of any solvability."""
    size = draw(st.integers(*sizes))
    count = draw(st.integers(*agents))
    order = draw(st.permutations([(row, col) for row in range(size) for col in range(size)]))
    free = order[draw(st.integers(0, size * size // 2)) :]
    goals = draw(st.permutations(free))
    return Instance(size, frozenset(order) - frozenset(free), tuple(free[:count]), tuple(goals[:count]))
