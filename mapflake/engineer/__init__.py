"""The policy as its own environment engineer. Imports no torch.

`report` counts failures, `prompt` tells them, `designers` answer, `actions` says which answers are legal, `rounds` runs
the loop with a training `backend` and records it in a `ledger`. `compact` is the small policy's language.
"""

from mapflake.engineer.actions import project
from mapflake.engineer.backend import Grpo, TrainingBackend
from mapflake.engineer.compact.demonstrations import demonstrations
from mapflake.engineer.designers import RULES, EngineerParams, RuleInputs, designer_for, llm_engineer, params_of
from mapflake.engineer.designers.rules import random_config, ruled
from mapflake.engineer.designers.search import reward_search
from mapflake.engineer.ledger import Designer, History, Ledger, LedgerError, Round, replay
from mapflake.engineer.prompt import build_prompt
from mapflake.engineer.reply import Proposal, format_config, read_replies, read_reply, reply_grammar
from mapflake.engineer.report import FailureReport, SizeReport, diagnose
from mapflake.engineer.rounds import RoundSettings, Start, run_arm, run_round
from mapflake.engineer.variants import VARIANTS, Variant
from mapflake.engineer.words import ENGINEER_WORDS

__all__ = [
    "ENGINEER_WORDS",
    "RULES",
    "VARIANTS",
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
    "RuleInputs",
    "SizeReport",
    "Start",
    "TrainingBackend",
    "Variant",
    "build_prompt",
    "demonstrations",
    "designer_for",
    "diagnose",
    "format_config",
    "llm_engineer",
    "params_of",
    "project",
    "random_config",
    "read_replies",
    "read_reply",
    "replay",
    "reply_grammar",
    "reward_search",
    "ruled",
    "run_arm",
    "run_round",
]
