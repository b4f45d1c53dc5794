"""The method inside somebody else's `trl.GRPOTrainer`: a training set, and a callback that swaps its boards.

    boards = DesignedBoards(EnvConfig.uniform([3, 4], 0.2), 64, seed=0)
    trainer = GRPOTrainer(model, reward_functions(), GRPOConfig(shuffle_dataset=False, num_train_epochs=4, ...),
                          train_dataset=boards.dataset)
    trainer.add_callback(EngineerCallback(trainer, boards, "learnability", validation=tasks))
    trainer.train()

An epoch is a round. A data loader never reads past the end of an epoch, so boards that are swapped between two epochs
are in the next generation batch, and none is left from before. The rounds so far are in the `trainer_state.json` of the
trainer's own checkpoints. Not covered: weights that are sharded over processes (pass a `policy` that can sample them),
and arms whose engineer is trained (`design_rl`).
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mapflake import provenance, repro
from mapflake.adapters.trl_boards import DesignedBoards
from mapflake.engineer.actions import legal_sizes
from mapflake.engineer.backend import behaviour_of
from mapflake.engineer.boards import Fallback, apply_fallback, warn_of_training_boards
from mapflake.engineer.designers import DYNAMIC, EngineerParams, RuleInputs, designer_for, params_of
from mapflake.engineer.identity import arm_values, own_values
from mapflake.engineer.ledger import Designer, History, Round, designed, differences, next_index
from mapflake.engineer.reply import Proposal
from mapflake.engineer.report import diagnose, environment_statistics
from mapflake.engineer.words import ENGINEER_WORDS
from mapflake.env import Task, render_prompt
from mapflake.extras import needs
from mapflake.repro import seed_for, shown, whole
from mapflake.trainer.evaluate import Completer, rollout

logger = logging.getLogger(__name__)

with needs("train"):
    import torch
    from accelerate.utils import broadcast_object_list
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from trl import GRPOTrainer

    from mapflake.trainer.checkpoint import origin_of
    from mapflake.trainer.dynamic_sampling import DynamicSampling
    from mapflake.trainer.policy import Policy, check_room, encode_prompts, load_policy

__all__ = ["DesignedBoards", "DynamicSampling", "EngineerCallback"]

STATE = "mapflake"  # key of the rounds in the trainer's state, which its checkpoints hold

MUST_BE_FALSE = {
    "shuffle_dataset": "boards come in an order of their own; TRL's would be another one after a resume",
    "ignore_data_skip": "a resumed round would begin anew",
    "dataloader_persistent_workers": "such workers would keep the first boards",
}
"""Argument of a trainer -> why an `EngineerCallback` refuses it."""


class EngineerCallback(TrainerCallback):
    """Measures the policy after each epoch, lets a designer choose the next boards, and swaps them.

    Each round is what `run_round` does, with the trainer's epoch in place of a training of its own. `history` holds the
    finished rounds. The trainer logs `engineer/valid` and `engineer/optimal`, the valid rate and the design by size,
    and `engineer/rejected`, wherever it logs the loss. A round that ends is saved, unless the trainer saves nothing. A
    designer that raises an error ends the training after that save; resumed, the training asks it again.
    """

    def __init__(
        self,
        trainer: GRPOTrainer,
        boards: DesignedBoards,
        designer: Designer | str,
        *,
        validation: Sequence[Task],
        sizes: Iterable[int] | None = None,
        params: EngineerParams | None = None,
        samples: int = 1,
        policy: Completer | None = None,
    ) -> None:
        """Makes the callback of a trainer, for its `add_callback`.

        Args:
            trainer: Its training set is `boards.dataset`, in order: `shuffle_dataset=False`.
            boards: The training set.
            designer: A function, or the name of an arm, e.g. "engineer" (a model, by default the policy itself) or
                "learnability" (a rule).
            validation: The boards on which failures are seen.
            sizes: Board sizes that a named arm may ask for; None: those of the validation boards.
            params: How a named arm asks its model, e.g. `EngineerParams(model="openai:<name>", base_url=...)`.
            samples: Completions a validation board, at temperature 1.
            policy: Completes the validation boards; None: the trainer's model, decoded in its first process.

        Raises:
            ValueError: An argument of the trainer does not fit (the message names it), or the arm is unknown or one
                that is not covered, or whether the designer has changed cannot be told (`provenance.identity`).
        """
        args = trainer.args
        prompts = args.generation_batch_size // trainer.num_generations
        if trainer.train_dataset is not boards.dataset:
            raise ValueError("train_dataset: must be the dataset of the boards that are designed")
        for name, why in MUST_BE_FALSE.items():
            if getattr(args, name):
                raise ValueError(f"{name}: must be False: {why}")
        if len(boards.dataset) % prompts:
            raise ValueError(
                f"instances * passes ({len(boards.dataset)}) must be a multiple of the prompts of a generation batch "
                f"(generation_batch_size / num_generations: {prompts})"
            )
        if policy is None and (trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled):
            raise ValueError("policy: must be given where weights are sharded over processes")
        validation, samples = tuple(validation), whole(samples, "samples", 1)
        if not validation or not all(isinstance(task, Task) for task in validation):
            raise ValueError(
                f"validation: takes tasks, as `generate` or `tasks_of` gives them, not {shown(validation)}"
            )
        warn_of_training_boards(validation)
        self.trainer, self.boards, self.validation, self.samples = trainer, boards, validation, samples
        model = trainer.accelerator.unwrap_model(trainer.model)
        self.policy = policy or Policy(
            *(model, trainer.processing_class, args.max_completion_length),
            template=args.chat_template_kwargs or {},
        )
        if self.policy.prompt_format != boards.prompt_format:
            raise ValueError(
                f"prompt_format: that of the boards is {boards.prompt_format!r}, the policy is measured in "
                f"{self.policy.prompt_format!r} (tokenizer.init_kwargs['prompt_format'] can say another one)"
            )
        if policy is None:
            texts = [render_prompt(task.instance, boards.prompt_format) for task in validation]
            tokens = encode_prompts(trainer.processing_class, texts, args.chat_template_kwargs)
            check_room(model, tokens, args.max_completion_length)
        identity: Mapping[str, Any]
        if isinstance(designer, str):
            legal = legal_sizes({task.instance.size for task in validation} if sizes is None else sizes)
            self.designer, identity = self._named(designer, legal, params)
            self.arm = designer
        elif not callable(designer):
            raise TypeError(f"designer: a function of report and history, or an arm's name, not {shown(designer)}")
        elif params is not None or sizes is not None:
            raise ValueError("params and sizes are for arms by name: a function has its own")
        else:
            name = getattr(designer, "__qualname__", "designer").partition(".")[0]  # of the function that makes it
            self.designer, self.arm = designer, name
            identity = provenance.identity(designer)
        self.parameters: dict[str, Any] = {
            "designer": identity,
            "seed": boards.seed,
            "instances": boards.instances,
            "passes": boards.passes,
            "start": repro.to_json(boards.start),
            "validation_sha256": repro.json_sha256([task.instance.key for task in validation]),
            "samples": samples,
            **own_values(),
        }
        self.history: History = ()
        self.proposal: Proposal | None = None
        self.config = boards.start  # of the current round, as is the fallback
        self.fallback: Fallback = {}
        self._steps = 0  # optimizer steps of a round

    def _named(
        self, arm: str, sizes: tuple[int, ...], params: EngineerParams | None
    ) -> tuple[Designer, Mapping[str, Any]]:
        """Returns the designer of an arm and what decides its designs; ValueError if the arm cannot design here."""
        arm_params = params_of(arm, EngineerParams() if params is None else params)
        if params is not None and arm_params is None:
            raise ValueError(f"params: of a model, but {arm!r} is a rule")
        rule = arm.removesuffix(DYNAMIC)
        if rule != arm and not isinstance(self.trainer, DynamicSampling):
            raise ValueError(f"designer: the arm {arm!r} takes `DynamicSampling(..., redraws=4)` as the trainer")
        covered = rule not in ("constant", "fixed_longer")
        if arm_params:
            covered = arm_params.design_rl == "none" and arm_params.model != "base" and not arm_params.told_others
        if not covered:
            raise ValueError(
                f"designer: the arm {arm!r} takes a training, weights or a design of its own, or reports of other"
                " students: see run_arm"
            )
        tokenizer = getattr(self.policy, "tokenizer", None)
        if tokenizer and arm_params and arm_params.model == "current" and self.boards.prompt_format == "compact":
            lacking = {*ENGINEER_WORDS} - {*tokenizer.get_vocab()}
            if lacking:
                raise ValueError(
                    f"designer: the policy lacks words of an engineer, such as {min(lacking)!r}: begin with one that"
                    " has engineer.ENGINEER_WORDS, or name another model in params"
                )
        inputs = RuleInputs(sizes, self.boards.seed, lambda history: self.policy)
        code = provenance.code_sha256("mapflake.engineer.designers.llm", "mapflake.engineer.designers.search")
        values = arm_values(arm, arm_params, sizes, sha256=origin_of)
        return designer_for(arm, inputs, arm_params, load=load_policy), {"arm": arm, "code_sha256": code, **values}

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Takes up the rounds of the checkpoint that the training goes on from; a new training has none."""
        loader = self.trainer.callback_handler.train_dataloader
        self._steps = -(-len(loader) // args.gradient_accumulation_steps)
        saved = state.stateful_callbacks.get(STATE, {"parameters": self.parameters, "rounds": [], "proposal": None})
        if rest := state.max_steps % self._steps:
            logger.warning(
                "max_steps: a round has %d steps, so the last %d of %d are in no round and are not measured",
                *(self._steps, rest, state.max_steps),
            )
        recorded = saved["parameters"]
        if not (saved["proposal"] or any(row["proposal"] for row in saved["rounds"])):  # no designer was asked yet
            recorded = recorded | {"designer": self.parameters["designer"]}
        if changes := differences(recorded, self.parameters):
            raise ValueError(f"the checkpoint's rounds had other parameters ({'; '.join(changes)})")
        if len(saved["rounds"]) != state.global_step // self._steps:
            raise ValueError(
                f"the checkpoint is of step {state.global_step}, but has {len(saved['rounds'])} rounds of "
                f"{self._steps} steps: it was saved without this callback, or with other batches"
            )
        self.history = tuple(repro.from_json(Round, row, "round") for row in saved["rounds"])
        self.proposal = saved["proposal"] and repro.from_json(Proposal, saved["proposal"], "proposal")

    def on_epoch_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Asks for the design of the round, unless the checkpoint has it, and draws its boards."""
        if self.history and self.proposal is None:
            self.proposal = self._first(lambda: designed(self.designer, self.history))
            self._keep(state)
        last = self.history[-1].config if self.history else self.boards.start
        config = self.proposal.config if self.proposal and self.proposal.config else last
        self.fallback = self.boards.draw(config, next_index(self.history))
        self.config = apply_fallback(config, self.fallback)
        if state.global_step == self._steps * len(self.history):  # else the log of the checkpoint has it
            sizes = self.config.sizes.items()
            design = {f"{s}x{s}/{name}": value for s, part in sizes for name, value in part.ratios.items()}
            rejected = float(self.proposal is not None and self.proposal.config is None)
            self._log({"rejected": rejected, **{name: value for name, value in design.items() if value is not None}})

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Has the last step of a round logged and saved."""
        if self._is_over(state):
            control.should_log = True
            control.should_save |= args.save_strategy != "no"

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Measures the policy at the end of a round: after the step's log, of which a report tells, before its save."""
        if not self._is_over(state):
            return
        finished = self._first(lambda: self._round(state))
        self.history, self.proposal = (*self.history, finished), None
        self._keep(state)
        rates = {f"valid/{s.size}x{s.size}": s.valid_rate for s in finished.report.sizes}
        self._log({"valid": finished.report.valid_rate, "optimal": finished.report.optimal_rate, **rates})

    def _is_over(self, state: TrainerState) -> bool:
        """Returns whether the steps of a round are done, and the round is not recorded yet."""
        return state.global_step == self._steps * (len(self.history) + 1)

    def _round(self, state: TrainerState) -> Round:
        index = next_index(self.history)
        seed = seed_for(self.boards.seed, "validation")
        rollouts = rollout(self.policy, self.validation, samples=self.samples, seed=seed)
        curve = [row for row in state.log_history if "loss" in row and row["step"] > self._steps * index]
        report = diagnose(
            rollouts,
            training=environment_statistics(self.boards.tasks),
            behaviour=behaviour_of(curve),
            before=self.history[-1].report if self.history else None,
        )
        return Round(
            arm=self.arm,
            index=index,
            config=self.config,
            report=report,
            seed=self.boards.seed,
            proposal=self.proposal,
            fallback=self.fallback,
            training={
                "instances": self.boards.instances,
                "epochs": self.boards.passes,
                "steps": self._steps,
                "algorithm": type(self.trainer).__name__,
            },
            metrics={"samples": self.samples, "valid": report.valid_rate, "optimal": report.optimal_rate},
            parameters=self.parameters,
            versions=provenance.versions(),
        )

    def _keep(self, state: TrainerState) -> None:
        """Puts the rounds where the trainer's next checkpoint has them."""
        state.stateful_callbacks[STATE] = {
            "parameters": self.parameters,
            "rounds": [repro.to_json(r) for r in self.history],
            "proposal": self.proposal and repro.to_json(self.proposal),
        }

    def _first(self, make: Callable[[], Any]) -> Any:
        """Returns in all processes what `make` gives in the first one, or raises an error in all of them.

        The training's global random numbers stay as they were: a design is made after a save, so what it drew from them
        would be missing after a resume.
        """
        python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002  those that trainers use
        result, error = None, None
        with torch.random.fork_rng():
            if self.trainer.accelerator.is_main_process:
                try:
                    result = make()
                except Exception as raised:  # the other processes wait for an answer
                    error = raised
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        payload = [result, error and f"{type(error).__name__}: {error}"]
        broadcast_object_list(payload)
        if payload[1] is not None:
            raise error or RuntimeError(f"in the first process: {payload[1]}")
        return payload[0]

    def _log(self, values: Mapping[str, float]) -> None:
        """Logs as the trainer does, without the metrics of the training, which belong to the next row of its own."""
        model = self.trainer.model
        training = model.training
        model.eval()  # by which TRL tells metrics of the training from others
        try:
            self.trainer.log({f"engineer/{name}": value for name, value in values.items()})
        finally:
            model.train(training)
