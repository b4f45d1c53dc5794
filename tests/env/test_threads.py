"""The solver and the generator from many threads at once: the answers of one thread alone, plans included."""

import random
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from boards import random_board

from mapflake.env import EnvConfig, generate, kernel, plain
from mapflake.env.plain import ANALYSE, MAKESPAN, SUM_OF_COSTS, Answer

THREADS = 8
Search = Callable[..., Answer]


@pytest.fixture(autouse=True)
def _switching():
    """Threads change as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def differences(count: int, sizes: tuple[int, int], search: Search, together: Search) -> int:
    """The number of questions on random boards with another answer in threads (`together`) than alone (`search`)."""
    rng = random.Random(0)
    kinds = [(rng.randint(*sizes), rng.randint(2, 5)) for _ in range(count)]
    boards = [random_board(rng, size, rng.randint(0, size * size // 2), agents) for size, agents in kinds]
    questions = [(board, query, 2_000) for board in boards for query in (MAKESPAN, SUM_OF_COSTS, ANALYSE)]
    with ThreadPoolExecutor(THREADS) as pool:
        answers = list(pool.map(lambda question: together(*question), questions))
    return sum(search(*question) != answer for question, answer in zip(questions, answers, strict=True))


@pytest.mark.usefixtures("compiled")
def test_the_kernel_answers_in_threads_as_alone():
    assert differences(1_500, (4, 10), kernel.search, kernel.search) == 0


def test_an_answer_that_threads_share_is_found_out():
    """The control: all threads write their answer to one place, and then read it."""
    place, barrier = [Answer(0)], threading.Barrier(THREADS)

    def shared(*question: Any) -> Answer:
        place[0] = plain.search(*question)
        barrier.wait()
        return place[0]

    assert differences(16, (4, 5), plain.search, shared) > 0


def test_sets_of_tasks_are_the_same_from_threads(in_both):
    configs = [EnvConfig.uniform([4, 5], 0.2, 0.5, agents) for agents in (2, 3) for _ in range(2)]
    expected = [generate(config, 4, seed=1) for config in configs]
    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(lambda config: generate(config, 4, seed=1), configs)) == expected
