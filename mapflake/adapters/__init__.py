"""The doors for other frameworks: thin, optional adapters that score an answer as `judge` and `reward` do.

    parallel_env   PettingZoo: the same boards played step by step
    inspect_task   inspect-ai: `inspect eval mapflake/frozenlake`
    reasoning      reasoning-gym: a registered dataset with its curriculum
    taskset        verifiers, interface v1: `vf-eval mapflake`
    drawing        one board for a seed, for environments that are reset: OpenEnv's server in environments/mapflake_env
    trl            TRL: the engineer as a callback of a `GRPOTrainer` (docs/doors/trl.md)
    trl_tools      TRL: a board for its `environment_factory`, played through a tool

To train on fixed boards with TRL, `to_dataset` and `reward_functions` of `mapflake.env` are enough. Each module imports
its framework by itself, and if it is missing names the command that installs it (`mapflake.extras`).
"""
