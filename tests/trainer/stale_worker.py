"""A worker of vLLM that can do what ours must not: take new weights and leave the output head as it was."""

from mapflake.trainer.vllm_worker import Weights


class Stale(Weights):
    def take_weights(self, path, stale=False):
        self.pack_head = (lambda: None) if stale else super().pack_head
        super().take_weights(path)
