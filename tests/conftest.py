"""What holds for all tests: threads, the examples of properties, and the order, the longest first."""

import contextlib
import os
import sys

import pytest

# Before anything imports torch, and for every process that a test starts: pytest-xdist has a process for each core
# already. Threads of one that wait for each other on cores that others use spin, and took 17 times the CPU time.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# As mapflake.nb.notebooks has it, for tests that import nbformat first: three seconds in every process.
sys.modules.setdefault("rfc3987_syntax", None)

with contextlib.suppress(ImportError):  # the environments of some doors do without
    from hypothesis import HealthCheck, settings

    # The same examples at every run, and no clock: a slow machine must not fail a test.
    settings.register_profile("mapflake", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("mapflake")

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
