"""Who designs the next configuration: a model, in all the ways that it can be asked, or a rule. Arms by name.

Every designer has one signature and gives a `Proposal`; all configurations go through the same projection. `ENGINEERS`
and `RULES` are the one place where the names of arms are given a meaning; params.yaml adds model engineers of its own
(`ablations.designers`). Not covered: the rules themselves (`baselines`, `probes`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from mapflake.engineer import baselines, probes
from mapflake.engineer.context import DEFAULT_VARIANT, VARIANTS, Variant, build_prompt
from mapflake.engineer.controls import Told, as_told
from mapflake.engineer.grammar import reply_grammar
from mapflake.engineer.ledger import Designer, History, Round, next_index
from mapflake.engineer.reply import Proposal, read_replies
from mapflake.engineer.report import FailureReport
from mapflake.engineer.space import legal_sizes, reply_words
from mapflake.engineer.wording import storable
from mapflake.repro import Params, check_address, seed_for, shown
from mapflake.trainer.evaluate import Completer

if TYPE_CHECKING:
    from mapflake.trainer.policy import SamplingParams


logger = logging.getLogger(__name__)

NAME = re.compile("[a-z][a-z0-9_]{0,39}")  # of an arm: it becomes a folder's name, and a word of a command


def _variant(value: Any) -> Any:
    if isinstance(value, str) and value not in VARIANTS:
        raise ValueError(f"legal variants: {', '.join(VARIANTS)}, or modules: {', '.join(Variant.model_fields)}")
    return Variant.parse(value, "variant") if isinstance(value, Mapping) else value


class EngineerParams(Params):
    """How a model is asked for a design.

    Attributes:
        model: Who is asked: `current` (the checkpoint just trained), `base` (before any RL), a checkpoint's folder or a
            name on the Hugging Face hub, or `openai:<name>`, a model behind an OpenAI-compatible server.
        base_url: Of that server; None: what the `openai` client takes from the environment.
        variant: Which modules the prompt has: a name in `VARIANTS`, or modules, `{guideline: true, history: all}`.
        report: `current`, or a control: `shuffled` (the rows of the failure tables belong to other sizes) or `previous`
            (the report of the round before).
        samples: Replies drawn; the first legal one counts, all are recorded.
        temperature: Of sampling; 0 is greedy (then one sample says it all).
        constrained: Whether decoding follows a grammar in which every reply is legal (`grammar`).
        prompt_tokens: The prompt's budget (see `build_prompt`).
        max_new_tokens: Where a reply is cut off; None: what a design takes and 8 more in compact, 4096 tokens in JSON.
    """

    model: str = Field(default="current", min_length=1)
    base_url: str | None = None
    variant: Annotated[str | Variant, BeforeValidator(_variant)] = DEFAULT_VARIANT
    report: Told = "current"
    samples: int = Field(default=4, ge=1)
    temperature: float = Field(default=1.0, ge=0)
    constrained: bool = False
    prompt_tokens: int = Field(default=8192, ge=1)
    max_new_tokens: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _possible(self) -> EngineerParams:
        if self.model.startswith("openai:") and self.constrained:
            raise ValueError("constrained: a server decodes by itself; ask it plainly")
        if self.base_url is not None and not self.model.startswith("openai:"):
            raise ValueError(f"base_url: of a server, but model is {shown(self.model)}, not openai:<name>")
        check_address(self.base_url, "base_url")
        return self

    def weights(self, base: str | Path | None) -> str | Path | None:
        """Returns what fixed weights are asked; None if they change every round or lie behind a server.

        Raises:
            ValueError: They are those of the base model, and it is not given.
        """
        if self.model == "current" or self.model.startswith("openai:"):
            return None
        if self.model == "base" and base is None:
            raise ValueError("model: 'base' needs the checkpoint of the base model")
        return base if self.model == "base" else self.model


# ---------------------------------------------------------------- the model as engineer


def llm_engineer(
    policy_for: Callable[[History], Completer],
    sizes: Iterable[int],
    params: EngineerParams,
    *,
    seed: int,
    write: Callable[..., str] = build_prompt,
) -> Designer:
    """Returns the designer that asks a model: prompt, samples, the first that is not rejected counts.

    No rule stands between reply and configuration but the projection; if all samples are rejected, so is the proposal.

    Args:
        policy_for: Gives the model for a history, e.g. the one in the last round's checkpoint.
        sizes: Board sizes that may be asked for.
        params: How it is asked.
        seed: Of sampling (and of a shuffled report); the round's index goes in too.
        write: Gives the prompt, called as `build_prompt` is.
    """
    sizes = legal_sizes(sizes)

    def design(report: FailureReport, history: History) -> Proposal:
        policy = policy_for(history)
        prompt_format = "compact" if policy.prompt_format == "compact" else "json"
        agents = history[-1].config.num_agents
        told, past = as_told(report, history, params.report, seed=seed)
        prompt = write(
            told, past, sizes, variant=params.variant, prompt_format=prompt_format, num_agents=agents,
            budget=params.prompt_tokens, count=_counter(policy),
        )  # fmt: skip
        (texts,) = policy.complete(
            [prompt],
            n=params.samples,
            temperature=params.temperature,
            max_new_tokens=params.max_new_tokens or (reply_words(sizes) if prompt_format == "compact" else 4096),
            seed=seed_for(seed, "engineer", next_index(history)),
            **({"grammar": reply_grammar(sizes, prompt_format)} if params.constrained else {}),
        )
        if lost := sum(text is None for text in texts):
            logger.warning("%d of %d replies did not come: they count as empty ones", lost, len(texts))
        replies = [storable(text or "") for text in texts]  # before reading: what is recorded is what was read
        return replace(read_replies(replies, sizes, prompt_format, num_agents=agents), prompt=prompt)

    return design


def _counter(policy: Completer) -> Callable[[str], int]:
    """Returns what counts the tokens of a text: the policy's tokenizer, or bytes / 3, more than most texts have."""
    tokenizer = getattr(policy, "tokenizer", None)
    if tokenizer is None:
        return lambda text: len(text.encode()) // 3 + 1
    return lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"])


