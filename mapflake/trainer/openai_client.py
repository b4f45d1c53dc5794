"""A policy behind any OpenAI-compatible server: the paper's commercial models, vLLM's server, `transformers serve`.

It has `complete` like `Policy`, so it can be evaluated (`evaluate.rollout`) and asked for designs. The key comes from
the environment alone. Each sample is a request of its own (many servers ignore `n`), at most `concurrency` at a time,
each with a limit on its whole duration (servers that drip). What may pass (429, 5xx, a broken connection, half a reply)
is tried again with a growing pause; what will not (401, 404, any other 4xx), and a server that stays away, stops
everything. A request that fails to the end yields None in place of a text, is counted in `failures` by its reason, and
logged: no answer, not a wrong one. No more of a reply is read than `MAX_REPLY`, redirects are not followed, and no
message shows the key.

Not covered: streaming, images, tools, batch endpoints; that a server honours `seed` (many do not).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2
import openai
from tqdm import tqdm

from mapflake.repro import check_address, json_sha256, seed_for
from mapflake.trainer.policy import SamplingParams

logger = logging.getLogger(__name__)

KEY = "OPENAI_API_KEY"
LONGEST_PAUSE = 60.0
MAX_REPLY = 8_000_000  # bytes of a reply; the longest reasoning has a tenth of that
MAX_MESSAGE = 300  # characters of what a server says of an error


class ServerError(RuntimeError):
    """The server will not answer, however often it is asked; the message has its address and reason."""


@dataclass
class OpenAIPolicy:
    """A model on a server.

    Attributes:
        model: Its name there.
        base_url: The server, with `/v1`; None is the client's default: `OPENAI_BASE_URL`, or OpenAI.
        sampling: Temperature and length where a call does not say.
        key: Name of the environment variable with the key; servers on this machine need none.
        timeout: Seconds for one request, start to end.
        retries: How often a request is tried again.
        pause: Seconds before the first retry; doubled before each next one, unless the server says how long.
        concurrency: Requests under way at once.
        part: Samples after which `evaluate.record` writes down what it has.
        failures: Reason -> number of samples that it cost so far.
    """

    model: str
    base_url: str | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    key: str = KEY
    timeout: float = 300.0
    retries: int = 5
    pause: float = 1.0
    concurrency: int = 16
    part: int = 256
    failures: Counter[str] = field(default_factory=Counter)

    prompt_format: Literal["chat"] = "chat"

    def __post_init__(self) -> None:
        check_address(self.base_url, "base_url")

    @property
    def identity(self) -> str:
        """What its answers depend on beside the prompts, as far as one can know: server, model, sampling."""
        return json_sha256([self.base_url, self.model, self.sampling.model_dump(exclude={"batch_size"})])

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
            ServerError: The key, the model or the request is refused.
        """
        settings = {
            "temperature": self.sampling.temperature if temperature is None else temperature,
            "max_tokens": max_new_tokens or self.sampling.max_new_tokens,
        }
        jobs = [(p, settings | {"seed": seed_for(seed, i, j) % 2**31}) for i, p in enumerate(prompts) for j in range(n)]
        before = self.failures.copy()
        with ThreadPoolExecutor(1) as thread:  # its own: notebooks have an event loop under way in theirs
            texts = thread.submit(lambda: asyncio.run(self._complete(jobs, progress))).result()
        if lost := self.failures - before:
            reasons = ", ".join(f"{reason} ({count})" for reason, count in lost.most_common())
            logger.warning(
                "%s: %d of %d samples failed and are left out: %s", self.model, lost.total(), len(jobs), reasons
            )
        return [texts[i * n : (i + 1) * n] for i in range(len(prompts))]

    async def _complete(self, jobs: Sequence[tuple[str, dict[str, Any]]], progress: str | None) -> list[str | None]:
        slots = asyncio.Semaphore(self.concurrency)
        with tqdm(total=len(jobs), desc=progress, unit="request", disable=progress is None) as bar:
            async with self._client() as client:

                async def one(prompt: str, settings: dict[str, Any]) -> str | None:
                    async with slots:
                        text = await self._ask(client, prompt, settings)
                    bar.set_postfix(failed=self.failures.total(), refresh=False)
                    bar.update()
                    return text

                try:
                    async with asyncio.TaskGroup() as group:  # the first refusal cancels the others
                        tasks = [group.create_task(one(*job)) for job in jobs]
                except* ServerError as errors:
                    raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _ask(self, client: openai.AsyncOpenAI, prompt: str, settings: dict[str, Any]) -> str | None:
        """Returns the text of one sample, after as many tries as it takes; None if there were too many."""
        reason, pause = "", self.pause
        for attempt in range(self.retries + 1):
            if attempt:
                await asyncio.sleep(min(pause, LONGEST_PAUSE))
            pause = self.pause * 2**attempt
            try:
                async with asyncio.timeout(self.timeout):
                    reply = await client.chat.completions.create(
                        model=self.model, messages=[{"role": "user", "content": prompt}], **settings
                    )
                return _text(reply)
            except (openai.RateLimitError, openai.InternalServerError, openai.ConflictError) as error:
                reason, pause = f"HTTP {error.status_code}", _asked_pause(error, pause)
            except openai.APIStatusError as error:
                hint = f" (the key is read from {self.key})" if error.status_code in (401, 403) else ""
                if moved := error.response.headers.get("location"):
                    hint = f" (it redirects to {moved[:MAX_MESSAGE]}, which is not followed)"
                said = (error.message[:MAX_MESSAGE] + hint).replace(client.api_key, "***")
                raise ServerError(f"{client.base_url}: {self.model}: {said}") from None
            except TimeoutError:
                reason = f"no answer within {self.timeout:g} s"
            except openai.APIConnectionError as error:
                cause = error.__cause__ or error
                reason = f"no connection ({type(cause).__name__})"
                if isinstance(cause, _Refused):
                    reason = f"unreadable reply ({cause})"
            except _Refused as error:
                reason = f"unreadable reply ({error})"
            except (ValueError, TypeError, AttributeError, LookupError, RecursionError, openai.APIError) as error:
                reason = f"unreadable reply ({type(error).__name__})"
        if "(Connect" in reason:  # httpx's ConnectError or ConnectTimeout
            raise ServerError(f"{client.base_url}: {self.model}: no server there, after {self.retries + 1} tries")
        self.failures[reason] += 1
        return None

    def _client(self) -> openai.AsyncOpenAI:
        check_address(os.environ.get("OPENAI_BASE_URL") or None, "OPENAI_BASE_URL")
        return openai.AsyncOpenAI(
            api_key=self._key(),
            base_url=self.base_url,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(follow_redirects=False, event_hooks={"response": [_bound]}),
            default_headers={"Accept-Encoding": "identity"},
        )

    def _key(self) -> str:
        found = os.environ.get(self.key, "").strip()
        if not (found.isascii() and found.isprintable()):  # an error further down would show it
            raise ServerError(f"the environment variable {self.key} holds characters that no key has")
        if found:
            return found
        if self.base_url and any(f"//{host}" in self.base_url for host in ("127.0.0.1", "localhost", "[::1]")):
            return "none"
        raise ServerError(f"{self.base_url or 'the default server'}: no key; set the environment variable {self.key}")


