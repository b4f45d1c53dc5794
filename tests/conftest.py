"""The order of tests, and what is said of those that did not run.

The reason of a skip ends with a colon and the command that would run the test.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

# Before anything imports torch, and for every process that a test starts: pytest-xdist has a process for each core
# already. Threads of one that wait for each other on cores that others use spin, and took 17 times the CPU time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SLOW = ("/faults/", "test_grpo.py", "test_design_rl.py", "test_secrets.py", "test_docs.py", "test_stages.py")


@pytest.hookimpl(tryfirst=True)  # before `-m "not slow"` chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks whole slow files, and puts the longest first, so that no process ends alone with them."""
    for item in items:
        if any(name in item.nodeid for name in SLOW):
            item.add_marker(pytest.mark.slow)

    def place(item: pytest.Item) -> int:
        if "test_smoke_pipeline" in item.nodeid:
            return 0
        return 1 if item.get_closest_marker("slow") else 2

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints a line for each reason of skipping: how many tests (or whole files) were skipped for it, and where."""
    groups: dict[str, Counter[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):
        path, _, reason = report.longrepr
        groups.setdefault(reason.removeprefix("Skipped: "), Counter())[Path(path).name] += 1
    if groups:
        terminalreporter.section("not run")
    for reason, files in sorted(groups.items()):
        terminalreporter.line(f"{files.total()} in {', '.join(sorted(files))}: {reason}")
