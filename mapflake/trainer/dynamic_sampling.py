"""Dynamic sampling (DAPO, Yu et al. 2025, arXiv 2503.14476) for TRL's GRPOTrainer: groups without signal are replaced.

A group whose rewards are all equal teaches nothing. Such groups give their place to groups on random prompts of the
training set, drawn up to `redraws` times; those that still have no signal then stay in the batch and add nothing to the
gradient. DAPO draws until the batch is full, and has no cap. A callback cannot do this: it sees no
batch. Not covered: images, and rewards that are normalised before they are added (`multi_objective_aggregation`).
"""

from __future__ import annotations

from typing import Any

from mapflake.extras import needs

with needs("train"):
    import torch
    from torch.nn.functional import pad
    from trl import GRPOTrainer

from mapflake.repro import rng_for

COVERED = {
    *(f"{part}_{suffix}" for part in ("prompt", "completion") for suffix in ("ids", "mask")),
    *(f"{policy}_per_token_logps" for policy in ("old", "sampling", "ref")),
    *("advantages", "importance_sampling_ratio", "tool_mask", "num_items_in_batch"),
}
"""Keys of a batch that `replaced` knows."""


class DynamicSampling(GRPOTrainer):
    """`GRPOTrainer` with dynamic sampling; without redraws it is TRL's own.

    It logs `dynamic_sampling/completions`, those that a generation batch took in all processes, and
    `dynamic_sampling/without_signal`, the share of its groups that have none after the last redraw. TRL's own metrics
    remain those of the first draw, so that runs with and without redraws compare.
    """

    def __init__(self, *args: Any, redraws: int = 0, **options: Any) -> None:
        """Makes the trainer from `GRPOTrainer`'s arguments; groups without signal are replaced at most `redraws` times.

        Raises:
            ValueError: `redraws` is negative, or an argument does not fit.
        """
        super().__init__(*args, **options)
        if redraws < 0:
            raise ValueError(f"redraws: {redraws} is negative")
        if redraws and self.multi_objective_aggregation != "sum_then_normalize":
            raise ValueError("multi_objective_aggregation: redraws take 'sum_then_normalize'")
        if redraws and self.scale_rewards == "batch":
            raise ValueError("scale_rewards: redraws take 'group' or 'none': the batch of a redraw is a smaller one")
        self.redraws = redraws
        self._redraw = 0  # the number of the redraw that is being sampled, 0 for the first draw
        self._first_draw: dict[str, Any] = {}  # the batch before groups were replaced

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns TRL's batch, its groups without signal replaced."""
        batch = self._first_draw = super()._generate_and_score_completions(inputs)
        if not self.redraws or not self.model.training:
            return batch
        if unknown := {*batch} - COVERED:
            raise ValueError(f"redraws: dynamic sampling does not cover batches with {', '.join(sorted(unknown))}")
        size, metrics, num_samples = self.num_generations, self._metrics["train"], len(inputs)
        if num_samples % size:
            raise ValueError(f"a process needs whole groups of {size} samples a prompt, {num_samples} rows came")
        first_metrics = {name: list(values) for name, values in metrics.items()}
        signal = self._signal(batch)
        for number in range(1, self.redraws + 1):
            empty_groups = (~signal).nonzero()[:, 0]
            count = int(self.accelerator.gather(torch.tensor([len(empty_groups)], device=signal.device)).max())
            if not count:  # in any process: all processes draw the same number of groups
                break
            self._redraw = number
            rows = self._other_rows(count)
            new_batch = super()._generate_and_score_completions(rows)
            self._redraw = 0
            num_samples += len(rows)
            new_groups = self._signal(new_batch).nonzero()[:, 0][: len(empty_groups)]
            empty_groups = empty_groups[: len(new_groups)]
            offsets = torch.arange(size, device=empty_groups.device)
            old_rows, new_rows = ((groups[:, None] * size + offsets).flatten() for groups in (empty_groups, new_groups))
            batch = replaced(batch, new_batch, old_rows, new_rows, self._tokenizer.pad_token_id)
            signal[empty_groups] = True
        mask = batch["completion_mask"] * batch.get("tool_mask", 1)
        batch["num_items_in_batch"] = self.accelerator.gather(mask.sum()).sum()
        metrics.clear()
        metrics.update(first_metrics | {"num_tokens": [self.state.num_input_tokens_seen]})
        metrics["dynamic_sampling/completions"].append(float(num_samples * self.accelerator.num_processes))
        flags = self.accelerator.gather((~signal).float())
        metrics["dynamic_sampling/without_signal"].append(float(flags.mean()))
        return batch

    def _signal(self, batch: dict[str, Any]) -> torch.Tensor:
        """Returns whether the rows of each group have different advantages: bool `[groups]`.

        Equal rewards have equal ones, but not always 0: the mean of equal numbers may differ from them in the last bit.
        """
        advantages = batch["advantages"].view(-1, self.num_generations)
        return advantages.amax(1) != advantages.amin(1)

    def _other_rows(self, groups: int) -> list[dict[str, Any]]:
        """Returns whole groups of random rows of the training set; seed, step, redraw and process decide which."""
        place = (self.state.global_step, self._redraw, self.accelerator.process_index)
        rows: Any = self.train_dataset
        numbers = rng_for(self.args.seed, "redraw", *place).integers(len(rows), size=groups)
        return [rows[int(i)] for i in numbers for _ in range(self.num_generations)]  # each its own: TRL adds columns


def replaced(
    batch: dict[str, Any], more: dict[str, Any], old: torch.Tensor, new: torch.Tensor, pad_id: int
) -> dict[str, Any]:
    """Returns `batch` with rows `new` of `more` in the places `old`, both padded to the longer of the two.

    Prompts are padded on the left, completions and what belongs to their tokens on the right, with 0 but for ids. The
    number of items is that of `batch`.
    """
    if not len(old):
        return batch
    joined = dict(batch)
    for key, values in batch.items():
        if not values.dim():
            continue
        fill, pair = pad_id if key.endswith("_ids") else 0, (values, more[key])
        if values.dim() == 2:
            gaps = [max(tensor.size(1) for tensor in pair) - tensor.size(1) for tensor in pair]
            paddings = [(gap, 0) if key.startswith("prompt_") else (0, gap) for gap in gaps]
            pair = tuple(pad(tensor, padding, value=fill) for tensor, padding in zip(pair, paddings, strict=True))
        joined[key] = pair[0].index_copy(0, old, pair[1][new])
    return joined
