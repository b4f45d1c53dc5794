"""One session: a board for each `reset`, one answer to it."""

import base64
import secrets
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import EnvironmentMetadata

from mapflake.adapters.drawing import draw
from mapflake.env import (
    KINDS,
    PROMPT_FORMATS,
    EnvConfig,
    Instance,
    Plan,
    Task,
    Verdict,
    judge_completion,
    render_prompt,
    reward,
)
from mapflake.repro import from_json, shown, to_json
from mapflake_env.models import MapflakeAction, MapflakeObservation, MapflakeState

DEFAULT = EnvConfig.uniform([3, 4, 5, 6], hole_ratio=0.2, wait_ratio=0.5)
"""The configuration of a `reset` that names none."""

DRAW_SECONDS = 10.0
"""Time after which a board that is too rare is given up."""

MAX_ERROR = 1000  # characters
DRAWN_MOVES = 100  # longer plans are not drawn: a picture takes a second for a thousand


class MapflakeEnvironment(Environment[MapflakeAction, MapflakeObservation, MapflakeState]):
    """MAPF-FrozenLake as one question and one answer."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._task: Task | None = None
        self._state = MapflakeState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        config: dict[str, Any] | None = None,
        split: str = "train",
        prompt_format: str = "chat",
        **unknown: Any,
    ) -> MapflakeObservation:
        """Returns the board of a seed and a generator configuration; without a seed, of a random one.

        Args:
            seed: An integer from 0.
            episode_id: A name for the episode, at most 255 characters.
            config: `{"sizes": {"4": {"data_ratio": 1, "hole_ratio": 0.2, "wait_ratio": 0.5}}, "num_agents": 2}`: what
                an engineer designs. None is `DEFAULT`.
            split: train, validation or benchmark.
            prompt_format: chat, brief or compact.
            **unknown: Any other key is an error.

        Raises:
            ValueError: A value is not legal, or no board was found; names the key and what is legal.
        """
        self._task, self._state = None, MapflakeState()
        try:
            if unknown:
                raise ValueError(
                    f"{shown(min(unknown))}: unknown key; legal keys: seed, episode_id, config, split, prompt_format"
                )
            if episode_id is not None and not (isinstance(episode_id, str) and len(episode_id) <= 255):
                raise ValueError(f"episode_id: {shown(episode_id)} is not a text of at most 255 characters")
            if prompt_format not in PROMPT_FORMATS:
                raise ValueError(f"prompt_format: {shown(prompt_format)} is none of {', '.join(PROMPT_FORMATS)}")
            design = DEFAULT if config is None else from_json(EnvConfig, config, "config")
            seed = secrets.randbits(63) if seed is None else seed
            task = draw(design, seed, split=split, seconds=DRAW_SECONDS)
            prompt = render_prompt(task.instance, prompt_format)
        except ValueError as error:
            raise ValueError(str(error)[:MAX_ERROR]) from None
        self._task = task
        self._state = MapflakeState(
            episode_id=episode_id or str(uuid4()),
            config=to_json(design),
            seed=seed,
            split=split,
            prompt_format=prompt_format,
            key=task.instance.key,
        )
        return MapflakeObservation(prompt=prompt, board=task.instance.to_text())

    def step(self, action: MapflakeAction, timeout_s: float | None = None, **unknown: Any) -> MapflakeObservation:
        """Returns the reward, 0, 0.5 (valid) or 1 (optimal), and the eight checks of the answer; the episode is done.

        Raises:
            ValueError: There is no board, or it has been answered.
        """
        task = self._task
        if task is None:
            raise ValueError(
                "no board to answer: reset first; each board takes one answer, and sessions are those of /ws"
            )
        self._task = None
        plan, verdict = judge_completion(task, action.answer, self._state.prompt_format or "chat")
        self._state = self._state.model_copy(update={"step_count": 1})
        return MapflakeObservation(
            board=task.instance.to_text(),
            plan=None if plan is None else list(plan.moves),
            checks=checks(verdict),
            valid=verdict.valid,
            optimal=verdict.optimal,
            makespan=verdict.makespan,
            best_makespan=task.solution.makespan,
            reward=reward(verdict),
            done=True,
        )

    @property
    def state(self) -> MapflakeState:
        """What `reset` was given, and whether the board has been answered (`step_count`)."""
        return self._state

    def close(self) -> None:
        """Forgets the board."""
        self._task = None

    def get_metadata(self) -> EnvironmentMetadata:
        """Returns the name and a description."""
        return EnvironmentMetadata(
            name="mapflake_env",
            description="MAPF-FrozenLake: plan collision-free paths on ice; boards of a configuration of your own",
        )

    def render_web(self, observation: dict[str, Any]) -> str | None:
        """Returns the picture of the board, with the plan of an answer; the web page shows it."""
        board = Instance.from_text(observation["board"])
        moves = observation.get("plan") or ()
        drawn = len(moves) == board.num_agents and max(map(len, moves)) <= DRAWN_MOVES
        png = board.to_png(Plan(tuple(moves)) if drawn else None)
        return f'<img alt="the board" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


def checks(verdict: Verdict) -> dict[str, bool | None]:
    """Returns which of the eight checks an answer passed; None for those that a text without a plan does not reach."""
    first = next((kind for kind in ("parse", "agents") if kind in verdict.kinds), None)
    reached = KINDS if first is None else KINDS[: KINDS.index(first) + 1]
    return {kind: kind not in verdict.kinds if kind in reached else None for kind in KINDS}
