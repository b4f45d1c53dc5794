"""Designers that try configurations out: scores by hand, the best is taken, what it cost is recorded."""

import numpy as np
import pytest
from engineer_samples import RANDOM, REPORTS, SIZES, history

from mapflake.engineer.designers import search
from mapflake.engineer.designers.search import accel_lite, learnable, random_search
from mapflake.env import EnvConfig, GenerationError, SizeConfig, format_plan, generate, render_prompt


class Learner:
    """Solves every board of some sizes, none of others, and every second sample of the rest."""

    prompt_format = "compact"

    def __init__(self, always=(), never=()):
        self.always, self.never = always, never

    def complete(self, prompts, *, n=1, **options):
        texts = []
        for prompt in prompts:
            size = int(prompt.split()[0][4:])
            plan = format_plan(TASKS[prompt].instance, TASKS[prompt].solution.plan, "compact")
            solved = [size in self.always or (size not in self.never and i % 2 == 0) for i in range(n)]
            texts.append([plan if ok else "no plan" for ok in solved])
        return texts


TASKS = {}


@pytest.fixture(autouse=True)
def remember_boards(monkeypatch):
    """Lets the learner look up the answer of every board that a probe draws."""

    def drawn(config, n, **options):
        tasks = generate(config, n, **options)
        TASKS.update({render_prompt(t.instance, "compact"): t for t in tasks})
        return tasks

    monkeypatch.setattr(search, "generate", drawn)


def test_learnability_by_hand():
    # p is 1 on 3x3 and 1/2 on 4x4: 0 on half of the boards, 0.25 on the others, times 4/3 for four samples
    config = EnvConfig.uniform([3, 4], 0.1, 0.5)
    assert learnable(Learner(always=[3]), config, seed=1) == pytest.approx(0.5 * 0.25 * 4 / 3)
    assert learnable(Learner(always=[3], never=[4]), config, seed=1) == 0


def test_the_most_learnable_configuration_is_taken_and_charged():
    design = random_search(lambda past: Learner(always=[3, 5, 6]), SIZES, seed=2)
    proposal = design(REPORTS[0], history(1))
    scores = [float(x) for x in proposal.reply.partition("): ")[2].split(", ")]
    assert len(scores) == 8
    assert proposal.extra_cost == {"rollouts": 8 * 32 * 4}
    assert proposal.config.sizes[4].data_ratio > 0.3  # where there is something to learn
    # Of 32 boards, the share of 4x4 is met to one board; 1/4 x 4/3 is the score of such a board.
    assert max(scores) == pytest.approx(proposal.config.sizes[4].data_ratio / 3, abs=1 / 32 / 3 + 1e-4)
    assert design(REPORTS[1], history(1)) == proposal  # it asks the policy, not the report
    assert design(REPORTS[0], history(2)).config != proposal.config


def test_mutations_stay_near_their_parent_which_may_win():
    proposal = accel_lite(lambda past: Learner(), SIZES, seed=2)(REPORTS[0], history(1))
    assert proposal.config == RANDOM  # all are alike to this learner: the parent comes first
    proposal = accel_lite(lambda past: Learner(always=[3, 4]), SIZES, seed=2)(REPORTS[0], history(1))
    assert proposal.config != RANDOM
    for size, part in proposal.config.sizes.items():
        assert abs(part.hole_ratio - RANDOM.sizes[size].hole_ratio) < 0.11
        assert abs(part.wait_ratio - RANDOM.sizes[size].wait_ratio) < 0.21


def test_boards_that_cannot_be_drawn_lose(monkeypatch):
    def never(config, n, **options):
        raise GenerationError("no", 3)

    monkeypatch.setattr(search, "generate", never)
    assert learnable(Learner(), EnvConfig({3: SizeConfig(1.0, 0.0)}), seed=1) == -np.inf
