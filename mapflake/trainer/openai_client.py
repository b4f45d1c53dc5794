"""A policy behind any OpenAI-compatible server: the paper's commercial models, vLLM's server, `transformers serve`.

It has `complete` like `Policy`, so it can be evaluated (`evaluate.rollout`) and asked for designs. The key comes from
the environment alone, and no message shows it. Each sample is a request of its own (many servers ignore `n`), at most
`concurrency` at a time. The `openai` package repeats requests that may succeed later (429, 5xx, a broken connection)
and limits their time. A request that fails to the end, or has a reply without text, yields None in place of a text, is
counted in `failures` by its reason, and logged: no answer, not a wrong one. A refusal (401, 404, any other 4xx), and a
server that cannot be reached, stop everything.

Not covered: streaming, images, tools, batch endpoints; that a server honours `seed` (many do not).
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import openai
from tqdm import tqdm

from mapflake.repro import check_address, seed_for
from mapflake.trainer.params import SamplingParams

logger = logging.getLogger(__name__)

KEY = "OPENAI_API_KEY"
MAX_MESSAGE = 300  # characters shown of a server's error message


class ServerError(RuntimeError):
    """The server will not answer, however often it is asked; the message has its address and reason."""


@dataclass
class OpenAIPolicy:
    """A model on a server.

    Attributes:
        model: Name of the model on the server.
        base_url: Address of the server, with `/v1`; None is the client's default: `OPENAI_BASE_URL`, or OpenAI.
        sampling: Temperature and length where a call does not give them.
        key: Name of the environment variable with the key; servers on this machine need none.
        timeout: Seconds that a request may wait for the server.
        retries: Number of times that a request is repeated, after growing pauses.
        concurrency: Number of requests under way at once.
        part: Number of samples that `evaluate.rollout` asks for at once.
        failures: Reason -> number of samples that it cost so far.
    """

    model: str
    base_url: str | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    key: str = KEY
    timeout: float = 300.0
    retries: int = 5
    concurrency: int = 16
    part: int = 256
    failures: Counter[str] = field(default_factory=Counter)

    prompt_format: Literal["chat"] = "chat"

    def __post_init__(self) -> None:
        check_address(self.base_url, "base_url")

    def complete(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
        seed: int = 0,
        progress: str | None = None,
    ) -> list[list[str | None]]:
        """Returns n completions for each prompt, None where a request failed to the end; see `Policy.complete`.

        Raises:
            ServerError: The key, the model or the request is refused, or no server is there.
        """
        settings = {
            "temperature": self.sampling.temperature if temperature is None else temperature,
            "max_tokens": max_new_tokens or self.sampling.max_new_tokens,
        }
        jobs = [(p, settings | {"seed": seed_for(seed, i, j) % 2**31}) for i, p in enumerate(prompts) for j in range(n)]
        texts: list[str | None] = []
        lost: Counter[str] = Counter()
        bar = tqdm(total=len(jobs), desc=progress, unit="request", disable=progress is None)
        check_address(os.environ.get("OPENAI_BASE_URL") or None, "OPENAI_BASE_URL")
        client = openai.OpenAI(
            api_key=self._key(), base_url=self.base_url, timeout=self.timeout, max_retries=self.retries
        )
        with bar, client, ThreadPoolExecutor(self.concurrency) as threads:
            for text, reason in threads.map(lambda job: self._ask(client, *job), jobs):  # an error cancels the rest
                texts.append(text)
                if text is None:
                    lost[reason] += 1
                bar.set_postfix(failed=lost.total(), refresh=False)
                bar.update()
        self.failures += lost
        if lost:
            reasons = ", ".join(f"{reason} ({count})" for reason, count in lost.most_common())
            logger.warning(
                "%s: %d of %d samples failed and are left out: %s", self.model, lost.total(), len(jobs), reasons
            )
        return [texts[i * n : (i + 1) * n] for i in range(len(prompts))]

    def _ask(self, client: openai.OpenAI, prompt: str, settings: dict[str, Any]) -> tuple[str | None, str]:
        """Returns the text of one sample, or None and the reason."""
        try:
            reply = client.chat.completions.create(
                model=self.model, messages=[{"role": "user", "content": prompt}], **settings
            )
            return _text(reply), ""
        except (openai.RateLimitError, openai.InternalServerError, openai.ConflictError) as error:
            return None, f"HTTP {error.status_code}"
        except openai.APIStatusError as error:
            hint = f" (the key is read from {self.key})" if error.status_code in (401, 403) else ""
            said = (error.message[:MAX_MESSAGE] + hint).replace(client.api_key, "***")
            raise ServerError(f"{client.base_url}: {self.model}: {said}") from None
        except openai.APITimeoutError:
            return None, f"no answer within {self.timeout:g} s"
        except openai.APIConnectionError as error:
            cause = type(error.__cause__ or error).__name__
            if cause == "ConnectError":
                tries = self.retries + 1
                raise ServerError(f"{client.base_url}: {self.model}: no server there, after {tries} tries") from None
            return None, f"no connection ({cause})"
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError, openai.APIError) as error:
            return None, f"unreadable reply ({type(error).__name__})"

    def _key(self) -> str:
        found = os.environ.get(self.key, "").strip()
        if not (found.isascii() and found.isprintable()):  # an error further down would show it
            raise ServerError(f"the environment variable {self.key} holds characters that no key has")
        if found:
            return found
        if self.base_url and any(f"//{host}" in self.base_url for host in ("127.0.0.1", "localhost", "[::1]")):
            return "none"
        raise ServerError(f"{self.base_url or 'the default server'}: no key; set the environment variable {self.key}")


def _text(reply: Any) -> str:
    """Returns the model's text; lone surrogates, which no file can hold, become "?".

    Raises:
        ValueError: The content is no text, or missing though it was not cut off: the server's failure, not the model's.
    """
    choice = reply.choices[0]
    said = choice.message.content or choice.message.refusal
    if said is not None and not isinstance(said, str):
        raise ValueError("the content is no text")
    if said is None and choice.finish_reason != "length":  # cut off while it reasoned: an unfinished answer
        raise ValueError("no content")
    return (said or "").encode(errors="replace").decode()
