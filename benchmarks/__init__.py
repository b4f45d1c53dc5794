"""Benchmarks of the parts of mapflake: `make bench`, or `python -m benchmarks [PART]` in the repository.

A part is a module with a line in `PARTS` and three names: `measure() -> dict` returns the numbers (JSON values, one
thread, all that is compared measured in one run), `markdown(numbers) -> str` their tables, and `PACKAGES` the packages
whose versions matter. Numbers go to reports/bench.json with the machine they are from; docs/benchmarks.md quotes the
tables, and a test compares the two.
"""

PARTS = {
    "env": "benchmarks.environment",
    "trainer": "benchmarks.trainer",
    "install": "benchmarks.install",
    "openenv": "benchmarks.openenv_load",
    "llm": "benchmarks.language_model",
    "forms": "benchmarks.forms",
}
"""Name of a part -> its module, imported when it is run: some need torch."""

ALL = ("env", "trainer", "install")
"""The parts of `make bench`; openenv needs the environment of `make test-openenv`, llm and forms the extra smollm2."""
