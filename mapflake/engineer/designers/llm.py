"""The designer that asks a model, and how it is asked (`EngineerParams`).

No rule stands between reply and configuration but the projection.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from mapflake.engineer.actions import legal_sizes
from mapflake.engineer.ledger import Designer, History, next_index
from mapflake.engineer.prompt import build_prompt
from mapflake.engineer.reply import Proposal, read_replies, read_reply, reply_format, reply_grammar, reply_schema
from mapflake.engineer.report import FailureReport, storable
from mapflake.engineer.variants import DEFAULT_VARIANT, Variant, known_variant
from mapflake.engineer.words import reply_words
from mapflake.env import EnvConfig
from mapflake.repro import Params, check_address, seed_for, shown
from mapflake.trainer.evaluate import Completer, samples_of

logger = logging.getLogger(__name__)


def _variant(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Variant.parse(value, "variant")
    if not isinstance(value, str | Variant):  # else two lines, of keys that do not exist
        raise ValueError("neither the name of a context nor its sections, as in {guideline: true}")
    return known_variant(value) if isinstance(value, str) else value


class EngineerParams(Params):
    """The parameters by which a model is asked for a design.

    Attributes:
        model: `current` (the checkpoint just trained), `base` (the model before any RL), a checkpoint's folder or a
            name on the Hugging Face hub, or `openai:<name>`, a model behind an OpenAI-compatible server; or `search`:
            no model, but the design that is worth most by the reward of RL on designs (`designers.search`).
        base_url: The server's address; None: the one that the `openai` client takes from the environment.
        variant: The prompt's sections: a name in `VARIANTS`, or `{guideline: true, history: all}`.
        report: Whose report is shown: `current`, or, as a control, other students' (`students.told`).
        samples: Replies drawn; the first legal one counts, all are recorded.
        temperature: Of sampling; 0 is greedy.
        constrained: Whether decoding follows the grammar of legal replies (`reply_grammar`). A server gets
            the JSON Schema of a reply (`reply_schema`), of which it may take no notice.
        prompt_tokens: The prompt's budget (`build_prompt`), or what the model's context leaves, if that is less.
        design_rl: RL on designs (`design_rl`): `none`, or `before` round 0: the arm then has a round 0
            of its own, from the trained weights.
        max_new_tokens: Most tokens of a reply; None: in compact those of a design and 8 more, in JSON 4096.
    """

    model: str = Field(default="current", min_length=1)
    base_url: str | None = None
    variant: Annotated[str | Variant, BeforeValidator(_variant)] = DEFAULT_VARIANT
    report: Literal["current", "another", "near", "mean"] = "current"
    samples: int = Field(default=4, ge=1)
    temperature: float = Field(default=1.0, ge=0)
    constrained: bool = False
    prompt_tokens: int = Field(default=8192, ge=1)
    max_new_tokens: int | None = Field(default=None, ge=1)
    design_rl: Literal["none", "before"] = "none"

    @model_validator(mode="after")
    def _possible(self) -> EngineerParams:
        if self.model == "openai:":
            raise ValueError("model: openai:<name> lacks the name")
        if self.base_url is not None and not self.model.startswith("openai:"):
            raise ValueError(f"base_url: of a server, but model is {shown(self.model)}, not openai:<name>")
        if self.design_rl != "none" and self.model != "current":
            raise ValueError(f"design_rl: trains the current policy, but model is {shown(self.model)}")
        check_address(self.base_url, "base_url")
        return self

    @property
    def told_others(self) -> bool:
        """Whether it is told reports of other students."""
        return self.report != "current"

    def weights(self, base: str | Path | None) -> str | Path | None:
        """Returns the fixed weights that are asked, None if there are none; ValueError if `base` is needed and None."""
        if self.model in ("current", "search") or self.model.startswith("openai:"):
            return None
        if self.model == "base" and base is None:
            raise ValueError("model: 'base' needs the checkpoint of the base model")
        return base if self.model == "base" else self.model


def llm_engineer(
    policy_for: Callable[[History], Completer],
    sizes: Iterable[int],
    params: EngineerParams,
    *,
    seed: int,
    write: Callable[..., str] = build_prompt,
) -> Designer:
    """Returns the designer that asks a model: prompt, samples, the first that is not rejected counts.

    If all samples are rejected, so is the proposal. `policy_for` gives the model for a history, e.g. the one in the
    last round's checkpoint; `write` gives the prompt, called as `build_prompt` is. `seed` is the root of the noise of
    sampling; the round's index goes in too.
    """
    sizes = legal_sizes(sizes)

    def design(report: FailureReport, history: History) -> Proposal:
        policy = policy_for(history)
        prompt_format = reply_format(policy.prompt_format)
        agents = history[-1].config.num_agents
        longest = params.max_new_tokens or _longest(sizes, prompt_format)
        context = getattr(policy, "context", None) or sys.maxsize
        prompt = write(
            report, history, sizes, variant=params.variant, prompt_format=prompt_format, num_agents=agents,
            budget=min(params.prompt_tokens, context - min(longest, context // 2)), count=_counter(policy),
        )  # fmt: skip
        bound: dict[str, Any] = {}
        if params.constrained:
            takes = inspect.signature(policy.complete).parameters
            if "schema" in takes:
                bound = {"schema": reply_schema(sizes)}
            elif "grammar" in takes or any(each.kind is each.VAR_KEYWORD for each in takes.values()):
                bound = {"grammar": reply_grammar(sizes, prompt_format)}
            else:
                raise ValueError("constrained: the policy's `complete` takes neither `grammar` nor `schema`")
        completions = policy.complete(
            [prompt],
            n=params.samples,
            temperature=params.temperature,
            max_new_tokens=longest,
            seed=seed_for(seed, "engineer", next_index(history)),
            **bound,
        )
        (texts,) = samples_of(completions, 1, params.samples)
        if lost := sum(text is None for text in texts):
            logger.warning("%d of %d replies did not come: they count as empty ones", lost, len(texts))
        replies = [storable(text or "") for text in texts]  # before reading: what is recorded is what was read
        return replace(read_replies(replies, sizes, prompt_format, num_agents=agents), prompt=prompt)

    return design


def answers(
    policy: Completer, prompts: Sequence[str], sizes: Sequence[int], *, max_new_tokens: int | None = None, seed: int
) -> list[EnvConfig | None]:
    """Returns the design of one reply to each prompt, at temperature 1; None for a rejected one."""
    form = reply_format(policy.prompt_format)
    texts = policy.complete(prompts, temperature=1.0, max_new_tokens=max_new_tokens or _longest(sizes, form), seed=seed)
    return [read_reply(text or "", sizes, form).config for (text,) in samples_of(texts, len(prompts), 1)]


def _longest(sizes: Sequence[int], prompt_format: str) -> int:
    """Returns the most tokens that a reply may take."""
    return reply_words(sizes) if prompt_format == "compact" else 4096


def _counter(policy: Completer) -> Callable[[str], int]:
    """Returns what counts the tokens of a text: the policy's tokenizer, or bytes / 3, a high guess."""
    tokenizer = getattr(policy, "tokenizer", None)
    if tokenizer is None:
        return lambda text: len(text.encode()) // 3 + 1
    return lambda text: len(tokenizer(text, add_special_tokens=False)["input_ids"])