# ---------------------------------------------------------------- arms


@dataclass(frozen=True)
class RuleInputs:
    """What a rule may be made from.

    Attributes:
        sizes: Board sizes that may be asked for.
        seed: Root of the run's random streams, the same for all arms.
        current: Gives the checkpoint just trained, as a policy.
        try_out: Trains a round for real, beside the run (`rounds.run_arm`): number, history, designer -> Round.
    """

    sizes: tuple[int, ...]
    seed: int
    current: Callable[[History], Completer]
    try_out: Callable[[int, History, Designer], Round]


ENGINEERS: dict[str, dict[str, Any]] = {
    "engineer": {},  # the current policy designs, as params.yaml says
    "base_engineer": {"model": "base", "base_url": None},  # the model before any RL designs, the policy trains
    "constrained_engineer": {"constrained": True},
    "shuffled_failures": {"report": "shuffled"},  # three controls
    "previous_report": {"report": "previous"},
    "schema_only": {"variant": "schema"},
}
"""The arms in which a model designs: in what each differs from the parameters `engineer`."""

RULES: dict[str, Callable[[RuleInputs], Designer]] = {
    "fixed": lambda i: baselines.fixed(),  # the fixed configuration of round 0
    "fixed_draw_2": lambda i: baselines.fixed_random(i.sizes, seed=i.seed, number=1),
    "fixed_draw_3": lambda i: baselines.fixed_random(i.sizes, seed=i.seed, number=2),
    "fixed_draw_4": lambda i: baselines.fixed_random(i.sizes, seed=i.seed, number=3),
    "uniform": lambda i: baselines.uniform(i.sizes),
    "evaluation_matched": lambda i: baselines.evaluation_matched(i.sizes),
    "domain_randomisation": lambda i: baselines.domain_randomisation(i.sizes, seed=i.seed),
    "heuristic": lambda i: baselines.heuristic_expert(i.sizes),
    "learnability": lambda i: baselines.learnability(i.sizes),
    "learning_progress": lambda i: baselines.learning_progress(i.sizes),
    "random_search": lambda i: probes.random_search(i.current, i.sizes, seed=i.seed),
    "accel_lite": lambda i: probes.accel_lite(i.current, i.sizes, seed=i.seed),
    "oracle": lambda i: probes.oracle(i.try_out, i.sizes, seed=i.seed),
}
"""The arms in which a rule designs; a new one is one line here."""

