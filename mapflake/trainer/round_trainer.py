"""TRL's GRPOTrainer with our sampling, a loss that reads nothing twice, and a curve of the policy's behaviour.

Stock TRL would give the same weights (tests/trainer/test_round_trainer.py); it is several times slower for a small
policy. That holds for the loss "dapo": rows without advantage are left out of it. Completions come from
`decoding.decode`, or from vLLM, through TRL's `rollout_func`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from mapflake.extras import needs

with needs("train"):
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

from mapflake.repro import rng_for, seed_for
from mapflake.trainer.decoding import decode
from mapflake.trainer.dynamic_sampling import DynamicSampling
from mapflake.trainer.engine import Engine, Server, trained_weights
from mapflake.trainer.logps import completion_logps, logits_fit
from mapflake.trainer.packing import reads_packed
from mapflake.trainer.policy import Policy, completion_texts, encode_prompts
from mapflake.trainer.precision import frozen_copy

COPIED = 2**28  # parameters of a model that may be held twice
KL_ROWS = 64  # completions a step on which the divergence from the start is measured


class RoundTrainer(DynamicSampling):
    """TRL's trainer for one round; its curve has a row a step."""

    def __init__(
        self,
        policy: Policy,
        rows: Dataset,
        rewards: list[Callable[..., list[float]]],
        args: GRPOConfig,
        *,
        seed: int,
        lora: Any = None,
        sampler: Engine | Server | None = None,
        redraws: int = 0,
    ) -> None:
        """Makes the trainer of one round of `policy`, which is trained in place.

        `rows` are in the order of training and have a column `prompt`, and those that the rewards take. `seed` is that
        of the sampling noise. A `sampler`, vLLM on a CPU, is handed the weights before each step.
        """
        self._seed = seed
        self._sampler = sampler
        self._seen: dict[str, float] = {}
        self._sampled = 0  # tokens of completions since the last batch, in this process
        model: Any = policy.model
        self._small = logits_fit(model, args.per_device_train_batch_size, args.max_completion_length)  # else TRL's head
        # A second copy of a large model is not worth a curve.
        self._start = frozen_copy(model) if self._small and model.num_parameters() <= COPIED else None
        os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # it warns of rollout_func; TRL's version is pinned
        super().__init__(
            model=model,
            processing_class=policy.tokenizer,
            reward_funcs=rewards,
            args=args,
            train_dataset=rows,
            rollout_func=self._rollout,
            peft_config=lora,
            redraws=redraws,
        )

    def _rollout(self, prompts: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        """Returns one completion for each prompt; TRL repeats a prompt for each sample of its group."""
        size = self.num_generations
        texts = [p if isinstance(p, str) else p[0]["content"] for p in prompts]
        if texts != [text for text in texts[::size] for _ in range(size)]:
            raise ValueError(f"a process needs whole groups of {size} samples a prompt, {len(texts)} rows came")
        ids = encode_prompts(self.processing_class, texts[::size])
        completions, logps = self._sample(ids, size)
        self._sampled += sum(map(len, completions))
        prompt_ids = [row for row in ids for _ in range(size)]
        return {"prompt_ids": prompt_ids, "completion_ids": completions, "logprobs": logps}

    def _sample(self, ids: list[list[int]], size: int) -> tuple[list[list[int]], list[list[float]]]:
        """Returns tokens and log-probabilities of `size` completions for each prompt, prompt-major."""
        if self.use_vllm:
            return self._generate_single_turn([row for row in ids for _ in range(size)], None, {}, size)
        place: tuple[str | int, ...] = ("rollout", self.state.global_step, self.accelerator.process_index)
        place += ("redraw", self._redraw) if self._redraw else ()
        length = self.max_completion_length
        settings: dict[str, Any] = {"n": size, "temperature": self.temperature, "max_new_tokens": length}
        model = self.accelerator.unwrap_model(self.model)
        if self._sampler is not None:
            self._sampler.load(trained_weights(model))
            decoded = self._sampler.sample(ids, **settings, seed=seed_for(self._seed, *place))
        else:
            settings |= {"eos": self.processing_class.eos_token_id, "rng": rng_for(self._seed, *place)}
            with self.accelerator.autocast():  # as the loss reads them
                decoded = decode(model, ids, **settings, batch_size=len(ids) * size)  # one: its long tail is paid once
        return [d.ids for d in decoded], [d.logps for d in decoded]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns the batch of `DynamicSampling`; measures entropy, and divergence from the start, on its first draw.

        Without a KL term, rows without advantage add nothing to the loss, so they are masked out of it.
        """
        batch = super()._generate_and_score_completions(inputs)
        draw, self._first_draw = self._first_draw, {}  # groups that replace others were selected by their rewards
        logps, counts = draw["sampling_per_token_logps"].nan_to_num(), draw["completion_mask"]
        # The surprise of sampled tokens is an unbiased estimate of entropy, of all rows and for nothing; TRL's is exact
        # but of the rows that the loss reads.
        self._seen["entropy"] = self._mean(-logps, counts)
        sampled = torch.tensor(float(self._sampled), device=logps.device)
        self._seen["sampled_tokens"] = float(self.accelerator.reduce(sampled, reduction="sum"))
        self._sampled = 0
        if self.beta == 0 and self._start is not None:
            # Of a large model one completion of each group: more costs as much as a fifth of a step.
            stride = self.num_generations if reads_packed(self._start) else max(1, len(logps) // KL_ROWS)
            subset = {key: value[::stride] for key, value in draw.items() if key.endswith(("_ids", "_mask"))}
            gap = self._start_logps(self._start, subset) - logps[::stride]
            self._seen["kl"] = self._mean(gap.exp() - gap - 1, counts[::stride])  # k3 of Schulman (2020), as in TRL
        if self.beta == 0:
            batch["completion_mask"] = batch["completion_mask"] * (batch["advantages"] != 0).long()[:, None]
        return batch

    def _calculate_rewards(
        self, inputs: list[dict[str, Any]], prompts: list[Any], completions: list[Any], ids: list[list[int]]
    ) -> torch.Tensor:
        """Returns the rewards `[B, R]` of the completions, read as evaluation reads them (`completion_texts`)."""
        texts = completion_texts(self.processing_class, ids)
        answers = [
            [{**c[0], "content": t}] if isinstance(c, list) else t for c, t in zip(completions, texts, strict=True)
        ]
        return super()._calculate_rewards(inputs, prompts, answers, ids)

    def _start_logps(self, start: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Returns the log-probabilities `[B, C]` of the completions under the policy that the round began with."""
        ids, mask = (torch.cat([batch[f"prompt_{x}"], batch[f"completion_{x}"]], 1) for x in ("ids", "mask"))
        with torch.no_grad(), self.accelerator.autocast():
            return completion_logps(start.to(ids.device), ids, mask, batch["completion_ids"].size(1), self.temperature)

    def _mean(self, values: torch.Tensor, counts: torch.Tensor) -> float:
        """Returns the mean of the values that count, over all processes; NaN if there are none."""
        total = self.accelerator.reduce(torch.stack([(values * counts).sum(), counts.sum().float()]), reduction="sum")
        return float(total[0] / total[1])

    def _get_per_token_logps_and_entropies(
        self, model: Any, ids: torch.Tensor, mask: torch.Tensor, length: int, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        """Returns log-probabilities `[B, C]` of the last C tokens; entropies are left to the curve's estimate."""
        if not self._small:
            return super()._get_per_token_logps_and_entropies(model, ids, mask, length, **options)
        with self.accelerator.autocast():
            logps = completion_logps(model, ids, mask, length, self.temperature)
        return logps, -logps.detach() if options.get("compute_entropy") else None, None

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs TRL's metrics of the step with ours beside them, or in place of them (entropy)."""
        self._metrics["train"].update({key: [value] for key, value in self._seen.items()})
        super().log(logs, start_time)
