"""The policy as its own environment engineer: failures, prompts, replies, designers, rounds. Imports no torch."""

from mapflake.engineer.baselines import random_config
from mapflake.engineer.context import DEFAULT_VARIANT, VARIANTS, Variant, build_prompt
from mapflake.engineer.demonstrations import demonstrations
from mapflake.engineer.designers import ARMS, EngineerParams, designer_for, llm_engineer, params_of
from mapflake.engineer.failures import diagnose
from mapflake.engineer.grammar import reply_grammar
from mapflake.engineer.ledger import Designer, History, Ledger, LedgerError, Round, past, replay
from mapflake.engineer.reply import Proposal, read_replies, read_reply
from mapflake.engineer.report import FailureReport
from mapflake.engineer.rounds import RoundSettings, Start, run_arm, run_round
from mapflake.engineer.space import VOCABULARY, format_config, project
from mapflake.engineer.trainers import Grpo, Trainer

__all__ = [
    "ARMS",
    "DEFAULT_VARIANT",
    "VARIANTS",
    "VOCABULARY",
    "Designer",
    "EngineerParams",
    "FailureReport",
    "Grpo",
    "History",
    "Ledger",
    "LedgerError",
    "Proposal",
    "Round",
    "RoundSettings",
    "Start",
    "Trainer",
    "Variant",
    "build_prompt",
    "demonstrations",
    "designer_for",
    "diagnose",
    "format_config",
    "llm_engineer",
    "params_of",
    "past",
    "project",
    "random_config",
    "read_replies",
    "read_reply",
    "replay",
    "reply_grammar",
    "run_arm",
    "run_round",
]
