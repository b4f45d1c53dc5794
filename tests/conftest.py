"""How tests are spread over processes (`pytest -n 2`), and what is said of those that did not run.

What shares fixtures or files stays in one process. The reason of a skip ends with a colon and the command that would
run the test.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

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
        return 1 if item.nodeid.startswith("notebooks/") else 2 if item.get_closest_marker("slow") else 3

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns the order of work: file by file, all notebooks as one, since they read each other's results."""
    from xdist.scheduler import LoadScopeScheduling

    class FileByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::", 1)[0]
            return "notebooks" if file.startswith("notebooks/") else file

    config.option.loadscopereorder = False  # by default, files with the most tests come first
    return FileByFile(config, log)


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