class _Refused(ValueError):
    """A reply that is not read to its end; the message is the reason."""


class _Bounded(httpx2.AsyncByteStream):
    """The body of a reply, up to `MAX_REPLY` bytes, whatever the server says of its length."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self.stream:
            size += len(chunk)
            if size > MAX_REPLY:
                raise _Refused(f"more than {MAX_REPLY} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self.stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    if response.headers.get("content-encoding", "identity") != "identity":  # a small reply may unpack to a huge one
        raise _Refused("it is compressed, which was not asked for")
    response.stream = _Bounded(response.stream)


def _text(reply: Any) -> str:
    """Returns what the model said.

    Raises:
        ValueError: What is no text, or nothing, though it was not cut off: the server's failure, not the model's.
    """
    choice = reply.choices[0]
    said = choice.message.content or choice.message.refusal
    if said is not None and not isinstance(said, str):
        raise ValueError("the content is no text")
    if said is None and choice.finish_reason != "length":  # cut off while it reasoned: an unfinished answer
        raise ValueError("no content")
    return said or ""


def _asked_pause(error: openai.APIStatusError, otherwise: float) -> float:
    """Returns the seconds that a `Retry-After` header asks for, if there is one."""
    try:
        return max(0.0, float(error.response.headers.get("retry-after", "")))
    except ValueError:  # none, or a date
        return otherwise
