"""The study: a record of every arm under every training seed, and the comparisons made of them.

`board_sets` has the boards, `records` measures and keeps a cell, `cells` reads them, `statistics` gives intervals over
seeds and boards, `comparisons` pairs arms, `conclusions` and `claims` say in words what came out, `report` makes tables
and files; `paper` has the paper's results, `designs` describes the changes that designers made. Figures are in
`mapflake.plots.study`.
"""

from mapflake.study.board_sets import write_boards
from mapflake.study.cells import Study, load
from mapflake.study.claims import claims_markdown
from mapflake.study.comparisons import compare
from mapflake.study.conclusions import sentences
from mapflake.study.designs import changes
from mapflake.study.records import Record, benchmark, made, write_record
from mapflake.study.report import metrics, results_markdown, table

__all__ = [
    "Record",
    "Study",
    "benchmark",
    "changes",
    "claims_markdown",
    "compare",
    "load",
    "made",
    "metrics",
    "results_markdown",
    "sentences",
    "table",
    "write_boards",
    "write_record",
]
