"""How fast is it: benchmarks of the parts of mapflake, run with `make bench` or `python -m mapflake.bench env`.

A part is a module with a line in `PARTS` and three names: `measure() -> dict` takes the numbers (JSON values, one
thread, whatever is compared taken in one run), `markdown(numbers) -> str` shows them, and `PACKAGES` are those whose
versions matter. Numbers go to reports/bench.json with the machine they are from; docs/benchmarks.md quotes the tables,
and a test holds that it quotes them right.
"""

PARTS = {
    "env": "mapflake.bench.environment",
    "trainer": "mapflake.bench.trainer",
}
"""Name of a part -> its module, imported when it is run: some need torch."""
