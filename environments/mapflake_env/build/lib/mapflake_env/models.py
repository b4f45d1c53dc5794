"""What goes over the wire: an answer in, a board and its eight checks out."""

from typing import Any

from openenv.core.env_server.types import Action, Observation, State
from pydantic import Field

MAX_ANSWER = 500_000
"""Characters of an answer, reasoning included."""


class MapflakeAction(Action):
    """The whole answer of a model, one for each board."""

    answer: str = Field(description="Text with the plan in the board's prompt format", max_length=MAX_ANSWER)


class MapflakeObservation(Observation):
    """A board after `reset`, and how its answer was judged after `step`."""

    prompt: str = Field(default="", description="The question for the model")
    board: str = Field(default="", description="Rows of cells: . H S1 G1 (ice, hole, start and goal of an agent)")
    plan: list[str] | None = Field(default=None, description="Moves of each agent that were read in the answer")
    checks: dict[str, bool | None] = Field(
        default_factory=dict, description="The eight checks: passed, failed, or (null) not reached"
    )
    valid: bool | None = Field(default=None, description="All eight checks passed")
    optimal: bool | None = Field(default=None, description="Valid, with the least possible makespan")
    makespan: int | None = Field(default=None, description="Joint moves of a valid plan")
    best_makespan: int | None = Field(default=None, description="Joint moves of the best plan, after the answer")


class MapflakeState(State):
    """What `reset` was given, seed included: the same values bring the same board back."""

    config: dict[str, Any] | None = Field(default=None, description="The generator's configuration")
    seed: int | None = Field(default=None, description="The board's seed; drawn if `reset` had none")
    split: str | None = Field(default=None, description="train, validation or benchmark")
    prompt_format: str | None = Field(default=None, description="chat, brief or compact")
    key: str | None = Field(default=None, description="Hash of the board")
