"""What a small pretrained model learns from: three forms of the worked answer to a board, at equal tokens.

SmolLM2-135M is taught the same boards in the prompt format `brief`, in an order of the seed's, until it has seen
`TOKENS` tokens, prompts included; a form with longer answers sees fewer boards. Each form says for every time step and
agent which moves are legal, the move, and the cell that it reaches, and ends with the plan in JSON. Held-out boards are
answered at temperature 1. One seed. Needs the extra smollm2; a quarter of an hour on one core with AMX.
"""

from __future__ import annotations

import json
import resource
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.report import table
from mapflake.env import EnvConfig, Task, execute, generate, naive_plan_fails, render_prompt
from mapflake.env.instance import DELTAS
from mapflake.env.text import cell_word
from mapflake.repro import rng_for
from mapflake.trainer import warmstart
from mapflake.trainer.evaluate import rollout
from mapflake.trainer.params import WarmStartParams
from mapflake.trainer.policy import load_policy
from mapflake.trainer.pretrained import starting_point

PACKAGES = ("mapflake", "torch", "transformers", "trl")
TOKENS, BATCH, LEARNING_RATE = 120_000, 16, 5e-4
SIZES, HOLES, WAITS, HARD = (3, 4, 5), 0.15, 1 / 3, 0.6  # HARD: share of the boards that the naive plan does not solve
HELD_OUT, SEED = 240, 0

WORDS = {"U": "up", "D": "down", "L": "left", "R": "right", "W": "wait"}


def letters(legal: list[tuple[str, str]], move: str, cell: str) -> str:
    """Returns one agent's step as the format `brief` writes it: `UDR R c3`."""
    return f"{''.join(name for name, _ in legal) or '-'} {move} {cell}"


def words(legal: list[tuple[str, str]], move: str, cell: str) -> str:
    """Returns one agent's step with moves as words: `up down right: right c3`."""
    return f"{' '.join(WORDS[name] for name, _ in legal) or 'none'}: {WORDS[move]} {cell}"


def cells(legal: list[tuple[str, str]], move: str, cell: str) -> str:
    """Returns one agent's step with the cell behind each legal move: `U b2 D d2 R c3: R c3`."""
    return f"{' '.join(f'{name} {behind}' for name, behind in legal) or '-'}: {move} {cell}"


FORMS = {"letters": letters, "words": words, "cells": cells}


def answer(task: Task, form: str) -> str:
    """Returns the solver's plan, worked out step by step in a form and then in JSON."""
    board, plan = task.instance, task.solution.plan
    positions = execute(board, plan)
    lines = []
    for step, (before, after) in enumerate(pairwise(positions)):
        agents = []
        for (row, col), reached, moves in zip(before, after, plan.moves, strict=True):
            around = [(name, (row + DELTAS[name][0], col + DELTAS[name][1])) for name in "UDLR"]
            legal = [(name, cell_word(cell)) for name, cell in around if board.is_free(cell)]
            agents.append(FORMS[form](legal, moves[step] if step < len(moves) else "W", cell_word(reached)))
        lines.append(("; " if form == "words" else ", ").join(agents))
    written = [" ".join(WORDS[m] for m in moves) if form == "words" else moves for moves in plan.moves]
    return "\n".join([*lines, json.dumps({"plan": written})])


def demonstrated(boards: int) -> list[Task]:
    """Returns boards of which `HARD` are not solved by the naive plan, in a random order."""
    drawn = generate(EnvConfig.uniform(SIZES, HOLES, WAITS), 2 * boards, seed=SEED)
    hard = [task for task in drawn if naive_plan_fails(task.instance)][: round(HARD * boards)]
    easy = [task for task in drawn if not naive_plan_fails(task.instance)][: boards - len(hard)]
    order = rng_for(SEED, "benchmarks.forms").permutation(len(hard) + len(easy))
    return [(hard + easy)[i] for i in order]


def measure() -> dict[str, Any]:
    """Returns for each form what was seen, and what is right of the answers to the held-out boards."""
    boards = demonstrated(2500)
    unseen = generate(EnvConfig.uniform(SIZES, HOLES, WAITS), HELD_OUT, seed=SEED, split="validation")
    hard = [naive_plan_fails(task.instance) for task in unseen]
    forms: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        start = starting_point("smollm2", Path(folder) / "start", prompt_format="brief")
        tokenizer = load_policy(start).tokenizer
        for form in FORMS:
            pairs = [(render_prompt(task.instance, "brief"), answer(task, form)) for task in boards]
            rows = warmstart.encode_pairs(tokenizer, pairs)
            steps = round(TOKENS / BATCH / mean(len(row["input_ids"]) for row in rows))
            assert steps * BATCH <= len(boards), "no board is to be seen twice"
            params = WarmStartParams(
                steps=steps, batch_size=BATCH, microbatch=BATCH, learning_rate=LEARNING_RATE, warmup_steps=20,
                final_share=0.1, save_every=1000, precision="auto",
            )  # fmt: skip
            began = time.process_time()
            curve = warmstart.warm_start(pairs, start, params, Path(folder) / form, seed=SEED)
            seconds = time.process_time() - began
            policy = load_policy(Path(folder) / form, precision="auto", max_new_tokens=320)
            rollouts = rollout(policy, unseen, seed=SEED, progress=form)
            forms[form] = {
                "example": answer(boards[0], form).splitlines()[0],
                "boards": steps * BATCH,
                "tokens_an_answer": round(mean(sum(label != -100 for label in row["labels"]) for row in rows), 1),
                "loss": round(curve[-1]["loss"], 3),
                "parsed": mean(r.plan is not None for r in rollouts),
                "valid": mean(r.verdict.valid for r in rollouts),
                "valid_hard": mean(r.verdict.valid for r, is_hard in zip(rollouts, hard, strict=True) if is_hard),
                "cpu_s": round(seconds),
            }
    return {
        "forms": forms,
        "tokens": TOKENS,
        "held_out": HELD_OUT,
        "hard": sum(hard),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }


def markdown(numbers: dict[str, Any]) -> str:
    """Returns the table of forms."""
    columns = ("form", "a step", "boards", "tokens an answer", "read", "valid", "valid where the naive plan fails")
    rows = [
        (
            name, f"`{form['example']}`", form["boards"], f"{form['tokens_an_answer']:.0f}",
            *(f"{form[key]:.1%}" for key in ("parsed", "valid", "valid_hard")),
        )
        for name, form in numbers["forms"].items()
    ]  # fmt: skip
    about = (
        f"{numbers['tokens']:,} tokens each, prompts included; {numbers['held_out']} held-out boards, of which the "
        f"naive plan fails on {numbers['hard']}; one answer to each at temperature 1; one seed."
    )
    return f"{table(columns, rows)}\n\n{about}"
