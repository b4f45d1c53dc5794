import torch
from starts import PARAMS, TASKS, UNIT, gradients
from trl import GRPOTrainer

from mapflake.env import REWARD, reward_functions, to_dataset
from mapflake.trainer import grpo
from mapflake.trainer.policy import load_policy
from mapflake.trainer.round_trainer import RoundTrainer


def _trainer(start, tmp_path):
    policy = load_policy(start)
    rows = grpo.training_rows(policy, grpo.Boards(TASKS), PARAMS, 0)
    arguments = grpo.training_arguments(PARAMS, tmp_path, 0, list(REWARD.values()), large=False)
    return RoundTrainer(policy, rows, reward_functions("compact"), arguments, seed=0)


def _ragged_batch(rows=24):
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
    """Ours leave out the rows without advantage, as `_generate_and_score_completions` does; TRL reads them all."""
    trainer = _trainer(start, tmp_path)
    trainer.current_gradient_accumulation_steps = 1
    batch = _ragged_batch()
    scored = [batch | {"sampling_per_token_logps": torch.zeros(24, 8)}]
    with monkeypatch.context() as patch:
        patch.setattr(GRPOTrainer, "_generate_and_score_completions", lambda *_: scored[0])
        ours_batch = trainer._generate_and_score_completions([])
    assert 0 < (ours_batch["completion_mask"].sum(1) == 0).sum() < 24

    ours_loss = trainer._compute_loss(trainer.model, ours_batch)
    ours = gradients(trainer.model, ours_loss)
    monkeypatch.delattr(RoundTrainer, "_get_per_token_logps_and_entropies")
    stock_loss = trainer._compute_loss(trainer.model, batch)
    stock = gradients(trainer.model, stock_loss)
    # What is left is rounding: the same sums, without terms that are 0, in another order. The loss is the sum of terms
    # of about 1 over 90.
    torch.testing.assert_close(ours_loss, stock_loss, atol=20 * UNIT, rtol=0)
    for name, gradient in stock.items():
        largest = float(gradient.abs().max())
        assert largest > 1e-3
        torch.testing.assert_close(ours[name], gradient, atol=100 * UNIT * largest, rtol=0)


def test_entropy_is_estimated_from_what_was_sampled(start, tmp_path):
    """The estimate on many samples is TRL's exact entropy on the same samples, up to its standard error."""
    trainer, samples = _trainer(start, tmp_path), 2000
    trainer.num_generations = samples
    trainer.model.train()
    batch = trainer._generate_and_score_completions(to_dataset([TASKS[0]] * samples, "compact").to_list())
    ids, mask = (torch.cat([batch[f"prompt_{x}"], batch[f"completion_{x}"]], 1) for x in ("ids", "mask"))
    ended = (batch["completion_ids"] == trainer.processing_class.eos_token_id).int()
    counts = ended.cumsum(1) - ended == 0  # all tokens, also of the rows that the loss leaves out
    with torch.no_grad():
        _, exact, _ = GRPOTrainer._get_per_token_logps_and_entropies(
            trainer, trainer.model, ids, mask, counts.size(1), compute_entropy=True
        )
    surprise = -batch["sampling_per_token_logps"].nan_to_num()
    expected = float((exact * counts).sum() / counts.sum())
    # Given what came before it, a token's surprise has the exact entropy as its mean. So the sum of a row's differences
    # has mean 0, rows are independent, and the mean square of these sums is their variance.
    differences = ((surprise - exact) * counts).sum(1)
    error = float(differences.square().sum().sqrt() / counts.sum())
    assert error < 0.05 * expected
    assert abs(trainer._seen["entropy"] - expected) < 4 * error
    # The control: the successful rows alone, of which the policy is surer than of the others.
    counts &= batch["advantages"][:, None] > 0
    assert abs(float((surprise * counts).sum() / counts.sum()) - expected) > 8 * error
