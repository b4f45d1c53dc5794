"""Floor 2: the policy, what measures it, what trains it. Imports nothing: torch loads with the module that needs it."""
