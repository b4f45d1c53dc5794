"""mapflake: the RL policy as its own environment engineer, on MAPF-FrozenLake (arXiv 2606.17682).

Three rooms on a ground floor: `repro` (seeds, records), `env` (boards, exact solver, verifier), `trainer`
(policy, evaluation, GRPO), `engineer` (failures, designs, rounds). Import what you need from the room that
owns it; this module imports nothing of them, so that `import mapflake.env` never pays for torch.
"""

import os

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # TRL reports each trainer that is made
