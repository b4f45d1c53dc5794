"""The study: one record for each arm and training seed (a cell), and the comparisons between arms.

- `board_sets`: the boards that all cells are measured on.
- `records`: measures a cell and writes its record. `cells`: reads records.
- `statistics`: intervals over training seeds and boards. `comparisons`: paired differences between arms.
- `report`: the tables and files. `controls`, `searched`, `lessons`: the page on fresh students.
- `claims`: the claims of README.md and docs/claims.md. `claim_tables`: their numbers.
- `designs`: what designers changed and what they cost. `engineers`: trained engineers. `paper`: the paper's results.

The figures are in `mapflake.plots.study`.
"""

from mapflake.study.board_sets import write_boards
from mapflake.study.cells import Study, load, together
from mapflake.study.claim_tables import claims_markdown, findings_markdown
from mapflake.study.comparisons import Difference, against_each, compare
from mapflake.study.designs import changes
from mapflake.study.records import benchmark, made, write_record
from mapflake.study.report import in_parts, metrics, results_markdown, table

__all__ = [
    "Difference",
    "Study",
    "against_each",
    "benchmark",
    "changes",
    "claims_markdown",
    "compare",
    "findings_markdown",
    "in_parts",
    "load",
    "made",
    "metrics",
    "results_markdown",
    "table",
    "together",
    "write_boards",
    "write_record",
]
