from accelerate import Accelerator
from trl import GRPOTrainer

from benchmarks import trainer
from mapflake.trainer.round_trainer import RoundTrainer


def test_what_is_timed_is_there():
    for methods in trainer.PARTS.values():
        for which, method in methods.items():
            owner = {"ours": RoundTrainer, "stock": GRPOTrainer}[which]
            assert hasattr(owner, method) or hasattr(Accelerator, method)


def _step(seconds, generation):
    parts = {"generation": generation, "forward": 0.2}
    return {"step": seconds, "parts": parts, "length": 10.0, "without_signal": 0.5}


def test_medians_over_all_turns_and_what_is_left_over():
    turns = [
        {"samples": 100, "steps": [_step(1.0, 0.5), _step(2.0, 0.5)], "peak_gib": 1.0},
        {"samples": 100, "steps": [_step(4.0, 0.5)], "peak_gib": 1.5},
    ]
    summary = trainer._summary(turns)
    assert summary["step_s"] == 2.0
    assert summary["samples_per_s"] == 50
    assert summary["tokens_per_s"] == 2000
    assert summary["parts"] == {"generation": 0.5, "forward": 0.2, "rest": 1.3}
    assert summary["peak_gib"] == 1.5