ARMS = (*ENGINEERS, *RULES)
"""All names of arms that need no line in params.yaml."""


def params_of(
    arm: str, params: EngineerParams, designers: Mapping[str, Mapping[str, Any]] | None = None
) -> EngineerParams | None:
    """Returns how the model of an arm is asked; None if the arm is a rule.

    Args:
        arm: A name in `ARMS` or `designers`.
        params: The parameters that arms differ from.
        designers: Further model engineers: arm -> in what it differs.

    Raises:
        ValueError: No arm has this name, or `designers` has one that is taken.
        ParamError: What it differs in is no parameter.
    """
    designers = designers or {}
    for name in designers:
        if not (isinstance(name, str) and NAME.fullmatch(name)):
            raise ValueError(f"designers: {shown(name)} is no name: up to 40 of a-z, 0-9 and _, a letter first")
    if taken := [name for name in designers if name in ARMS]:
        raise ValueError(f"designers: {taken[0]!r} is the name of an arm already")
    if arm in RULES:
        return None
    if arm not in ENGINEERS and arm not in designers:
        raise ValueError(f"arm: {shown(arm)} is none of {', '.join([*ARMS, *designers])}")
    changes = ENGINEERS.get(arm) or designers.get(arm) or {}
    return EngineerParams.parse({**params.model_dump(), **changes}, f"designers.{arm}")


def designer_for(
    arm: str,
    *,
    sizes: Iterable[int],
    seed: int,
    params: EngineerParams | None = None,
    designers: Mapping[str, Mapping[str, Any]] | None = None,
    base: str | Path | None = None,
    load: Callable[[str | Path], Completer] | None = None,
    try_out: Callable[[int, History, Designer], Round] | None = None,
) -> Designer:
    """Returns the designer of an arm.

    Args:
        arm: A name in `ARMS`, or in `designers`.
        sizes: Board sizes that may be asked for.
        seed: Root of the run's random streams, the same for all arms.
        params: How a model is asked, where the arm does not differ from it.
        designers: As for `params_of`.
        base: Checkpoint of the model before any RL.
        load: Gives the policy in a checkpoint.
        try_out: Trains a round for real; without it the oracle says that it cannot be used.

    Raises:
        ValueError: The arm needs a base checkpoint and none is given, or no arm has this name.
    """
    sizes, load = legal_sizes(sizes), load or load_checkpoint
    asked = params_of(arm, params or EngineerParams(), designers)

    def current(history: History) -> Completer:
        return load(history[-1].checkpoint)

    if asked is None:
        return RULES[arm](RuleInputs(sizes, seed, current, try_out or _no_trials))
    weights = asked.weights(base)

    def policy_for(history: History) -> Completer:
        if asked.model.startswith("openai:"):
            from mapflake.trainer.openai_client import OpenAIPolicy

            return OpenAIPolicy(asked.model.removeprefix("openai:"), base_url=asked.base_url)
        return current(history) if weights is None else load(weights)

    return llm_engineer(policy_for, sizes, asked, seed=seed)


def load_checkpoint(path: str | Path, sampling: SamplingParams | None = None) -> Completer:
    """Returns the policy in a checkpoint; the heavy import waits until one is needed."""
    from mapflake.trainer.policy import load_policy

    return load_policy(path, sampling)


def _no_trials(number: int, history: History, designer: Designer) -> Round:
    raise ValueError("arm 'oracle' trains for real: use `run_arm`")
