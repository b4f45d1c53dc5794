"""The policy, its evaluation and its training. Imports nothing: torch loads with the module that needs it."""
