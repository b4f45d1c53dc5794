import torch
from starts import PARAMS, TASKS

from mapflake.env import render_prompt
from mapflake.trainer import grpo
from mapflake.trainer.policy import load_policy
from mapflake.trainer.round_trainer import RoundTrainer


def _trainer(start, tmp_path):
    policy = load_policy(start)
    rows = [{"prompt": render_prompt(t.instance, "compact"), "task": i} for i, t in enumerate(TASKS)]
    return RoundTrainer(policy, TASKS, rows, grpo.training_arguments(PARAMS, tmp_path, 0, large=False), seed=0)


def _ragged_batch(trainer, rows=24):
    """Returns a batch with left-padded prompts, right-padded completions and many rows without advantage."""
    generator = torch.Generator().manual_seed(0)
    before, after = (torch.randint(1, 9, (rows,), generator=generator) for _ in range(2))
    ids = torch.randint(3, 100, (rows, 16), generator=generator)
    columns = torch.arange(8)
    return {
        "prompt_ids": ids[:, :8],
        "prompt_mask": (columns >= 8 - before[:, None]).long(),
        "completion_ids": ids[:, 8:],
        "completion_mask": (columns < after[:, None]).long(),
        "advantages": torch.randn(rows, generator=generator) * (torch.rand(rows, generator=generator) < 0.6),
        "num_items_in_batch": torch.tensor(90.0),
    }


def test_loss_and_gradient_are_those_of_trl(start, tmp_path, monkeypatch):
    trainer = _trainer(start, tmp_path)
    trainer.current_gradient_accumulation_steps = 1

    def gradients():
        trainer.model.zero_grad()
        loss = trainer._compute_loss(trainer.model, _ragged_batch(trainer))
        loss.backward()
        return loss.detach(), {n: p.grad.clone() for n, p in trainer.model.named_parameters()}

    ours_loss, ours = gradients()
    monkeypatch.delattr(RoundTrainer, "_compute_loss")
    monkeypatch.delattr(RoundTrainer, "_get_per_token_logps_and_entropies")
    stock_loss, stock = gradients()
    torch.testing.assert_close(ours_loss, stock_loss, atol=1e-6, rtol=1e-5)
    assert any(g.abs().max() > 1e-3 for g in stock.values())
    for name, gradient in stock.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-6, rtol=1e-4)
