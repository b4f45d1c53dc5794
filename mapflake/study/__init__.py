"""The study: a record of every arm under every training seed, and the comparisons made of them.

`records` measures and keeps a cell, `cells` reads them, `statistics` gives intervals over seeds and boards, `designs`
describes the changes that designers made, `report` makes tables and sentences. Figures are in `mapflake.plots.study`.
"""

from mapflake.study.cells import Study, load
from mapflake.study.designs import changes
from mapflake.study.records import Record, benchmark, made, write_boards, write_record
from mapflake.study.report import boards_of, compare, metrics, readme_blocks, results_markdown, sentences, table

__all__ = [
    "Record",
    "Study",
    "benchmark",
    "boards_of",
    "changes",
    "compare",
    "load",
    "made",
    "metrics",
    "readme_blocks",
    "results_markdown",
    "sentences",
    "table",
    "write_boards",
    "write_record",
]
