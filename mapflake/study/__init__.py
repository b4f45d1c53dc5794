"""The study: every arm under several seeds from one base model, kept small enough to be committed, and what it says.

`plan` says what is to be measured, `cells` measures one (arm, seed), `record` reads what was measured, `statistics`
compares. Figures are in `mapflake.plots.study`, the text around them in notebook 05.
"""

from mapflake.study.designs import changes

__all__ = ["changes"]
