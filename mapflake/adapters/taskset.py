"""Boards as a verifiers taskset, interface v1.

    vf-eval mapflake -m gpt-5 --client.base-url ... --env.agent.runtime.type subprocess --no-push

A task is one board in words, scored by `judge`: the reward is `reward` (0, 0.5, 1), the metrics are `valid`, `optimal`,
`soc_optimal` and the eight checks. The hub's form of it, with `load_environment`, is in environments/mapflake.
`vf-validate mapflake` plays every board's own answer. The package brings its harness: `OneTurn` asks once from this
process, where verifiers' own programs would each want an environment of their own; `--env.agent.harness.id null` (or
another) takes its place. Not covered: the interface v0; a system prompt (`--env.taskset.system-prompt` adds one).
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import NonNegativeInt

from mapflake.env import (
    KINDS,
    EnvConfig,
    Task,
    Verdict,
    format_plan,
    generate,
    judge,
    load_tasks,
    render_prompt,
    reward,
)
from mapflake.extras import needs
from mapflake.repro import from_json, to_json

with needs(install="pip install -c requirements/verifiers.txt verifiers -e .  (it wants openai < 3: see there)"):
    import openai
    import verifiers.v1 as vf

__all__ = ["FrozenLakeTaskset", "OneTurn"]


class FrozenLakeData(vf.TaskData):
    """One board: the task as JSON, and the prompt format in which it is asked."""

    task: dict[str, Any]
    prompt_format: str


class FrozenLakeTask(vf.Task[FrozenLakeData]):
    """One board, and the score of an answer to it."""

    def verdict(self, reply: str) -> Verdict:
        """Returns the verdict of `judge` on a reply."""
        return judge(from_json(Task, self.data.task, "task"), reply, self.data.prompt_format)

    @vf.reward(weight=1.0)
    async def reward(self, trace: vf.Trace) -> float:
        """Returns 0, 0.5 (valid) or 1 (optimal)."""
        return reward(self.verdict(trace.last_reply))

    @vf.metric
    async def rates(self, trace: vf.Trace) -> dict[str, float]:
        """Returns, as 0 or 1, `valid`, `optimal`, `soc_optimal`, and `fails_parse` to `fails_goal` for the checks."""
        verdict = self.verdict(trace.last_reply)
        fails = {f"fails_{kind}": float(kind in verdict.kinds) for kind in KINDS}
        return {name: float(getattr(verdict, name)) for name in ("valid", "optimal", "soc_optimal")} | fails

    async def validate(self, runtime: vf.Runtime) -> bool:
        """Returns whether the board's own answer is optimal."""
        task = from_json(Task, self.data.task, "task")
        return self.verdict(format_plan(task.instance, task.solution.plan, self.data.prompt_format)).optimal


class FrozenLakeConfig(vf.TasksetConfig):
    """The choice of boards; `--env.taskset.num-agents 3` on the command line, and so on.

    Attributes:
        tasks: A file that `save_tasks` wrote; with it only `prompt_format` is used of the other fields.
        n: Number of boards.
        split: The use of the boards: benchmark to evaluate, train to train.
        design: A generator configuration, as `repro.to_json` writes it; with it none of the next four fields is used.
        sizes: Sizes of the boards, in equal shares; the next three fields are as in `EnvConfig.uniform`.
    """

    tasks: str = ""
    prompt_format: Literal["chat", "brief", "compact"] = "chat"
    n: NonNegativeInt = 100
    split: Literal["train", "validation", "benchmark"] = "benchmark"
    design: dict[str, Any] = {}  # noqa: RUF012  a field of pydantic
    sizes: list[int] = [3, 4, 5, 6]  # noqa: RUF012  a field of pydantic
    num_agents: int = 2
    hole_ratio: float = 0.2
    wait_ratio: float = 0.5
    seed: NonNegativeInt = 0


class FrozenLakeTaskset(vf.Taskset[FrozenLakeTask, FrozenLakeConfig]):
    """The boards of a configuration."""

    def load(self) -> list[FrozenLakeTask]:
        """Returns the tasks; raises the errors of `load_tasks` and `generate`, ValueError for a design that is none."""
        c = self.config
        if c.tasks:
            chosen = load_tasks(c.tasks)
        else:
            if c.design:
                config = from_json(EnvConfig, c.design, "design")
            else:
                config = EnvConfig.uniform(c.sizes, c.hole_ratio, c.wait_ratio, c.num_agents)
            chosen = generate(config, c.n, seed=c.seed, split=c.split)
        return [
            FrozenLakeTask(
                FrozenLakeData(
                    id=task.instance.key,
                    prompt=render_prompt(task.instance, c.prompt_format),
                    task=to_json(task),
                    prompt_format=c.prompt_format,
                ),
                c.task,
            )
            for task in chosen
        ]


class OneTurn(vf.Harness[vf.HarnessConfig]):
    """Asks the model once, in this process, through the endpoint that records the trace."""

    APPENDS_SYSTEM_PROMPT = True
    EXECUTES_CODE = False
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        """Returns once the answer is on the trace; a failed request raises, and verifiers records it as an error."""
        system, prompt = self.resolve_text_prompt(data)
        messages: list[Any] = [{"role": "system", "content": system}] if system else []
        async with openai.AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0) as client:
            await client.chat.completions.create(
                model=ctx.model, messages=[*messages, {"role": "user", "content": prompt or ""}]
            )
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")
