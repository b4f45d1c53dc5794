"""The policy as its own environment engineer: failures, prompts, replies, designers, rounds. Imports no torch."""

from mapflake.engineer.context import DEFAULT_VARIANT, VARIANTS, Variant, build_prompt
from mapflake.engineer.demonstrations import demonstrations
from mapflake.engineer.designers import ARMS, Designer, EngineerParams, designer_for, random_config
from mapflake.engineer.failures import FailureReport, diagnose
from mapflake.engineer.ledger import History, Ledger, LedgerError, Round, replay
from mapflake.engineer.reply import Proposal, read_reply
from mapflake.engineer.rounds import Grpo, RoundSettings, Start, run_arm, run_round
from mapflake.engineer.space import VOCABULARY, format_config, project

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
    "Variant",
    "build_prompt",
    "demonstrations",
    "designer_for",
    "diagnose",
    "format_config",
    "project",
    "random_config",
    "read_reply",
    "replay",
    "run_arm",
    "run_round",
]
