"""A policy behind any OpenAI-compatible server: the paper's commercial models, vLLM's server, `transformers serve`.

The samples of a prompt are asked for in one request, and those that did not come again one by one: many servers ignore
`n` or refuse it. The `openai` package repeats requests that may succeed later (429, 5xx, a broken connection). One that
fails to the end, and a reply that is no text or was withheld, yield None: no answer, not a wrong one. A refusal (any
other 4xx), and a server that cannot be reached, stop everything. The key comes from the environment alone, and no
message shows it. `transformers serve` samples only where the checkpoint's generation_config.json has `do_sample: true`,
which those that we write lack: all its samples are then greedy, and a warning says so. Not covered: streaming, images,
tools, batch endpoints; that a server honours `seed` (many do not).
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from mapflake.extras import needs

with needs("openai"):
    import openai
    from tqdm import tqdm

from mapflake.repro import check_address, seed_for, whole
from mapflake.trainer.params import sampling

logger = logging.getLogger(__name__)

KEY = "OPENAI_API_KEY"
NO_KEY = "none"  # for a server on this machine that asks for none
ENDED = ("stop", "length", "tool_calls", "function_call")  # finish reasons with which the model itself came to an end
NEW_LENGTH = "max_completion_tokens"  # the name of `max_tokens` that OpenAI's newer models want
MAX_MESSAGE = 300  # characters shown of a server's error message


class ServerError(RuntimeError):
    """The server will not answer, however often it is asked; the message has its address and reason."""


@dataclass
class OpenAIPolicy:
    """A model on a server.

    Attributes:
        model: Name of the model on the server.
        base_url: Address of the server, with `/v1`; None is the client's default: `OPENAI_BASE_URL`, or OpenAI.
        max_new_tokens: Length of a completion where a call does not give it.
        timeout: Seconds that a request may wait for the server.
        retries: Number of times that a request is repeated, after growing pauses.
        concurrency: Number of requests under way at once.
        failures: Reason -> number of samples that it cost so far.
    """

    model: str
    base_url: str | None = None
    max_new_tokens: int = 128
    timeout: float = 300.0
    retries: int = 5
    concurrency: int = 16
    failures: Counter[str] = field(default_factory=Counter)

    prompt_format: Literal["chat"] = "chat"

    def __post_init__(self) -> None:
        check_address(self.base_url, "base_url")
        self.concurrency = whole(self.concurrency, "concurrency", 1)
        self._length = "max_tokens"

    def complete(
        self,
        prompts: Sequence[str],
        *,
        n: int = 1,
        temperature: float | None = None,
        max_new_tokens: int | None = None,
        seed: int = 0,
        progress: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> list[list[str | None]]:
        """Returns n completions for each prompt, None where a request failed to the end; see `evaluate.Completer`.

        With a JSON Schema the server is asked for structured output: each completion is one JSON value of it, unless it
        is cut off. Some servers take no notice (`transformers serve`), so validate the completions in any case.

        Raises:
            ServerError: The key, the model or the request is refused, or no server is there.
            ValueError: As for `sampling`.
        """
        options = sampling(n, temperature, self.max_new_tokens if max_new_tokens is None else max_new_tokens)
        n, settings = options["n"], {"max_tokens": options["max_new_tokens"], "temperature": options["temperature"]}
        if schema is not None:
            # Not strict: with that, OpenAI refuses a schema which leaves out sizes.
            json_schema = {"name": "reply", "schema": dict(schema), "strict": False}
            settings["response_format"] = {"type": "json_schema", "json_schema": json_schema}
        texts: dict[tuple[int, int], str] = {}  # by prompt and sample
        failures: Counter[str] = Counter()
        with (
            self._client() as client,
            ThreadPoolExecutor(self.concurrency) as threads,
            tqdm(total=len(prompts) * n, desc=progress, unit="sample", disable=progress is None) as bar,
        ):
            for size in (n, 1) if n > 1 else (1,):  # groups, then one by one what did not come
                missing = [(i, j) for i in range(len(prompts)) for j in range(0, n, size) if (i, j) not in texts]
                seeds = [seed_for(seed, i, j) % 2**31 for i, j in missing]
                jobs = [(prompts[i], size, settings | {"seed": s}) for (i, _), s in zip(missing, seeds, strict=True)]
                replies = threads.map(lambda job: self._ask(client, *job), jobs)  # an error cancels the rest
                for (i, j), (samples, reason) in zip(missing, replies, strict=True):
                    new_texts = {(i, j + k): text for k, text in enumerate(samples) if text is not None}
                    texts |= new_texts
                    bar.update(len(new_texts))
                    if size == 1 and not new_texts:
                        failures[reason] += 1
        if failures:
            self.failures += failures
            reasons = ", ".join(f"{reason} ({count})" for reason, count in failures.most_common())
            total = len(prompts) * n
            logger.warning(
                "%s: %d of %d samples failed and are left out: %s", self.model, failures.total(), total, reasons
            )
        completions = [[texts.get((i, j)) for j in range(n)] for i in range(len(prompts))]
        if n > 1 and settings["temperature"] > 0 and texts and all(len({*samples}) == 1 for samples in completions):
            logger.warning("%s: the samples of each prompt are equal: does the server sample (do_sample)?", self.model)
        return completions

    def _client(self) -> openai.OpenAI:
        check_address(os.environ.get("OPENAI_BASE_URL") or None, "OPENAI_BASE_URL")
        key = os.environ.get(KEY, "").strip()
        if not (key.isascii() and key.isprintable()):  # an error further down would show it
            raise ServerError(f"the environment variable {KEY} holds characters that no key has")
        if not key and urlsplit(self.base_url or "").hostname not in ("127.0.0.1", "localhost", "::1"):
            raise ServerError(f"{self.base_url or 'the default server'}: no key; set the environment variable {KEY}")
        return openai.OpenAI(
            api_key=key or NO_KEY, base_url=self.base_url, timeout=self.timeout, max_retries=self.retries
        )

    def _ask(
        self, client: openai.OpenAI, prompt: str, n: int, settings: dict[str, Any]
    ) -> tuple[list[str | None], str]:
        """Returns up to n samples, None for one that is no answer, and the reason where one is missing."""
        body = {"model": self.model, "messages": [{"role": "user", "content": prompt}], **settings}
        body[self._length] = body.pop("max_tokens")
        if n > 1:
            body["n"] = n
        try:
            reply = client.chat.completions.create(**body)
            return [_text(choice) for choice in reply.choices[:n]], "reply without a text"
        except (openai.RateLimitError, openai.InternalServerError) as error:
            return [], f"HTTP {error.status_code}"
        except openai.APIStatusError as error:
            if error.status_code == 400 and NEW_LENGTH in error.message and NEW_LENGTH not in body:
                self._length = NEW_LENGTH
                return self._ask(client, prompt, n, settings)
            if n > 1 and error.status_code in (400, 422):  # perhaps because of `n`: single requests will show it
                return [], f"HTTP {error.status_code}"
            hint = f" (the key is read from {KEY})" if error.status_code in (401, 403) else ""
            message = error.message if client.api_key == NO_KEY else error.message.replace(client.api_key, "***")
            message = message[:MAX_MESSAGE] + hint  # cut last: half a key would not be found
            raise ServerError(f"{client.base_url}: {self.model}: {message}") from None
        except openai.APITimeoutError:
            return [], f"no answer within {self.timeout:g} s"
        except openai.APIConnectionError as error:
            cause = type(error.__cause__ or error).__name__
            if cause == "ConnectError":
                message = f"no server there, after {self.retries + 1} tries"
                raise ServerError(f"{client.base_url}: {self.model}: {message}") from None
            return [], f"no connection ({cause})"
        except (ValueError, TypeError, AttributeError, LookupError, RecursionError, openai.APIError) as error:
            return [], f"unreadable reply ({type(error).__name__})"


def _text(choice: Any) -> str | None:
    """Returns the model's text, empty if it ended without one; None if the server held it back, or has no text."""
    text = choice.message.refusal if choice.message.content is None else choice.message.content
    if text is None and choice.finish_reason in ENDED:
        text = ""
    if not isinstance(text, str) or (text == "" and choice.finish_reason == "content_filter"):
        return None
    return text.encode(errors="replace").decode()  # no file can hold a lone surrogate
