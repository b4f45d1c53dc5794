"""vLLM for sampling: an engine of our own, or `vllm serve` on this machine, and on a CPU new weights for either.

While GRPO trains on CUDA, TRL has its own engine, which cannot run on a CPU: there GRPO samples through the two classes
here, and each step hands over its weights in a file. Not covered: servers on other machines, speed on a CPU.
"""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from mapflake.extras import needs

with needs("train"):
    import torch
    from safetensors.torch import save_file

from mapflake.repro import seed_for
from mapflake.trainer.decoding import Decoded
from mapflake.trainer.params import VllmParams
from mapflake.trainer.weights import whole

WORKER = "mapflake.trainer.vllm_worker"


class EngineError(RuntimeError):
    """vLLM did not start, or ended, or its server refuses; what was trained so far is in its saves."""


class Engine:
    """vLLM's offline engine with the weights of a checkpoint, or of a model on the hub.

    It starts when it is first asked, in processes of its own. One lives at a time: another one takes its place, and so
    does a training round (`free`). `words`: the tokenizer is word-level, and vLLM's grammars cannot name its tokens.
    """

    _live: ClassVar[Engine | None] = None
    worker = f"{WORKER}.Weights"  # takes new weights in vLLM's process, on a CPU

    def __init__(self, path: str | Path, params: VllmParams, *, words: bool = False) -> None:
        self.path, self.params, self.words = str(path), params, words
        self._llm: Any = None
        self._processes: list[Any] = []
        self._watch: subprocess.Popen[bytes] | None = None

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        n: int,
        temperature: float,
        max_new_tokens: int,
        seed: int,
        grammar: str | None = None,
        progress: bool = False,
    ) -> list[Decoded]:
        """Returns n completions for each prompt, prompt-major: `[len(prompts) * n]`, see `decoding.decode`.

        Raises:
            ValueError: vLLM does not take a request, e.g. a prompt longer than `max_model_len`.
            EngineError: The engine did not start, or ended.
        """
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        draws = n if temperature > 0 else 1  # vLLM refuses n > 1 at temperature 0
        options: dict[str, Any] = {"n": draws, "temperature": temperature, "max_tokens": max_new_tokens}
        options |= {"logprobs": 0, "detokenize": False}
        if grammar is not None:
            extra = {"extra_args": {"grammar": grammar}}
            options |= extra if self.words else {"structured_outputs": StructuredOutputsParams(grammar=grammar)}
        settings = [SamplingParams(**options, seed=_seed(seed, i)) for i in range(len(prompts))]
        rows = [{"prompt_token_ids": list(row)} for row in prompts]
        outputs = self._ask(lambda llm: llm.generate(rows, settings, use_tqdm=progress)) if rows else []
        return [
            Decoded(
                list(completion.token_ids),
                [step[t].logprob for t, step in zip(completion.token_ids, completion.logprobs, strict=True)],
            )
            for output in outputs
            for completion in output.outputs
            for _ in range(n // draws)
        ]

    def load(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Takes the weights, named as in a checkpoint, on a CPU; raises EngineError if it does not start, or ended."""
        with _written(weights) as path:
            self._ask(lambda llm: llm.collective_rpc("take_weights", args=(path,)))
        self._ask(lambda llm: llm.reset_prefix_cache())

    def free(self) -> None:
        """Ends the engine and its processes; it starts again when it is asked."""
        llm, self._llm = self._llm, None
        if Engine._live is self:
            Engine._live = None
        if llm is not None:
            llm.llm_engine.engine_core.shutdown()
            del llm
            gc.collect()
        if self._watch is not None:
            self._watch.kill()
            self._watch.communicate()
            self._watch = None

    def _ask(self, question: Callable[[Any], Any]) -> Any:
        if self._llm is None:
            free()
            try:
                self._llm = self._start()
            except Exception as error:
                raise EngineError(f"{self.path}: vLLM did not start, see above: {error}") from error
            Engine._live = self
            # Of this process' children only those that vLLM started; they have their workers as children of their own.
            self._processes = list(self._llm.llm_engine.engine_core.resources.engine_manager.processes)
            # vLLM's process does not notice if this process is killed, and would keep its memory: the end of the pipe
            # tells the shell, which then kills it.
            pids = [str(process.pid) for process in self._processes]
            self._watch = subprocess.Popen(["sh", "-c", 'read _; kill -9 "$@"', "sh", *pids], stdin=subprocess.PIPE)
        from vllm.exceptions import VLLMClientError
        from vllm.v1.engine.exceptions import EngineDeadError

        answer: Future[Any] = Future()

        def ask(llm: Any) -> None:
            try:
                answer.set_result(question(llm))
            except BaseException as error:
                answer.set_exception(error)

        # vLLM may wait without end for a process that died, so it waits in a thread.
        threading.Thread(target=ask, args=(self._llm,), daemon=True).start()
        while not wait([answer], timeout=1).done:
            if not all(process.is_alive() for process in self._processes):
                wait([answer], timeout=1)
                break
        if answer.done():
            failure = answer.exception()
            if isinstance(failure, VLLMClientError):
                raise ValueError(f"{self.path}: {failure}") from failure
            if not isinstance(failure, EngineDeadError):
                return answer.result()
        self.free()
        raise EngineError(f"{self.path}: vLLM's engine ended, see above; it starts again when asked")

    def _start(self) -> Any:
        cuda = torch.cuda.is_available()
        options: dict[str, Any] = {"logits_processors": [f"{WORKER}:Grammar"]} if self.words else {}
        if not cuda:
            os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # else all engines of a machine share a core
            # Compiling takes minutes; a prompt that is read in parts breaks vLLM's seeds.
            options |= {"enforce_eager": True, "enable_chunked_prefill": False, "worker_extension_cls": self.worker}
        if options:  # what vllm_worker.py has is for vLLM's first model runner
            os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "0")
        from vllm import LLM

        with whole(self.path) as folder:  # read to its end as the engine starts
            return LLM(
                model=folder,
                trust_remote_code=False,
                dtype="bfloat16" if cuda else "float32",  # as `load_policy`; "auto" rounds on a CPU
                max_model_len=self.params.max_model_len,
                tensor_parallel_size=self.params.tensor_parallel_size,
                gpu_memory_utilization=self.params.gpu_memory_utilization,
                generation_config="vllm",  # else a checkpoint's own top_p and top_k count
                logprobs_mode="processed_logprobs",  # at the temperature
                structured_outputs_config={"backend": "guidance"},  # llguidance, whose grammars ours are
                **options,
            )


def free() -> None:
    """Ends the engine of this process, if one lives."""
    if Engine._live is not None:
        Engine._live.free()


class Server:
    """`vllm serve` on this machine, while GRPO trains on a CPU; docs/scale.md has its command."""

    def __init__(self, params: VllmParams) -> None:
        import openai  # 0.8 s, which no other round has to wait

        self.url = f"http://127.0.0.1:{params.server_port}"
        self._client = openai.OpenAI(base_url=self.url, api_key="none", timeout=600, max_retries=0)

    def sample(
        self, prompts: Sequence[Sequence[int]], *, n: int, temperature: float, max_new_tokens: int, seed: int
    ) -> list[Decoded]:
        """Returns n completions for each prompt, prompt-major; raises EngineError if the server does not give them."""
        (model,) = self._ask("/v1/models")["data"]

        def ask(i: int) -> list[Decoded]:
            body = {"model": model["id"], "prompt": list(prompts[i]), "n": n, "seed": _seed(seed, i), "logprobs": 0}
            body |= {"temperature": temperature, "max_tokens": max_new_tokens, "top_p": 1.0, "top_k": 0}
            body["return_token_ids"] = True
            choices = self._ask("/v1/completions", body)["choices"]
            return [Decoded(choice["token_ids"], choice["logprobs"]["token_logprobs"]) for choice in choices]

        with ThreadPoolExecutor(64) as threads:
            return [completion for completions in threads.map(ask, range(len(prompts))) for completion in completions]

    def load(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Hands the server the weights, named as in a checkpoint; raises EngineError if it does not take them."""
        with _written(weights) as path:
            self._ask("/collective_rpc", {"method": "take_weights", "args": [path]})
        self._ask("/reset_prefix_cache", {})

    def _ask(self, address: str, body: Any = None) -> Any:
        """Returns the server's answer as JSON values; asks by POST if there is a body."""
        import openai

        try:
            ask = self._client.get if body is None else functools.partial(self._client.post, body=body)
            return ask(address, cast_to=object)
        except openai.APIStatusError as error:
            raise EngineError(f"{self.url}{address}: {error.status_code}: {error.message[:300]}") from None
        except openai.APIConnectionError as error:
            raise EngineError(f"{self.url}: no vLLM server there: {error.__cause__ or error}") from None


def trained_weights(model: Any) -> dict[str, torch.Tensor]:
    """Returns a model's weights under the names of its checkpoint; adapters are added to theirs, the model stays."""
    weights = {}
    layers = {name: module for name, module in model.named_modules() if hasattr(module, "get_delta_weight")}
    for name, weight in model.named_parameters():
        if ".lora_" in name:
            continue
        layer = name.removesuffix(".base_layer.weight")
        if layer != name:
            weight = weight + layers[layer].get_delta_weight("default")
        weights[name.removeprefix("base_model.model.").replace(".base_layer", "")] = weight.detach()
    return weights


def _seed(seed: int, prompt: int) -> int:
    return seed_for(seed, prompt) % 2**31


@contextmanager
def _written(weights: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """Gives the path of a safetensors file of the weights for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/weights.safetensors"
        save_file({name: weight.cpu().contiguous() for name, weight in weights.items()}, path)
        yield path
